"""Compiled code for operators whose nodes are evaluated one by one, where loops of NumPy take longest."""

from __future__ import annotations

import numpy as np

from layout_ir.backends.llvm.loops.box_selection import select_boxes
from layout_ir.backends.llvm.loops.compiled_loop import LOOP_SIGNATURE
from layout_ir.backends.llvm.loops.loop_calls import check_indices
from layout_ir.backends.llvm.loops.region_pooling import RegionPooling
from layout_ir.backends.reference.node_operators import NodeKernels
from layout_ir.backends.reference.roi_align import check_regions, pooled_regions
from layout_ir.dialects.nn.regions import Regions
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError


def node_kernels() -> NodeKernels:
    """The kernels for this machine."""
    return NodeKernels(select_boxes, _pooled)


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
