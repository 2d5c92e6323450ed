"""How ops read their operands: as elements, or with the pads of some dims.

A reduction runs over the pads of its dims, as a kernel over whole blocks does, so the operand of a reduction has them
along those dims; along all others it has the elements alone.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from layout_ir.algebra.layout import Layout
from layout_ir.backends.reference.tensor import Tensor, interior
from layout_ir.elements.numpy_types import Array, poison, widen


def elements(tensor: Tensor) -> Array:
    """The elements of `tensor`, of its logical shape, in the type they are computed in."""
    return widen(tensor.logical(), tensor.dtype)


def reduced(tensor: Tensor, dims: Collection[int]) -> Array:
    """The elements of `tensor` and the pads of `dims`, in the type they are computed in."""
    inside = interior(tensor.layout)
    where = tuple(slice(None) if dim in dims else inside[dim] for dim in range(tensor.layout.rank))
    return widen(tensor.box()[where], tensor.dtype)


def contracted(left: Tensor, left_dim: int, right: Tensor, right_dim: int) -> tuple[Array, Array]:
    """Both operands of a sum of products over one dim of each, with the pads of that dim, brought to one extent.

    Where only one of the two has a pad, the other gets 1: the pad then enters the sum as it is, and only a pad of 0
    does no harm.
    """
    a, b = reduced(left, {left_dim}), reduced(right, {right_dim})
    low = max(left.layout.lo[left_dim], right.layout.lo[right_dim])
    high = max(_high(left.layout, left_dim), _high(right.layout, right_dim))
    return _extended(a, left, left_dim, low, high), _extended(b, right, right_dim, low, high)


def _high(layout: Layout, dim: int) -> int:
    return layout.padded_shape[dim] - layout.shape[dim] - layout.lo[dim]


def _extended(box: Array, tensor: Tensor, dim: int, low: int, high: int) -> Array:
    missing = (low - tensor.layout.lo[dim], high - _high(tensor.layout, dim))
    if missing == (0, 0):
        return box
    widths = [missing if d == dim else (0, 0) for d in range(box.ndim)]
    return np.pad(box, widths, constant_values=1)


def grouped(x: Tensor, w: Tensor, group: int) -> tuple[Array, Array]:
    """Operands of a convolution with groups: w with the pads of its dim 1, each group of x extended by 1 to match."""
    channels, weights = elements(x), reduced(w, {1})
    low, high = w.layout.lo[1], _high(w.layout, 1)
    if low or high:
        split = channels.reshape(x.shape[0], group, w.shape[1], *x.shape[2:])
        widths = [(low, high) if d == 2 else (0, 0) for d in range(split.ndim)]
        split = np.pad(split, widths, constant_values=1)
        channels = split.reshape(x.shape[0], -1, *x.shape[2:])
    return channels, weights


def aligned(tensor: Tensor, result: Layout) -> Array:
    """Stored elements of an elementwise op's operand, in a shape that broadcasts to the padded box of `result`.

    A position of the box at which the operand has no pad of its own is poison.
    """
    layout = tensor.layout
    first = result.rank - layout.rank
    box = tensor.box()
    for dim in range(layout.rank):
        into = first + dim
        if layout.shape[dim] != result.shape[into]:
            # Broadcast: its one element is read for all.
            box = box[(slice(None),) * dim + (slice(layout.lo[dim], layout.lo[dim] + 1),)]
        elif (layout.lo[dim], layout.padded_shape[dim]) != (result.lo[into], result.padded_shape[into]):
            inside = slice(layout.lo[dim], layout.lo[dim] + layout.shape[dim])
            low = result.lo[into]
            high = result.padded_shape[into] - result.shape[into] - low
            widths = [(low, high) if d == dim else (0, 0) for d in range(layout.rank)]
            box = np.pad(box[(slice(None),) * dim + (inside,)], widths, constant_values=poison(tensor.dtype))
    return box
