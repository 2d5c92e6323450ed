"""How long a buffer lives: whether an op may write to it again, and where it is freed.

A buffer is made by an op of one block and used in that block, in regions of its ops, and in blocks that it dominates.
It is alive at the beginning of a block from which a use can be reached without making the buffer anew. Where a block
holds a buffer that is alive in none of its successors, the buffer is freed at the end of that block; where it is alive
in some of them, it is freed on the edges to the others:

    ^made:                      %b = memref.alloc()
                                cf.br ^head
    ^head:   alive              cf.cond_br %p, ^body, ^exit
    ^body:   alive              ... uses %b ...
                                cf.br ^head
    ^exit:   not alive          memref.dealloc %b       here, as every edge to ^exit comes from who holds it

An edge to a block that is also reached without the buffer gets a block of its own for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.dialects import cf, memref, scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

_RUN_ONCE = (scf.IfOp, scf.ExecuteRegionOp, scf.IndexSwitchOp)
"""Ops each of whose regions runs at most once per run of the op."""


def may_run_again(op: Operation, block: Block) -> bool:
    """Whether `op`, which `block` dominates, may run more than once each time that `block` runs."""
    while True:
        here = op.parent
        if here is block:
            return False
        region = here.parent if here is not None else None
        if here is None or region is None:
            return True
        if region is block.parent:
            return _is_reached_again(here, block)
        around = region.parent
        if not isinstance(around, _RUN_ONCE) or _is_reached_again(here, None):
            return True
        op = around


def _is_reached_again(block: Block, without: Block | None) -> bool:
    """Whether control flow leads from `block` back to it and not through `without`."""
    seen: set[Block] = set()
    pending = [block]
    while pending:
        end = pending.pop().last_op
        for successor in end.successors if end is not None else ():
            if successor is block:
                return True
            if successor is not without and successor not in seen:
                seen.add(successor)
                pending.append(successor)
    return False


def walk_by_dominance(op: Operation) -> Iterator[Operation]:
    """Goes over `op` and the ops in it, each behind those whose results it may use, wherever their blocks are written.

    Blocks that nothing reaches come last.
    """
    yield op
    for region in op.regions:
        # The path by which a depth-first search comes to a block leads through all that dominate it.
        order: dict[Block, None] = {}
        for start in region.blocks:
            pending = [start]
            while pending:
                block = pending.pop()
                if block in order:
                    continue
                order[block] = None
                end = block.last_op
                pending += reversed(end.successors if end is not None else ())
        for block in order:
            for each in block.ops:
                yield from walk_by_dominance(each)


def free(buffer: SSAValue) -> None:
    """Frees a buffer behind its last use, on each way that control may take from where it was made."""
    block = cast(Operation, buffer.owner).parent
    region = block.parent if block is not None else None
    assert block is not None and region is not None
    alive = _alive(buffer, block, region)
    passing: list[Block] = []
    for holder in [b for b in region.blocks if b is block or b in alive]:
        end = holder.last_op
        assert end is not None
        if any(successor in alive for successor in end.successors):
            passing.append(holder)
        else:
            _dealloc(buffer, InsertPoint.before(end))
    for after in [b for b in region.blocks if b not in alive]:
        before = list(dict.fromkeys(after.predecessors()))
        if after is not block and before and all(each in passing for each in before):
            _dealloc(buffer, InsertPoint.at_start(after))
            continue
        for each in before:
            if each in passing:
                _dealloc(buffer, InsertPoint.at_start(_split(each, after)))


def _alive(buffer: SSAValue, block: Block, region: Region) -> set[Block]:
    """The blocks at whose beginning the buffer, which `block` makes, is still used by somebody."""
    alive: set[Block] = set()
    pending = [b for b in _users(buffer, region) if b is not block]
    while pending:
        each = pending.pop()
        if each not in alive:
            alive.add(each)
            pending += [b for b in each.predecessors() if b is not block]
    return alive


def _users(buffer: SSAValue, region: Region) -> Iterator[Block]:
    """The blocks of `region` in which, or in regions of whose ops, the buffer or a view of it is used."""
    for use in buffer.uses:
        op = use.operation
        inner = op.parent
        user = region.find_ancestor_block_in_region(inner) if inner is not None else None
        if user is not None:
            yield user
        if isinstance(op, memref.ExpandShapeOp | memref.CollapseShapeOp):
            yield from _users(op.results[0], region)


def _dealloc(buffer: SSAValue, where: InsertPoint) -> None:
    op = memref.DeallocOp.get(buffer)
    op.location = cast(Operation, buffer.owner).location
    Rewriter.insert_op(op, where)


def _split(before: Block, after: Block) -> Block:
    """A new block on the edges from `before` to `after`, which hands on what they do."""
    region, end = before.parent, before.last_op
    assert region is not None and end is not None
    made = Block(arg_types=[arg.type for arg in after.args])
    made.add_op(cf.BranchOp(after, *made.args))
    region.insert_block_after(made, before)
    end.successors = [made if each is after else each for each in end.successors]
    return made
