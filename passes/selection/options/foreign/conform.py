"""Ops that verify only if some of their tensors are spelled alike: of one type, or in one shape-free Format.

arith and math on whole tensors want one type for operands and result; destination-passing ops one for a result and the
operand it starts from, and some of them do not even print it twice. Selection compares layouts, not spellings, so what
it leaves may differ in those; a `layout.cast` makes them alike.

Ops of `nn` that want one Format for tensors of several shapes (concat, pools) compare it shape-free: eight channels in
nhwc lie as in nChw8c, but a concat of them with others has to be told which of the two is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Attribute, Operation

from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    CastOp,
    ReorderOp,
    format_of,
    has_layout,
    is_any,
    is_tensor,
    layout_of,
    with_format,
)
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.dialects.layout.types import encoding_of
from layout_ir.forking import loading
from layout_ir.passes.selection.options.tensor_formats import bound_to


def conform(ops: Sequence[Operation]) -> None:
    """Inserts the casts that `ops` need."""
    for op in ops:
        block = op.parent
        for cast in alike(op):
            if block is not None:
                cast.location = op.location
                block.insert_op_before(cast, op)


def alike(op: Operation) -> Iterator[Operation]:
    """Gives operands of `op` the types they must have; yields the ops, still to be inserted, that do so."""
    for operand, type in (*bound_types(op), *_one_shape_free_format(op)):
        value = op.operands[operand]
        if not has_layout(value.type) or not has_layout(type) or encoding_of(value.type) == encoding_of(type):
            continue
        if is_any(value.type) or is_any(type):
            continue
        free = cast_obstacle(layout_of(value.type), layout_of(type)) is None
        cast = (CastOp if free else ReorderOp)(value, encoding_of(type))
        op.operands[operand] = cast.result
        yield cast


def bound_types(op: Operation) -> Iterator[tuple[int, Attribute]]:
    """Operands of `op`, by number, and the types they must have because a result has it."""
    if op.dialect_name() not in ("arith", "math", "linalg"):
        return
    with loading:  # the dialects of others are a sixth of all that a network needs to be compiled
        from layout_ir.dialects.upstream.linalg_relayout import RelayoutOp
        from layout_ir.foreign.structured import structured
    if isinstance(op, RelayoutOp):
        yield 1, op.result.type
        return
    s = structured(op)
    if s is None:
        return
    if s.one_type:
        tensors = [k for k, value in enumerate(op.operands) if is_tensor(value.type)]
        yield from ((k, op.results[0].type) for k in tensors)
    else:
        yield from ((k, op.results[j].type) for j, k in enumerate(s.init) if k is not None)


def _one_shape_free_format(op: Operation) -> Iterator[tuple[int, Attribute]]:
    """Operands of an op of `nn` that lie as its Format says, but are spelled in one that means another elsewhere."""
    if not isinstance(op, nn.NNOp) or not op.SAME_FORMAT:
        return
    fmt = format_of(op.result.type)
    for k, value in enumerate(op.operands):
        own = format_of(value.type)
        if own is None or fmt is None or own == fmt or value not in op.formatted_operands():
            continue
        here, there = layout_of(value.type), layout_of(op.result.type)
        as_result, as_operand = bound_to(own, there.shape), bound_to(fmt, here.shape)
        if as_result is not None and as_result.same_map(there):
            continue
        if as_operand is not None and as_operand.same_map(here):
            yield k, with_format(value.type, fmt.with_pad(own.pad))
