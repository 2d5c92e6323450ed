"""Interpolation along a dim, and resizing by it as a product with a matrix: ONNX Resize that is cubic or antialiased.

Each result is a sum of neighbours, weighed by a kernel of their distances d from the position that it stands for: the
linear one, 1 - d for d < 1, or Keys' with the coefficient a (Keys, Cubic convolution interpolation for digital image
processing, 1981)

    (a + 2) d^3 - (a + 3) d^2 + 1        for d <= 1
    a d^3 - 5 a d^2 + 8 a d - 4 a        for d < 2

Neighbours outside of the dim are its outermost elements, or, where they are excluded, of no weight. An antialiased
result of a dim that becomes smaller has as many more neighbours, whose distances count results instead of elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import floor

import numpy as np

from layout_ir.dialects.nn.source_positions import Array, unbounded_positions

Kernel = tuple[Callable[[Array], Array], int]
"""The weights of neighbours at distances, which are not negative, and the distance from which on they are 0."""


def interpolation_matrix(
    size: int,
    extent: int,
    scale: float,
    coordinates: str,
    kernel: Kernel,
    *,
    exclude_outside: bool = False,
    antialias: bool = False,
) -> Array:
    """The matrix, of `size` rows and `extent` columns in double precision, by which a dim of `extent` is resized."""
    weights, radius = kernel
    position = unbounded_positions(size, extent, scale, coordinates)
    unit = min(scale, 1.0) if antialias else 1.0
    before = floor(-radius / unit) + 1
    first = np.ceil(position).astype(np.int64) - 1  # the last element in front of the position
    sources = first[:, None] + np.arange(before, 2 - before)
    found = weights(np.abs(position[:, None] - sources) * unit)
    if antialias:
        found = found / found.sum(axis=1, keepdims=True)
    if exclude_outside:
        found = np.where((sources >= 0) & (sources < extent), found, 0.0)
        found = found / found.sum(axis=1, keepdims=True)
    matrix = np.zeros((size, extent))
    np.add.at(matrix, (np.arange(size)[:, None], np.clip(sources, 0, extent - 1)), found)
    return matrix


def cubic_kernel(a: float) -> Kernel:
    """Keys' kernel of this coefficient."""
    return partial(cubic_weights, a=a), 2


def linear_kernel() -> Kernel:
    """That of the two neighbours."""
    return lambda d: np.clip(1 - d, 0, None), 1


def cubic_weights(d: Array, a: float) -> Array:
    """The weights of neighbours at distances `d`, which are not negative."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
