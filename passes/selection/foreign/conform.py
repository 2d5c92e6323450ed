"""Ops that verify only if some of their tensors have exactly one type, pads and spelling included.

arith and math on whole tensors want one type for operands and result; destination-passing ops one for a result and the
operand it starts from, and some of them do not even print it twice. Selection compares layouts, not spellings, so what
it leaves may differ in those; a `layout.cast` makes them alike.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from layout_ir.dialects.layout import CastOp, ReorderOp, is_any, is_tensor, layout_of
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.dialects.layout.types import encoding_of
from layout_ir.passes.selection.foreign.structured import structured


def conform(module: ModuleOp) -> None:
    """Inserts the casts that ops of other dialects need."""
    for op in list(module.walk()):
        block = op.parent
        for cast in alike(op):
            if block is not None:
                cast.location = op.location
                block.insert_op_before(cast, op)


def alike(op: Operation) -> Iterator[Operation]:
    """Gives operands of `op` the types they must have; yields the ops, still to be inserted, that do so."""
    for operand, result in bound_types(op):
        value, type = op.operands[operand], op.results[result].type
        if value.type == type or is_any(value.type) or is_any(type):
            continue
        free = cast_obstacle(layout_of(value.type), layout_of(type)) is None
        cast = (CastOp if free else ReorderOp)(value, encoding_of(type))
        op.operands[operand] = cast.result
        yield cast


def bound_types(op: Operation) -> Iterator[tuple[int, int]]:
    """Pairs (operand, result) of `op` that must have one type."""
    if op.dialect_name() not in ("arith", "math", "linalg"):
        return
    s = structured(op)
    if s is None:
        return
    if s.one_type:
        yield from ((k, 0) for k, value in enumerate(op.operands) if is_tensor(value.type))
    else:
        yield from ((operand, k) for k, operand in enumerate(s.init) if operand is not None)
