"""Networks of convolutions, put on blocked channels and run in the installed ONNX Runtime beside what they were."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
import pytest
from numpy.typing import NDArray

from layout_ir.passes.onnx.consumers import BLOCKED, consumer_named
from layout_ir.passes.onnx.optimize_model import optimize_orders
from layout_ir.passes.onnx.optimized_model import OptimizedModel

BLOCK = consumer_named(BLOCKED).block
"""Channels of a block, as the target has it on this machine."""
X = {"x": (1, 2 * BLOCK, 6, 5)}
"""An input of two blocks."""

Op = tuple[str, Sequence[str], str | Sequence[str], dict[str, Any]]


def floats(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Random numbers, near enough to one another that sums of products keep their digits."""
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(np.float32)


def network(
    ops: Sequence[Op],
    constants: Mapping[str, NDArray[Any]],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of these nodes; of its outputs the type alone is stated."""
    nodes = [
        oh.make_node(kind, names, [result] if isinstance(result, str) else result, **attributes)
        for kind, names, result, attributes in ops
    ]
    for node in nodes:
        if node.op_type in ("QuickGelu", "FusedConv"):
            node.domain = "com.microsoft"
    kind = onnx.TensorProto.FLOAT
    graph = oh.make_graph(
        nodes,
        "network",
        [oh.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [oh.make_tensor_value_info(name, kind, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    imports = [oh.make_opsetid("", opset), oh.make_opsetid("com.microsoft", 1)]
    return oh.make_model(graph, opset_imports=imports, ir_version=8)


@functools.cache
def runtime() -> Any:
    """The module of ONNX Runtime; skips the test where it is not installed, or has no blocked channels here."""
    ort = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    weights = {"w": floats(64, 64, 1, 1)}
    probe = network([("Conv", ["x", "w"], "y", {})], weights, {"x": (1, 64, 4, 4)}, ["y"])
    if not any(node.domain.endswith("nchwc") for node in left(probe)):
        pytest.skip("this ONNX Runtime has no blocked channels on this processor")
    return ort


def session(model: onnx.ModelProto, level: str = "ORT_ENABLE_ALL", written: str = "") -> Any:
    """A session of one thread, which writes its graph to the file `written`."""
    ort = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.optimized_model_filepath = written
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def left(model: onnx.ModelProto) -> Sequence[onnx.NodeProto]:
    """The nodes that ONNX Runtime runs for a model, all optimizations done."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "left.onnx"
        session(model, written=str(path))
        return onnx.ModelProto.FromString(path.read_bytes()).graph.node


def names(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """Operators in order, with a star at those of ONNX Runtime's blocked channels."""
    return [node.op_type + "*" * node.domain.endswith("nchwc") for node in nodes]


def moves(ops: Sequence[str]) -> int:
    """How many of these operators only move elements."""
    return sum(name in ("ReorderInput*", "ReorderOutput*", "Transpose") for name in ops)


def optimized(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None, tolerance: float = 1e-5
) -> tuple[list[str], OptimizedModel]:
    """The operators of the model on blocked channels, and the result; what it computes is compared in ONNX Runtime.

    ONNX Runtime is to find nothing that it would move besides.
    """
    runtime()
    before = onnx.ModelProto()
    before.CopyFrom(model)
    result = optimize_orders(model, BLOCKED)
    feeds = {
        value.name: floats(
            *(shapes or {}).get(value.name, [d.dim_value for d in value.type.tensor_type.shape.dim]), seed=3
        )
        for value in before.graph.input
    }
    wanted = session(before, "ORT_DISABLE_ALL").run(None, feeds)
    found = session(result.model).run(None, feeds)
    for want, got in zip(wanted, found, strict=True):
        assert want.shape == got.shape
        assert np.abs(want - got).max() <= tolerance * max(np.abs(want).max(), 1)
    ops = names(result.model.graph.node)
    assert moves(names(left(result.model))) == moves(ops) == result.after.count
    assert result.solution.is_optimal
    return ops, result
