"""Resize nodes of mode cubic: the matrix of each dim that is resized, and the result where all is constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.dialects.nn.cubic_interpolation import cubic_matrix
from layout_ir.frontends.onnx.node import Node

if TYPE_CHECKING:
    from numpy.typing import NDArray

COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


def cubic_matrices(
    shape: Sequence[int],
    scales: NDArray[Any] | None,
    sizes: NDArray[Any] | None,
    attribute: Callable[[str, Any], Any],
) -> dict[int, NDArray[Any]] | None:
    """By dim of a tensor of `shape` that changes, the matrix (new extent, extent) that resizes it.

    `attribute` gives an attribute of the node, or a default. None where the node is used in a way that is not supported
    here: antialiasing, a region of interest, an aspect ratio that is kept, an extent of 0.
    """
    axes = attribute("axes", tuple(range(len(shape))))
    axes = tuple(int(axis) % max(len(shape), 1) for axis in axes)
    coordinates = attribute("coordinate_transformation_mode", "half_pixel")
    if (
        attribute("antialias", 0)
        or attribute("keep_aspect_ratio_policy", "stretch") != "stretch"
        or coordinates not in COORDINATES
        or not all(shape)
    ):
        return None
    matrices: dict[int, NDArray[Any]] = {}
    by_scales = scales is not None and scales.size
    given = scales if by_scales else sizes
    if given is None or given.size != len(axes):
        return None
    for axis, number in zip(axes, given.reshape(-1).tolist(), strict=True):
        extent = shape[axis]
        size, scale = (floor(extent * number), float(number)) if by_scales else (int(number), number / extent)
        if size < 1:
            return None
        if size != extent or scale != 1:
            a, outside = attribute("cubic_coeff_a", -0.75), bool(attribute("exclude_outside", 0))
            matrices[axis] = cubic_matrix(size, extent, scale, coordinates, a, outside)
    return matrices


def fold_resize(node: Node) -> NDArray[Any] | None:
    """The result of a Resize node of mode cubic with constant inputs; None where it is another or costs too much."""
    x, _, scales, sizes = (*node.constant_inputs(), None, None, None)[:4]
    if x is None or node.get("mode", "nearest") != "cubic" or x.dtype.kind != "f":
        return None
    matrices = cubic_matrices(x.shape, scales, sizes, lambda name, default: node.get(name, default))
    if matrices is None:
        return None
    result = x.astype(np.float64)
    for axis, matrix in matrices.items():
        size = result.size // result.shape[axis] * len(matrix)
        if not node.affords(8 * size, size * result.shape[axis]):
            return None
        result = np.moveaxis(np.tensordot(result, matrix, (axis, 1)), -1, axis)
    return result.astype(x.dtype)
