"""GridSample with NumPy's indexing: all positions at once, for any number of spatial dims.

The onnx package computes one result after the other in Python, which takes seconds for what networks sample.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from layout_ir.dialects.nn.interpolation import cubic_weights
from layout_ir.elements.numpy_types import Array

MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""Names that modes have before opset 20."""

_CUBIC = -0.75
"""The coefficient a of cubic interpolation, as ONNX has it here."""


def grid_sample(x: Array, grid: Array, mode: str, padding_mode: str, align_corners: bool) -> Array:
    """x (N, C, spatial) at the positions of `grid` (N, result, spatial dims), from -1 to 1, the last dim first.

    Corners are the centres of the outermost elements or, without `align_corners`, their outer borders. Positions
    outside are read as 0 (`zeros`), as the nearest element (`border`), or mirrored (`reflection`).
    """
    extents = x.shape[2:]
    mode = MODES.get(mode, mode)
    taps: list[list[tuple[Array, Array]]] = []
    for dim, extent in enumerate(extents):
        place = grid[..., len(extents) - 1 - dim].astype(np.float64) + 1
        place = place / 2 * (extent - 1) if align_corners else (place * extent - 1) / 2
        low, high = (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)
        if mode == "nearest":
            place = np.rint(place)
        # Of cubic interpolation, it is neighbours that are moved, and not what lies between them.
        if padding_mode != "zeros" and mode != "cubic":
            place = _inside(place, low, high, extent, padding_mode)
        taps.append([_read(k, w, low, high, extent, padding_mode) for k, w in _taps(place, mode)])
    batch = np.arange(x.shape[0], dtype=np.int64)[(..., *[None] * (grid.ndim - 2))]
    channels_last = np.moveaxis(x, 1, -1)
    result = np.zeros((*grid.shape[:-1], x.shape[1]))
    for neighbour in product(*taps):
        weight = np.prod([weight for _, weight in neighbour], axis=0)
        result += weight[..., None] * channels_last[(batch, *(index for index, _ in neighbour))]
    return np.moveaxis(result, -1, 1).astype(x.dtype)


def _inside(place: Array, low: float, high: float, extent: int, padding_mode: str) -> Array:
    """Positions outside of the borders moved to the nearest element, or mirrored at the borders."""
    if padding_mode == "border":
        return np.clip(place, 0, extent - 1)
    size = high - low
    if not size:
        return np.full_like(place, low)
    turned = np.mod(place - low, 2 * size)
    mirrored = low + np.where(turned > size, 2 * size - turned, turned)
    return np.where((place < low) | (place > high), mirrored, place)


def _taps(place: Array, mode: str) -> list[tuple[Array, Array]]:
    """The elements that a position is made of, with their weights."""
    if mode == "nearest":
        return [(np.rint(place), np.ones_like(place))]
    first = np.floor(place)
    rest = place - first
    if mode == "linear":
        return [(first, 1 - rest), (first + 1, rest)]
    return [(first + k, cubic_weights(np.abs(rest - k), _CUBIC)) for k in (-1, 0, 1, 2)]


def _read(
    index: Array, weight: Array, low: float, high: float, extent: int, padding_mode: str
) -> tuple[Array, Array]:
    """The element that stands for an index, which may be outside, and its weight: 0 outside of zeros."""
    if padding_mode == "zeros":
        weight = np.where((index >= 0) & (index < extent), weight, 0.0)
    else:
        index = _inside(index, low, high, extent, padding_mode)
    # What is no number has no place: any element will do.
    return np.clip(np.nan_to_num(index), 0, extent - 1).astype(np.int64), weight
