"""Partial evaluation of a scalar body: some arguments are known numbers, some unknown, some the accumulators.

The analysis of pads concludes from one evaluation what holds in every run of a program. So a result counts as known
only if it is the same on every machine and for every value of the unknown arguments:

* An accumulator stays a symbol, `Accumulator`. A table lists the ops that return it unchanged: combining ops with their
  neutral element, casts that lose nothing and the casts that undo them, selects that choose it in either case. Any
  other op makes it unknown.
* A zero stands for both zeros: the body is evaluated with either sign, and a result is known only if both agree.
* The result of a function that libraries approximate is known only at the limits that all of them get right
  (exp(0) = 1, but not exp(1)); a result in f16 or bf16 only if it is exact.

Numbers compare as in arithmetic, so 0 equals -0. Adding +0 turns -0 into +0; it is neutral only where the accumulator
is summed and has no other use, since then no more than the sign of a zero differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, Float16Type, IndexType
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from layout_ir.dialects.upstream.arith_ops import known_as
from layout_ir.foreign.scalar import FUNCTIONS, Trap, Value, apply, compute_dtype, constant_value
from layout_ir.foreign.structured import Structured, element

_ZEROS = 8
"""Zeros that are tried with either sign, 2^8 evaluations of a body; any further zero counts as unknown."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The accumulator of result number `result` before the body, possibly in the type of lossless casts."""

    result: int
    types: tuple[Attribute, ...] = ()
    """The type before each lossless cast that is not undone yet, outermost last."""


Known = Any
"""A number, an `Accumulator`, or None for an unknown value."""


def outcome(s: Structured, held: Sequence[Known]) -> list[Known]:
    """The results of the body of `s`: a number, an `Accumulator` or None (unknown) each.

    `held` has one value per operand, then the accumulator of a reduction without an initial operand.

    Raises Trap where the body would end the program, or might.
    """
    zeros = [k for k, value in enumerate(held) if _is_zero(value)]
    if len(zeros) > _ZEROS:
        held = [None if k in zeros[_ZEROS:] else value for k, value in enumerate(held)]
    signed = [(value, -value) if k in zeros[:_ZEROS] else (value,) for k, value in enumerate(held)]
    first, *others = (_run(s, arguments) for arguments in product(*signed))
    return [
        value if all(_agree(value, other[k]) for other in others) else None for k, value in enumerate(first)
    ]


def _is_zero(value: Known) -> bool:
    return _is_float(value) and value == 0


def _agree(left: Known, right: Known) -> bool:
    if left is None or right is None or isinstance(left, Accumulator) or isinstance(right, Accumulator):
        return left is right or left == right
    return bool(left == right)


def _run(s: Structured, arguments: Sequence[Known]) -> list[Known]:
    """`outcome` for one sign of each zero."""
    if s.block is not None:
        return _run_block(s.block, arguments)
    if s.function is None:
        return s.body(arguments, ())  # copies what it is given
    type = element(s.op.results[0])
    return [_result(s.function, s.op, type, arguments, lambda args: s.body(args, ())[0], alone=True)]


def _run_block(block: Block, arguments: Sequence[Known]) -> list[Known]:
    values: dict[SSAValue, Known] = dict(zip(block.args, arguments, strict=True))
    summed = {
        argument.result: _is_only_summed(value)
        for value, argument in zip(block.args, arguments, strict=True)
        if isinstance(argument, Accumulator)
    }
    for op in block.ops:
        operands = [values[o] if o in values else _outer(o) for o in op.operands]
        if op is block.last_op:
            return operands
        if len(op.results) != 1:
            raise Trap(f"{op.name} is not known here")
        (result,) = op.results
        if isinstance(op, IndexOp):
            values[result] = None
            continue
        alone = all(summed[o.result] for o in operands if isinstance(o, Accumulator))
        compute = partial(apply, op)
        values[result] = _result(known_as(op), op, result.type, operands, compute, alone=alone)
    return []


def _outer(value: SSAValue) -> Value:
    """The value of an operand from outside of a body, where it is a constant that its type holds exactly."""
    number = constant_value(value)
    return number if number is None or fits(number, value.type) else None


def _is_only_summed(accumulator: SSAValue) -> bool:
    """Whether the only use of an accumulator is a chain of sums and casts that ends in the yield."""
    value = accumulator
    while True:
        uses = list(value.uses)
        if len(uses) != 1:
            return False
        op, place = uses[0].operation, uses[0].index
        if op is (op.parent.last_op if op.parent is not None else None):
            return True
        first_only = isinstance(op, arith.SubfOp) and place == 0
        if not (
            isinstance(op, arith.AddfOp | arith.ExtFOp | arith.TruncFOp)
            or first_only
            or (isinstance(op, math.FmaOp) and place == 2)
        ):
            return False
        value = op.results[0]


def _result(
    function: type[Operation],
    op: Operation,
    type: Attribute,
    operands: Sequence[Known],
    compute: Callable[[list[Value]], Value],
    *,
    alone: bool,
) -> Known:
    """The result of `op`, which applies `function` to its operands. Raises Trap where it would end the program, or
    might."""
    unknown = [None if isinstance(value, Accumulator) else value for value in operands]
    value = compute(unknown)  # raises where what is unknown might end the program
    if any(isinstance(operand, Accumulator) for operand in operands):
        return _kept(function, op, type, operands, alone)
    return value if value is not None and _is_certain(function, type, unknown, value) else None


def _is_float(value: Known) -> bool:
    return isinstance(value, np.floating)


# Numbers -------------------------------------------------------------------------------------------------------------

_EXACT = frozenset(
    {
        arith.AddfOp,
        arith.SubfOp,
        arith.MulfOp,
        arith.DivfOp,
        arith.NegfOp,
        arith.MaximumfOp,
        arith.MinimumfOp,
        arith.MaxnumfOp,
        arith.MinnumfOp,
        math.AbsFOp,
        math.CeilOp,
        math.CopySignOp,
        math.FloorOp,
        math.RoundOp,
        math.RoundEvenOp,
        math.SqrtOp,
        math.TruncOp,
    }
)
"""Functions of floats whose result IEEE 754 defines to the last bit."""

_LIMITS = frozenset({0.0, 1.0, -1.0, float("inf"), float("-inf")})
"""Arguments and results of which every library is exact."""

_SHIFTS = (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp)


def _is_certain(function: type[Operation], type: Attribute, args: Sequence[Value], value: Value) -> bool:
    """Whether `value`, computed from `args`, is the same on every machine and with every library."""
    if function is math.FPowIOp:
        return float(value) in _LIMITS and float(args[0]) in _LIMITS
    if function in FUNCTIONS and _is_float(value) and function not in _EXACT:
        return float(value) in _LIMITS and all(float(arg) in _LIMITS for arg in args)
    if function is arith.FPToSIOp:
        info = np.iinfo(np.int8 if value.dtype == np.bool_ else value.dtype)
        return bool(np.isfinite(args[0])) and info.min <= int(args[0]) <= info.max
    if function in _SHIFTS:
        return 0 <= int(args[1]) < (1 if value.dtype == np.bool_ else 8 * value.dtype.itemsize)
    return fits(value, type)


def fits(value: Value, type: Attribute) -> bool:
    """Whether `value`, computed in single precision, is exact in `type`; True for types other than f16 and bf16."""
    if not _is_float(value) or np.isnan(value):
        return True
    if isinstance(type, Float16Type):
        with np.errstate(over="ignore"):
            return bool(np.float16(value) == value)
    if isinstance(type, BFloat16Type):
        return int(np.float32(value).view(np.uint32)) & 0xFFFF == 0
    return True


# The accumulator -----------------------------------------------------------------------------------------------------

_WIDENINGS = (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp)
_NARROWINGS = (arith.TruncFOp, arith.TruncIOp)


def _kept(
    function: type[Operation],
    op: Operation,
    type: Attribute,
    operands: Sequence[Known],
    alone: bool,
) -> Known:
    """The result of an op with an accumulator among its operands: the accumulator, a number, or None."""
    if function is arith.SelectOp:
        return _selected(operands)
    if function in (arith.CmpiOp, arith.CmpfOp):
        assert isinstance(op, arith.CmpiOp | arith.CmpfOp)
        return _compared(op, operands)
    first = operands[0]
    if isinstance(first, Accumulator) and len(operands) == 1:
        if isinstance(op, _WIDENINGS):
            return Accumulator(first.result, (*first.types, op.operands[0].type))
        if isinstance(op, _NARROWINGS) and first.types and first.types[-1] == type:
            return Accumulator(first.result, first.types[:-1])
        return None
    if function is math.FmaOp:
        return _fused(operands, alone)
    if len(operands) != 2:
        return None
    second = operands[1]
    if isinstance(first, Accumulator) and not isinstance(second, Accumulator):
        return first if _is_neutral(function, second, type, alone) else None
    if isinstance(second, Accumulator) and not isinstance(first, Accumulator) and function in _COMMUTING:
        return second if _is_neutral(function, first, type, alone) else None
    return None


def _selected(operands: Sequence[Known]) -> Known:
    condition, then, otherwise = operands
    if condition is None or isinstance(condition, Accumulator):
        alike = isinstance(then, Accumulator) and then == otherwise
        return then if alike else None
    return then if condition else otherwise


def _fused(operands: Sequence[Known], alone: bool) -> Accumulator | None:
    a, b, c = operands
    factors = [x for x in (a, b) if x is not None and not isinstance(x, Accumulator)]
    if not isinstance(c, Accumulator) or len(factors) != 2:
        return None
    with np.errstate(all="ignore"):
        zero = any(x == 0 for x in factors) and all(np.isfinite(x) for x in factors)
    return c if zero and alone else None


_COMMUTING = frozenset(
    {
        arith.AddfOp,
        arith.MulfOp,
        arith.MaximumfOp,
        arith.MinimumfOp,
        arith.MaxnumfOp,
        arith.MinnumfOp,
        arith.AddiOp,
        arith.MuliOp,
        arith.MaxSIOp,
        arith.MinSIOp,
        arith.MaxUIOp,
        arith.MinUIOp,
        arith.AndIOp,
        arith.OrIOp,
        arith.XOrIOp,
    }
)


def _is_neutral(function: type[Operation], value: Value, type: Attribute, alone: bool) -> bool:
    """Whether `function` of any number and `value` is that number. `alone`: the sign of a zero may be lost."""
    if value is None:
        return False
    if _is_float(value):
        if function in (arith.AddfOp, arith.SubfOp):
            # -0 added, or +0 subtracted, changes nothing at all.
            strict = bool(np.signbit(value)) == (function is arith.AddfOp)
            return bool(value == 0) and (strict or alone)
        wanted = _FLOAT_NEUTRALS.get(function)
        return wanted is not None and bool(value == wanted or (np.isnan(value) and np.isnan(wanted)))
    wanted = _integer_neutral(function, type)
    return wanted is not None and int(value) == wanted


_FLOAT_NEUTRALS: dict[type[Operation], float] = {
    arith.MulfOp: 1.0,
    arith.DivfOp: 1.0,
    arith.MaximumfOp: float("-inf"),
    arith.MinimumfOp: float("inf"),
    # These two take the other operand for a NaN: an infinity would replace an accumulator that is one.
    arith.MaxnumfOp: float("nan"),
    arith.MinnumfOp: float("nan"),
}

_ZERO_NEUTRAL = (
    arith.AddiOp,
    arith.SubiOp,
    arith.OrIOp,
    arith.XOrIOp,
    arith.ShLIOp,
    arith.ShRSIOp,
    arith.ShRUIOp,
)
_ONE_NEUTRAL = (
    arith.MuliOp,
    arith.DivSIOp,
    arith.DivUIOp,
    arith.FloorDivSIOp,
    arith.CeilDivSIOp,
    arith.CeilDivUIOp,
)
_SIGNED_DIVISIONS = (arith.DivSIOp, arith.FloorDivSIOp, arith.CeilDivSIOp)


def _integer_neutral(function: type[Operation], type: Attribute) -> int | None:
    """The neutral element of `function`, as a number of the NumPy type of `type`; None where it has none."""
    if function in _ZERO_NEUTRAL:
        return 0
    one_bit = compute_dtype(type) == np.bool_
    if function in _ONE_NEUTRAL:
        # The one bit of an i1 that is set is -1 where it is divided by.
        return None if one_bit and function in _SIGNED_DIVISIONS else 1
    extremes = _extremes(type)
    if extremes is None:
        return None
    low, high, unsigned_high = extremes
    return {
        arith.MaxSIOp: low,
        arith.MinSIOp: high,
        arith.MaxUIOp: 0,
        arith.MinUIOp: unsigned_high,
        arith.AndIOp: unsigned_high,
    }.get(cast("Any", function))


def _extremes(type: Attribute) -> tuple[int, int, int] | None:
    """The least and the greatest number of an integer type, and the one whose bits are all set, as NumPy numbers."""
    if isinstance(type, IndexType):
        return None  # as wide as the machine has it
    kind = compute_dtype(type)
    if kind == np.bool_:
        return 1, 0, 1  # an i1 is 0 or -1, which is the bit that is set
    info = np.iinfo(kind)
    return int(info.min), int(info.max), -1 if kind.kind == "i" else int(info.max)


# Predicates of arith.cmpi: eq ne slt sle sgt sge ult ule ugt uge; of arith.cmpf: false oeq ogt oge olt ole one ord
# ueq ugt uge ult ule une uno true.
_MIRRORED_INTEGER = (0, 1, 4, 5, 2, 3, 8, 9, 6, 7)
_MIRRORED_FLOAT = (0, 1, 4, 5, 2, 3, 6, 7, 8, 11, 12, 9, 10, 13, 14, 15)


def _compared(op: arith.CmpiOp | arith.CmpfOp, operands: Sequence[Known]) -> Value:
    """The result of comparing an accumulator with an extreme number, where it is the same for every accumulator."""
    left, right = operands
    predicate = op.predicate.value.data
    if isinstance(left, Accumulator):
        left, right = right, left
        mirrored = _MIRRORED_INTEGER if isinstance(op, arith.CmpiOp) else _MIRRORED_FLOAT
        predicate = mirrored[predicate]
    if left is None or isinstance(left, Accumulator):
        return None
    # From here: `left predicate accumulator`.
    if isinstance(op, arith.CmpfOp):
        always: dict[int, bool] = {0: False, 15: True}
        if left == float("-inf"):
            always |= {2: False, 12: True}
        elif left == float("inf"):
            always |= {4: False, 10: True}
    else:
        extremes = _extremes(op.operands[0].type)
        if extremes is None:
            return None
        low, high, unsigned_high = extremes
        number = int(left)
        always = {}
        if number == low:
            always |= {4: False, 3: True}
        if number == high:
            always |= {2: False, 5: True}
        if number == 0:
            always |= {8: False, 7: True}
        if number == unsigned_high:
            always |= {6: False, 9: True}
    return np.bool_(always[predicate]) if predicate in always else None
