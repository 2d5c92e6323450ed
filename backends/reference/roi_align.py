"""RoiAlign with NumPy: the four elements around each position, of all channels at a time.

The onnx package computes one result after the other in Python, which takes minutes for what a detector looks at.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import product
from typing import Any

import numpy as np

from layout_ir.dialects.nn.regions import MOST_POSITIONS, Regions
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError


def pooled_regions(x: Array, regions: Array, batches: Array, made: Regions) -> Array:
    """Per region (x1, y1, x2, y2) what is made of x (N, C, H, W), of the element of the batch that is given.

    Positions are computed in the type of x, but for halves, as ONNX Runtime does: from one that is rounded otherwise
    another element is read. Raises LayoutError where shapes do not fit, and for a batch that x has not.
    """
    check_regions(x, regions, batches)
    if ((batches < 0) | (batches >= len(x))).any():
        raise LayoutError(f"a region is of a batch of x outside of its {len(x)}")
    real: Any = np.float64 if x.dtype == np.float64 else np.float32
    corners = regions.astype(real) * real(made.scale) - real(0.5 if made.half_pixel else 0)
    result = np.empty((len(regions), x.shape[1], *made.extents), x.dtype)
    for number, (corner, batch) in enumerate(zip(corners, batches, strict=True)):
        ends = ((corner[1], corner[3]), (corner[0], corner[2]))
        rows, columns = (
            _Positions(start, end, count, extent, made)
            for (start, end), count, extent in zip(ends, made.extents, x.shape[2:], strict=True)
        )
        result[number] = _pooled(x[batch].astype(real), rows, columns, made.largest)
    return result


def check_regions(x: Array, regions: Array, batches: Array) -> None:
    """Raises LayoutError where the operands of a RoiAlign do not fit each other."""
    if x.ndim != 4 or regions.shape != (len(batches), 4) or batches.ndim != 1:
        raise LayoutError(f"regions {regions.shape} of batches {batches.shape} do not fit a tensor {x.shape}")


class _Positions:
    """The positions along a dim of `extent` elements, per result as many as are inside in any of the results."""

    def __init__(self, start: Any, end: Any, results: int, extent: int, made: Regions) -> None:
        real: Any = start.dtype.type
        size = end - start if made.half_pixel else max(end - start, real(1))
        step = size / real(results)
        whole = min(np.ceil(step), MOST_POSITIONS) if np.isfinite(step) else 0
        self.count = made.ratio if made.ratio > 0 else max(int(whole), 0)
        """The number of positions per result, those outside of the dim included."""
        bases = start + np.arange(results, dtype=real) * step

        def places(base: Any, numbers: Any) -> Any:
            return base + (numbers + real(0.5)) * step / real(self.count)

        def inside(base: Any) -> range:
            """The numbers of the positions that lie in the dim: one range, as positions only rise or only fall."""
            ends = (-1, extent) if step >= 0 else (-extent, 1)
            sign = real(1 if step >= 0 else -1)
            of = range(self.count)
            first = bisect_left(of, True, key=lambda number: sign * places(base, real(number)) >= ends[0])
            last = bisect_left(of, True, key=lambda number: sign * places(base, real(number)) > ends[1])
            return range(first, last)

        kept = [inside(base) for base in bases]
        most = max(map(len, kept), default=0)
        numbers = np.zeros((results, most), real)
        self.is_inside = np.zeros((results, most), np.bool_)
        for row, flags, range_ in zip(numbers, self.is_inside, kept, strict=True):
            row[: len(range_)], flags[: len(range_)] = range_, True
        found = np.clip(places(bases[:, None], numbers), 0, extent - 1) if self.count and extent else numbers
        self.low = np.where(self.is_inside, found, 0).astype(np.int64)
        self.high = np.minimum(self.low + 1, max(extent - 1, 0))
        rest: Array = np.where(self.is_inside, found - self.low, 0).astype(real)
        self.weights: tuple[Array, Array] = (real(1) - rest, rest)


def _pooled(x: Array, rows: _Positions, columns: _Positions, largest: bool) -> Array:
    """The results of a region of x (C, H, W)."""
    shape = (len(x), len(rows.low), len(columns.low))
    count = rows.count * columns.count
    if not rows.low.size or not columns.low.size or not x.size:
        return np.zeros(shape, x.dtype)
    is_inside = rows.is_inside[:, :, None, None] & columns.is_inside
    found: Array | None = None
    sides = (tuple(zip((p.low, p.high), p.weights, strict=True)) for p in (rows, columns))
    for (row, down), (column, across) in product(*sides):
        weighed = x[:, row[:, :, None, None], column] * (down[:, :, None, None] * across)
        if found is None:
            found = weighed
        else:
            found = np.maximum(found, weighed) if largest else found + weighed
    assert found is not None
    if not largest:
        total: Array = np.where(is_inside, found, 0).sum(axis=(2, 4))
        return total / x.dtype.type(count)
    greatest: Array = np.where(is_inside, found, -np.inf).max(axis=(2, 4))
    is_all = is_inside.sum(axis=(1, 3)) == count  # what is outside is 0
    return np.where(is_all, greatest, np.maximum(greatest, 0))
