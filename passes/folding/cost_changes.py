"""Changes of layout: the ops that make them, and what they cost where they stand.

A cost is estimated time in nanoseconds, multiplied by how often the block runs, as in selection. A cast is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute, Block, Operation, SSAValue

from layout_ir.algebra.layout import Layout
from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    CastOp,
    FillPadsOp,
    ReorderOp,
    dtype_of,
    has_layout,
    is_any,
    layout_of,
)
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.dialects.layout.types import encoding_of
from layout_ir.passes.rewriting import is_foreign_constant
from layout_ir.passes.selection.costs.cost_model import fill_ns, reorder_ns
from layout_ir.passes.selection.problem.frequency import weight_of

LayoutOnly = ReorderOp | CastOp | FillPadsOp


def is_layout_change(op: object) -> bool:
    """Whether `op` changes layouts alone, between layouts that are known, of tensors whose extents are."""
    if not isinstance(op, LayoutOnly):
        return False
    source, result = op.source_type, op.result_type
    if is_any(source) or is_any(result) or (isinstance(op, ReorderOp) and not op.keeps_elements):
        return False
    return has_layout(source) and has_layout(result)


def change_ns(source: Layout, result: Layout, dtype: str) -> int:
    """Estimated time of changing from one layout to the other: by a cast, a fill of pads, or a reorder."""
    if cast_obstacle(source, result) is None:
        return 0
    if source.same_store(result) and result.pad != "undef":
        return fill_ns(result, dtype)
    return reorder_ns(source, result, dtype)


def cost_of(op: Operation) -> int:
    """What `op`, for which `is_layout_change` holds, costs where it stands."""
    assert isinstance(op, LayoutOnly)
    source, result, dtype = layout_of(op.source_type), layout_of(op.result_type), dtype_of(op.result_type)
    if isinstance(op, ReorderOp):
        return reorder_ns(source, result, dtype) * weight_of(op)
    return fill_ns(result, dtype) * weight_of(op) if isinstance(op, FillPadsOp) else 0


def change_layout(value: SSAValue, type: Attribute) -> Operation | None:
    """The op, not inserted yet, that gives `value` as `type`; None where it has that type."""
    if value.type == type:
        return None
    source, result = layout_of(value.type), layout_of(type)
    if cast_obstacle(source, result) is None:
        return CastOp(value, encoding_of(type))
    if source.same_store(result) and result.pad != "undef":
        return FillPadsOp(value, encoding_of(type))
    return ReorderOp(value, encoding_of(type))


@dataclass(eq=False, slots=True)
class Draft:
    """New ops on trial, in order, each with the op of the program in front of which it would stand.

    `cost` and `changes` are the cost and number of the changes of layout among them.
    """

    ops: list[tuple[Operation, Operation]] = field(default_factory=list[tuple[Operation, Operation]])
    cost: int = 0
    changes: int = 0

    def add(self, op: Operation, before: Operation) -> SSAValue:
        """Takes in `op`, to be inserted in front of `before`, whose location it gets; returns its result."""
        op.location = before.location
        self.ops.append((op, before))
        return op.results[0]

    def change_layout(self, value: SSAValue, type: Attribute, before: Operation) -> SSAValue:
        """`value` changed to `type` by an op in front of `before`, whose cost is added; an op made before is used
        again."""
        for op, _ in self.ops:
            if isinstance(op, LayoutOnly) and op.input is value and op.result.type == type:
                return op.result
        op = change_layout(value, type)
        if op is None:
            return value
        source, result = layout_of(value.type), layout_of(type)
        self.cost += change_ns(source, result, dtype_of(type)) * weight_of(before)
        self.changes += 1
        return self.add(op, before)

    def drop(self) -> None:
        """Erases all new ops."""
        for op, _ in reversed(self.ops):
            op.erase()
        self.ops.clear()

    def commit(self) -> None:
        """Inserts all new ops into the program."""
        for op, before in self.ops:
            block = before.parent
            assert isinstance(block, Block)
            block.insert_op_before(op, before)


def erase_unused(values: Sequence[SSAValue]) -> None:
    """Erases the ops without effects behind `values` that nothing uses any more, and what only they used."""
    for value in values:
        owner = value.owner
        if isinstance(owner, Block) or owner.parent is None or any(result.uses for result in owner.results):
            continue
        if is_disposable(owner):
            inputs = list(owner.operands)
            owner.detach()
            owner.erase()
            erase_unused(inputs)


def is_disposable(op: Operation) -> bool:
    """Whether an unused `op` may go: layout ops and literals, which compute nothing."""
    return isinstance(op, LayoutOnly) or is_literal(op)


def is_literal(op: object) -> bool:
    """Whether `op` makes a tensor out of nothing, in any Format for the same price."""
    if isinstance(op, nn.ConstantOp) or is_foreign_constant(op):
        return True
    return isinstance(op, Operation) and op.name == "tensor.empty" and not op.operands
