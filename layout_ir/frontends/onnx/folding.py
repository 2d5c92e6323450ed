"""Evaluation of nodes whose inputs are all known.

Networks compute shapes with nodes (Shape, Gather, Concat, ...) and preprocess their weights; both end here. Common
ops are done with NumPy, on one element where all inputs are splats; rare ones by the reference implementation that
the onnx package brings along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from layout_ir.frontends.onnx.errors import OnnxImportError
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.values import collapsed, dtype_of, is_splat, splat

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

RANDOM = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)


def fold(node: Node) -> list[NDArray[Any]] | None:
    """The outputs of a node with constant inputs; None if it is none, or nothing here knows its op.

    Raises OnnxImportError if the op fails on these inputs.
    """
    if not node.is_constant():
        return None
    if node.op_type in ELEMENTWISE:
        return [_elementwise(node)]
    if node.op_type in FOLDERS:
        return [FOLDERS[node.op_type](node)]
    return _evaluate(node)


def _elementwise(node: Node) -> NDArray[Any]:
    arrays = [value for value in node.constant_inputs() if value is not None]
    function = ELEMENTWISE[node.op_type]
    dtype = arrays[0].dtype
    with np.errstate(all="ignore"):
        if all(map(is_splat, arrays)):
            shape = np.broadcast_shapes(*(array.shape for array in arrays))
            return splat(np.asarray(function(*map(collapsed, arrays))).astype(dtype), shape)
        return np.asarray(function(*arrays)).astype(dtype, copy=False)


def _divide(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    if not np.all(y):
        raise OnnxImportError("division of constants by zero")
    return np.trunc(np.divide(x.astype(np.longdouble), y.astype(np.longdouble)))


def _chain(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(*arrays: NDArray[Any]) -> Any:
        result = arrays[0]
        for array in arrays[1:]:
            result = function(result, array)
        return result

    return apply


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Add": np.add,
    "Ceil": np.ceil,
    "Div": _divide,
    "Exp": np.exp,
    "Floor": np.floor,
    "Log": np.log,
    "Max": _chain(np.maximum),
    "Min": _chain(np.minimum),
    "Mul": np.multiply,
    "Neg": np.negative,
    "Pow": np.power,
    "Reciprocal": np.reciprocal,
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
    "Sum": _chain(np.add),
}
"""Ops without attributes whose result has the element type of their first input."""


def _cast(node: Node) -> NDArray[Any]:
    import onnx.helper

    array = node.constant_inputs()[0]
    assert array is not None
    dtype = (
        dtype_of(node.input(1))
        if node.op_type == "CastLike"
        else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(node.required("to", 0)))
    )
    with np.errstate(all="ignore"):
        return splat(collapsed(array).astype(dtype), array.shape) if is_splat(array) else array.astype(dtype)


def _concat(node: Node) -> NDArray[Any]:
    arrays = [value for value in node.constant_inputs() if value is not None]
    return np.concatenate(arrays, axis=node.required("axis", 0))


def _gather(node: Node) -> NDArray[Any]:
    data, indices = cast("list[NDArray[Any]]", node.constant_inputs())
    return np.take(data, indices, axis=node.get("axis", 0), mode="raise")


FOLDERS: dict[str, Callable[[Node], NDArray[Any]]] = {
    "Cast": _cast,
    "CastLike": _cast,
    "Concat": _concat,
    "Gather": _gather,
}


def _evaluate(node: Node) -> list[NDArray[Any]] | None:
    import onnx.defs

    proto: onnx.NodeProto = node.proto
    known = onnx.defs.has(proto.op_type, domain=proto.domain)
    nested = any(attribute.HasField("g") or attribute.graphs for attribute in proto.attribute)
    if not known or nested or proto.op_type in RANDOM:
        return None
    from onnx.reference import ReferenceEvaluator

    names = [name for name in proto.input if name]
    arrays = [np.ascontiguousarray(value) for value in node.constant_inputs() if value is not None]
    try:
        evaluator: Any = ReferenceEvaluator(proto, opsets={proto.domain: node.opset})
        results: Sequence[Any] = evaluator.run(None, dict(zip(names, arrays, strict=True)))
    except Exception:
        # The reference knows few ops in all their versions; its errors say nothing about the model.
        return None
    return [np.asarray(result) for result in results]
