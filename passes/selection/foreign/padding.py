"""What a structured op needs in the pads of its operands and leaves in those of its result.

Both follow from running its scalar body on the pads, as kernels over whole blocks do:

* A loop that reduces over pads must not notice them: with the neutral number in them, the body gives back the
  accumulator, whatever it is. 0 for sums of products, -inf for a maximum; where no number does it, no pads may be.
* A parallel loop runs over pads and writes what it computes there. An operand that has the loop shows its pads,
  one that lacks it shows an element, which is unknown.
* Where the body would divide an integer by a pad, the divisor's pads must hold 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from layout_ir.dialects.layout import format_of, is_any, is_tensor, layout_of
from layout_ir.foreign.scalar import Trap, Value, known, number
from layout_ir.foreign.structured import Structured, element, is_window, loop_of, start_of, structured
from layout_ir.format import pad_number
from layout_ir.interfaces import PadRead

_CANDIDATES = (0.0, -math.inf, math.inf, 1.0, -1.0)
_FLOAT_SAMPLES = (-3.5, 1.25, -1e-30, 3e38, -3e38, math.inf, -math.inf)
_INTEGER_SAMPLES = (-5, 0, 3)


def neutral(s: Structured, loop: int) -> float | None:
    """What pads along the reduction `loop` must hold in every operand that has it; None where nothing is neutral."""
    if any(is_window(expr) and expr.used_dims() & {loop} for exprs, _ in s.tensors for expr in exprs):
        return None
    kinds = {element(value) for value in s.op.operands}
    candidates = list(_CANDIDATES)
    for kind in kinds:
        if (limits := _limits(kind)) is not None:
            candidates += limits
    return next((c for c in candidates if _is_neutral(s, loop, c)), None)


def _limits(kind: Attribute) -> tuple[float, float] | None:
    zero = number(0, kind)
    if zero is None or zero.dtype.kind not in "iu":
        return None
    info = np.iinfo(zero.dtype)
    return float(info.min), float(info.max)


def _is_neutral(s: Structured, loop: int, candidate: float) -> bool:
    held: list[Value] = []
    for exprs, value in zip(s.maps, s.op.operands, strict=True):
        has_loop = any(loop_of(expr) == loop for expr in exprs)
        value = number(candidate, element(value)) if has_loop else known(value)
        if has_loop and value is None:
            return False
        held.append(value)
    result = s.op.results[0]
    for sample in _samples(element(result)):
        start = number(sample, element(result))
        try:
            (got, *others) = s.body(_started(s, held, start), ())
        except Trap:
            return False
        if others or got is None or start is None or got != start:
            return False
    return True


def _samples(kind: Attribute) -> Sequence[float]:
    limits = _limits(kind)
    return _FLOAT_SAMPLES if limits is None else (*_INTEGER_SAMPLES, *limits)


def _started(s: Structured, held: Sequence[Value], start: Value) -> list[Value]:
    """The arguments of the body, with `start` as the accumulator."""
    if s.init[0] is None:
        return [*held, start]
    return [start if k == s.init[0] else value for k, value in enumerate(held)]


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


def _runs(s: Structured, ones: frozenset[int]) -> bool:
    """Whether the body runs where the operands in `ones` hold 1, and the others something unknown."""
    held = [number(1, element(v)) if k in ones else known(v) for k, v in enumerate(s.op.operands)]
    if s.reductions and s.init[0] is None:
        held.append(None)
    try:
        s.body(held, ())
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
    """What the type of the result may promise of its pads: what the op writes there.

    Where result and initial value (or all tensors) must be of one type, nothing unless that type promises it too.
    """
    s = structured(op)
    if s is None:
        return None
    left = written(s)
    if left is None:
        return None
    bound = [k for k in s.init if k is not None]
    if s.one_type:
        bound = [k for k, value in enumerate(op.operands) if is_tensor(value.type)]
    return left if all(_held(op.operands[k]) == left for k in bound) else None


def written(s: Structured) -> float | None:
    """What the op writes into the pads of its results; None where that is not known or not one number."""
    found: set[float] = set()
    for k, (exprs, result) in enumerate(s.results()):
        if is_any(result.type) or format_of(result.type) is None:
            return None
        for dim in layout_of(result.type).padded_dims():
            value = _written_along(s, k, loop_of(exprs[dim]))
            if value is None:
                return None
            found.add(value)
    return found.pop() if len(found) == 1 else None


def _written_along(s: Structured, result: int, loop: int | None) -> float | None:
    """What result number `result` holds in its pads along `loop`."""
    if loop is None:
        return None
    held: list[Value] = []
    for exprs, value in zip(s.maps, s.op.operands, strict=True):
        has_loop = any(loop_of(expr) == loop for expr in exprs)
        pad = _held(value) if has_loop else None
        held.append(number(pad, element(value)) if pad is not None else None if exprs else known(value))
    start = None
    if s.reductions:
        place = s.init[result]
        first = start_of(s.op)
        kind = element(s.op.results[result])
        start = held[place] if place is not None else None if first is None else number(first, kind)
    try:
        value = s.body(_started(s, held, start) if s.reductions else held, ())[result]
    except Trap:
        return None
    # A reduction has run any number of times: what is there must stay.
    if value is None or np.isnan(value) or (s.reductions and (start is None or value != start)):
        return None
    return float(value)


def _held(value: SSAValue) -> float | None:
    """What the pads of a value hold, by its type."""
    if not is_tensor(value.type):
        return None
    fmt = format_of(value.type)
    return None if fmt is None else pad_number(fmt.pad)
