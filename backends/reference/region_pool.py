"""MaxRoiPool with NumPy: the largest elements of the parts that regions are cut into, each of whole pixels."""

from __future__ import annotations

from typing import Any

import numpy as np

from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError, shape_text


def largest_in_regions(x: Array, regions: Array, counts: tuple[int, int], scale: float) -> Array:
    """Per region (batch, x1, y1, x2, y2), whose corners are times `scale`, the largest elements of x (N, C, H, W) in
    each of so many rows and columns of parts; 0 where a part lies outside of x.

    Raises LayoutError where shapes do not fit, and for a batch that x has not.
    """
    if x.ndim != 4 or regions.ndim != 2 or regions.shape[1] != 5:
        raise LayoutError(
            f"regions of {shape_text(regions.shape)} in x of {shape_text(x.shape)}: expected ?x5 in a tensor of rank 4"
        )
    if min(counts) < 1:
        raise LayoutError(f"a region is cut into {shape_text(counts)} parts: expected at least one per dim")
    batches = regions[:, 0].astype(np.int64)
    if ((batches < 0) | (batches >= len(x))).any():
        raise LayoutError(f"a region is of a batch of x outside of its {len(x)}")
    real: Any = regions.dtype.type
    result = np.zeros((len(regions), x.shape[1], *counts), x.dtype)
    for made, batch, corners in zip(result, batches, regions[:, 1:] * real(scale), strict=True):
        # Halves are rounded away from zero, as in C.
        left, top, right, bottom = map(int, np.copysign(np.floor(np.abs(corners) + real(0.5)), corners))
        rows = _parts(top, bottom, counts[0], x.shape[2])
        columns = _parts(left, right, counts[1], x.shape[3])
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                part = x[batch, :, row, column]
                if part.size:
                    made[:, i, j] = part.max((1, 2))
    return result


def _parts(start: int, end: int, count: int, extent: int) -> list[slice]:
    """The parts of the pixels from `start` to `end`, both among them, as far as a dim of `extent` has them."""
    size = np.float32(max(end - start + 1, 1)) / np.float32(count)
    bounds = (
        (int(np.floor(np.float32(k) * size)), int(np.ceil(np.float32(k + 1) * size))) for k in range(count)
    )
    return [slice(*(min(max(bound + start, 0), extent) for bound in ends)) for ends in bounds]
