"""What an op does with pads: what it needs in those of its operands, and what it leaves in those of its result.

An op of ours says it itself (`LayoutOp`); for others it is registered (`interfaces.PAD_BEHAVIOURS`) or derived by the
extension of their dialect. Answers are checked here once: one that makes no sense is a PassError that names the op.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import cast

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import pad_number
from layout_ir.diagnostics import PassError, name_of_op
from layout_ir.dialects.layout import has_layout, layout_of
from layout_ir.errors import LayoutError, UnforeseenError, unforeseen_as_error
from layout_ir.interfaces import PAD_BEHAVIOURS, LayoutOp, PadBehaviour, PadRead
from layout_ir.passes.dialect_extensions import PadsLeft, extension_of


def pad_behaviour(op: Operation) -> PadBehaviour | None:
    """What is registered for the class of `op` or one it derives from, or what an extension of its dialect derives."""
    behaviour = PAD_BEHAVIOURS.find(op)
    if behaviour is None and (extension := extension_of(op)) is not None:
        return extension.behaviour_of(op)
    return behaviour


def has_pad_behaviour(op: Operation) -> bool:
    """Whether it is known what `op` does with pads, from itself, a registration or an extension."""
    return isinstance(op, LayoutOp) or pad_behaviour(op) is not None


def pad_reads(op: Operation, index: int) -> tuple[PadRead, ...]:
    """What `op` says that the pads of operand `index` must hold. Raises PassError where that makes no sense."""
    operand = op.operands[index]
    behaviour = None if isinstance(op, LayoutOp) else pad_behaviour(op)
    if not has_layout(operand.type) or not (isinstance(op, LayoutOp) or behaviour is not None):
        return ()
    with _saying(op, f"pad_reads of operand {index}"):
        given: object = op.pad_reads(index) if isinstance(op, LayoutOp) else _of(behaviour).reads(op, index)
        reads = tuple(cast("Iterable[object]", given))
        rank = len(operand.type.get_shape())
        for read in reads:
            if not isinstance(read, PadRead):
                raise LayoutError(f"{read!r} is no PadRead")
            if type(read.dim) is not int or not 0 <= read.dim < rank:
                raise LayoutError(f"dim {read.dim!r} is none of the {rank} dims of {operand.type}")
            if not _is_pad(read.neutral):
                raise LayoutError(
                    f"neutral = {read.neutral!r} is no number that pads can be promised to hold"
                )
        return cast("tuple[PadRead, ...]", reads)


def pad_result(op: Operation, pads: Sequence[float | None]) -> float | None:
    """What `op` says that it leaves in the pads of its result, whose operands' pads hold `pads`.

    Raises PassError where that is no number.
    """
    behaviour = None if isinstance(op, LayoutOp) else pad_behaviour(op)
    if not isinstance(op, LayoutOp) and behaviour is None:
        return None
    with _saying(op, "pad_result"):
        held: object = op.pad_result(pads) if isinstance(op, LayoutOp) else _of(behaviour).leaves(op)
        if held is None or (isinstance(held, float) and math.isnan(held)):
            return None
        if not _is_pad(held):
            raise LayoutError(f"{held!r} is no number: pads hold a number, or None where that is not known")
        return cast("float", held)


def _of(behaviour: PadBehaviour | None) -> PadBehaviour:
    assert behaviour is not None
    return behaviour


def _is_pad(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and number == number


@contextmanager
def _saying(op: Operation, question: str) -> Generator[None]:
    """Raises errors of the body as PassErrors that name `question` and the op asked."""
    subject = f"{question} of {name_of_op(op)}"
    try:
        with unforeseen_as_error(subject, PassError):
            yield
    except UnforeseenError as error:
        raise PassError(str(error), op) from error
    except LayoutError as error:
        raise PassError(f"{subject}: {error}", op) from error


def provided_pad(op: Operation) -> float | None:
    """What `op` leaves in the pads of its result, by its own semantics and the types of its operands."""
    if not isinstance(op, LayoutOp):
        return pad_result(op, ())
    return pad_result(op, [held_pad(operand, op.results[0]) for operand in op.operands])


def held_pad(operand: SSAValue, result: SSAValue) -> float | None:
    """What an operand holds at the addresses that are pads of the result, by its type; None if unknown."""
    if not has_layout(operand.type) or not has_layout(result.type):
        return None
    ours, theirs = layout_of(operand.type), layout_of(result.type)
    if ours.shape != theirs.shape or not ours.same_store(theirs):
        return None
    return pad_number(ours.pad)


def needed_pad(op: Operation, index: int) -> float | None:
    """What the pads of operand `index` must hold for `op` to be right; None where it does not matter.

    Raises PassError where it needs two numbers, for a type promises one.
    """
    reads = pad_reads(op, index)
    return _needed(op, index, reads, layout_of(op.operands[index].type)) if reads else None


def needed_in(op: Operation, index: int, layout: Layout) -> float | None:
    """`needed_pad` where the operand lies in `layout`, whatever its type says."""
    return _needed(op, index, pad_reads(op, index), layout) if layout.is_padded else None


def _needed(op: Operation, index: int, reads: Sequence[PadRead], layout: Layout) -> float | None:
    padded = layout.padded_dims()
    needs = [read for read in reads if read.dim in padded]
    if len({read.neutral for read in needs}) > 1:
        said = " and ".join(f"{read.neutral:g} in those of dim {read.dim}" for read in needs)
        raise PassError(
            f"{name_of_op(op)} needs {said} of operand {index}: one tensor's pads hold one number", op
        )
    return needs[0].neutral if needs else None


def pads_left(op: Operation) -> PadsLeft | None:
    """What `op` leaves in pads, as a function that needs no types; None where only `provided_pad` says it."""
    extension = None if PAD_BEHAVIOURS.find(op) is not None else extension_of(op)
    return None if extension is None else extension.pads_left_of(op)
