"""ONNX models full of Transposes: ONNX Runtime computes the same of what `optimize_onnx` makes of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnx.helper as oh

import layout_ir as li
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.fuzz.kinds import Kind, Wrong
from tests.passes.onnx.optimized import check_optimized
from tests.passes.onnx.random_models import random_model


class TransposedModels(Kind):
    """Serialized models with static inputs of floats; what is fed follows from the number of their nodes."""

    name = "transposes"
    suffix = ".onnx"
    chunk = 10

    def make(self, seed: int, number: int) -> bytes:
        rng = self.rng(seed, number)
        model, feeds = random_model(rng, rng.choice((4, 8, 16)))
        for value in model.graph.input:
            for dim, extent in zip(value.type.tensor_type.shape.dim, feeds[value.name].shape, strict=True):
                dim.dim_value = extent
        return model.SerializeToString()

    def run(self, data: bytes) -> None:
        model = onnx.ModelProto.FromString(data)
        random = np.random.default_rng(len(model.graph.node))
        feeds = {
            value.name: random.uniform(-1, 1, [d.dim_value for d in value.type.tensor_type.shape.dim]).astype(
                np.float32
            )
            for value in model.graph.input
        }
        try:
            session_results(model, feeds)
        except Exception:
            return  # ONNX Runtime refuses the model that was made smaller
        for target in ("onnx", "ort-cpu"):
            try:
                check_optimized(model, feeds, target)
            except AssertionError as error:
                raise Wrong(f"{target}: {error}", f"{target} wrong") from error
        li.optimize_onnx(model, inputs="free", outputs="free")

    def smaller(self, data: bytes) -> Iterator[bytes]:
        model = onnx.ModelProto.FromString(data)
        inner = [name for node in model.graph.node for name in node.output]
        for name in [*(value.name for value in model.graph.output), *inner]:
            less = onnx.ModelProto.FromString(data)
            del less.graph.output[:]
            less.graph.output.append(oh.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
            needed = {name}
            for place in reversed(range(len(less.graph.node))):
                node = less.graph.node[place]
                if needed.isdisjoint(node.output):
                    del less.graph.node[place]
                else:
                    graphs = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
                    needed.update((*node.input, *(n for g in graphs for each in g.node for n in each.input)))
            found = onnx.shape_inference.infer_shapes(less).graph.output[0]
            less.graph.output[0].CopyFrom(found)
            if len(less.graph.node) < len(model.graph.node):
                yield less.SerializeToString()
