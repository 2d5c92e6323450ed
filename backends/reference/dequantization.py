"""DequantizeLinear as ONNX defines it, in all its versions: the onnx package (1.23) has none before opset 19."""

from __future__ import annotations

from typing import Any

import numpy as np

from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError


def dequantized(
    x: Array, scale: Array, zero_point: Array | None, axis: int, block: int, dtype: Any = None
) -> Array:
    """(x - zero_point) * scale, of `dtype` or, where it is left out, of the type of the scales.

    There is one scale for all elements, one per index of dim `axis`, or, with `block`, one for so many elements in turn
    along it. Raises LayoutError for scales of another shape.
    """
    # Products are rounded once, whatever the type is: narrow integers and floats are exact in f32.
    kind = np.int64 if x.dtype.kind in "iu" and x.dtype.itemsize >= 4 else np.float32
    moved = x.astype(kind)
    if zero_point is not None:
        moved = moved - _spread(zero_point, x.shape, axis, block).astype(kind)
    found: Array = moved.astype(np.float32) * _spread(scale, x.shape, axis, block).astype(np.float32)
    return found.astype(scale.dtype if dtype is None else dtype)


def _spread(parameters: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """Scales or zero points in extents that broadcast to those of what they are for."""
    if parameters.size == 1:
        return parameters.reshape(())
    rank = len(shape)
    if not -rank <= axis < rank:
        raise LayoutError(f"axis {axis} of a tensor with {rank} dims")
    axis %= rank
    if block:
        wanted = (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :])
        if parameters.shape == wanted:
            repeated: Array = np.repeat(parameters, block, axis)
            return repeated[(*(slice(None),) * axis, slice(shape[axis]))]
    elif parameters.shape == (shape[axis],):
        return parameters.reshape(-1, *(1,) * (rank - 1 - axis))
    raise LayoutError(f"scales or zero points of shape {parameters.shape} do not fit a tensor of {shape}")
