"""Nodes that choose elements by comparing indices: OneHot, Hardmax, EyeLike, ReverseSequence, the mask of a Dropout.

OneHot             where the index equals the place along the new dim, the second value, else the first
Hardmax            where the place along a dim is that of the first largest element, 1, else 0
EyeLike            a constant
ReverseSequence    rows gathered: those before the length of a sequence from its end, the others where they are
Dropout            at inference x itself, and true everywhere
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReshapeOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type
from layout_ir.elements.numpy_types import storage


def one_hot(node: OpaqueNode) -> SSAValue:
    """Vectors along a new dim, of one value at an index, and the other elsewhere; indices may count from the end."""
    indices, values = node.input(0), node.input(2)
    shape, result = shape_of(indices), shape_of(node.op.results[0])
    axis = node.axis(-1, len(result))
    depth = result[axis]
    if shape_of(values) != (2,) or (*result[:axis], *result[axis + 1 :]) != shape:
        raise Unsupported
    index = as_i64(node, indices)
    zero, count = (node.constant(np.array(number), "i64") for number in (0, depth))
    index = node.apply(
        nn.WhereOp, node.apply(nn.LessOp, index, zero), node.apply(nn.AddOp, index, count), index
    )
    apart = node.insert(ReshapeOp(index, (*shape[:axis], 1, *shape[axis:])))
    hot = node.apply(nn.EqualOp, apart, places(node, depth, axis, len(result)))
    off, on = (node.apply(nn.SliceOp, values, starts=(k,), sizes=(1,)) for k in range(2))
    return node.apply(nn.WhereOp, hot, on, off)


def hard_max(node: OpaqueNode) -> SSAValue:
    """1 at the first largest element of each row, 0 elsewhere."""
    x, rank = node.input(0), len(shape_of(node.input(0)))
    newer = node.op.versions.get("", 0) >= 13
    axis = node.axis(-1 if newer else 1, rank)
    if not prod(shape_of(x)):
        raise Unsupported
    if not newer and axis != rank - 1:  # before, over all dims from the axis on
        rank, shape = axis + 1, shape_of(x)
        x = node.insert(ReshapeOp(x, (*shape[:axis], prod(shape[axis:]))))
    largest = node.apply(nn.ArgMaxOp, x, axis=axis, keepdims=True)
    hot = node.apply(nn.EqualOp, largest, places(node, shape_of(x)[axis], axis, rank))
    ones = _cast(node, hot, dtype_of(node.op.results[0].type))
    result = shape_of(node.op.results[0])
    return ones if shape_of(ones) == result else node.insert(ReshapeOp(ones, result))


def eye_like(node: OpaqueNode) -> SSAValue:
    """1 on a diagonal of a matrix, 0 elsewhere."""
    result = node.op.results[0]
    dtype, shape = dtype_of(result.type), shape_of(result)
    if dtype == "bf16" or len(shape) != 2:
        raise Unsupported
    return node.constant(np.eye(*shape, k=node.attribute("k", 0), dtype=storage(dtype)), dtype)


def reversed_sequences(node: OpaqueNode) -> SSAValue:
    """The first elements of each sequence of a batch, as many as its length says, in reverse order."""
    x, lengths = node.input(0), node.input(1)
    shape = shape_of(x)
    time, batch = int(node.attribute("time_axis", 0)), int(node.attribute("batch_axis", 1))
    if {time, batch} != {0, 1} or len(shape) < 2 or shape_of(lengths) != (shape[batch],) or not prod(shape):
        raise Unsupported
    return reversed_rows(node, x, lengths, time, batch)


def reversed_rows(node: OpaqueNode, x: SSAValue, lengths: SSAValue, time: int, batch: int) -> SSAValue:
    """The first elements of each sequence in reverse order, of a tensor whose first two dims are time and batch."""
    shape = shape_of(x)
    steps, count = shape[time], shape[batch]
    length = node.insert(ReshapeOp(as_i64(node, lengths), (1, count) if batch else (count, 1)))
    step = places(node, steps, time, 2)
    one = node.constant(np.array(1), "i64")
    turned = node.apply(nn.SubOp, node.apply(nn.SubOp, length, one), step)
    source = node.apply(nn.WhereOp, node.apply(nn.LessOp, step, length), turned, step)
    if batch:
        row = node.apply(nn.MulOp, source, node.constant(np.array(count), "i64"))
        row = node.apply(nn.AddOp, row, places(node, count, batch, 2))
    else:
        first = node.constant(np.arange(count).reshape(-1, 1) * steps, "i64")
        row = node.apply(nn.AddOp, source, first)
    rows = node.insert(ReshapeOp(x, (steps * count, *shape[2:])))
    return node.apply(nn.GatherOp, rows, row, axis=0)


def dropped_out(node: OpaqueNode) -> list[SSAValue | None]:
    """The results of a Dropout at inference: x, and a mask that keeps all elements."""
    if len(node.inputs) > 2:
        training = node.constant_input(2)
        if training is not None and training.any():
            raise Unsupported
    mask = next((value for value in node.op.results[1:]), None)
    if mask is None or dtype_of(mask.type) != "i1":
        raise Unsupported
    return [node.input(0), node.constant(np.ones(shape_of(mask), bool), "i1")]


def places(node: OpaqueNode, extent: int, axis: int, rank: int) -> SSAValue:
    """The index along an axis, of one element along all others."""
    return node.constant(np.arange(extent).reshape([-1 if d == axis else 1 for d in range(rank)]), "i64")


def as_i64(node: OpaqueNode, value: SSAValue) -> SSAValue:
    """Integers of 64 bits."""
    return value if dtype_of(value.type) == "i64" else _cast(node, value, "i64")


def _cast(node: OpaqueNode, value: SSAValue, dtype: str) -> SSAValue:
    type = tensor_type(value)
    return node.insert(nn.CastOp(value, result_type=node.type_of(dtype, type.get_shape())))
