"""Where elements of the results of nn.resize and nn.pad come from, along one dim: positions that attributes decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def pad_sources(begin: int, extent: int, end: int, mode: str) -> Array:
    """Per position of a padded dim, the position in the operand's `extent` whose element it has.

    `begin` and `end` count the elements that are added. In mode constant, positions outside of the operand get the
    nearest one: `is_outside` says which they are.
    """
    source = np.arange(begin + extent + end, dtype=np.int64) - begin
    if mode == "reflect":
        period = max(2 * (extent - 1), 1)
        within = source % period
        return np.minimum(within, period - within) if extent > 1 else np.zeros_like(source)
    return source % extent if mode == "wrap" else np.clip(source, 0, extent - 1)


def is_outside(begin: int, extent: int, end: int) -> Array:
    """Whether each position of a padded dim is one of the `begin` and `end` elements that are added to `extent`."""
    source = np.arange(begin + extent + end, dtype=np.int64) - begin
    return (source < 0) | (source >= extent)


def resize_positions(size: int, extent: int, scale: float, coordinates: str) -> Array:
    """Per index of a resized dim of `size`, the position in the operand's `extent` that it stands for, within it."""
    return np.clip(unbounded_positions(size, extent, scale, coordinates), 0, extent - 1)


def unbounded_positions(size: int, extent: int, scale: float, coordinates: str) -> Array:
    """Per index of a resized dim of `size`, the position that it stands for, which may lie outside of the operand."""
    index = np.arange(size, dtype=np.float64)
    if coordinates == "asymmetric":
        return index / scale
    if coordinates == "align_corners":
        return index * ((extent - 1) / (size - 1)) if size > 1 else index * 0
    if coordinates == "pytorch_half_pixel" and size == 1:
        return index * 0
    if coordinates == "tf_half_pixel_for_nn":
        return (index + 0.5) / scale
    return (index + 0.5) / scale - 0.5


def nearest_positions(position: Array, extent: int, nearest_mode: str) -> Array:
    """The positions of the elements that `nearest_mode` takes for positions between elements."""
    match nearest_mode:
        case "round_prefer_floor":
            rounded = np.ceil(position - 0.5)
        case "round_prefer_ceil":
            rounded = np.floor(position + 0.5)
        case "floor":
            rounded = np.floor(position)
        case _:
            rounded = np.ceil(position)
    return np.clip(rounded.astype(np.int64), 0, extent - 1)


def resize_scales(extents: Sequence[int], sizes: Sequence[int], scales: Sequence[float]) -> list[float]:
    """One scale per dim: `scales`, or where `sizes` are given result extent / extent, inf for an empty dim."""
    if scales or not sizes:
        return list(scales)
    return [size / extent if extent else math.inf for size, extent in zip(sizes, extents, strict=True)]


def resized_dims(extents: Sequence[int], sizes: Sequence[int], scales: Sequence[float]) -> list[int]:
    """The dims whose elements are not read at their own places: those of another size or a scale other than 1."""
    given = zip(extents, sizes, scales, strict=True)
    return [dim for dim, (extent, size, scale) in enumerate(given) if size != extent or scale != 1]


def linear_neighbours(position: Array) -> tuple[Array, Array, Array]:
    """The elements before and behind each position, and the weight of the second; of one element, it twice and 0."""
    first = np.floor(position)
    return first.astype(np.int64), np.ceil(position).astype(np.int64), position - first


def linear_matrix(size: int, extent: int, scale: float, coordinates: str) -> Array:
    """The matrix, of `size` rows and `extent` columns, by which a dim of `extent` is resized linearly."""
    first, second, weight = linear_neighbours(resize_positions(size, extent, scale, coordinates))
    matrix = np.zeros((size, extent))
    rows = np.arange(size)
    matrix[rows, second] = weight
    matrix[rows, first] += 1 - weight
    return matrix
