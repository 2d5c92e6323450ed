"""Gather and Scatter in all their forms, by NumPy's indexing of arrays.

The reference implementation of the onnx package loops over elements in Python. Each function raises OnnxImportError
where shapes do not fit, or an index is outside of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.errors import shape_text
from layout_ir.frontends.onnx.axes import normalize_axis
from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.frontends.onnx.tensor_protos import check_shape

_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
"""What an update and the element in its place become, by the attribute `reduction`."""


def gathered_shape(data: NDArray[Any], indices: NDArray[Any], axis: int) -> tuple[int, ...]:
    """The shape of what Gather gives along a dim."""
    _check_indices(indices, data.shape[axis], f"axis {axis}")
    return check_shape(data.shape[:axis] + indices.shape + data.shape[axis + 1 :], data.dtype, "the result")


def gathered_elements(data: NDArray[Any], indices: NDArray[Any], axis: int) -> NDArray[Any]:
    """GatherElements."""
    return np.asarray(data[_along_axis(data, indices, axis)])


def gathered_nd_shape(data: NDArray[Any], indices: NDArray[Any], batch: int) -> tuple[int, ...]:
    """The shape of what GatherND gives."""
    if not indices.ndim or not 0 <= batch < min(data.ndim, indices.ndim):
        raise OnnxImportError(_unfit(data, indices))
    length = indices.shape[-1]
    if not 1 <= length <= data.ndim - batch or data.shape[:batch] != indices.shape[:batch]:
        raise OnnxImportError(_unfit(data, indices))
    return check_shape((*indices.shape[:-1], *data.shape[batch + length :]), data.dtype, "the result")


def gathered_nd(data: NDArray[Any], indices: NDArray[Any], batch: int) -> NDArray[Any]:
    """GatherND."""
    shape = gathered_nd_shape(data, indices, batch)
    common = [_counted(dim, extent, indices.ndim - 1) for dim, extent in enumerate(data.shape[:batch])]
    return np.asarray(data[(*common, *_vectors(indices, data.shape[batch:]))]).reshape(shape)


def scattered_elements(
    data: NDArray[Any], indices: NDArray[Any], updates: NDArray[Any], axis: int, reduction: str
) -> NDArray[Any]:
    """ScatterElements, of an array of its own."""
    places = _along_axis(data, indices, axis)
    if updates.shape != indices.shape:
        raise OnnxImportError(
            f"indices of shape {shape_text(indices.shape)} do not fit updates of shape {shape_text(updates.shape)}"
        )
    return _updated(data, places, updates, reduction)


def scattered_nd(
    data: NDArray[Any], indices: NDArray[Any], updates: NDArray[Any], reduction: str
) -> NDArray[Any]:
    """ScatterND, of an array of its own."""
    if not indices.ndim or not 1 <= indices.shape[-1] <= data.ndim:
        raise OnnxImportError(_unfit(data, indices))
    shape = (*indices.shape[:-1], *data.shape[indices.shape[-1] :])
    if updates.shape != shape:
        raise OnnxImportError(
            f"updates have shape {shape_text(updates.shape)}, expected {shape_text(shape)}: "
            f"indices have shape {shape_text(indices.shape)}, the data {shape_text(data.shape)}"
        )
    return _updated(data, _vectors(indices, data.shape), updates, reduction)


def _updated(
    data: NDArray[Any], places: tuple[NDArray[Any], ...], updates: NDArray[Any], reduction: str
) -> NDArray[Any]:
    """A copy of the data with the updates at their places; unless they reduce, no two may be at one place."""
    if reduction != "none" and reduction not in _REDUCTIONS:
        raise OnnxImportError(f"reduction = {reduction!r} is none of none, {', '.join(_REDUCTIONS)}")
    result = np.array(data)  # splats become arrays of their own
    if reduction == "none":
        result[places] = updates
    else:
        with np.errstate(all="ignore"):
            _REDUCTIONS[reduction].at(result, places, updates)
    return result


def _unfit(data: NDArray[Any], indices: NDArray[Any]) -> str:
    return f"indices of shape {shape_text(indices.shape)} do not fit data of shape {shape_text(data.shape)}"


def _check_indices(indices: NDArray[Any], extent: int, where: str) -> None:
    """Raises OnnxImportError where an index is outside of -extent..extent - 1."""
    low, high = (0, -1) if not indices.size else (int(indices.min()), int(indices.max()))
    if indices.size and not -extent <= low <= high < extent:
        wrong = low if low < -extent else high
        raise OnnxImportError(f"index {wrong} is not in {-extent}..{extent - 1}, {where} of the data")


def _counted(dim: int, extent: int, rank: int) -> NDArray[np.int64]:
    """The numbers below `extent` along one of `rank` dims."""
    shape = [1] * rank
    shape[dim] = extent
    return np.arange(extent, dtype=np.int64).reshape(shape)


def _along_axis(data: NDArray[Any], indices: NDArray[Any], axis: int) -> tuple[NDArray[Any], ...]:
    """NumPy's index of the elements that are at `indices` along the axis, and where the index is in all other dims."""
    if data.ndim != indices.ndim or not data.ndim:
        raise OnnxImportError(_unfit(data, indices))
    axis = normalize_axis(axis, data.ndim)
    if any(indices.shape[dim] > data.shape[dim] for dim in range(data.ndim) if dim != axis):
        raise OnnxImportError(_unfit(data, indices))
    _check_indices(indices, data.shape[axis], f"axis {axis}")
    return tuple(
        indices if dim == axis else _counted(dim, extent, data.ndim)
        for dim, extent in enumerate(indices.shape)
    )


def _vectors(indices: NDArray[Any], extents: Sequence[int]) -> tuple[NDArray[Any], ...]:
    """NumPy's index of the slices at vectors of indices, which are the last dim."""
    columns = tuple(indices[..., dim] for dim in range(indices.shape[-1]))
    for dim, column in enumerate(columns):
        _check_indices(column, extents[dim], f"dim {dim}")
    return columns
