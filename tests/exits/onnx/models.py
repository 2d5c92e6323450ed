"""Models that came out: checked by the onnx package, run by ONNX Runtime or by the onnx package's own evaluator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, StringAttr

from layout_ir.dialects.nn.opaque import ProtoAttr
from layout_ir.dialects.nn.protos import MODEL

onnx: Any = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")

Array = NDArray[Any]


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
