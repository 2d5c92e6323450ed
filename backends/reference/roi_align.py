"""RoiAlign with NumPy: of each region a product with the weights of its rows and one with those of its columns.

The average over the positions of a result is linear in each dim, and where a position is outside of the tensor, or
beside its border, only its weights along that dim say so. The onnx package computes one result after the other in
Python, which takes minutes for what a detector looks at.
"""

from __future__ import annotations

import numpy as np

from layout_ir.elements.numpy_types import Array


def averaged_regions(
    x: Array,
    regions: Array,
    batches: Array,
    extents: tuple[int, int],
    *,
    ratio: int,
    scale: float,
    half_pixel: bool,
) -> Array:
    """Per region (x1, y1, x2, y2) averages of x (N, C, H, W), of the element of the batch that is given, of `extents`.

    `ratio` positions are read along each dim of a result; 0: as many as elements of x lie there. Positions are computed
    in the type of x, but for halves, as ONNX Runtime does: from one that is rounded otherwise another element is read.
    """
    real = np.float64 if x.dtype == np.float64 else np.float32
    corners = regions.astype(real) * real(scale) - real(0.5 if half_pixel else 0)
    result = np.empty((len(regions), x.shape[1], *extents), x.dtype)
    for number, (corner, batch) in enumerate(zip(corners, batches, strict=True)):
        ends = ((corner[1], corner[3]), (corner[0], corner[2]))
        (top, rows), (left, columns) = (
            _weights(start, end, count, extent, ratio, half_pixel)
            for (start, end), count, extent in zip(ends, extents, x.shape[2:], strict=True)
        )
        seen = x[batch, :, top : top + rows.shape[1], left : left + columns.shape[1]].astype(real)
        result[number] = rows @ seen @ columns.T
    return result


def _weights(
    start: np.floating, end: np.floating, count: int, extent: int, ratio: int, half_pixel: bool
) -> tuple[int, Array]:
    """The first element that is read along a dim, and the weights of it and those behind it, per result."""
    real = type(start)
    size = end - start if half_pixel else max(end - start, real(1))
    step = size / real(count)
    positions = ratio if ratio > 0 else int(np.ceil(step)) if np.isfinite(step) else 0
    if positions < 1:
        return 0, np.zeros((count, 1), real)
    within = (np.arange(positions, dtype=real) + real(0.5)) * step / real(positions)
    places = start + np.arange(count, dtype=real)[:, None] * step + within
    inside = (places >= -1) & (places <= extent)
    places = np.where(inside, np.clip(places, 0, extent - 1), 0)
    seen = places[inside].astype(np.int64)
    first, last = (seen.min(), min(seen.max() + 1, extent - 1)) if seen.size else (0, 0)
    near = np.clip(1 - np.abs(places[..., None] - np.arange(first, last + 1, dtype=real)), 0, None)
    return int(first), (near * inside[..., None]).sum(axis=1) / real(positions)
