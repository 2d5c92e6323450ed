"""The results of scalar arith and math ops, on numbers and on NumPy arrays alike; an unknown value is None.

One table serves two users. The pad analysis evaluates a body on the numbers in pads, where an unknown operand is None
and makes unknown whatever depends on it. The reference interpreter evaluates the same body on whole arrays. Functions
that `nn` has as well (integer division, the error function) are those of its table.

Numbers of f16 and bf16 are kept in single precision, where they are exact. Every op rounds its result once, to
nearest even, to its result type, so that a value of half precision between two ops is one of half precision.

An integer division by zero, or one whose quotient does not fit (the least number by -1), does not give a value but ends
the program: `Trap`. So does one by something unknown, and an op that this table does not know, which might do anything.
MLIR gives no meaning to shifts by the width or more, nor to conversions to an integer type that the number is out of;
here the former give 0 (-1 for a negative number shifted right), the latter what NumPy makes of them.
"""

from __future__ import annotations

import math as python_math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    TensorType,
)
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.dialects.tensor import ExtractOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from layout_ir.dialects.layout import element_type_of
from layout_ir.dialects.upstream.arith_ops import IndexCastUnsignedOp, RemainderOp, known_as
from layout_ir.dialects.upstream.math_ops import ErfcOp, IsFiniteOp, IsNaNOp
from layout_ir.elements.element_types import element_type
from layout_ir.elements.elementwise_formulas import divide, erf
from layout_ir.elements.numpy_types import HALVES, computed, narrow, widen
from layout_ir.errors import LayoutError

Value = Any
"""A NumPy scalar or array of the type that `compute_dtype` gives, or None for an unknown value."""

Outer = Callable[[SSAValue], Value]
"""The value of an operand that a body takes from outside of it."""

_CHOOSE = cast("Callable[..., Any]", np.where)


class Trap(Exception):
    """The op would end the program (a division by zero), or might, or has no semantics here."""


def compute_dtype(type: Attribute) -> np.dtype[Any]:
    """The NumPy type in which scalars of `type` are computed: single precision for f16 and bf16.

    Raises LayoutError where there is none.
    """
    known = _INDEX if isinstance(type, IndexType) else element_type_of(type)
    if known is None or not known.storage or known.is_packed:
        raise LayoutError(f"scalars of {type} cannot be evaluated")
    return computed(known.name)


_INDEX = element_type("i64")


def scalar_of(value: float, type: Attribute) -> Value:
    """`value` as a scalar of `type`, rounded if it is a float; None where an integer type does not hold it."""
    kind = compute_dtype(type)
    if kind.kind != "f" and (not python_math.isfinite(value) or value != int(value)):
        return None
    if kind.kind in "iu":
        info = np.iinfo(kind)
        if not info.min <= value <= info.max:
            return None
        return kind.type(value)
    return rounded_to(value, type)


def rounded_to(value: Any, type: Attribute) -> Value:
    """`value`, a number or an array, rounded to the nearest number of `type`; integers wrap around."""
    array = np.asarray(value)
    known = element_type_of(type)
    with np.errstate(all="ignore"):
        if known is not None and known.name in HALVES:
            array = widen(narrow(array, known.name), known.name)
        return array.astype(compute_dtype(type), copy=False)[()]


def _unsigned(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of the operands reinterpreted as unsigned, the result reinterpreted as signed."""

    def run(*args: Any) -> Any:
        kind = np.asarray(args[0]).dtype
        if kind.kind != "i":
            return function(*args)
        wide = np.dtype(f"u{kind.name}")
        return np.asarray(function(*(np.asarray(a).astype(wide) for a in args))).astype(kind)

    return run


def _round(x: Any) -> Any:
    """The nearest integer, halves away from zero."""
    whole = np.trunc(x)
    # The difference is exact, unlike a sum with 0.5.
    return whole + np.copysign(np.abs(np.subtract(x, whole)) >= 0.5, x)


def _rsqrt(x: Any) -> Any:
    return np.asarray(x).dtype.type(1) / np.sqrt(x)


def _ceil_quotient(a: Any, b: Any) -> Any:
    low = np.floor_divide(a, b)
    return low + (np.multiply(low, b) != a)


def _ceil_quotient_unsigned(a: Any, b: Any) -> Any:
    return a // b + (a % b != 0)


def _fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c rounded once: of f32 and narrower, the sum in f64 is rounded to odd, and `apply` rounds that."""
    if np.asarray(a).dtype == np.float64:
        return np.asarray(_FMA(a, b, c))
    product = np.multiply(a, b, dtype=np.float64)  # exact: 24 bits times 24
    total = np.asarray(product + c)
    # What the sum rounded away (Knuth's TwoSum).
    back = total - product
    lost = (product - (total - back)) + (c - back)
    odd = total.view(np.int64) & 1 == 1
    inexact = np.isfinite(total) & (lost != 0) & ~odd
    return _CHOOSE(inexact, np.nextafter(total, np.copysign(np.inf, lost)), total)


def _fma_of_numbers(a: float, b: float, c: float) -> float:
    if python_math.isinf(c) and python_math.isfinite(a) and python_math.isfinite(b):
        return c  # where the product alone is beyond the largest number, too
    if not all(map(python_math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c  # for its sign
    try:
        return float(exact)
    except OverflowError:
        return python_math.inf if exact > 0 else -python_math.inf


_FMA = np.vectorize(_fma_of_numbers, otypes=[np.float64])


def _maximum(a: Any, b: Any) -> Any:
    """The greater one; NaN if either is; of two zeros 0.0 if either is."""
    return _CHOOSE(_zeros(a, b), np.add(a, b), np.maximum(a, b))


def _minimum(a: Any, b: Any) -> Any:
    """The smaller one; NaN if either is; of two zeros -0.0 if either is."""
    return _CHOOSE(_zeros(a, b), np.negative(np.add(np.negative(a), np.negative(b))), np.minimum(a, b))


def _zeros(a: Any, b: Any) -> Any:
    return (np.asarray(a) == 0) & (np.asarray(b) == 0)


FUNCTIONS: dict[type[Operation], Callable[..., Any]] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.NegfOp: np.negative,
    arith.MaximumfOp: _maximum,
    arith.MinimumfOp: _minimum,
    arith.MaxnumfOp: np.fmax,
    arith.MinnumfOp: np.fmin,
    RemainderOp: np.fmod,
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.DivSIOp: partial(divide, np),
    arith.DivUIOp: _unsigned(np.floor_divide),
    arith.FloorDivSIOp: np.floor_divide,
    arith.CeilDivSIOp: _ceil_quotient,
    arith.RemSIOp: np.fmod,
    arith.RemUIOp: _unsigned(np.remainder),
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.MaxUIOp: _unsigned(np.maximum),
    arith.MinUIOp: _unsigned(np.minimum),
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.ShLIOp: np.left_shift,
    arith.ShRSIOp: np.right_shift,
    arith.ShRUIOp: _unsigned(np.right_shift),
    math.AbsFOp: np.abs,
    math.AbsIOp: np.abs,
    math.AcosOp: np.arccos,
    math.AcoshOp: np.arccosh,
    math.AsinOp: np.arcsin,
    math.AsinhOp: np.arcsinh,
    math.AtanOp: np.arctan,
    math.AtanhOp: np.arctanh,
    math.Atan2Op: np.arctan2,
    math.CbrtOp: np.cbrt,
    math.CeilOp: np.ceil,
    math.CopySignOp: np.copysign,
    math.CosOp: np.cos,
    math.CoshOp: np.cosh,
    math.ErfOp: partial(erf, np),
    ErfcOp: np.vectorize(python_math.erfc, otypes=[np.float64]),
    math.ExpOp: np.exp,
    math.Exp2Op: np.exp2,
    math.ExpM1Op: np.expm1,
    math.FloorOp: np.floor,
    math.FmaOp: _fma,
    math.LogOp: np.log,
    math.Log10Op: np.log10,
    math.Log1pOp: np.log1p,
    math.Log2Op: np.log2,
    math.PowFOp: np.power,
    math.RoundOp: _round,
    math.RoundEvenOp: np.rint,
    math.RsqrtOp: _rsqrt,
    math.SinOp: np.sin,
    math.SinhOp: np.sinh,
    math.SqrtOp: np.sqrt,
    math.TanOp: np.tan,
    math.TanhOp: np.tanh,
    math.TruncOp: np.trunc,
}
"""The NumPy function of each op whose operands and result have one type."""

DIVISIONS = (
    arith.DivSIOp,
    arith.DivUIOp,
    arith.FloorDivSIOp,
    arith.CeilDivSIOp,
    arith.CeilDivUIOp,
    arith.RemSIOp,
    arith.RemUIOp,
)
"""Ops that trap where their second operand is 0."""

CASTS: tuple[type[Operation], ...] = (
    arith.ExtFOp,
    arith.TruncFOp,
    arith.ExtSIOp,
    arith.TruncIOp,
    arith.SIToFPOp,
    arith.FPToSIOp,
    arith.FPToUIOp,
    arith.IndexCastOp,
    IndexCastUnsignedOp,
    arith.ExtUIOp,
    arith.UIToFPOp,
)
"""Ops that convert each element to the type of their result."""

PREDICATES: dict[type[Operation], Callable[..., Any]] = {
    IsFiniteOp: np.isfinite,
    IsNaNOp: np.isnan,
}
"""The NumPy function of each question about one float; the result is an i1."""

COMPARISONS: tuple[type[Operation], ...] = (arith.CmpiOp, arith.CmpfOp, *PREDICATES)
"""Ops that compare elements of one type; the result is an i1."""

_UNSIGNED_CASTS = (arith.ExtUIOp, arith.UIToFPOp, IndexCastUnsignedOp)

# Predicates of arith.cmpi: eq ne slt sle sgt sge ult ule ugt uge.
_COMPARE = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
)


def constant(op: arith.ConstantOp) -> Value:
    """The value of a constant that is a single number. Raises Trap for any other."""
    value = op.value
    if isinstance(value, IntegerAttr | FloatAttr):
        return rounded_to(value.value.data, op.result.type)
    raise Trap(f"{op.name} of {op.result.type}")


def constant_value(value: SSAValue) -> Value:
    """The value of a scalar that a constant op defines; None for any other."""
    if isinstance(value.owner, arith.ConstantOp) and not isinstance(value.type, TensorType):
        return constant(value.owner)
    return None


def evaluate(
    block: Block, args: Sequence[Value], *, index: Sequence[Value] = (), outer: Outer = constant_value
) -> list[Value]:
    """What the block yields for these arguments. `index` has the loop indices, None (or left out) where unknown.

    Raises Trap where the block would end the program, or might.
    """
    values: dict[SSAValue, Value] = dict(zip(block.args, args, strict=True))
    last = block.last_op
    for op in block.ops:
        operands = [values[o] if o in values else outer(o) for o in op.operands]
        if op is last:
            return operands
        if isinstance(op, IndexOp):
            k = op.dim.value.data
            values[op.results[0]] = index[k] if k < len(index) else None
        elif isinstance(op, ExtractOp):
            values[op.results[0]] = _extracted(*operands)
        else:
            values[op.results[0]] = apply(op, operands)
    return []


def _extracted(source: Value, *place: Value) -> Value:
    """The elements of a tensor from outside at places that are known. Raises Trap where these may be others."""
    if source is None or any(index is None for index in place):
        raise Trap("tensor.extract at a place that is not known")
    for dim, (index, extent) in enumerate(zip(place, np.shape(source), strict=True)):
        if np.any((np.asarray(index) < 0) | (np.asarray(index) >= extent)):
            raise Trap(f"tensor.extract outside of dim {dim}, whose extent is {extent}")
    return np.asarray(source)[place]


def apply(op: Operation, args: Sequence[Value]) -> Value:
    """The result of one scalar op. Raises Trap where it would end the program, or might."""
    if isinstance(op, DIVISIONS):
        _check_division(op, *args)
    if isinstance(op, arith.ConstantOp):
        return constant(op)
    if isinstance(op, arith.SelectOp):
        condition, then, otherwise = args
        if condition is not None and np.ndim(condition) == 0:
            return then if condition else otherwise
        if condition is None or then is None or otherwise is None:
            return None
        return _CHOOSE(condition, then, otherwise)
    compute = _function(op)
    if any(arg is None for arg in args):
        return None
    if isinstance(op, _SIGNED):
        args = [_minus_one(arg) for arg in args]
    with np.errstate(all="ignore"):
        result = np.asarray(compute(*args))
        if compute_dtype(_type(op)) == np.bool_ and result.dtype.kind in "iu":
            result = result & 1
        return rounded_to(result, _type(op))


def _check_division(op: Operation, dividend: Value, divisor: Value) -> None:
    """Raises Trap where a divisor is 0 or a quotient does not fit, or either may be so."""
    if divisor is None or np.any(np.asarray(divisor) == 0):
        raise Trap(f"{op.name} by what may be 0")
    minus = _minus_one(divisor) == -1
    if not isinstance(op, _SIGNED) or not np.any(minus):
        return
    if dividend is None:
        raise Trap(f"{op.name} by -1 of what may be the least number")
    signed = np.asarray(_minus_one(dividend))
    least = -1 if np.asarray(dividend).dtype == np.bool_ else np.iinfo(signed.dtype).min
    if np.any(minus & (signed == least)):
        raise Trap(f"{op.name} of {least} by -1, which does not fit")


_SIGNED = (
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.DivSIOp,
    arith.FloorDivSIOp,
    arith.CeilDivSIOp,
    arith.RemSIOp,
    arith.MaxSIOp,
    arith.MinSIOp,
    arith.ShLIOp,
    arith.ShRSIOp,
    arith.ExtSIOp,
    arith.SIToFPOp,
    arith.IndexCastOp,
    arith.CmpiOp,
)
"""Ops that read the one bit of an i1 as its sign: 1 is -1 (the result of an unsigned comparison is the same)."""


def _minus_one(x: Any) -> Any:
    """An i1 as a signed number, 0 or -1; anything else unchanged."""
    array = np.asarray(x)
    return -array.astype(np.int8) if array.dtype == np.bool_ else x


def _type(op: Operation) -> Attribute:
    """The type of one element of the result."""
    type = op.results[0].type
    return getattr(type, "element_type", type)


def _function(op: Operation) -> Callable[..., Any]:
    if isinstance(op, arith.CeilDivUIOp):
        return _unsigned(_ceil_quotient_unsigned)
    if isinstance(op, _UNSIGNED_CASTS):
        return _as_unsigned
    if isinstance(op, arith.FPToSIOp):
        return np.trunc
    if isinstance(op, arith.FPToUIOp):
        return _natural
    if type(op) in PREDICATES:
        return PREDICATES[type(op)]
    if isinstance(op, math.FPowIOp):
        return _integer_power
    if isinstance(op, CASTS):
        if known_as(op) is not arith.TruncFOp and isinstance(op, arith.TruncFOp):
            raise Trap(f"{op.name} is known to the nearest even number alone")
        return np.asarray  # `apply` converts
    if isinstance(op, arith.CmpiOp):
        predicate = op.predicate.value.data
        return _COMPARE[predicate] if predicate < 6 else _unsigned(_COMPARE[predicate - 4])
    if isinstance(op, arith.CmpfOp):
        return _float_comparison(op.predicate.value.data)
    known = known_as(op)
    if known not in FUNCTIONS:
        raise Trap(f"{op.name} is not known here")
    return FUNCTIONS[known]


def _integer_power(base: Any, exponent: Any) -> Any:
    """In the type of the base: of a whole exponent NumPy would make double precision."""
    return np.power(base, np.asarray(exponent).astype(np.asarray(base).dtype))


def _natural(x: Any) -> Any:
    return np.trunc(x).astype(np.uint64)


def _as_unsigned(x: Any) -> Any:
    array = np.asarray(x)
    return array.astype(np.dtype(f"u{array.dtype.name}")) if array.dtype.kind == "i" else array


def _float_comparison(predicate: int) -> Callable[..., Any]:
    """The comparison for a predicate of arith.cmpf, 0 to 15: false, six ordered, ord, six unordered, uno, true."""
    order = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)

    def run(a: Any, b: Any) -> Any:
        unordered = np.isnan(a) | np.isnan(b)
        if predicate in (0, 15):
            return np.full_like(unordered, predicate == 15)
        if predicate in (7, 14):
            return unordered if predicate == 14 else ~unordered
        if predicate < 7:
            return order[predicate - 1](a, b) & ~unordered
        return order[predicate - 8](a, b) | unordered

    return run
