"""What a decision point does with pads: what it needs in those of its operands, what it leaves in its results'.

It is asked once per option, because the option says which tensors have pads at all. The answers come from the ops
themselves (`LayoutOp`, `PadBehaviour`, the policies of a carried option, the image of a view); here they are brought
into one form, a `PadRule`, whose terms are pad values instead of types:

    a number      the pads hold it
    None          the pads hold anything

These are what a type can promise. A third one between them, "some finite number", would only pay where it is
multiplied by zero pads; but no op promises it, for an element that is read into a pad may be infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import pad_number
from layout_ir.dialects import nn
from layout_ir.dialects.layout import CastOp, FillPadsOp, ReorderOp, ViewOp, format_of, with_format
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOp
from layout_ir.passes.dialect_extensions import PadsLeft
from layout_ir.passes.pad_queries import (
    needed_in,
    needed_pad,
    pad_behaviour,
    pad_reads,
    pad_result,
    pads_left,
    provided_pad,
)
from layout_ir.passes.selection.options.models import options_state_pads
from layout_ir.passes.selection.problem.selection import Decision

PadValue = float | None
PadValues = tuple[PadValue, ...]


@dataclass(frozen=True, slots=True)
class PadRule:
    """What one option does with pads. Operands and results are those that the op node of the problem names, in order.

    `asks` has per operand what its pads must hold, `seen` whether they show in a result, and `leaves` maps the pad
    values of the operands to those of the results. `agrees`: operands and results are one tensor, so that whatever is
    asked of the results is asked of the operands; with no operands, the pads of the results are whatever is asked for.
    """

    asks: PadValues
    seen: tuple[bool, ...]
    leaves: Callable[[PadValues], PadValues]
    agrees: bool = False


@dataclass(frozen=True, slots=True)
class OptionTensors:
    """The tensors of one option: values, Formats and layouts of the operands, then of the results."""

    values: tuple[SSAValue, ...]
    formats: tuple[Format, ...]
    layouts: tuple[Layout, ...]
    operands: int

    @property
    def results(self) -> int:
        """How many of the tensors are results."""
        return len(self.values) - self.operands


def rule_of(decision: Decision, option: int, ends: OptionTensors) -> PadRule:
    """The rule of option number `option` of `decision`, whose tensors are `ends`."""
    op, ins = decision.point.op, ends.layouts[: ends.operands]
    fixed = [promised(value) for value in ends.values[ends.operands :]]
    if decision.point.is_equality:
        given = [] if decision.point.declared is None else [format_of(decision.point.declared)]
        given += [format_of(value.type) for value in ends.values[ends.operands :]]
        known = next((fmt for fmt in given if fmt is not None), None)
        return (
            _equality(ends) if known is None else _constant(ends, pad_number_of(known), pad_number_of(known))
        )
    if isinstance(op, nn.ConstantOp):
        return _equality(ends)
    if isinstance(op, ReorderOp | CastOp | FillPadsOp):
        # A fill writes pads, and so does a reorder that has to move elements anyway, to convert them.
        writes = isinstance(op, FillPadsOp) or op.source_type.element_type != op.result_type.element_type
        held = fixed[0]
        if held is not _UNDECIDED:
            return _constant(ends, None if writes else held, held)
        return _constant(ends, None, None) if writes else _equality(ends)
    if options_state_pads(op):
        carried = decision.options[option]
        named = [fmt for fmt in carried.ins if fmt is not None]
        asks = [
            pad_number_of(fmt) if layout.is_padded else None for fmt, layout in zip(named, ins, strict=True)
        ]
        left = tuple(pad_number_of(fmt) for fmt in carried.outs)
        rule = PadRule(tuple(asks), (False,) * len(ins), lambda states: left)
    elif isinstance(op, ViewOp):
        rule = _view(op, ends)
    elif isinstance(op, LayoutOp):
        rule = _layout_op(op, [k for _, k in decision.uses], ends)
    elif pad_behaviour(op) is not None:
        rule = _foreign(op, [k for _, k in decision.uses], ends)
    else:
        rule = _constant(ends, None, None)
    return _fixed(rule, fixed)


# What a type promises ------------------------------------------------------------------------------------------------


class Undecided(Enum):
    """Stands for what a type promises where the type is still to be chosen."""

    UNDECIDED = auto()


_UNDECIDED = Undecided.UNDECIDED


def promised(value: SSAValue) -> PadValue | Undecided:
    """What the type of `value` promises of pads; `Undecided.UNDECIDED` where it is to be chosen."""
    fmt = format_of(value.type)
    return _UNDECIDED if fmt is None else pad_number_of(fmt)


def pad_number_of(fmt: Format) -> PadValue:
    """The number that `fmt` promises of pads; None where it promises none, or NaN, which equals nothing."""
    number = pad_number(fmt.pad)
    return None if number is not None and math.isnan(number) else number


def _fixed(rule: PadRule, fixed: Sequence[PadValue | Undecided]) -> PadRule:
    """`rule`, where the pads of results whose type is known hold what that promises."""
    if all(held is _UNDECIDED for held in fixed):
        return rule

    def leaves(states: PadValues) -> PadValues:
        computed = rule.leaves(states)
        return tuple(c if f is _UNDECIDED else f for c, f in zip(computed, fixed, strict=True))

    seen = rule.seen if any(held is _UNDECIDED for held in fixed) else (False,) * len(rule.seen)
    return PadRule(rule.asks, seen, leaves)


# One function per sort of op -----------------------------------------------------------------------------------------


def _constant(ends: OptionTensors, asked: PadValue, left: PadValue) -> PadRule:
    asks = tuple(asked if layout.is_padded else None for layout in ends.layouts[: ends.operands])
    return PadRule(asks, (False,) * ends.operands, lambda states: (left,) * ends.results)


def _equality(ends: OptionTensors) -> PadRule:
    nothing: PadValues = (None,) * ends.operands
    return PadRule(nothing, (True,) * ends.operands, lambda states: (None,) * ends.results, agrees=True)


def _view(op: ViewOp, ends: OptionTensors) -> PadRule:
    layout, shape = ends.formats[0], ends.layouts[0].shape

    def leaves(states: PadValues) -> PadValues:
        try:
            return (pad_number_of(op.view(_padded(layout, states[0]).bind(shape)).format),)
        except LayoutError:
            return (None,)

    return PadRule((None,), (ends.layouts[0].is_padded,), cache(leaves))


def _layout_op(op: LayoutOp, operands: Sequence[int], ends: OptionTensors) -> PadRule:
    asks: list[PadValue] = []
    for k, layout in zip(operands, ends.layouts, strict=False):
        padded = layout.padded_dims() if layout.is_padded else ()
        reads = pad_reads(op, k) if padded else ()
        asks.append(next((read.neutral for read in reads if read.dim in padded), None))
    result = ends.layouts[ends.operands]
    if not result.is_padded:
        return PadRule(tuple(asks), (False,) * ends.operands, lambda states: (None,))
    blind = pad_result(op, [None] * len(op.operands))
    if blind is not None:
        return PadRule(tuple(asks), (False,) * ends.operands, lambda states: (blind,))
    seen = tuple(
        layout.shape == result.shape and layout.same_store(result) for layout in ends.layouts[: ends.operands]
    )

    def leaves(states: PadValues) -> PadValues:
        held: list[float | None] = [None] * len(op.operands)
        for k, state, shows in zip(operands, states, seen, strict=True):
            held[k] = state if shows else None
        return (pad_result(op, held),)

    return PadRule(tuple(asks), seen, cache(leaves))


def _foreign(op: Operation, operands: Sequence[int], ends: OptionTensors) -> PadRule:
    """The rule of an op of another dialect. Where its behaviour is known by the types of its tensors only, each
    question is put to a typed copy."""
    left = pads_left(op)
    if left is not None:
        return _derived(op, operands, ends, left)
    formats = ends.formats[ends.operands :]

    def leaves(states: PadValues) -> PadValues:
        ins = [_padded(fmt, held) for fmt, held in zip(ends.formats, states, strict=False)]
        return (_ask(op, operands, (*ins, *(fmt.with_pad("undef") for fmt in formats)), provided_pad),) * len(
            formats
        )

    asks = tuple(
        _ask(op, operands, ends.formats, lambda copy, k=k: needed_pad(copy, k))
        if ends.layouts[position].is_padded
        else None
        for position, k in enumerate(operands)
    )
    return PadRule(asks, tuple(layout.is_padded for layout in ends.layouts[: ends.operands]), cache(leaves))


def _derived(op: Operation, operands: Sequence[int], ends: OptionTensors, left: PadsLeft) -> PadRule:
    """The rule of an op of which it is known what it leaves in pads whatever its types."""
    layouts = ends.layouts[ends.operands :]
    padded = tuple(layout.is_padded for layout in ends.layouts[: ends.operands])

    def leaves(states: PadValues) -> PadValues:
        held: list[float | None] = [None] * len(op.operands)
        for k, state in zip(operands, states, strict=True):
            held[k] = state
        return (left(layouts, held),) * len(layouts)

    asks = tuple(needed_in(op, k, layout) for k, layout in zip(operands, ends.layouts, strict=False))
    return PadRule(asks, padded, cache(leaves))


def _ask(
    op: Operation,
    operands: Sequence[int],
    formats: Sequence[Format],
    question: Callable[[Operation], PadValue],
) -> PadValue:
    stand_ins = Block(
        arg_types=[with_format(op.operands[k].type, fmt) for k, fmt in zip(operands, formats, strict=False)]
    ).args
    copy = op.clone()
    for k, stand_in in zip(operands, stand_ins, strict=True):
        copy.operands[k] = stand_in
    types: list[Attribute] = [
        with_format(result.type, fmt)
        for result, fmt in zip(op.results, formats[len(operands) :], strict=True)
    ]
    for result, type in zip(tuple(copy.results), types, strict=True):
        Rewriter.replace_value_with_new_type(result, type)
    try:
        held = question(copy)
    finally:
        copy.erase(safe_erase=False)
    return None if held is not None and math.isnan(held) else held


def _padded(fmt: Format, held: PadValue) -> Format:
    return fmt.with_pad("undef" if held is None else held)
