"""Code motion of reorders across the borders of loops and branches.

A reorder of what a loop does not change goes in front of it. One that only one branch needs goes into that branch. One
at both ends of a loop-carried value goes around the loop, if the loop is taken to run often enough. One that every
branch ends with goes behind the branches.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Block, Operation, SSAValue

from layout_ir.dialects.layout import ReorderOp, dtype_of, layout_of
from layout_ir.dialects.layout.types import encoding_of
from layout_ir.passes.folding.cost_changes import LayoutOnly, change_ns, cost_of, is_layout_change
from layout_ir.passes.rewriting import retype
from layout_ir.passes.selection.problem.frequency import weight_of


def hoist_out_of_loop(op: Operation) -> bool:
    """loop { reorder x }   =>   reorder x; loop { }, where x comes from outside and the loop runs more than once"""
    if not is_layout_change(op) or op.parent is None:
        return False
    assert isinstance(op, LayoutOnly)
    loop = op.parent_op()
    if loop is None or loop.name not in ("scf.for", "scf.while") or weight_of(op) <= weight_of(loop):
        return False
    if _is_inside(op.input, loop) or loop.parent is None:
        return False
    op.detach()
    loop.parent.insert_op_before(op, loop)
    return True


def sink_into_branch(op: Operation) -> bool:
    """reorder x; if { uses } else { }   =>   if { reorder x; uses } else { }, where that runs no more often"""
    if not is_layout_change(op) or op.parent is None:
        return False
    users = [use.operation for use in op.results[0].uses]
    places = [_ancestor(user, op.parent) for user in users]
    branch = places[0] if len(set(places)) == 1 else None
    if branch is None or branch.name != "scf.if":
        return False
    blocks = [region.block for region in branch.regions if region.blocks]
    homes = {block for block in blocks for user in users if _ancestor(user, block) is not None}
    if len(homes) != 1:
        return False
    (block,) = homes
    inner = {_ancestor(user, block) for user in users}
    first = next(candidate for candidate in block.ops if candidate in inner)
    if weight_of(first) > weight_of(op):
        return False
    op.detach()
    block.insert_op_before(op, first)
    return True


def carry_other_layout(op: Operation) -> bool:
    """for (a: A) { reorder a to B ... reorder b to A; yield }   =>   reorder to B; for (a: B) { ... }; reorder to A

    Where the changes of layout that are left, around the loop and in it, cost less than those that go. `op` is the
    reorder of the loop-carried value.
    """
    if not isinstance(op, ReorderOp) or not is_layout_change(op):
        return False
    argument = op.input
    block = argument.owner
    loop = block.parent_op() if isinstance(block, Block) else None
    if loop is None or loop.name != "scf.for" or not isinstance(block, Block) or loop.parent is None:
        return False
    k = next(number for number, arg in enumerate(block.args) if arg is argument) - 1
    yielding = block.last_op
    if k < 0 or yielding is None:
        return False
    start, yielded, result = loop.operands[3 + k], yielding.operands[k], loop.results[k]
    old, new = argument.type, op.result.type
    gone = [use.operation for use in argument.uses if is_layout_change(use.operation)]
    last = yielded.owner
    source = yielded
    if isinstance(last, LayoutOnly) and is_layout_change(last) and last.parent is block:
        source = last.input
        if all(use.operation is yielding for use in yielded.uses) and last not in gone:
            gone.append(last)
    dtype = dtype_of(old)
    within, around = weight_of(op), weight_of(loop)

    def cost(value: Attribute, wanted: Attribute) -> int:
        return change_ns(layout_of(value), layout_of(wanted), dtype)

    starts = [start]
    while isinstance(owner := starts[-1].owner, LayoutOnly) and is_layout_change(owner):
        starts.append(owner.input)
    nearest = min(starts, key=lambda value: cost(value.type, new))
    kept = {other.results[0].type for other in gone if other is not last} - {new}
    if any(use.operation not in gone for use in argument.uses):
        kept.add(old)
    after = around * (cost(nearest.type, new) + (cost(new, old) if result.uses else 0))
    after += within * (cost(source.type, new) + sum(cost(new, type) for type in kept))
    if after >= sum(cost_of(other) for other in gone):
        return False
    # What is put in here and what was there before fold as chains.
    loop.operands[3 + k] = _inserted(ReorderOp(nearest, encoding_of(new)), loop)
    yielding.operands[k] = _inserted(ReorderOp(yielded, encoding_of(new)), yielding)
    assert block.first_op is not None
    inside = _inserted(ReorderOp(retype(argument, new), encoding_of(old)), block.first_op)
    _replace_other_uses(inside)
    behind = ReorderOp(retype(result, new), encoding_of(old))
    behind.location = loop.location
    loop.parent.insert_op_after(behind, loop)
    _replace_other_uses(behind.result)
    return True


def _inserted(op: ReorderOp, before: Operation) -> SSAValue:
    assert before.parent is not None
    op.location = before.location
    before.parent.insert_op_before(op, before)
    return op.result


def _replace_other_uses(value: SSAValue) -> None:
    """Lets `value`, the result of a reorder, stand for its operand everywhere else."""
    reorder = value.owner
    assert isinstance(reorder, ReorderOp)
    for use in list(reorder.input.uses):
        if use.operation is not reorder:
            use.operation.operands[use.index] = value


def move_behind_branches(op: Operation) -> bool:
    """if { yield reorder a } else { yield reorder b }   =>   reorder (if { yield a } else { yield b })"""
    if not isinstance(op, ReorderOp) or not is_layout_change(op):
        return False
    uses = list(op.result.uses)
    branch = op.parent_op()
    if len(uses) != 1 or branch is None or branch.name != "scf.if" or uses[0].operation.name != "scf.yield":
        return False
    k = uses[0].index
    ends = [region.block.last_op for region in branch.regions if region.blocks]
    moves: list[ReorderOp] = []
    for end in ends:
        if end is None or k >= len(end.operands):
            return False
        made = end.operands[k].owner
        if not isinstance(made, ReorderOp) or not is_layout_change(made) or len(list(made.result.uses)) != 1:
            return False
        if made.parent_op() is not branch or made.source_type != op.source_type:
            return False
        moves.append(made)
    if len(moves) < 2 or branch.parent is None:
        return False
    for made, end in zip(moves, ends, strict=True):
        assert end is not None
        end.operands[k] = made.input
        made.detach()
    result = retype(branch.results[k], op.source_type)
    behind = ReorderOp(result, encoding_of(op.result_type))
    behind.location = op.location
    branch.parent.insert_op_after(behind, branch)
    _replace_other_uses(behind.result)
    for made in moves:
        made.erase()
    return True


def _is_inside(value: SSAValue, op: Operation) -> bool:
    """Whether `value` is defined in a region of `op`."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None:
        parent = block.parent_op()
        if parent is op:
            return True
        block = None if parent is None else parent.parent
    return False


def _ancestor(op: Operation, block: Block) -> Operation | None:
    """The op of `block` that is `op` or contains it; None where `block` does neither."""
    current: Operation | None = op
    while current is not None and current.parent is not block:
        current = current.parent_op()
    return current
