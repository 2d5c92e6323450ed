"""Verification of a whole program: an error, with its place, for every op that is wrong.

xDSL's `verify` stops at the first error and attaches the text of the whole module to it, which takes seconds and
megabytes on a real network. This walk verifies each op by itself and goes on after an error. It also
checks what xDSL leaves out: that a value is defined on every way to its use, and that the format of a tensor type fits
its shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.core import ErasedSSAValue
from xdsl.traits import IsTerminator, NoTerminator, SymbolTable
from xdsl.utils.exceptions import DiagnosticException

from layout_ir.diagnostics import Diagnostic, Severity, location_of, name_of_op
from layout_ir.dialects.layout import is_tensor, verify_encoding
from layout_ir.errors import LayoutError, UnforeseenError, show_traceback
from layout_ir.frontends.mlir.block_dominators import Dominators
from layout_ir.rendering import one_line


def verify_module(module: ModuleOp) -> list[Diagnostic]:
    """One error for each op that is wrong, in the order of the program; empty for a right program."""
    return list(_verify_op(module, {}))


@dataclass
class _Place:
    """The place in a region that the walk has reached."""

    block: Block
    to_come: set[Operation]
    """The ops of the block whose results are not defined yet; none where the order of ops means nothing."""
    dominators: Dominators | None
    """The dominators of a region of several blocks; None for one block."""


def _is_graph(op: Operation) -> bool:
    """Whether the body of `op` is a graph, in which ops have no order; of an op that is not known it may be."""
    return op.name in ("builtin.module", "ml_program.subgraph") or isinstance(op, UnregisteredOp)


def _verify_op(op: Operation, places: dict[Region, _Place]) -> Iterator[Diagnostic]:
    """`places` has the regions around `op`."""
    if (reason := _structural_error(op)) is not None:
        yield _error(op, reason)
    else:
        try:
            op.verify_()
            _verify_encodings(op)
        except (DiagnosticException, LayoutError) as error:
            yield _error(_redefinition(op) or op, one_line(error))
        except Exception as error:
            unforeseen = UnforeseenError("its verifier failed", error)
            show_traceback(unforeseen)
            yield _error(op, str(unforeseen))
    for region in op.regions:
        several = region.first_block is not region.last_block
        dominators = Dominators(region) if several else None
        for block in region.blocks:
            if block.is_empty and len(region.blocks) == 1 and not op.has_trait(NoTerminator):
                yield _error(op, "has an empty block where at least a terminator is expected")
            to_come: set[Operation] = set() if _is_graph(op) else set(block.ops)
            places[region] = _Place(block, to_come, dominators)
            yield from _verify_block(block, places)
        places.pop(region, None)


def _redefinition(op: Operation) -> Operation | None:
    """The first op of a symbol table whose name another one has before it, which its verifier names alone."""
    if not op.has_trait(SymbolTable, value_if_unregistered=False):
        return None
    met: set[object] = set()
    for inner in (inner for region in op.regions for block in region.blocks for inner in block.ops):
        name = inner.get_attr_or_prop("sym_name")
        if name is not None and name in met:
            return inner
        met.add(name)
    return None


def _verify_encodings(op: Operation) -> None:
    """Raises LayoutError where the type of a value that `op` makes carries a format that does not fit it.

    xDSL takes any attribute as the encoding of a tensor, and ops of other dialects do not look at it.
    """
    for value in (
        *op.results,
        *(arg for region in op.regions for block in region.blocks for arg in block.args),
    ):
        if is_tensor(value.type):
            verify_encoding(value.type)


def _verify_block(block: Block, places: dict[Region, _Place]) -> Iterator[Diagnostic]:
    assert block.parent is not None
    to_come = places[block.parent].to_come
    for op in block.ops:
        for index, operand in enumerate(op.operands):
            owner = operand.owner
            if isinstance(owner, Operation) and owner.parent is block and owner not in to_come:
                continue  # the usual case, without a call
            reason = _hidden(operand, places)
            if reason is not None:
                yield _error(op, f"operand #{index} does not dominate this use: {_name(operand)} {reason}")
                break
        yield from _verify_op(op, places)
        to_come.discard(op)


def _hidden(value: SSAValue, places: dict[Region, _Place]) -> str | None:
    """Why a value is not defined on every way to the place where the walk is; None where it is."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    if block is None or block.parent is None:
        return None  # erased, or of no program: another error
    place = places.get(block.parent)
    if place is None:
        return "is defined in a region that is not around it"
    if place.dominators is not None and not place.dominators.is_reached(place.block):
        return None  # never runs
    if block is place.block:
        return "is defined later" if owner in place.to_come else None
    if place.dominators is None or place.dominators.dominates(block, place.block):
        return None
    return "is defined in a block that not every way leads through"


def _structural_error(op: Operation) -> str | None:
    """The error about the place of `op` in its block, its operands or its successors; None where it has none."""
    if any(isinstance(operand, ErasedSSAValue) for operand in op.operands):
        return "uses a value that has been erased"
    block = op.parent
    region = None if block is None else block.parent
    if op.successors:
        if block is None or region is None:
            return "has successors but is in no block"
        if block.last_op is not op:
            return "has successors and must end its block"
        if any(successor.parent is not region for successor in op.successors):
            return "branches to a block of another region"
    if block is None or region is None or block.last_op is not op or op.has_trait(IsTerminator):
        return None
    if len(region.blocks) > 1:
        return "ends a block and is no terminator"
    parent = region.parent
    if parent is not None and not parent.has_trait(NoTerminator):
        return f"ends the body of '{parent.name}' and is no terminator"
    return None


def _name(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else "the value"


def _error(op: Operation, reason: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, f"'{name_of_op(op)}' op {reason}", location_of(op))
