"""Scalar ops on edge values, held against what the stock mlir-opt and mlir-runner compute.

Left out is what MLIR gives no meaning: shifts by the width or more, divisions by 0, the one signed quotient that does
not fit, conversions to an integer type that the number is out of, which zero `maxnumf` and `minnumf` take, and bits of
NaNs, except where an op only moves the sign. `powf` of signalling NaNs is left out, too: NaN to the 0 and 1 to the NaN
are 1, but not for C libraries that take such a NaN for an error.

The runner rounds some results of half precision twice, first to f32. Where that is not the nearest number, fractions
decide.
"""

from __future__ import annotations

import itertools
import math as python_math
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import arith, math, test
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Dialect, Operation
from xdsl.parser import Parser

from layout_ir.dialects.upstream import with_additions
from layout_ir.foreign.scalar import CASTS, COMPARISONS, DIVISIONS, FUNCTIONS, PREDICATES, apply
from tests.oracles import mlir
from tests.oracles.mlir_scalar import Case, run_scalars, width

pytestmark = pytest.mark.skipif(mlir.available() is not None, reason=str(mlir.available()))

Bits = NDArray[np.uint64]

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i1", "i8", "i16", "i32", "i64", "index")
MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}

EXACT = (
    "arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.maximumf", "arith.minimumf", "arith.maxnumf",
    "arith.minnumf", "math.ceil", "math.floor", "math.fma", "math.round", "math.roundeven", "math.sqrt", "math.trunc",
)  # fmt: skip
"""Ops of floats whose result IEEE 754 gives to the last bit."""

CASTS_OF_INDICES = ("arith.index_cast", "arith.index_castui")

TWICE = ("math.fma", "arith.sitofp", "arith.uitofp", "arith.truncf")
"""Ops whose results of half precision the runner rounds twice."""

SIGNS = ("arith.negf", "math.absf", "math.copysign")
"""Ops that only move the sign, that of NaNs too."""

ULPS = 4
"""How far transcendental functions may be from libm's, in units in the last place of the type computed in: what NumPy
promises of its own."""


MOST = 3000
"""Tuples of operands that one op is tried on; where there are more, this many are drawn."""


def _float_bits(type: str) -> Bits:
    """Edge values of a float type: 0, subnormals, halves and what is next to them, the largest, infinity, NaNs."""
    m, bits = MANTISSA[type], width(type)
    bias = (1 << bits - m - 2) - 1
    infinity = ((1 << bits - 1 - m) - 1) << m
    one = bias << m
    found = {0, 1, 2, (1 << m) - 1, 1 << m, (1 << m) + 1, infinity - 1, infinity, infinity | 1 << m - 1}
    for exponent in (-2, -1, 0, 1, 2, 3, m - 1, m, m + 1, bits):
        base = bias + exponent << m
        if base < infinity:
            # x.0, x.5 and their neighbours.
            found |= {base, base + 1, base - 1, base | 1 << m - 1, (base | 1 << m - 1) - 1}
    found |= {one + (3 << m - 2), one + (1 << m) + (1 << m - 2), infinity | 1 << m - 1 | 3}
    if type in ("f32", "f64"):
        # Ties, and what lies next to them, of the narrower types.
        for narrow in ("f16", "bf16", "f32"):
            if (step := m - MANTISSA[narrow]) > 0:
                for low in ((1 << step - 1), (1 << step - 1) - 1, (1 << step - 1) + 1, (3 << step - 1), 1):
                    found |= {one + low, one + (5 << m) + low, infinity - (1 << step) + low, (one >> 1) + low}
    positive = np.array(sorted(found), np.uint64)
    return np.concatenate([positive, positive | np.uint64(1 << bits - 1)])


def _integer_bits(type: str) -> Bits:
    bits = width(type)
    if bits == 1:
        return np.array([0, 1], np.uint64)
    half = 1 << bits - 1
    small = [0, 1, 2, 3, 7, 8, 100 % half, 2049 % half, (1 << bits // 2) % half, half - 1, half - 2]
    if bits > 24:
        # Ties of the floats.
        small += [
            (1 << 24) + 1,
            (1 << 24) + 3,
            (1 << 25) + 3,
            0x1010001 % half,
            0x1008000,
            0x1018000,
            0x1018001,
        ]
    if bits > 53:
        small += [(1 << 53) + 1, (1 << 60) + (1 << 36) + 1, (1 << 60) + (1 << 52) + 1, (1 << 60) + (3 << 52)]
    return np.array(sorted({x % (1 << bits) for n in small for x in (n, -n, half ^ n)}), np.uint64)


def _values(type: str, generator: np.random.Generator) -> Bits:
    edge = _float_bits(type) if type in FLOATS else _integer_bits(type)
    if type == "i1":
        return edge
    return np.concatenate([edge, generator.integers(0, 1 << width(type), 40, np.uint64, endpoint=False)])


def _pairs(types: tuple[str, ...], generator: np.random.Generator) -> Bits:
    columns = [_values(type, generator) for type in types]
    if prod(len(column) for column in columns) <= MOST:
        return np.array(list(itertools.product(*columns)), np.uint64).T.reshape(len(types), -1)
    return np.array([generator.choice(column, MOST) for column in columns])


def decoded(bits: Bits, type: str) -> NDArray[Any]:
    """Patterns as what `apply` takes: halves in single, exactly."""
    if type == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if type in FLOATS:
        whole = bits.astype(f"u{width(type) // 8}").view(f"f{width(type) // 8}")
        return whole.astype(np.float32) if type == "f16" else whole
    if type == "i1":
        return bits.astype(np.bool_)
    return bits.astype(f"u{width(type) // 8}").view(f"i{width(type) // 8}")


def _arith() -> Dialect:
    return arith.Arith


def _math() -> Dialect:
    return math.Math


def _op(text: str, operands: tuple[str, ...]) -> Operation:
    context = Context()
    for dialect in (Builtin, with_additions("arith", _arith), with_additions("math", _math), test.Test):
        context.load_dialect(dialect)
    names = "abc"[: len(operands)]
    makers = "\n".join(f'%{n} = "test.op"() : () -> {t}' for n, t in zip(names, operands, strict=True))
    module = Parser(context, f"{makers}\n%r = {text}").parse_module()
    last = module.body.block.last_op
    assert last is not None
    return last


def _defined(
    name: str, operands: tuple[str, ...], result: str, args: list[NDArray[Any]]
) -> NDArray[np.bool_]:
    """Where MLIR says what the op gives."""
    keep = np.ones(args[0].shape, np.bool_)
    kind = operands[0]
    if name.startswith("arith.sh"):
        keep &= (args[1].astype(np.int64) >= 0) & (args[1].astype(np.int64) < width(kind))
    if name in _names(DIVISIONS):
        keep &= args[1] != 0
        if "ui" not in name:
            minus = args[1] if kind == "i1" else args[1] == -1
            least = args[0] if kind == "i1" else args[0] == np.iinfo(args[0].dtype).min
            keep &= ~(minus & least)
    if name in ("arith.fptosi", "arith.fptoui"):
        with np.errstate(invalid="ignore"):
            whole = np.trunc(args[0].astype(np.float64))
        unsigned = name == "arith.fptoui"
        limit = 2.0 ** (width(result) - (not unsigned))
        keep &= (whole >= (0 if unsigned else -limit)) & (whole < limit)
    if name == "math.powf":
        for arg in args:
            keep &= ~np.isnan(arg) | _is_quiet(arg, kind)
    if name in ("arith.maxnumf", "arith.minnumf"):
        keep &= ~((args[0] == 0) & (args[1] == 0))
    return keep


def _is_quiet(array: NDArray[Any], type: str) -> NDArray[np.bool_]:
    bits = array.view(f"u{array.dtype.itemsize}")
    return bits >> (51 if type == "f64" else 22) & 1 == 1


def _names(ops: tuple[type[Operation], ...]) -> set[str]:
    return {op.name for op in ops}


def _plain() -> list[tuple[str, tuple[str, ...], str]]:
    """(text, operand types, result type) of every op of one type, on every type it takes."""
    found: list[tuple[str, tuple[str, ...], str]] = []
    for op in (*FUNCTIONS, arith.CeilDivUIOp):
        floating = op is not math.AbsIOp and (op.name.startswith("math") or op.name.endswith("f"))
        count = len(op.get_irdl_definition().operands)  # pyright: ignore
        names = ", ".join(f"%{n}" for n in "abc"[:count])
        for type in FLOATS if floating else INTEGERS:
            found.append((f"{op.name} {names} : {type}", (type,) * count, type))
    return found


def _comparisons() -> list[tuple[str, tuple[str, ...], str]]:
    integer = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
    floating = (
        "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno",
        "true",
    )  # fmt: skip
    found = [(f"arith.cmpi {p}, %a, %b : {t}", (t, t), "i1") for p in integer for t in INTEGERS]
    found += [(f"{op.name} %a : {t}", (t,), "i1") for op in PREDICATES for t in FLOATS]
    return found + [(f"arith.cmpf {p}, %a, %b : {t}", (t, t), "i1") for p in floating for t in FLOATS]


def _casts() -> list[tuple[str, tuple[str, ...], str]]:
    whole = [t for t in INTEGERS if t != "index"]
    pairs: list[tuple[str, str, str]] = []
    for a, b in itertools.product(whole, whole):
        if width(a) < width(b):
            pairs += [("arith.extsi", a, b), ("arith.extui", a, b), ("arith.trunci", b, a)]
    for a, b in itertools.product(whole, FLOATS):
        pairs += [
            ("arith.sitofp", a, b),
            ("arith.uitofp", a, b),
            ("arith.fptosi", b, a),
            ("arith.fptoui", b, a),
        ]
    for a, b in itertools.product(FLOATS, FLOATS):
        if width(a) < width(b):
            pairs += [("arith.extf", a, b), ("arith.truncf", b, a)]
    for a in whole:
        pairs += [(name, *order) for name in CASTS_OF_INDICES for order in ((a, "index"), ("index", a))]
    return [(f"{name} %a : {a} to {b}", (a,), b) for name, a, b in pairs]


def _selects() -> list[tuple[str, tuple[str, ...], str]]:
    return [(f"arith.select %a, %b, %c : {t}", ("i1", t, t), t) for t in (*FLOATS, *INTEGERS)]


ALL = [*_plain(), *_comparisons(), *_casts(), *_selects()]


@cache
def _executed() -> dict[str, tuple[Bits, Bits]]:
    """Per op text: the bits of its operands, and what the runner made of them."""
    generator = np.random.default_rng(0)
    cases: list[Case] = []
    for text, operands, result in ALL:
        bits = _pairs(operands, generator)
        args = [decoded(row, type) for row, type in zip(bits, operands, strict=True)]
        keep = _defined(text.split()[0], operands, result, args)
        cases.append(Case(text, operands, result, bits[:, keep]))
    results = run_scalars(cases)
    return {case.text: (case.bits, bits) for case, bits in zip(cases, results, strict=True)}


def test_nothing_is_left_out():
    tested = {text.split()[0] for text, _, _ in ALL}
    assert tested == _names((*FUNCTIONS, *CASTS, *COMPARISONS, arith.CeilDivUIOp, arith.SelectOp))


@pytest.mark.parametrize(("text", "operands", "result"), ALL, ids=[text for text, _, _ in ALL])
def test_scalar_ops_compute_what_mlir_computes(text: str, operands: tuple[str, ...], result: str):
    bits, wanted_bits = _executed()[text]
    assert bits.shape[1] >= (1 if "i1" in operands else 20)
    args = [decoded(row, type) for row, type in zip(bits, operands, strict=True)]
    wanted = decoded(wanted_bits, result)
    got = np.asarray(apply(_op(text, operands), args))
    assert got.dtype == wanted.dtype
    name = text.split()[0]
    wrong: NDArray[np.bool_] = got != wanted
    if result in FLOATS:
        both = np.isnan(got) & np.isnan(wanted)
        if name not in EXACT and name.startswith("math"):
            wrong &= ~_near(got, wanted, result)
        wrong = (wrong & ~both) | ((np.signbit(got) != np.signbit(wanted)) & (~both | (name in SIGNS)))
    if name in TWICE and result in ("f16", "bf16"):
        for k in np.flatnonzero(wrong):
            wrong[k] = Fraction(float(got[k])) != _nearest(_exact(name, [arg[k] for arg in args]), result)
    where = np.flatnonzero(wrong)
    shown = [f"{[a[k] for a in args]}: {got[k]!r}, not {wanted[k]!r}" for k in where[:8]]
    assert not where.size, f"{where.size} of {got.size}: " + "; ".join(shown)


def _exact(name: str, args: list[Any]) -> Fraction:
    values = [Fraction(float(a)) if np.asarray(a).dtype.kind == "f" else Fraction(int(a)) for a in args]
    if name == "arith.uitofp" and values[0] < 0:
        values[0] += 1 << 8 * args[0].dtype.itemsize
    return values[0] * values[1] + values[2] if name == "math.fma" else values[0]


def _nearest(x: Fraction, type: str) -> Fraction:
    """The number of a float type nearest to `x`, the even one of two; `x` is far from what overflows."""
    step = Fraction(_smallest(type))
    if x:
        exponent = python_math.frexp(float(x))[1]
        step = max(step, Fraction(2) ** (exponent - 1 - MANTISSA[type]))
    return round(x / step) * step


def _near(got: NDArray[Any], wanted: NDArray[Any], type: str) -> NDArray[np.bool_]:
    m = MANTISSA[type]
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(wanted.astype(np.float64))
        step = np.maximum(np.ldexp(1.0, exponent - 1 - m), _smallest(type))
        return np.abs(got.astype(np.float64) - wanted.astype(np.float64)) <= ULPS * step


def _smallest(type: str) -> float:
    bits = width(type)
    return 2.0 ** (2 - (1 << bits - MANTISSA[type] - 2) - MANTISSA[type])
