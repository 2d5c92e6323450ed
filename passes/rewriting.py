"""What all passes share when they rewrite: retyping values, placing reorders, keeping locations and signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast

from xdsl.dialects import arith, tosa
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.dialects.layout import is_tensor, layout_of
from layout_ir.format import pad_number
from layout_ir.interfaces import LayoutOp, PadRead

FOREIGN = ("arith", "linalg", "math", "tensor", "tosa")
"""Dialects of others whose ops are known: their layout behaviour is derived, see `selection.foreign`."""


def retype(value: SSAValue, type: Attribute) -> SSAValue:
    """Gives `value` another type; returns the value that now stands in its place."""
    if value.type == type:
        return value
    hint = value.name_hint
    new = Rewriter.replace_value_with_new_type(value, type)
    new.name_hint = hint
    if isinstance(new.owner, arith.ConstantOp | tosa.ConstOp):
        _retype_literal(new.owner, type)
    return new


def _retype_literal(op: arith.ConstantOp | tosa.ConstOp, type: Attribute) -> None:
    """Literals of these ops repeat the type of the result, encoding included."""
    name = "value" if isinstance(op, arith.ConstantOp) else "values"
    literal = op.properties[name]
    if isinstance(literal, DenseIntOrFPElementsAttr):
        op.properties[name] = DenseIntOrFPElementsAttr(type, literal.data)  # pyright: ignore


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


# Pads ----------------------------------------------------------------------------------------------------------------


def _reads_nothing(op: Operation, operand: int) -> tuple[PadRead, ...]:
    return ()


def _leaves_unknown(op: Operation) -> float | None:
    return None


@dataclass(frozen=True, slots=True)
class PadBehaviour:
    """What ops of a class that is not ours do with pads: the two answers of `LayoutOp`, given from outside.

    `reads(op, operand)` is `pad_reads`; `leaves(op)` is what the result's pads hold, given the types of op's operands
    and the Format of its result (None: unknown).
    """

    reads: Callable[[Operation, int], tuple[PadRead, ...]] = _reads_nothing
    leaves: Callable[[Operation], float | None] = _leaves_unknown


_BEHAVIOURS: dict[type[Operation], PadBehaviour] = {}


def register_pads(op: type[Operation], behaviour: PadBehaviour) -> None:
    """Says what ops of class `op`, which do not implement `LayoutOp`, do with pads."""
    _BEHAVIOURS[op] = behaviour


def pad_behaviour(op: Operation) -> PadBehaviour | None:
    """What is registered for the class of `op` or one it derives from, or derived for ops of known dialects."""
    for cls in type(op).__mro__:
        if cls in _BEHAVIOURS:
            return _BEHAVIOURS[cls]
    return _derived()(op) if op.dialect_name() in FOREIGN else None


@cache
def _derived() -> Callable[[Operation], PadBehaviour | None]:
    # Imported late: the models there use this module, and programs without such ops never need them.
    from layout_ir.passes.selection.foreign.registry import behaviour_of

    return cast("Callable[[Operation], PadBehaviour | None]", behaviour_of)


def states_pads(op: Operation) -> bool:
    """Whether it is known what `op` does with pads."""
    return isinstance(op, LayoutOp) or pad_behaviour(op) is not None


def provided_pad(op: Operation) -> float | None:
    """What `op` leaves in the pads of its result, by its own semantics and the types of its operands."""
    if not isinstance(op, LayoutOp):
        behaviour = pad_behaviour(op)
        return None if behaviour is None else behaviour.leaves(op)
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
    if not is_tensor(operand.type):
        return None
    if isinstance(op, LayoutOp):
        reads = op.pad_reads(index)
    elif (behaviour := pad_behaviour(op)) is not None:
        reads = behaviour.reads(op, index)
    else:
        return None
    padded = layout_of(operand.type).padded_dims() if reads else ()
    needs = [read.neutral for read in reads if read.dim in padded]
    return needs[0] if needs else None
