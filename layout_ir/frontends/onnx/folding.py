"""Constant folding: evaluation of nodes whose inputs are all known.

Networks compute shapes with nodes (Shape, Gather, Concat, ...) and preprocess their weights; both are folded. Common
ops are evaluated with NumPy (here and in `index_folding`), on one element where all inputs are splats; others by the
reference implementation of the onnx package (`evaluation`). A node is not folded where its cost exceeds the budget of
the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.elements.elementwise_formulas import COMPUTE, broadcast, divide
from layout_ir.errors import shape_text
from layout_ir.frontends.onnx import index_folding, quantization_folding
from layout_ir.frontends.onnx.axes import normalize_axis
from layout_ir.frontends.onnx.budget import STEPS_PER_ELEMENT
from layout_ir.frontends.onnx.constants import collapsed, is_splat, splat
from layout_ir.frontends.onnx.evaluation import evaluate
from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.signature import check_signature
from layout_ir.frontends.onnx.tensor_protos import check_shape, numpy_type

if TYPE_CHECKING:
    from numpy.typing import NDArray


def fold(node: Node) -> list[NDArray[Any]] | None:
    """The outputs of a node with constant inputs.

    None where an input is no constant, the op is not supported here, or it costs too much. Raises OnnxImportError where
    the node is not valid or the op fails on these inputs.
    """
    name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    if not node.is_constant() or (node.domain and name not in FOLDERS):
        return None
    if name not in BY_NUMPY:
        return evaluate(node)
    if not node.domain:
        check_signature(node, node.constant_types())
    folder = _elementwise if name in ELEMENTWISE else FOLDERS[name]
    result = folder(node)
    return None if result is None else [result]


def _elementwise(node: Node) -> NDArray[Any] | None:
    return _applied(node, ELEMENTWISE[node.op_type])


def _modulo(node: Node) -> NDArray[Any] | None:
    function = np.fmod if node.flag("fmod") else np.mod

    def remainder(x: NDArray[Any], y: NDArray[Any]) -> Any:
        return function(x, _divisor(x, y))

    return _applied(node, remainder)


def _applied(node: Node, function: Callable[..., Any]) -> NDArray[Any] | None:
    arrays = node.arrays()
    if not arrays:
        raise OnnxImportError("the node has no inputs, expected 1 or more")
    dtype = _result_type(node.op_type, arrays)
    shape = check_shape(broadcast(*(array.shape for array in arrays)), dtype, "the result")
    with np.errstate(all="ignore"):
        if all(map(is_splat, arrays)):
            return splat(np.asarray(function(*map(collapsed, arrays))).astype(dtype), shape)
        size = prod(shape)
        if not node.affords(size * dtype.itemsize, STEPS_PER_ELEMENT * size * len(arrays)):
            return None
        return np.asarray(function(*arrays)).astype(dtype, copy=False)


def _result_type(op_type: str, arrays: Sequence[NDArray[Any]]) -> np.dtype[Any]:
    if op_type in _TRUTH_VALUES:
        return np.dtype(np.bool_)
    return arrays[1 if op_type == "Where" else 0].dtype


def _divisor(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    if x.dtype.kind in "iu" and not np.all(y):
        raise OnnxImportError("division of constants by zero")
    return y


def _divide(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return divide(np, x, _divisor(x, y))


def _power(base: NDArray[Any], exponent: NDArray[Any]) -> Any:
    if base.dtype.kind in "iu" and exponent.dtype.kind == "i" and np.any(exponent < 0):
        raise OnnxImportError(f"constants of type {base.dtype} to a negative power have no integer result")
    return np.power(base, exponent)


def _chain(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(*arrays: NDArray[Any]) -> Any:
        result = arrays[0]
        for array in arrays[1:]:
            result = function(result, array)
        return result

    return apply


_SAME = (
    "abs", "add", "ceil", "cos", "erf", "exp", "floor", "log", "mul", "neg", "reciprocal", "relu", "round", "sigmoid",
    "sign", "sin", "sqrt", "sub", "tanh", "where",
)  # fmt: skip
"""Ops that are folded with the function that computes the op of this name in programs; ONNX's begin with a capital."""

_TRUTH_VALUES: dict[str, Callable[..., Any]] = {
    "And": np.logical_and,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
}

ELEMENTWISE: dict[str, Callable[..., Any]] = {
    **{name.capitalize(): partial(COMPUTE[name], np) for name in _SAME},
    "Div": _divide,
    "Max": _chain(partial(COMPUTE["max"], np)),
    "Min": _chain(partial(COMPUTE["min"], np)),
    "Pow": _power,
    "Sum": _chain(partial(COMPUTE["add"], np)),
    **_TRUTH_VALUES,
}
"""NumPy functions of ops without attributes, one element of whose result comes from one of each input."""


def cast_cost(array: NDArray[Any], dtype: np.dtype[Any]) -> tuple[int, int]:
    """Bytes and steps of `cast_array`."""
    size = 0 if is_splat(array) else array.size
    return size * dtype.itemsize, STEPS_PER_ELEMENT * size


def cast_array(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The elements converted to `dtype`. Raises OnnxImportError for complex types and those not in `CASTS`."""
    if array.dtype.kind == "c" or dtype.kind == "c":
        raise OnnxImportError(
            f"cast of constants from {array.dtype} to {dtype}: complex numbers are not supported"
        )
    if dtype.name not in CASTS:
        # These saturate, which NumPy does not do.
        raise OnnxImportError(
            f"cast of constants to {dtype} is not supported; supported are {', '.join(CASTS)}"
        )
    with np.errstate(all="ignore"):
        return splat(collapsed(array).astype(dtype), array.shape) if is_splat(array) else array.astype(dtype)


CASTS = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "bfloat16", "float16", "float32", "float64",
)  # fmt: skip


def _cast(node: Node) -> NDArray[Any] | None:
    array = node.arrays()[0]
    dtype = (
        node.arrays()[1].dtype
        if node.op_type == "CastLike"
        else numpy_type(node.required("to", 0), "the result")
    )
    return cast_array(array, dtype) if node.affords(*cast_cost(array, dtype)) else None


def _concat(node: Node) -> NDArray[Any] | None:
    arrays = node.arrays()
    rank = arrays[0].ndim
    axis = normalize_axis(node.required("axis", 0), rank)
    if not rank:
        raise OnnxImportError("the inputs have no dims to concatenate")
    for number, array in enumerate(arrays):
        others = [shape[:axis] + shape[axis + 1 :] for shape in (arrays[0].shape, array.shape)]
        if array.ndim != rank or others[0] != others[1]:
            raise OnnxImportError(
                f"shapes {shape_text(arrays[0].shape)} of input 0 and {shape_text(array.shape)} of input {number} "
                f"differ outside of axis {axis}"
            )
    size = sum(array.size for array in arrays)
    if not node.affords(size * arrays[0].itemsize, STEPS_PER_ELEMENT * size):
        return None
    return np.concatenate(arrays, axis=axis)


def _resize(node: Node) -> NDArray[Any] | None:
    # Its matrices are those of the ops of programs: most folding does without the IR that these import.
    from layout_ir.frontends.onnx.matrix_resize import fold_resize

    return fold_resize(node)


FOLDERS: dict[str, Callable[[Node], NDArray[Any] | None]] = {
    "Cast": _cast,
    "CastLike": _cast,
    "Concat": _concat,
    **index_folding.FOLDERS,
    "Mod": _modulo,
    "Resize": _resize,
    **quantization_folding.FOLDERS,
}

BY_NUMPY = frozenset((*ELEMENTWISE, *FOLDERS))
"""The operators that are evaluated here; all others by the reference of the onnx package."""
