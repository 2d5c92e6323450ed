"""Compiled code for operators whose nodes are evaluated one by one, where loops of NumPy take longest."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from layout_ir.backends.llvm.loops.box_selection import select_boxes
from layout_ir.backends.llvm.loops.compiled_loop import LOOP_SIGNATURE
from layout_ir.backends.llvm.loops.loop_calls import check_indices
from layout_ir.backends.llvm.loops.region_pooling import RegionPooling
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onnxruntime.session_operators import session_operator
from layout_ir.backends.reference.operator_kernels import NodeKernels
from layout_ir.backends.reference.roi_align import check_regions, pooled_regions
from layout_ir.dialects.nn.regions import Regions
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError

_LEAST_PRODUCT = 1 << 15
"""The number of products of numbers from which on the library computes a matrix: a call of it takes as long as some
thousand."""


@lru_cache
def node_kernels(threads: int) -> NodeKernels:
    """The kernels for this machine, on so many threads."""
    return NodeKernels(
        select_boxes,
        _pooled,
        partial(_product, threads=threads),
        partial(session_operator, threads=threads),
    )


def _product(a: Array, b: Array, *, threads: int) -> Array:
    """`numpy.matmul`, of f32 by the library on so many threads: NumPy takes as many as there are CPUs, and keeps those
    busy that have nothing to do. By NumPy where matrices are small."""
    are_matrices = min(a.ndim, b.ndim) > 1 and a.shape[-1] == b.shape[-2]
    if not are_matrices or a.dtype != np.float32 or b.dtype != np.float32 or not library().sets_threads:
        return np.matmul(a, b)
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    if b.ndim == 2 and a.ndim > 2 and a.size:
        rows = a.size // inner
        return _product(a.reshape(rows, inner), b, threads=threads).reshape(*a.shape[:-1], columns)
    if rows * inner * columns < _LEAST_PRODUCT:
        return np.matmul(a, b)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    result = np.empty((*batch, rows, columns), np.float32)
    (a, a_order, a_rows), (b, b_order, b_rows) = _as_read(a), _as_read(b)
    a, b = np.broadcast_to(a, (*batch, rows, inner)), np.broadcast_to(b, (*batch, inner, columns))
    onednn = library()
    before = onednn.threads()
    onednn.use_threads(threads)
    try:
        for place in np.ndindex(*batch):
            x, y, made = (_address(array, place) for array in (a, b, result))
            matrices = x, a_rows, y, b_rows, 0.0, made, columns
            status = onednn.api.dnnl_sgemm(a_order, b_order, rows, columns, inner, 1.0, *matrices)
            onednn.check(status, "a matrix product")
    finally:
        onednn.use_threads(before)
    return result


def _as_read(matrices: Array) -> tuple[Array, bytes, int]:
    """Matrices as the library reads them: whether transposed ('T' or 'N'), and the elements between rows then."""
    (rows, columns), (down, across) = matrices.shape[-2:], matrices.strides[-2:]
    size = matrices.itemsize
    if across == size and down >= columns * size and down % size == 0:
        return matrices, b"N", down // size
    if down == size and across >= rows * size and across % size == 0:
        return matrices, b"T", across // size
    return np.ascontiguousarray(matrices), b"N", columns


def _address(array: Array, place: tuple[int, ...]) -> int:
    """Where the matrix at a place of the leading dims lies."""
    return array.ctypes.data + sum(
        index * stride for index, stride in zip(place, array.strides, strict=False)
    )


def _pooled(x: Array, regions: Array, batches: Array, made: Regions) -> Array:
    """`pooled_regions` by machine code, one for all numbers of regions; by NumPy where there is none."""
    check_regions(x, regions, batches)
    dtype = {"float32": "f32", "float64": "f64"}.get(x.dtype.name)
    if dtype is None:
        return pooled_regions(x, regions, batches, made)
    rows = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    try:
        kernel = RegionPooling(rows.shape, None, dtype, made)
    except LayoutError:
        return pooled_regions(x, regions, batches, made)
    result = np.empty((len(regions), x.shape[1], *made.extents), x.dtype)
    corners, places = np.ascontiguousarray(regions, x.dtype), np.ascontiguousarray(batches, np.int64)
    arguments = kernel.arguments(len(regions))
    arguments[:4] = [array.ctypes.data for array in (rows, corners, places, result)]
    LOOP_SIGNATURE(kernel.address)(int(arguments.ctypes.data), 0, 0, 1)
    check_indices(arguments, "RoiAlign")
    return result
