"""QuantizeLinear and DequantizeLinear of constant parameters as conversions (`layout.reorder`), for models that run.

A model that is to go out keeps its nodes instead (`untranslated`). Conversions have positive scales; quantizers write
negative ones, too, with which the number of largest magnitude is -128 whatever its sign. Such a node converts by the
magnitude of its scale, and the numbers beside it are multiplied by its sign, which is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import TensorType

from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, ReorderOp, attribute_of
from layout_ir.dialects.layout.quantization_parameters import properties_of
from layout_ir.elements.element_types import ELEMENT_TYPES
from layout_ir.frontends.onnx.axes import normalize_axis
from layout_ir.frontends.onnx.constants import Constant
from layout_ir.frontends.onnx.import_error import UnsupportedUse
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.translation import Builder, Translation
from layout_ir.frontends.onnx.values import Value, dtype_of, shape_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INTEGERS = frozenset(("int8", "uint8", "int16", "uint16", "int32"))
_FLOATS = frozenset(("float32", "float16", "bfloat16"))

_NAMES = {known.array_name: known.name for known in ELEMENT_TYPES}


def _quantize(builder: Builder, node: Node) -> Value:
    x, scale, zero_point = _inputs(node)
    stored = "uint8" if zero_point is None else zero_point.dtype.name
    if dtype_of(x).name not in _FLOATS or stored not in _INTEGERS:
        raise UnsupportedUse("it makes other elements than integers of f32, f16 or bf16")
    _check_channels(node, x, scale, zero_point)
    x = _signed(builder, node, x, scale)
    return _converted(builder, node, x, stored, (None, abs(scale)), (None, zero_point))


def _dequantize(builder: Builder, node: Node) -> Value:
    x, scale, zero_point = _inputs(node)
    stored = dtype_of(x).name
    if stored not in _INTEGERS or (zero_point is not None and zero_point.dtype.name != stored):
        raise UnsupportedUse("its elements are no integers, or not those of the zero point")
    _check_channels(node, x, scale, zero_point)
    y = _converted(builder, node, x, scale.dtype.name, (abs(scale), None), (zero_point, None))
    return _signed(builder, node, y, scale)


def _inputs(node: Node) -> tuple[Value, NDArray[Any], NDArray[Any] | None]:
    """The tensor, the scale and the zero point. Raises UnsupportedUse where these are no constants for the tensor or
    for each channel, or say more than that."""
    if not 2 <= len(node.given) <= 3 or len(node.proto.output) != 1:
        raise UnsupportedUse("it has other inputs or outputs than those of the operator")
    x, scale, zero_point = node.input(0), node.constant(1), node.constant(2)
    if scale is None or (zero_point is None and node.optional(2) is not None):
        raise UnsupportedUse("its scale or zero point is computed")
    if any(node.get(name, 0) for name in ("block_size", "output_dtype", "precision")):
        raise UnsupportedUse("it has blocks, or says of which type its result is")
    node.get("saturate", 1)
    if scale.dtype.name not in _FLOATS:
        raise UnsupportedUse("its scale is no float")
    if not np.all(np.isfinite(scale) & (scale != 0)):
        raise UnsupportedUse("its scale is no number to divide by")
    return x, scale, zero_point


def _check_channels(node: Node, x: Value, *parameters: NDArray[Any] | None) -> None:
    """Raises UnsupportedUse where vectors of parameters have not one number for each channel of `x`."""
    shape, axis = shape_of(x), node.get("axis", 1)
    channels = {side.size for side in parameters if side is not None and side.size != 1}
    if channels and not (-len(shape) <= axis < len(shape) and channels == {shape[axis]}):
        raise UnsupportedUse("it has not one scale for each channel")


def has_negative_scale(node: Node) -> bool:
    """Whether a scale of the node is a constant and has a negative number."""
    scale = node.optional(1)
    if not isinstance(scale, Constant) or scale.array.dtype.name not in _FLOATS:
        return False
    return bool(np.any(scale.array < 0))


def _signed(builder: Builder, node: Node, x: Value, scale: NDArray[Any]) -> Value:
    """Floats times the sign of the scale; `x` itself where that is positive."""
    if not np.any(scale < 0):
        return x
    shape = [1] * len(shape_of(x))
    if scale.size > 1:
        shape[node.get("axis", 1)] = scale.size
    signs = np.sign(scale).astype(dtype_of(x)).reshape(shape)
    return builder.apply(nn.MulOp, x, Constant(signs, f"{node.output}.signs"))


def _converted(
    builder: Builder,
    node: Node,
    x: Value,
    dtype: str,
    scales: tuple[NDArray[Any] | None, NDArray[Any] | None],
    zero_points: tuple[NDArray[Any] | None, NDArray[Any] | None],
) -> Value:
    if dtype not in _FLOATS | _INTEGERS:
        raise UnsupportedUse(f"its result is of {dtype}")
    shape = shape_of(x)
    is_by_channel = any(side is not None and side.size != 1 for side in (*scales, *zero_points))
    dim = normalize_axis(node.get("axis", 1), len(shape)) if is_by_channel else None
    of_scale, of_zero = ([_numbers(side) for side in given] for given in (scales, zero_points))
    properties = properties_of(of_scale, of_zero, dim)
    type = TensorType(attribute_of(_NAMES[dtype]), shape, AnyAttr())
    made = ReorderOp.create(operands=[builder.operand(x)], result_types=[type], properties=properties)
    return builder.emit(made)


def _numbers(side: NDArray[Any] | None) -> list[float] | None:
    return None if side is None else np.ravel(side).astype(float).tolist()


CONVERSIONS = {
    f"{domain}{name}": Translation(translate)
    for name, translate in (("QuantizeLinear", _quantize), ("DequantizeLinear", _dequantize))
    for domain in ("", "com.microsoft.")  # where ONNX Runtime had 4 and 16 bits before the standard
}
"""The translations that models get which run, beside all others."""
