"""What a structured op needs in the pads of its operands and leaves in those of its result.

Both follow from its scalar body on the pads (`foreign.symbolic`), as kernels over whole blocks run it:

* A loop that reduces over pads must not notice them: with the neutral number in them, the body gives back the
  accumulators, whatever they are. 0 for sums of products, -inf for a maximum; where no number is proven to do it, no
  pads may be.
* A parallel loop runs over pads and writes what it computes there. An operand that has the loop shows its pads,
  one that lacks it shows an element, which is unknown.
* Where the body would divide an integer by a pad, the divisor's pads must hold 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import pad_number
from layout_ir.dialects.layout import format_of, is_any, is_tensor, layout_of
from layout_ir.errors import LayoutError
from layout_ir.foreign.partial_evaluation import Accumulator, Known, fits, outcome
from layout_ir.foreign.scalar import Trap, Value, compute_dtype, constant_value, scalar_of
from layout_ir.foreign.structured import Structured, element, initial_value, is_window, loop_of, structured
from layout_ir.interfaces import PadRead
from layout_ir.passes.dialect_extensions import PadsLeft


def neutral(s: Structured, loop: int) -> float | None:
    """What pads along the reduction `loop` must hold in every operand that has it; None where nothing is neutral."""
    if any(is_window(expr) and expr.used_dims() & {loop} for exprs, _ in s.tensors for expr in exprs):
        return None
    return next((c for c in _candidates(s) if _is_neutral(s, loop, c)), None)


def _candidates(s: Structured) -> Iterator[float]:
    """Numbers worth trying: neutral elements of the usual ops are among them, whether one is so is proven."""
    yield from (0.0, -math.inf, math.inf, 1.0, -1.0)
    for type in {element(value) for value in s.op.operands}:
        kind = _kind(type)
        if kind is not None and kind.kind in "iu":
            yield from (int(np.iinfo(kind).min), int(np.iinfo(kind).max))


def _kind(type: Attribute) -> np.dtype[Any] | None:
    try:
        return compute_dtype(type)
    except LayoutError:
        return None


def _number(value: float, type: Attribute) -> Value:
    """`value` as a scalar of `type`; None where the type has no such number, or none that are computed here."""
    found = None if _kind(type) is None else scalar_of(value, type)
    return found if found is not None and fits(found, type) else None


def _is_neutral(s: Structured, loop: int, candidate: float) -> bool:
    held: list[Known] = []
    for exprs, value in zip(s.maps, s.op.operands, strict=True):
        has_loop = any(loop_of(expr) == loop for expr in exprs)
        pad = _number(candidate, element(value)) if has_loop else constant_value(value)
        if has_loop and pad is None:
            return False
        held.append(pad)
    accumulators = [Accumulator(k) for k in range(len(s.op.results))]
    try:
        return outcome(s, _started(s, held, accumulators)) == accumulators
    except Trap:
        return False


def _started(s: Structured, held: Sequence[Known], start: Sequence[Known]) -> list[Known]:
    """The arguments of the body, with `start` as the accumulators."""
    if s.init[0] is None:
        return [*held, *start]
    places = {operand: k for k, operand in enumerate(s.init)}
    return [start[places[k]] if k in places else value for k, value in enumerate(held)]


def divisors(s: Structured) -> frozenset[int] | None:
    """Operands whose pads must hold 1 so that the body runs on pads; None where it does not run even then."""
    if _runs(s, frozenset()):
        return frozenset()
    tensors = [k for k, value in enumerate(s.op.operands) if is_tensor(value.type) and k not in s.init]
    for count in range(1, len(tensors) + 1):
        for chosen in ({k} for k in tensors) if count == 1 else [set(tensors)]:
            if _runs(s, frozenset(chosen)):
                return frozenset(chosen)
    return None


def runs_along(s: Structured, loop: int, ones: frozenset[int]) -> bool:
    """Whether the body runs on pads along `loop`, where those of the operands in `ones` hold 1.

    An operand that lacks the loop shows an element, which may be any number.
    """
    having = {k for k, exprs in enumerate(s.maps) if any(loop_of(expr) == loop for expr in exprs)}
    return _runs(s, ones & having)


def _runs(s: Structured, ones: frozenset[int]) -> bool:
    """Whether the body runs where the operands in `ones` hold 1, and the others something unknown."""
    held = [_number(1, element(v)) if k in ones else constant_value(v) for k, v in enumerate(s.op.operands)]
    if s.reductions and s.init[0] is None:
        held.append(None)
    try:
        outcome(s, held)
    except Trap:
        return False
    return True


def reads(op: Operation, operand: int) -> tuple[PadRead, ...]:
    """What the pads of an operand must hold, per dim (see `LayoutOp.pad_reads`)."""
    s = structured(op)
    if s is None or not is_tensor(op.operands[operand].type) or operand in s.init:
        return ()
    ones = divisors(s) or frozenset()
    found: list[PadRead] = []
    for dim, expr in enumerate(s.maps[operand]):
        loop = loop_of(expr)
        if loop in s.reductions:
            needed = neutral(s, loop)
            if needed is not None:
                found.append(PadRead(dim, needed))
        elif operand in ones:
            found.append(PadRead(dim, 1.0))
    return tuple(found)


def leaves(op: Operation) -> float | None:
    """What the type of the result may promise of its pads, given the types of the operands."""
    left = pads_left(op)
    if left is None or any(is_any(result.type) or format_of(result.type) is None for result in op.results):
        return None
    return left([layout_of(result.type) for result in op.results], [held_pad(value) for value in op.operands])


def pads_left(op: Operation) -> PadsLeft | None:
    """What the op leaves in the pads of its results, as a function of their layouts and of what the pads of its
    operands hold; None where the op is not known as loops.

    Where result and initial value (or all tensors) must be of one type, that is nothing unless these pads hold it too.
    """
    s = structured(op)
    if s is None:
        return None
    bound = [k for k in s.init if k is not None]
    if s.one_type:
        bound = [k for k, value in enumerate(op.operands) if is_tensor(value.type)]

    def left(layouts: Sequence[Layout], held: Sequence[float | None]) -> float | None:
        number = written(s, layouts, held)
        return None if number is None or any(held[k] != number for k in bound) else number

    return left


def written(s: Structured, layouts: Sequence[Layout], held: Sequence[float | None]) -> float | None:
    """What the op writes into the pads of its results; None where that is not known or not one number."""
    found: set[float] = set()
    for k, ((exprs, _), layout) in enumerate(zip(s.results(), layouts, strict=True)):
        for dim in layout.padded_dims():
            value = _written_along(s, k, loop_of(exprs[dim]), held)
            if value is None:
                return None
            found.add(value)
    return found.pop() if len(found) == 1 else None


def _written_along(
    s: Structured, result: int, loop: int | None, pads: Sequence[float | None]
) -> float | None:
    """What result number `result` holds in its pads along `loop`, where those of the operands hold `pads`."""
    if loop is None:
        return None
    held: list[Known] = []
    for exprs, value, pad in zip(s.maps, s.op.operands, pads, strict=True):
        pad = pad if any(loop_of(expr) == loop for expr in exprs) else None
        held.append(
            _number(pad, element(value)) if pad is not None else None if exprs else constant_value(value)
        )
    start: list[Known] = []
    if s.reductions:
        first = initial_value(s.op)
        kind = element(s.op.results[result])
        start = [
            held[place] if place is not None else None if first is None else _number(first, kind)
            for place in s.init
        ]
    try:
        values = outcome(s, _started(s, held, start) if s.reductions else held)
    except Trap:
        return None
    value = values[result]
    # A reduction has run any number of times: what is there must stay, of all that it carries.
    if any(x is None or np.isnan(x) for x in (values if s.reductions else [value])):
        return None
    if s.reductions and values != start:
        return None
    return int(value) if np.asarray(value).dtype.kind in "biu" else float(value)


def held_pad(value: SSAValue) -> float | None:
    """What the pads of a value hold, by its type."""
    if not is_tensor(value.type):
        return None
    fmt = format_of(value.type)
    return None if fmt is None else pad_number(fmt.pad)
