"""Indices that are computed at run time, as places in a row of elements: a gather finds those that are outside.

An index of ONNX counts from the end where it is negative. Several indices of an element, one per dim, are one place in
the row of all elements; an index outside of its dim must not come out at the place of another element.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.errors import LayoutError

_FAR = -(1 << 56)
"""What is outside of all rows, whatever places of other dims are added: tensors have fewer elements, and 64 dims."""


def indices_of(ops: InsertedOps, value: SSAValue) -> SSAValue:
    """Integers of 32 or 64 bits as indices (i64). Raises LayoutError for other elements."""
    dtype = dtype_of(value.type)
    if dtype == "i64":
        return value
    if dtype != "i32":
        raise LayoutError(f"indices of {dtype}")
    return ops.apply(nn.CastOp, value, result_type=TensorType(i64, shape_of(value)))


def place(ops: InsertedOps, index: SSAValue, extent: int, stride: int) -> SSAValue:
    """How far the elements at `index` (i64) of a dim of `extent` lie from the first, `stride` between neighbours; far
    below 0 for an index outside of the dim."""
    zero, count, far = (ops.constant(np.array(number), "i64") for number in (0, extent, _FAR))
    from_start = ops.apply(
        nn.WhereOp, ops.apply(nn.LessOp, index, zero), ops.apply(nn.AddOp, index, count), index
    )
    found = from_start
    if stride != 1:
        found = ops.apply(nn.MulOp, from_start, ops.constant(np.array(stride), "i64"))
    found = ops.apply(nn.WhereOp, ops.apply(nn.LessOp, from_start, zero), far, found)
    return ops.apply(nn.WhereOp, ops.apply(nn.LessOp, from_start, count), found, far)
