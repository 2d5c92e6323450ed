"""What all passes share when they rewrite: retyping values, placing reorders, keeping locations and signatures."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.dialects.layout import is_tensor, layout_of
from layout_ir.format import pad_number
from layout_ir.interfaces import LayoutOp


def retype(value: SSAValue, type: Attribute) -> SSAValue:
    """Gives `value` another type; returns the value that now stands in its place."""
    if value.type == type:
        return value
    hint = value.name_hint
    new = Rewriter.replace_value_with_new_type(value, type)
    new.name_hint = hint
    return new


def insert_after(value: SSAValue, op: Operation) -> None:
    """Puts `op` right behind the definition of `value`, with its source location."""
    owner = value.owner
    if isinstance(owner, Block):
        point = InsertPoint.at_start(owner)
    else:
        op.location = owner.location
        point = InsertPoint.after(owner)
    Rewriter.insert_op(op, point)


def replace_op(op: Operation, value: SSAValue) -> None:
    """Lets `value` stand for the only result of `op`, and erases `op`."""
    result = op.results[0]
    if value.name_hint is None:
        value.name_hint = result.name_hint
    result.replace_all_uses_with(value)
    op.detach()
    op.erase()


def erase_dead(ops: Sequence[Operation]) -> bool:
    """Erases those of `ops`, last first, whose results nothing uses; whether there were any."""
    erased = False
    for op in reversed(ops):
        if op.parent is not None and op.results and not any(result.uses for result in op.results):
            op.detach()
            op.erase()
            erased = True
    return erased


def update_signatures(module: ModuleOp) -> None:
    """Makes the type of every function with a body that of its arguments and of what it returns."""
    for op in module.walk():
        if isinstance(op, FuncOp) and op.body.blocks:
            op.update_function_type()


def provided_pad(op: Operation) -> float | None:
    """What `op` leaves in the pads of its result, by its own semantics and the types of its operands."""
    if not isinstance(op, LayoutOp):
        return None
    return op.pad_result([_held(operand, op.results[0]) for operand in op.operands])


def _held(operand: SSAValue, result: SSAValue) -> float | None:
    """What an operand holds at the addresses that are pads of the result; None if unknown."""
    if not is_tensor(operand.type) or not is_tensor(result.type):
        return None
    ours, theirs = layout_of(operand.type), layout_of(result.type)
    if ours.shape != theirs.shape or not ours.same_store(theirs):
        return None
    return pad_number(ours.pad)


def needed_pad(op: Operation, index: int) -> float | None:
    """What the pads of operand `index` must hold for `op` to be right; None where it does not matter."""
    operand = op.operands[index]
    if not isinstance(op, LayoutOp) or not is_tensor(operand.type):
        return None
    padded = layout_of(operand.type).padded_dims()
    needs = [read.neutral for read in op.pad_reads(index) if read.dim in padded]
    return needs[0] if needs else None
