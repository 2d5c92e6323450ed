"""Constant folding of QuantizeLinear and DequantizeLinear: integers of 4, 8 and 16 bits, and f32.

Quantized networks have one or two per weight. What is rarer (other types, int32) is evaluated by the reference
implementation of the onnx package, as are all that are not valid. None stands for a result that exceeds the budget of
the model. ONNX Runtime's operators of these names, which had 4 and 16 bits before those of the standard, are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.frontends.onnx.budget import STEPS_PER_ELEMENT
from layout_ir.frontends.onnx.evaluation import evaluate
from layout_ir.frontends.onnx.node import Node

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INTEGERS = ("int8", "uint8", "int16", "uint16")
_PACKED = ("int4", "uint4")
_STEPS = 4 * STEPS_PER_ELEMENT
"""The steps of an element: it is converted twice, scaled and moved by the zero point."""


def dequantize(node: Node) -> NDArray[Any] | None:
    """(x - zero point) * scale in f32."""
    operands = _operands(node)
    if operands is None or operands[0].dtype.name not in _INTEGERS + _PACKED:
        return _by_reference(node)
    x, scale, zero_point = operands
    if zero_point is not None and zero_point.dtype != x.dtype:
        return _by_reference(node)
    if not node.affords(4 * x.size, _STEPS * x.size):
        return None
    # 16 bits and their differences are exact in f32.
    moved = x.astype(np.float32)
    if zero_point is not None:
        moved -= zero_point.astype(np.float32)
    with np.errstate(all="ignore"):
        moved *= scale
    return moved.reshape(_shape(node))


def quantize(node: Node) -> NDArray[Any] | None:
    """x / scale, rounded to the nearest, ties to even, plus the zero point, saturated. Without a zero point, u8."""
    operands = _operands(node)
    if operands is None or operands[0].dtype != np.float32:
        return _by_reference(node)
    x, scale, zero_point = operands
    dtype: np.dtype[Any] = np.dtype(np.uint8) if zero_point is None else zero_point.dtype
    if dtype.name not in _INTEGERS or not np.isfinite(x).all() or not scale.all():
        return _by_reference(node)
    if not node.affords(dtype.itemsize * x.size, _STEPS * x.size):
        return None
    limits: Any = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        moved = np.rint(x / scale)
    # A quotient may be larger than any integer; 16 bits more than the limits are exact in f32.
    moved = np.clip(moved, -(2.0**17), 2.0**17)
    if zero_point is not None:
        moved += zero_point.astype(np.float32)
    return np.clip(moved, limits.min, limits.max).astype(dtype).reshape(_shape(node))


def _shape(node: Node) -> tuple[int, ...]:
    return node.arrays()[0].shape


def _operands(node: Node) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None] | None:
    """The tensor, and scale and zero point as they are broadcast to it; None for forms that are not computed here.

    Of scales per block, the tensor has one dim more."""
    if any(node.get(name, 0) for name in ("output_dtype", "precision")):
        return None
    x, scale, zero_point, *_ = (*node.constant_inputs(), None)
    if x is None or scale is None or scale.dtype != np.float32:
        return None
    if zero_point is not None and zero_point.shape != scale.shape:
        return None
    axis, block = node.get("axis", 1), node.get("block_size", 0)
    if block:
        if block < 0 or not -x.ndim <= axis < x.ndim:
            return None
        return _by_block(x, scale, zero_point, axis % x.ndim, block)
    if scale.ndim == 1 and x.ndim and -x.ndim <= axis < x.ndim and scale.size == x.shape[axis]:
        shape = [1] * x.ndim
        shape[axis] = scale.size
    elif scale.ndim == 0 or (scale.shape == (1,)):
        shape = []
    else:
        return None
    return x, scale.reshape(shape), None if zero_point is None else zero_point.reshape(shape)


def _by_block(
    x: NDArray[Any], scale: NDArray[Any], zero_point: NDArray[Any] | None, axis: int, block: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None] | None:
    """The same of a scale per `block` elements along `axis`, which becomes two dims: blocks, and elements of one."""
    count, rest = divmod(x.shape[axis], block)
    if rest or scale.shape != (*x.shape[:axis], count, *x.shape[axis + 1 :]):
        return None
    split, each = ((*x.shape[:axis], count, size, *x.shape[axis + 1 :]) for size in (block, 1))
    return x.reshape(split), scale.reshape(each), None if zero_point is None else zero_point.reshape(each)


def _by_reference(node: Node) -> NDArray[Any] | None:
    found = None if node.domain else evaluate(node)
    return None if found is None else found[0]


FOLDERS: dict[str, Callable[[Node], NDArray[Any] | None]] = {
    f"{domain}{name}": folder
    for name, folder in (("DequantizeLinear", dequantize), ("QuantizeLinear", quantize))
    for domain in ("", "com.microsoft.")
}
