"""Cubic interpolation along one dim, and resizing by it as a product with a matrix: ONNX Resize of mode cubic.

Each result is a sum of four neighbours, weighted by Keys' kernel with the coefficient a (Keys, Cubic convolution
interpolation for digital image processing, 1981), at distances d from the position it stands for:

    (a + 2) d^3 - (a + 3) d^2 + 1        for d <= 1
    a d^3 - 5 a d^2 + 8 a d - 4 a        for d < 2

Neighbours outside of the dim are its outermost elements, or, where they are excluded, of no weight.
"""

from __future__ import annotations

import numpy as np

from layout_ir.dialects.nn.source_positions import Array, unbounded_positions


def cubic_matrix(
    size: int, extent: int, scale: float, coordinates: str, a: float, exclude_outside: bool
) -> Array:
    """The matrix, of `size` rows and `extent` columns in double precision, by which a dim of `extent` is resized."""
    position = unbounded_positions(size, extent, scale, coordinates)
    first = np.floor(position).astype(np.int64) - 1
    matrix = np.zeros((size, extent))
    for neighbour in range(4):
        source = first + neighbour
        weight = cubic_weights(np.abs(position - source), a)
        if exclude_outside:
            weight = np.where((source >= 0) & (source < extent), weight, 0.0)
        np.add.at(matrix, (np.arange(size), np.clip(source, 0, extent - 1)), weight)
    return matrix / matrix.sum(axis=1, keepdims=True) if exclude_outside else matrix


def cubic_weights(d: Array, a: float) -> Array:
    """The weights of neighbours at distances `d`, which are not negative."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
