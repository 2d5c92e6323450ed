"""The options of a decision point: those that agree with its types, and those of one Format at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.dialects import nn
from layout_ir.dialects.layout import format_of
from layout_ir.interfaces import LayoutOption, PadRead
from layout_ir.passes.pad_queries import pad_reads
from layout_ir.passes.selection.options.format_model import FormatOptions
from layout_ir.passes.selection.options.models import options_state_pads
from layout_ir.passes.selection.options.tensor_formats import bound, row_major
from layout_ir.passes.selection.problem.decision_points import DecisionPoint


class OptionsByFormat:
    """The options of decision points alike, of which each follows from one Format of one of their values: asked for
    once per Format, whichever of the points it reaches first."""

    def __init__(self, said: FormatOptions, allowed: Callable[[Iterable[LayoutOption]], list[LayoutOption]]):
        self.allowed = allowed
        self.always = allowed(said.always)
        self.said = said
        self._of: dict[object, list[LayoutOption]] = {}

    def of(self, tensor: int, fmt: Format) -> list[LayoutOption]:
        """The options that follow from `fmt` of tensor number `tensor`."""
        key = tensor, fmt, fmt.names
        options = self._of.get(key)
        if options is None:
            options = self._of[key] = self.allowed(self.said.of(tensor, fmt))
        return options

    def among(self, offered: Sequence[Sequence[Format]], *, first: bool) -> Iterator[LayoutOption]:
        """The options that follow from the Formats offered to each tensor; where they are the `first`, with those of
        row-major tensors, and those that follow from no Format. One may come more than once."""
        if first:
            yield from self.always
        for tensor, value in self.said.tensors:
            if first:
                yield from self.of(tensor, row_major(value))
            for fmt in offered[tensor]:
                yield from self.of(tensor, fmt)


PadReads = Callable[[Operation, int], Sequence[PadRead]]
"""`pad_reads`, of which each answer holds for all options of an op."""


def allowed(
    point: DecisionPoint, given: Iterable[LayoutOption], reads: PadReads | None = None
) -> list[LayoutOption]:
    """The options of `point` that agree with its types, and ask for one number in the pads of an operand."""
    reads = reads or cache(pad_reads)
    return [
        option
        for option in given
        if all(_agrees(value, fmt) for value, fmt in zip(point.defs, option.outs, strict=True))
        and _asks_one_number(point, option, reads)
    ]


def _agrees(value: SSAValue, fmt: Format) -> bool:
    known = format_of(value.type)
    if known is None:
        return True
    ours, theirs = bound(known, value), bound(fmt, value)
    return ours is not None and theirs is not None and ours.same_map(theirs)


def _asks_one_number(point: DecisionPoint, option: LayoutOption, reads: PadReads) -> bool:
    """Whether the op wants one number in the pads of each operand, as a type can promise; our own ops do."""
    if point.is_equality or isinstance(point.op, nn.NNOp) or options_state_pads(point.op):
        return True
    for (user, k), fmt in zip(point.uses, option.ins, strict=True):
        layout = None if fmt is None else bound(fmt, user.operands[k])
        if layout is not None and layout.is_padded:
            padded = layout.padded_dims()
            if len({read.neutral for read in reads(user, k) if read.dim in padded}) > 1:
                return False
    return True
