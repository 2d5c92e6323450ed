"""Constant folding of ops that take indices: Gather and Scatter in all their forms.

Networks make tables of relative positions by them. None stands for a result that exceeds the budget of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.frontends.onnx.axes import normalize_axis
from layout_ir.frontends.onnx.budget import STEPS_PER_ELEMENT
from layout_ir.frontends.onnx.constants import collapsed, is_splat, splat
from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.frontends.onnx.indexed_arrays import (
    gathered_elements,
    gathered_nd,
    gathered_nd_shape,
    gathered_shape,
    scattered_elements,
    scattered_nd,
)
from layout_ir.frontends.onnx.node import Node

if TYPE_CHECKING:
    from numpy.typing import NDArray


def gather(node: Node) -> NDArray[Any] | None:
    """Slices of the data along an axis."""
    data, indices = node.arrays()
    if not data.ndim:
        raise OnnxImportError("the data have no dims to gather from")
    axis = normalize_axis(node.get("axis", 0), data.ndim)
    shape = gathered_shape(data, indices, axis)
    if is_splat(data) and prod(shape):
        return splat(collapsed(data), shape)
    return np.asarray(np.take(data, indices, axis=axis)) if _affords(node, prod(shape), data) else None


def gather_elements(node: Node) -> NDArray[Any] | None:
    """The element at each index along an axis, at the same place of all others."""
    data, indices = node.arrays()
    axis = node.get("axis", 0)
    return gathered_elements(data, indices, axis) if _affords(node, indices.size, data) else None


def gather_nd(node: Node) -> NDArray[Any] | None:
    """The slice of the data at each vector of indices; the first dims may be common to data and indices."""
    data, indices = node.arrays()
    batch = node.get("batch_dims", 0)
    size = prod(gathered_nd_shape(data, indices, batch))
    return gathered_nd(data, indices, batch) if _affords(node, size, data) else None


def scatter_elements(node: Node) -> NDArray[Any] | None:
    """The data with the element at each index along an axis updated."""
    data, indices, updates = node.arrays()
    axis, reduction = node.get("axis", 0), node.get("reduction", "none")
    affords = _affords(node, max(data.size, updates.size), data)
    return scattered_elements(data, indices, updates, axis, reduction) if affords else None


def scatter_nd(node: Node) -> NDArray[Any] | None:
    """The data with the slice at each vector of indices updated."""
    data, indices, updates = node.arrays()
    reduction = node.get("reduction", "none")
    affords = _affords(node, max(data.size, updates.size), data)
    return scattered_nd(data, indices, updates, reduction) if affords else None


FOLDERS: dict[str, Callable[[Node], NDArray[Any] | None]] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
}


def _affords(node: Node, size: int, data: NDArray[Any]) -> bool:
    """Takes a result of `size` elements from the budget: NumPy takes 1 to 27 ns for one at an index."""
    return node.affords(size * data.itemsize, STEPS_PER_ELEMENT * size)
