"""Operators that pick and place elements by indices."""

from __future__ import annotations

import numpy as np
from onnx.reference.op_run import OpRun

from layout_ir.backends.reference.top_k import top_k
from layout_ir.elements.numpy_types import Array
from layout_ir.frontends.onnx.indexed_arrays import (
    gathered_elements,
    gathered_nd,
    scattered_elements,
    scattered_nd,
)


class Compress(OpRun):
    """Compress by a condition of any shape, taken flat as ONNX Runtime takes it: the package wants a list, as the
    standard."""

    op_domain = ""

    def _run(self, data: Array, condition: Array, axis: int | None = None) -> tuple[Array]:
        return (np.compress(condition.reshape(-1), data, axis=axis),)


class Gather(OpRun):
    """Gather by indices that lie anywhere, also by none: 1.22 of the package fails, or gives another shape."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        return (np.take(data, indices, axis=axis),)


class GatherElements(OpRun):
    """GatherElements along dims of any extent (up to 1.23 of the package no more than 64), of indices that are fewer
    elsewhere."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        return (gathered_elements(data, indices, axis),)


class GatherND(OpRun):
    op_domain = ""

    def _run(self, data: Array, indices: Array, batch_dims: int = 0) -> tuple[Array]:
        return (gathered_nd(data, indices, batch_dims),)


class OneHot(OpRun):
    """OneHot to a depth that is a vector of one element, too, and of indices that are outside, which no place is
    for."""

    op_domain = ""

    def _run(self, indices: Array, depth: Array, values: Array, axis: int = -1) -> tuple[Array]:
        count = int(depth.reshape(()))
        asked = np.expand_dims(indices.astype(np.int64), axis)
        places = np.arange(count).reshape(-1, *(1,) * (asked.ndim - 1 - axis % asked.ndim))
        is_there: Array = np.where(asked < 0, asked + count, asked) == places
        return (np.asarray(np.where(is_there, values[1], values[0]), values.dtype),)


class ScatterElements(OpRun):
    op_domain = ""

    def _run(
        self, data: Array, indices: Array, updates: Array, axis: int = 0, reduction: str | None = None
    ) -> tuple[Array]:
        return (scattered_elements(data, indices, updates, axis, reduction or "none"),)


class ScatterND(OpRun):
    op_domain = ""

    def _run(self, data: Array, indices: Array, updates: Array, reduction: str | None = None) -> tuple[Array]:
        return (scattered_nd(data, indices, updates, reduction or "none"),)


class TopK(OpRun):
    """TopK in all versions of the operator: before opset 10, k is an attribute."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        k: Array | int,
        axis: int | None = None,
        largest: int | None = None,
        sorted: int | None = None,  # always
    ) -> tuple[Array, Array]:
        return top_k(x, int(np.asarray(k).item()), -1 if axis is None else axis, largest != 0)


OPERATORS = (Compress, Gather, GatherElements, GatherND, OneHot, ScatterElements, ScatterND, TopK)
