"""Resize nodes of mode cubic or with antialiasing: a product with a matrix per dim, and the result of constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.dialects.nn.interpolation import Kernel, cubic_kernel, interpolation_matrix, linear_kernel
from layout_ir.dialects.nn.shape import COORDINATES
from layout_ir.frontends.onnx.budget import STEPS_PER_ELEMENT
from layout_ir.frontends.onnx.node import Node

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class MatrixResize:
    """How such a node changes a tensor of `shape`: by dim the new extent, and the scale."""

    shape: tuple[int, ...]
    changes: dict[int, tuple[int, float]]
    coordinates: str
    kernel: Kernel
    excludes_outside: bool
    antialias: bool

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(self.changes[dim][0] if dim in self.changes else x for dim, x in enumerate(self.shape))

    def matrix(self, dim: int) -> NDArray[Any]:
        """The matrix (new extent, extent), in double precision, that resizes a dim."""
        size, scale = self.changes[dim]
        return interpolation_matrix(
            size,
            self.shape[dim],
            scale,
            self.coordinates,
            self.kernel,
            exclude_outside=self.excludes_outside,
            antialias=self.antialias,
        )


def matrix_resize(
    shape: Sequence[int],
    scales: NDArray[Any] | None,
    sizes: NDArray[Any] | None,
    attribute: Callable[[str, Any], Any],
) -> MatrixResize | None:
    """What a Resize node does with a tensor of `shape`; `attribute` gives an attribute of it, or a default.

    None for one of mode nearest, or linear without antialiasing, and where it is used in a way that is not supported
    here: a region of interest, an aspect ratio that is kept, an extent of 0, scales that are no positive numbers.
    """
    mode, antialias = attribute("mode", "nearest"), bool(attribute("antialias", 0))
    axes = attribute("axes", tuple(range(len(shape))))
    coordinates = attribute("coordinate_transformation_mode", "half_pixel")
    by_scales = scales is not None and bool(scales.size)
    given = scales if by_scales else sizes
    if (
        not (mode == "cubic" or (mode == "linear" and antialias))
        or attribute("keep_aspect_ratio_policy", "stretch") != "stretch"
        or coordinates not in COORDINATES
        or not shape
        or not all(shape)
        or given is None
        or given.size != len(axes)
    ):
        return None
    changes: dict[int, tuple[int, float]] = {}
    for axis, number in zip(axes, given.reshape(-1).tolist(), strict=True):
        dim = int(axis) % len(shape)
        extent = shape[dim]
        if not (isfinite(number) and extent * number > 0):
            return None
        size = floor(extent * number) if by_scales else int(number)
        scale = float(number) if by_scales else number / extent
        if size < 1:
            return None
        if size != extent or scale != 1:
            changes[dim] = size, scale
    kernel = cubic_kernel(attribute("cubic_coeff_a", -0.75)) if mode == "cubic" else linear_kernel()
    outside = bool(attribute("exclude_outside", 0))
    return MatrixResize(tuple(shape), changes, coordinates, kernel, outside, antialias)


def fold_resize(node: Node) -> NDArray[Any] | None:
    """The result of such a node with constant inputs; None where it is another or costs too much."""
    x, _, scales, sizes = (*node.constant_inputs(), None, None, None)[:4]
    if x is None or x.dtype.kind != "f":
        return None
    found = matrix_resize(x.shape, scales, sizes, lambda name, default: node.get(name, default))
    if found is None:
        return None
    result = x.astype(np.float64)
    for dim, (size, _) in found.changes.items():
        extent = result.shape[dim]
        elements = result.size // extent * size
        if not node.affords(8 * (elements + size * extent), (elements + STEPS_PER_ELEMENT * size) * extent):
            return None
        result = np.moveaxis(np.tensordot(result, found.matrix(dim), (dim, 1)), -1, dim)
    return result.astype(x.dtype)
