"""layout-fold-reorders: remove, merge, share and move reorders. Local, cheap, and never for the worse.

Rules are two tables. Those of RULES look at one layout op (and the one in front of it) and return the value that
replaces its result, or None. Those of REWRITES take a reorder, change whatever they have to, and return whether they
did.

Requirements on a rule:

    1. the logical value is unchanged, and so is every pad that the type of the replacement promises;
    2. it is decided by the algebra on the shape (same map, same store), never by names;
    3. no op runs on pads that its semantics forbid: what it reads is filled first, and the fill is part of the price;
    4. it lowers the measure, compared in this order, which is what makes the rules terminate:
       a. estimated time of the layout ops, each weighed by how often its block runs;
       b. number of layout ops and of literals they change;
       c. number of layout ops outside of the branch that alone needs them.

Declined: merging a chain whose direct reorder is dearer than its last step, while the first step is needed anyway;
taking convolutions and products to other layouts, since their kernels differ and layout-propagate weighs that;
loop-carried values of scf.while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from layout_ir.algebra.layout import Layout
from layout_ir.dialects import nn
from layout_ir.dialects.layout import CastOp, FillPadsOp, ReorderOp, dtype_of, layout_of
from layout_ir.dialects.layout.layout_op import LayoutDialectOp
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.passes.folding.cost_changes import LayoutOnly, erase_unused, is_layout_change
from layout_ir.passes.folding.hoist_sink import (
    carry_other_layout,
    hoist_out_of_loop,
    move_behind_branches,
    sink_into_branch,
)
from layout_ir.passes.folding.reformat import reformat_producers, reformat_users
from layout_ir.passes.layout_pass import LayoutPass
from layout_ir.passes.rewriting import (
    erase_dead,
    holds_elements,
    insert_after,
    is_foreign_constant,
    replace_op,
    retype,
)
from layout_ir.passes.selection.costs.cost_model import CostModel, reorder_ns
from layout_ir.passes.selection.problem.frequency import weight_of

Rule = Callable[[Operation], SSAValue | None]
Rewrite = Callable[[Operation], bool]
Price = Callable[[Layout, Layout, str], int]
"""What a reorder costs, by the layouts of its sides and the element type."""


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
    return op.operands[0] if is_layout_change(op) and op.operands[0].type == op.results[0].type else None


def free_reorder(op: Operation) -> SSAValue | None:
    """A reorder or fill that changes nothing in memory   =>   cast"""
    if not isinstance(op, ReorderOp | FillPadsOp) or not is_layout_change(op):
        return None
    source, result = _layouts(op)
    if cast_obstacle(source, result) is not None:
        return None
    return _insert(op, CastOp(op.input, op.result_type.encoding))


def pads_only(op: Operation) -> SSAValue | None:
    """A reorder between layouts that store alike but promise other pads   =>   fill_pads"""
    if not isinstance(op, ReorderOp) or not is_layout_change(op):
        return None
    source, result = _layouts(op)
    if result.pad == "undef" or not source.same_store(result):
        return None
    return _insert(op, FillPadsOp(op.input, op.result_type.encoding))


# --- chains ---------------------------------------------------------------------------------------------------------


def chain(op: Operation, price: Price = reorder_ns) -> SSAValue | None:
    """(A -> B) then (B -> C)   =>   A -> C, where that is no dearer than both, or than B -> C where B has other uses"""
    inner = op.operands[0].owner if op.operands else None
    if not is_layout_change(op) or not isinstance(inner, Operation) or not is_layout_change(inner):
        return None
    assert isinstance(op, LayoutOnly) and isinstance(inner, LayoutOnly)
    start, middle = _layouts(inner)
    end = layout_of(op.result_type)
    dtype = dtype_of(op.result_type)
    here, there = weight_of(op), weight_of(inner)
    direct, last = (here * price(layout, end, dtype) for layout in (start, middle))
    first = there * price(start, middle, dtype)
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
    """The same change of the same value twice   =>   the first one, where it is seen from the second"""
    if not is_layout_change(op):
        return None
    for use in op.operands[0].uses:
        other = use.operation
        # A reorder with quantization parameters may have the same type, but not the same elements.
        alike = other is not op and type(other) is type(op) and is_layout_change(other)
        alike = alike and other.results[0].type == op.results[0].type
        if alike and isinstance(other.parent, Block):
            place = op if other.parent is op.parent else other.parent.find_ancestor_op_in_block(op)
            if place is not None and other.is_before_in_block(place):
                return other.results[0]
    return None


# --- literals -------------------------------------------------------------------------------------------------------


def of_constant(op: Operation) -> SSAValue | None:
    """A change of a literal   =>   the literal in that layout; not of a resource, whose bytes would have to move"""
    owner = op.operands[0].owner if op.operands else None
    if not is_layout_change(op) or not isinstance(owner, Operation):
        return None
    if not isinstance(owner, nn.ConstantOp) and not (is_foreign_constant(owner) and holds_elements(owner)):
        return None
    again = owner.clone()
    again.results[0].name_hint = owner.results[0].name_hint
    insert_after(owner.results[0], again)
    return retype(again.results[0], op.results[0].type)


# --- the table ------------------------------------------------------------------------------------------------------

RULES: tuple[Rule, ...] = (same_type, free_reorder, pads_only, chain, shared, of_constant)
"""Rules that replace one layout op by a value."""

REWRITES: tuple[Rewrite, ...] = (
    hoist_out_of_loop,
    carry_other_layout,
    move_behind_branches,
    reformat_users,
    reformat_producers,
    sink_into_branch,
)
"""Rules that change more than one op; each returns whether it did."""


def rules_under(costs: CostModel) -> tuple[Rule, ...]:
    """The rules, with chains merged where they are no dearer by these costs."""
    return tuple(partial(chain, price=costs.reorder) if rule is chain else rule for rule in RULES)


CODE_MOTION: tuple[Rewrite, ...] = (hoist_out_of_loop, sink_into_branch)
"""Rewrites that leave every op in its Format, so that what a selection decided for its target stays so."""


def fold_reorders(
    module: ModuleOp, rules: Sequence[Rule] = RULES, rewrites: Sequence[Rewrite] = REWRITES
) -> int:
    """Applies the rules in place until none fits; returns how many were applied."""
    applied = 0
    changed = True
    while changed:
        changed = False
        ops = [op for op in module.walk() if isinstance(op, LayoutOnly)]
        changed |= erase_dead(ops)
        for op in ops:
            for rule in rules:
                value = None if op.parent is None else rule(op)
                if value is not None:
                    inputs = list(op.operands)
                    replace_op(op, value)
                    erase_unused(inputs)
                    applied += 1
                    changed = True
        if changed:
            continue
        # Rewrites search for something cheaper, which pays only when nothing is left for the simple rules.
        for op in ops:
            done = next((rule for rule in rewrites if op.parent is not None and rule(op)), None)
            if done is not None:
                applied += 1
                changed = True
            if done is carry_other_layout:
                # It leaves chains. Before they are merged, other rewrites would compare with costs that are too high.
                break
    return applied


@dataclass(frozen=True)
class LayoutFoldReordersPass(LayoutPass):
    """Local rules on reorders, casts and fills of pads."""

    name = "layout-fold-reorders"

    def rewrite(self, module: ModuleOp) -> None:
        """Applies all rules until none fits."""
        fold_reorders(module)
