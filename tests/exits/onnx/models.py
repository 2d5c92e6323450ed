"""Models that came out: checked by the onnx package, run by ONNX Runtime or by the onnx package's own evaluator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, StringAttr

import layout_ir as li
from layout_ir.api.onnx_export import to_onnx
from layout_ir.dialects.nn.opaque import ProtoAttr
from layout_ir.dialects.nn.protos import MODEL
from tests.frontends.onnx.models import model as model_from

onnx: Any = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")

Array = NDArray[Any]

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def with_opset(module: ModuleOp, version: int) -> ModuleOp:
    """`module` as if it came from a model of this version of the ONNX operators."""
    module.attributes[MODEL] = ProtoAttr(StringAttr(f"opset_import {{ version: {version} }}"))
    return module


def check(model: Any) -> None:
    """Raises unless the model is valid, with the shapes and element types that inference gives it."""
    onnx.checker.check_model(model, full_check=True)
    names = [name for node in model.graph.node for name in node.output if name]
    names += [value.name for value in (*model.graph.input, *model.graph.initializer)]
    assert len(names) == len(set(names))
    nodes = [node.name for node in model.graph.node]
    assert len(nodes) == len(set(nodes))


def evaluate(model: Any, inputs: Sequence[Array], *, optimized: bool = True) -> list[Array]:
    """The outputs: by ONNX Runtime where it has the kernels, else by the evaluator of the onnx package."""
    names = [value.name for value in model.graph.input]
    types, results = (
        [onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in values]
        for values in (model.graph.input, model.graph.output)
    )
    given = {
        name: np.asarray(array).view(dtype) if dtype.name == "bfloat16" else np.asarray(array)
        for name, dtype, array in zip(names, types, inputs, strict=True)
    }
    numpy_has = all(dtype.name != "bfloat16" for dtype in (*types, *results))
    if numpy_has and (session := _session(model, optimized)) is not None:
        return session.run(None, given)
    evaluator: Any = import_module("onnx.reference").ReferenceEvaluator(model)
    with np.errstate(all="ignore"):
        return [np.asarray(array) for array in evaluator.run(None, given)]


def _session(model: Any, optimized: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return None


def counts(model: Any) -> Counter[str]:
    """How many nodes there are of each operator."""
    return Counter(node.op_type for node in model.graph.node)


def transposed_bytes(model: Any, shapes: Mapping[str, Sequence[int]]) -> int:
    """The bytes of all values that Transposes give where inputs have these shapes; those whose shape onnx does not
    infer are left out."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for value in fixed.graph.input:
        for dim, extent in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            dim.dim_value = extent
    del fixed.graph.value_info[:]
    for value in fixed.graph.output:
        value.type.tensor_type.ClearField("shape")
    graph = onnx.shape_inference.infer_shapes(fixed, data_prop=True).graph
    types = {value.name: value.type.tensor_type for value in [*graph.value_info, *graph.input, *graph.output]}
    total = 0
    for node in graph.node:
        if node.op_type == "Transpose" and node.output[0] in types:
            tensor = types[node.output[0]]
            width = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
            total += width * prod(dim.dim_value for dim in tensor.shape.dim)
    return total


def came_back(source: Any, *arrays: Any) -> Any:
    """The model that went out of a program that came in as `source`, which computes the same."""
    went = to_onnx(li.from_onnx(source))
    check(went)
    for got, want in zip(evaluate(went, arrays), evaluate(source, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    return went


def typed(nodes: Any, outputs: dict[str, list[int]], **options: Any) -> Any:
    """A model of X, with the shapes of its outputs."""
    options.setdefault("opset", 17)
    source = model_from(nodes, {"x": X.shape}, tuple(outputs), **options)
    for value, shape in zip(source.graph.output, outputs.values(), strict=True):
        value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, 1, shape))
    return source
