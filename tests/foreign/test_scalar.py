"""The meaning of scalar ops, held against plain Python: unbounded integers cut to the width, and the math module."""

from __future__ import annotations

import ast
import math as m
import operator
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IndexType, bf16, f16, f32, f64, i1, i8, i32
from xdsl.ir import Operation
from xdsl.utils.test_value import create_ssa_value

import layout_ir
from layout_ir.dialects.upstream.arith_ops import RemainderOp
from layout_ir.dialects.upstream.math_ops import ErfcOp
from layout_ir.foreign.scalar import DIVISIONS, FUNCTIONS, Trap, apply, scalar_of

Number = Any


def _whole(a: int, b: int, rounding: Callable[[Fraction], int]) -> int:
    return rounding(Fraction(a, b))


def _bits(a: int, width: int) -> int:
    return a & ((1 << width) - 1)


def _fma(a: float, b: float, c: float) -> float:
    return a * b + c


def _round(a: float) -> float:
    """Halves away from zero, exactly: `round` of a fraction takes them to even."""
    exact = abs(Fraction(a))
    whole = exact.numerator // exact.denominator
    return m.copysign(whole + (exact - whole >= Fraction(1, 2)), a)


def _div(a: float, b: float) -> float:
    return a / b


def _rsqrt(a: float) -> float:
    return 1 / m.sqrt(a)


# Signed integers as unbounded ones; what they give is cut to the width afterwards.
SIGNED: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.DivSIOp: lambda a, b: _whole(a, b, m.trunc),
    arith.FloorDivSIOp: lambda a, b: _whole(a, b, m.floor),
    arith.CeilDivSIOp: lambda a, b: _whole(a, b, m.ceil),
    arith.RemSIOp: lambda a, b: a - b * _whole(a, b, m.trunc),
    arith.MaxSIOp: lambda a, b: a if a > b else b,
    arith.MinSIOp: lambda a, b: a if a < b else b,
    arith.AndIOp: lambda a, b: a & b,
    arith.OrIOp: lambda a, b: a | b,
    arith.XOrIOp: lambda a, b: a ^ b,
}
# The same bits read as natural numbers.
UNSIGNED: dict[type[Operation], Callable[[int, int], int]] = {
    arith.DivUIOp: lambda a, b: a // b,
    arith.RemUIOp: lambda a, b: a % b,
    arith.MaxUIOp: lambda a, b: a if a > b else b,
    arith.MinUIOp: lambda a, b: a if a < b else b,
    arith.CeilDivUIOp: lambda a, b: -(-a // b),
}
SHIFTS: dict[type[Operation], Callable[[int, int, int], int]] = {
    arith.ShLIOp: lambda a, b, width: a << b,
    arith.ShRSIOp: lambda a, b, width: a >> b,
    arith.ShRUIOp: lambda a, b, width: _bits(a, width) >> b,
}
FLOATS: dict[type[Operation], Callable[..., Any]] = {
    arith.AddfOp: operator.add,
    arith.SubfOp: operator.sub,
    arith.MulfOp: operator.mul,
    arith.DivfOp: _div,
    arith.NegfOp: operator.neg,
    arith.MaximumfOp: max,
    arith.MinimumfOp: min,
    arith.MaxnumfOp: max,
    arith.MinnumfOp: min,
    math.AbsFOp: abs,
    RemainderOp: m.fmod,
    ErfcOp: m.erfc,
    math.AcosOp: m.acos,
    math.AcoshOp: m.acosh,
    math.AsinOp: m.asin,
    math.AsinhOp: m.asinh,
    math.AtanOp: m.atan,
    math.AtanhOp: m.atanh,
    math.Atan2Op: m.atan2,
    math.CbrtOp: m.cbrt,
    math.CeilOp: m.ceil,
    math.CopySignOp: m.copysign,
    math.CosOp: m.cos,
    math.CoshOp: m.cosh,
    math.ErfOp: m.erf,
    math.ExpOp: m.exp,
    math.Exp2Op: m.exp2,
    math.ExpM1Op: m.expm1,
    math.FloorOp: m.floor,
    math.FmaOp: _fma,
    math.LogOp: m.log,
    math.Log10Op: m.log10,
    math.Log1pOp: m.log1p,
    math.Log2Op: m.log2,
    math.PowFOp: m.pow,
    math.RoundOp: _round,
    math.RoundEvenOp: round,
    math.RsqrtOp: _rsqrt,
    math.SinOp: m.sin,
    math.SinhOp: m.sinh,
    math.SqrtOp: m.sqrt,
    math.TanOp: m.tan,
    math.TanhOp: m.tanh,
    math.TruncOp: m.trunc,
}
INTEGERS = (-128, -127, -7, -3, -1, 0, 1, 2, 5, 100, 127)
REALS = (-2.5, -1.5, -0.75, -0.5, 0.0, 0.25, 0.5, 1.0, 2.5, 3.5, 0.49999999999999994, -4503599627370497.0)


def _op(cls: type[Operation], kind: Any, count: int) -> Operation:
    return cls.create(operands=[create_ssa_value(kind)] * count, result_types=[kind])


def _cut(value: int, width: int) -> int:
    value = _bits(value, width)
    return value - (1 << width) if value >> (width - 1) else value


def test_every_function_has_an_oracle():
    assert {*FUNCTIONS, arith.CeilDivUIOp} == {*SIGNED, *UNSIGNED, *SHIFTS, *FLOATS, math.AbsIOp}


@pytest.mark.parametrize("cls", [*SIGNED, *UNSIGNED])
def test_integers(cls: type[Operation]):
    for kind, dtype, width in ((i8, np.int8, 8), (i32, np.int32, 32)):
        op = _op(cls, kind, 2)
        for a in INTEGERS:
            for b in INTEGERS:
                if b == 0 and cls in DIVISIONS:
                    with pytest.raises(Trap):
                        apply(op, [dtype(a), dtype(b)])
                    continue
                if cls in SIGNED:
                    want = SIGNED[cls](a, b)
                    if cls in DIVISIONS and (a, b) == (-(1 << width - 1), -1):
                        with pytest.raises(Trap, match="does not fit"):
                            apply(op, [dtype(a), dtype(b)])
                        continue
                else:
                    want = UNSIGNED[cls](_bits(a, width), _bits(b, width))
                assert apply(op, [dtype(a), dtype(b)]) == _cut(want, width), (a, b)


@pytest.mark.parametrize("cls", SHIFTS)
def test_shifts(cls: type[Operation]):
    for a in INTEGERS:
        for b in range(8):
            assert apply(_op(cls, i8, 2), [np.int8(a), np.int8(b)]) == _cut(SHIFTS[cls](a, b, 8), 8)


def test_absolute_value_of_integers():
    assert [int(apply(_op(math.AbsIOp, i32, 1), [np.int32(a)])) for a in INTEGERS] == [
        abs(a) for a in INTEGERS
    ]


@pytest.mark.parametrize("cls", FLOATS)
def test_floats(cls: type[Operation]):
    count = 3 if cls is math.FmaOp else len(cls.get_irdl_definition().operands)  # pyright: ignore
    op, tried = _op(cls, f64, count), 0
    for k, a in enumerate(REALS):
        args = [a, *(REALS[(k + 3 * j) % len(REALS)] for j in range(1, count))]
        try:
            want = float(FLOATS[cls](*args))
        except (ValueError, ZeroDivisionError, OverflowError):
            continue
        tried += 1
        np.testing.assert_allclose(apply(op, [np.float64(x) for x in args]), want, rtol=1e-12, atol=1e-15)
    assert tried >= 3


def test_rounding_is_exact_next_to_halves_and_among_odd_integers():
    for kind, dtype, values in (
        (f32, np.float32, (0.49999997, 8388609.0, 12582911.0, -0.49999997, -8388609.0, 2.5, -2.5, -0.25)),
        (f64, np.float64, (0.49999999999999994, 4503599627370497.0, 6755399441055743.0, 0.5, -0.5)),
    ):
        for value in values:
            got = apply(_op(math.RoundOp, kind, 1), [dtype(value)])
            want = _round(float(dtype(value)))
            assert (float(got), m.copysign(1, got)) == (want, m.copysign(1, want)), value


def _representable(x: Fraction, mantissa: int) -> float:
    """`x`, no subnormal, rounded to nearest even with `mantissa` bits behind the point."""
    step = Fraction(2) ** (m.frexp(float(x))[1] - 1 - mantissa) if x else Fraction(1)
    return float(round(x / step) * step)


@pytest.mark.parametrize(("kind", "mantissa"), [(f16, 10), (bf16, 7), (f32, 23), (f64, 52)])
def test_fma_rounds_once(kind: Any, mantissa: int):
    generator, dtype = np.random.default_rng(5), np.float64 if kind == f64 else np.float32
    op, twice = _op(math.FmaOp, kind, 3), 0
    for _ in range(2000):
        a, b, c = (
            m.copysign(_representable(Fraction(float(x)), mantissa), x)
            for x in generator.normal(size=3) * [1, 1, 2.0 ** -int(generator.integers(0, 2 * mantissa))]
        )
        want = _representable(Fraction(a) * Fraction(b) + Fraction(c), mantissa)
        if abs(want) > 2.0**-12:
            assert float(apply(op, [dtype(a), dtype(b), dtype(c)])) == want, (a, b, c)
            product = _representable(Fraction(a) * Fraction(b), mantissa)
            twice += _representable(Fraction(product) + Fraction(c), mantissa) != want
    assert twice, "nothing here tells one rounding from two"


def test_an_infinity_outweighs_a_product_that_is_too_large():
    op = _op(math.FmaOp, f64, 3)
    assert apply(op, [np.float64(-1e308), np.float64(1e10), np.float64("inf")]) == m.inf


@pytest.mark.parametrize(("kind", "stored"), [(f16, 0.0999755859375), (bf16, 0.10009765625)])
def test_half_precision_is_rounded_by_every_op(kind: Any, stored: float):
    single = create_ssa_value(f32)
    assert float(apply(arith.TruncFOp(single, kind), [np.float32(0.1)])) == stored
    assert float(apply(arith.ConstantOp(FloatAttr(0.1, kind)), [])) == stored
    assert float(scalar_of(0.1, kind)) == stored
    # 1 + 2^-12 is 1 in either: a sum that stays in single would grow.
    add, total = _op(arith.AddfOp, kind, 2), np.float32(1)
    for _ in range(16):
        total = apply(add, [total, np.float32(2.0**-12)])
    assert total == 1


def test_negative_a_single_is_no_half():
    add = _op(arith.AddfOp, f32, 2)
    assert apply(add, [np.float32(1), np.float32(2.0**-12)]) == 1 + 2.0**-12


def test_the_sign_of_a_zero_decides_between_two():
    for zero, other in ((0.0, -0.0), (-0.0, 0.0)):
        args = [np.float64(zero), np.float64(other)]
        assert not np.signbit(apply(_op(arith.MaximumfOp, f64, 2), args))
        assert np.signbit(apply(_op(arith.MinimumfOp, f64, 2), args))


@pytest.mark.parametrize("cls", [arith.MaximumfOp, arith.MinimumfOp])
def test_nan_wins_over_numbers(cls: type[Operation]):
    assert np.isnan(apply(_op(cls, f64, 2), [np.float64("nan"), np.float64(1)]))


@pytest.mark.parametrize("cls", [arith.MaxnumfOp, arith.MinnumfOp])
def test_numbers_win_over_nan(cls: type[Operation]):
    assert apply(_op(cls, f64, 2), [np.float64("nan"), np.float64(1)]) == 1


@pytest.mark.parametrize("predicate", range(10))
def test_comparisons_of_integers(predicate: int):
    signed = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
    for a in INTEGERS:
        for b in INTEGERS:
            op = arith.CmpiOp(create_ssa_value(i8), create_ssa_value(i8), predicate)
            want = (
                signed[predicate](a, b) if predicate < 6 else signed[predicate - 4](_bits(a, 8), _bits(b, 8))
            )
            assert bool(apply(op, [np.int8(a), np.int8(b)])) is want


@pytest.mark.parametrize("predicate", range(16))
def test_comparisons_of_floats(predicate: int):
    order = (operator.eq, operator.gt, operator.ge, operator.lt, operator.le, operator.ne)
    for a in (-1.0, 0.0, 2.0, m.nan):
        for b in (-1.0, 0.0, 2.0, m.nan):
            unordered = m.isnan(a) or m.isnan(b)
            if predicate in (0, 15):
                want = predicate == 15
            elif predicate in (7, 14):
                want = unordered == (predicate == 14)
            elif predicate < 7:
                want = not unordered and order[predicate - 1](a, b)
            else:
                want = unordered or order[predicate - 8](a, b)
            op = arith.CmpfOp(create_ssa_value(f64), create_ssa_value(f64), predicate)
            assert bool(apply(op, [np.float64(a), np.float64(b)])) is want


@pytest.mark.parametrize("cls", DIVISIONS)
def test_negative_a_divisor_that_is_not_known_is_a_trap(cls: type[Operation]):
    with pytest.raises(Trap):
        apply(_op(cls, i32, 2), [np.int32(1), None])


def test_the_unknown_makes_unknown():
    assert apply(_op(arith.AddfOp, f64, 2), [np.float64(1), None]) is None


def test_the_reference_knows_nothing_of_the_passes():
    root = Path(layout_ir.__file__).parent / "backends" / "reference"
    for path in root.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("layout_ir.passes"), path.name


@pytest.mark.parametrize(
    ("op", "signed"),
    [
        (arith.AddiOp, operator.add),
        (arith.SubiOp, operator.sub),
        (arith.MuliOp, operator.mul),
        (arith.MaxSIOp, max),
        (arith.MinSIOp, min),
    ],
)
def test_the_bit_of_an_i1_is_a_sign(op: type[Operation], signed: Callable[[int, int], int]):
    a, b = create_ssa_value(i1), create_ssa_value(i1)
    scalar = op(a, b)  # pyright: ignore[reportCallIssue]
    for x, y in ((False, False), (False, True), (True, False), (True, True)):
        assert bool(apply(scalar, [np.bool_(x), np.bool_(y)])) == bool(signed(-x, -y) & 1), (x, y)


def test_conversions_of_an_i1():
    one, true = create_ssa_value(i32), np.bool_(True)
    assert apply(arith.ExtSIOp(create_ssa_value(i1), i32), [true]) == -1
    assert apply(arith.ExtUIOp(create_ssa_value(i1), i32), [true]) == 1
    assert apply(arith.SIToFPOp(create_ssa_value(i1), f64), [true]) == -1.0
    assert apply(arith.UIToFPOp(create_ssa_value(i1), f64), [true]) == 1.0
    assert [bool(apply(arith.TruncIOp(one, i1), [np.int32(x)])) for x in (2, 3, -1)] == [False, True, True]
    assert apply(arith.IndexCastOp(create_ssa_value(i1), IndexType()), [true]) == -1
    for value, want in ((-0.5, False), (0.5, False), (-1.0, True), (0.0, False)):
        assert bool(apply(arith.FPToSIOp(create_ssa_value(f32), i1), [np.float32(value)])) is want
    less = arith.CmpiOp(create_ssa_value(i1), create_ssa_value(i1), "slt")
    assert apply(less, [true, np.bool_(False)]) and not apply(less, [np.bool_(False), true])
