"""Pools, and reductions, of which those over all of space are pools of one window."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn.library import dims
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor
from layout_ir.backends.onednn.op_primitives.primitive_operands import (
    Candidates,
    Operand,
    OpPrimitive,
    Values,
)
from layout_ir.backends.onednn.primitives import (
    INFERENCE,
    Algorithm,
    Argument,
    Request,
)
from layout_ir.backends.reference.tensor import is_row_major
from layout_ir.dialects import nn
from layout_ir.errors import LayoutError


def pool(op: nn.MaxPoolOp | nn.AvgPoolOp, values: Values) -> Candidates:
    """The primitive of a pool; pads at the end are as many as the last windows of `ceil_mode` reach."""
    x, y = values.layout(op.x).shape, values.layout(op.result).shape
    rank = len(op.kernel)
    ends: list[int] = []
    for d in range(rank):
        reach = (y[2 + d] - 1) * op.strides[d] + (op.kernel[d] - 1) * op.dilations[d] + 1
        ends.append(max(op.pads[rank + d], reach - x[2 + d] - op.pads[d]))
    algorithm = Algorithm.MAX_POOL
    if isinstance(op, nn.AvgPoolOp):
        padded = op.count_include_pad and any(op.pads)
        if padded and ends != list(op.pads[rank:]):
            return  # what ceil_mode adds takes no part, and would be counted
        algorithm = Algorithm.AVG_POOL_WITH_PADDING if padded else Algorithm.AVG_POOL
    yield _pooling(op, values, algorithm, op.kernel, op.strides, op.dilations, op.pads[:rank], ends)


def global_pool(op: nn.GlobalAvgPoolOp | nn.GlobalMaxPoolOp, values: Values) -> Candidates:
    """One window, as large as the operand."""
    x = values.layout(op.x).shape
    none, ones = (0,) * (len(x) - 2), (1,) * (len(x) - 2)
    algorithm = Algorithm.AVG_POOL if isinstance(op, nn.GlobalAvgPoolOp) else Algorithm.MAX_POOL
    yield _pooling(op, values, algorithm, x[2:], ones, ones, none, none)


def _pooling(
    op: Any, values: Values, algorithm: Algorithm, kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int], begins: Sequence[int], ends: Sequence[int], result: Sequence[int] | None = None,
) -> OpPrimitive:  # fmt: skip
    x, y = values.descriptor(op.x), _like_operand(op, values, result)
    windows = (dims(strides), dims(kernel), dims(d - 1 for d in dilations), dims(begins), dims(ends))
    request = Request("pooling_forward", (INFERENCE, algorithm, x, y, *windows), (windows,))
    return OpPrimitive(request, {Argument.SRC: Operand(op.x, x)}, y, values.layout(op.result).shape)


def _like_operand(op: Any, values: Values, result: Sequence[int] | None) -> MemoryDescriptor:
    """The descriptor of the result with the order of dims of the operand, where that is the same memory.

    Dims of one element may stand anywhere, but kernels look for operand and result in one order.
    """
    y = values.layout(op.result)
    shape = y.shape if result is None else tuple(result)
    with suppress(LayoutError):
        seen = values.layout(op.x).format.bind(shape)
        same = seen.same_map(y if result is None else y.reshape(shape))
        if same and not y.is_padded and not seen.is_padded and not y.offset:
            return descriptors.descriptor_of(values.library, seen, values.dtype(op.result))
    return values.descriptor(op.result, result, writes=True)


REDUCTIONS: dict[type[nn.ReduceOp], Algorithm] = {
    nn.ReduceSumOp: Algorithm.REDUCE_SUM,
    nn.ReduceMeanOp: Algorithm.REDUCE_MEAN,
    nn.ReduceMaxOp: Algorithm.REDUCE_MAX,
    nn.ReduceMinOp: Algorithm.REDUCE_MIN,
    nn.ReduceProdOp: Algorithm.REDUCE_MUL,
}


def reduction_as_pool(op: nn.ReduceOp, values: Values) -> Candidates:
    """A mean or maximum over all of space is a pool of one window, for which there are better kernels."""
    x = values.layout(op.x).shape
    algorithms: dict[type[nn.ReduceOp], Algorithm] = {
        nn.ReduceMeanOp: Algorithm.AVG_POOL,
        nn.ReduceMaxOp: Algorithm.MAX_POOL,
    }
    if type(op) not in algorithms or not 3 <= len(x) <= 5 or sorted(op.axes) != list(range(2, len(x))):
        return
    if is_row_major(values.layout(op.x)):
        return  # whose pools take long: the mean of 512 rows of 3136, on a Zen 4, 346 us, and 101 by the reduction
    none, ones = (0,) * (len(x) - 2), (1,) * (len(x) - 2)
    pool = _pooling(op, values, algorithms[type(op)], x[2:], ones, ones, none, none, (*x[:2], *ones))
    yield replace(pool, extents=(*x[:2], *ones))


def reduction(op: nn.ReduceOp, values: Values) -> Candidates:
    """The primitive of a reduction; none where a dim that it goes over has pads."""
    x = values.layout(op.x)
    if set(op.axes) & set(x.padded_dims()):
        return
    kept = tuple(1 if d in op.axes else extent for d, extent in enumerate(x.shape))
    source, target = values.descriptor(op.x), values.descriptor(op.result, kept, writes=True)
    request = Request("reduction", (REDUCTIONS[type(op)], source, target, 0.0, 0.0))
    yield OpPrimitive(request, {Argument.SRC: Operand(op.x, source)}, target, kept)
