"""layout-fold-reorders: remove, merge, share and move reorders. Local, cheap, and never for the worse.

Rules are a table; each takes an op and returns the value that replaces its result, or None. Requirements on a rule:

    1. the logical value is unchanged, and so is every pad that the type of the replacement promises;
    2. it is decided by the algebra on the shape (same map, same store), never by names;
    3. it lowers the measure (estimated time of the reorders in the program, number of layout ops), compared in this
       order, which is what makes the rules terminate.

Declined: merging a chain whose direct reorder is dearer than its last step, while the first step is needed anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    CastOp,
    FillPadsOp,
    ReorderOp,
    dtype_of,
    format_of,
    is_any,
    layout_of,
    with_format,
)
from layout_ir.dialects.layout.ops import LayoutDialectOp, cast_obstacle
from layout_ir.layout import Layout
from layout_ir.passes.rewriting import erase_dead, provided_pad, replace_op
from layout_ir.passes.selection.costs import reorder_ns

LayoutOnly = ReorderOp | CastOp | FillPadsOp
Rule = Callable[[Operation], SSAValue | None]


def _is_settled(op: Operation) -> bool:
    """Whether `op` changes layouts alone, between layouts that are known."""
    if not isinstance(op, LayoutOnly) or is_any(op.source_type) or is_any(op.result_type):
        return False
    has_formats = format_of(op.source_type) is not None and format_of(op.result_type) is not None
    return has_formats and op.source_type.element_type == op.result_type.element_type


def _layouts(op: LayoutDialectOp) -> tuple[Layout, Layout]:
    return layout_of(op.source_type), layout_of(op.result_type)


def _insert(op: Operation, new: Operation) -> SSAValue:
    block = op.parent
    assert isinstance(block, Block)
    new.location = op.location
    block.insert_op_before(new, op)
    return new.results[0]


# --- one op ---------------------------------------------------------------------------------------------------------


def same_type(op: Operation) -> SSAValue | None:
    """reorder x : T -> T   =>   x"""
    return op.operands[0] if _is_settled(op) and op.operands[0].type == op.results[0].type else None


def free_reorder(op: Operation) -> SSAValue | None:
    """A reorder or fill that changes nothing in memory   =>   cast"""
    if not isinstance(op, ReorderOp | FillPadsOp) or not _is_settled(op):
        return None
    source, result = _layouts(op)
    if cast_obstacle(source, result) is not None:
        return None
    return _insert(op, CastOp(op.input, op.result_type.encoding))


def pads_only(op: Operation) -> SSAValue | None:
    """A reorder between layouts that store alike but promise other pads   =>   fill_pads"""
    if not isinstance(op, ReorderOp) or not _is_settled(op):
        return None
    source, result = _layouts(op)
    if result.pad == "undef" or not source.same_store(result):
        return None
    return _insert(op, FillPadsOp(op.input, op.result_type.encoding))


# --- chains ---------------------------------------------------------------------------------------------------------


def chain(op: Operation) -> SSAValue | None:
    """(A -> B) then (B -> C)   =>   A -> C, where that is no dearer than B -> C or B has no other use"""
    inner = op.operands[0].owner if op.operands else None
    if not _is_settled(op) or not isinstance(inner, Operation) or not _is_settled(inner):
        return None
    assert isinstance(op, LayoutOnly) and isinstance(inner, LayoutOnly)
    start, middle = _layouts(inner)
    end = layout_of(op.result_type)
    dtype = dtype_of(op.result_type)
    direct, last, first = (reorder_ns(a, b, dtype) for a, b in ((start, end), (middle, end), (start, middle)))
    if isinstance(op, CastOp) and isinstance(inner, ReorderOp):
        # The reorder can write what the cast renames it to, unless someone else needs its result as it is.
        if not inner.result.has_one_use():
            return None
    elif (not inner.result.has_one_use() and direct > last) or (
        inner.result.has_one_use() and direct > last + first
    ):
        return None
    if isinstance(op, FillPadsOp) and isinstance(inner, FillPadsOp):
        return _insert(op, FillPadsOp(inner.input, op.result_type.encoding))
    if isinstance(op, CastOp) and isinstance(inner, CastOp) and cast_obstacle(start, end) is None:
        return _insert(op, CastOp(inner.input, op.result_type.encoding))
    if isinstance(op, ReorderOp) or isinstance(inner, ReorderOp):
        return _insert(op, ReorderOp(inner.input, op.result_type.encoding))
    return None


# --- sharing --------------------------------------------------------------------------------------------------------


def shared(op: Operation) -> SSAValue | None:
    """The same change of the same value twice in a block   =>   the first one"""
    if not _is_settled(op):
        return None
    for use in op.operands[0].uses:
        other = use.operation
        alike = other is not op and type(other) is type(op) and other.results[0].type == op.results[0].type
        if alike and other.parent is op.parent and other.is_before_in_block(op):
            return other.results[0]
    return None


# --- through elementwise ops ----------------------------------------------------------------------------------------


def through_elementwise(op: Operation) -> SSAValue | None:
    """(A -> B), elementwise in B, (B -> A)   =>   elementwise in A

    For an op whose result is only used by this reorder, and whose operands all come from A by reorders of one use or
    are constants: two reorders or more become none.
    """
    if not isinstance(op, ReorderOp) or not _is_settled(op):
        return None
    body = op.input.owner
    if not isinstance(body, nn.ElementwiseOp) or not body.result.has_one_use():
        return None
    wanted = layout_of(op.result_type)
    operands: list[SSAValue] = []
    for operand in body.operands:
        source = operand.owner
        if operand not in body.formatted_operands():
            operands.append(operand)
        elif isinstance(source, ReorderOp) and _is_settled(source) and source.result.has_one_use():
            if not layout_of(source.source_type).same_store(wanted):
                return None
            operands.append(source.input)
        elif isinstance(source, nn.ConstantOp):
            operands.append(operand)
        else:
            return None
    if not any(isinstance(operand.owner, ReorderOp) for operand in body.operands):
        return None
    return _moved(op, body, operands)


def _moved(op: ReorderOp, body: nn.ElementwiseOp, operands: list[SSAValue]) -> SSAValue | None:
    """`body` on `operands` in the Format of the result of `op`, or None where its pads would not be right."""
    block = op.parent
    fmt = format_of(op.result_type)
    assert isinstance(block, Block) and fmt is not None
    packed: list[Operation] = []
    for k, operand in enumerate(operands):
        if isinstance(operand.owner, nn.ConstantOp) and operand in body.formatted_operands():
            packed.append(ReorderOp(operand, fmt))
            operands[k] = packed[-1].results[0]
    new = type(body).create(
        operands=operands,
        result_types=[with_format(body.result.type, fmt)],
        properties=body.properties,
        attributes=body.attributes,
        location=body.location,
    )
    if layout_of(op.result_type).is_padded and fmt.pad != "undef":
        held = provided_pad(new)
        if held is None or fmt.with_pad(held) != fmt:
            for dropped in (new, *packed):
                dropped.erase()
            return None
    new.results[0].name_hint = body.result.name_hint
    for made in (*packed, new):
        block.insert_op_before(made, op)
    return new.results[0]


RULES: tuple[Rule, ...] = (same_type, free_reorder, pads_only, chain, shared, through_elementwise)


def fold_reorders(module: ModuleOp) -> int:
    """Applies the rules until none fits; returns how often one did."""
    applied = 0
    changed = True
    while changed:
        changed = False
        ops = [op for op in module.walk() if isinstance(op, LayoutOnly)]
        changed |= erase_dead(ops)
        for op in ops:
            for rule in RULES:
                if op.parent is None:
                    break
                value = rule(op)
                if value is not None:
                    inputs = list(op.operands)
                    replace_op(op, value)
                    _erase_unused(inputs)
                    applied += 1
                    changed = True
                    break
    return applied


def _erase_unused(values: list[SSAValue]) -> None:
    """Erases the layout and elementwise ops behind `values` that a rule left without a use, and what only they used."""
    for value in values:
        owner = value.owner
        if isinstance(owner, LayoutOnly | nn.ElementwiseOp) and not value.uses and owner.parent is not None:
            inputs = list(owner.operands)
            owner.detach()
            owner.erase()
            _erase_unused(inputs)


@dataclass(frozen=True)
class LayoutFoldReordersPass(ModulePass):
    """Local rules on reorders, casts and fills of pads."""

    name = "layout-fold-reorders"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fold_reorders(op)
