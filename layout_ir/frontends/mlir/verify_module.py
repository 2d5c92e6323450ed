"""Verification of a whole program: an error, with its place, for every op that is wrong.

xDSL's `verify` stops at the first error and attaches the text of the whole module to it, which takes seconds and
megabytes on a real network. This walk verifies each op by itself and goes on after an error. It also
checks what xDSL leaves out: that a value is defined before it is used, and that the format of a tensor type fits its
shape.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.ir.core import ErasedSSAValue
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import DiagnosticException

from layout_ir.diagnostics import Diagnostic, Severity, location_of, name_of_op
from layout_ir.dialects.layout import is_tensor, verify_encoding
from layout_ir.errors import LayoutError, UnforeseenError, show_traceback
from layout_ir.rendering import one_line


def verify_module(module: ModuleOp) -> list[Diagnostic]:
    """One error for each op that is wrong, in the order of the program; empty for a right program."""
    return list(_verify_op(module))


def _verify_op(op: Operation) -> Iterator[Diagnostic]:
    if (reason := _structural_error(op)) is not None:
        yield _error(op, reason)
    else:
        try:
            op.verify_()
            _verify_encodings(op)
        except (DiagnosticException, LayoutError) as error:
            yield _error(op, one_line(error))
        except Exception as error:
            unforeseen = UnforeseenError("its verifier failed", error)
            show_traceback(unforeseen)
            yield _error(op, str(unforeseen))
    # The body of a module is a graph: its ops have no order.
    ordered = not isinstance(op, ModuleOp)
    for region in op.regions:
        for block in region.blocks:
            if block.is_empty and len(region.blocks) == 1 and not op.has_trait(NoTerminator):
                yield _error(op, "has an empty block where at least a terminator is expected")
            yield from _verify_block(block, ordered)


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


def _verify_block(block: Block, ordered: bool) -> Iterator[Diagnostic]:
    to_come: set[Operation] = set(block.ops) if ordered else set()
    for op in block.ops:
        early = ((k, v) for k, v in enumerate(op.operands) if isinstance(v, OpResult) and v.op in to_come)
        for index, operand in early:
            yield _error(
                op, f"operand #{index} does not dominate this use: {_name(operand)} is defined later"
            )
            break
        yield from _verify_op(op)
        to_come.discard(op)


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
