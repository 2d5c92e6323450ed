"""A body on pads: what is said to be neutral, or to be written, is so for every number, by running the body on all.

The oracle interprets the text of the generated bodies itself, on Python integers of eight bits and on floats.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_ir.foreign.structured import Structured
from layout_ir.passes.selection.options.foreign.padding import neutral
from tests.passes.selection.options.foreign.ops import structured_of, the_op


def _reduction(body: str, element: str = "i8", yields: str = "%m") -> Structured:
    """A reduction of %x by `body`, from %a (an element) and %b (the accumulator) to `yields`."""
    return structured_of(
        the_op(
            "linalg.reduce",
            f"""
func.func @main(%x : tensor<4x17x{element}>, %i : tensor<4x{element}>) {{
  %r = linalg.reduce ins(%x : tensor<4x17x{element}>) outs(%i : tensor<4x{element}>) dimensions = [1]
  (%a : {element}, %b : {element}) {{
    {body}
    linalg.yield {yields} : {element}
  }}
  func.return
}}""",
        )
    )


# Bodies of i8, on all 256 accumulators ------------------------------------------------------------------------------


def _signed(x: int) -> int:
    return (x & 0xFF) - 256 if x & 0x80 else x & 0xFF


def _unsigned(x: int) -> int:
    return x & 0xFF


Binary = Callable[[int, int], int]
BINARY: dict[str, Binary] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "maxsi": max,
    "minsi": min,
    "maxui": lambda a, b: max(_unsigned(a), _unsigned(b)),
    "minui": lambda a, b: min(_unsigned(a), _unsigned(b)),
}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "slt": lambda a, b: a < b,
    "sge": lambda a, b: a >= b,
    "sgt": lambda a, b: a > b,
    "sle": lambda a, b: a <= b,
    "ult": lambda a, b: _unsigned(a) < _unsigned(b),
    "ugt": lambda a, b: _unsigned(a) > _unsigned(b),
    "uge": lambda a, b: _unsigned(a) >= _unsigned(b),
}
Step = tuple[str, int, int, int, int]
"""An op (of BINARY, or `select` and a predicate) and the numbers of its operands among the values so far."""


@st.composite
def bodies(draw: st.DrawFn) -> tuple[list[int], list[Step]]:
    """Constants, and ops on the element (0), the accumulator (1), the constants and the results before."""
    constants = draw(st.lists(st.sampled_from([-128, -1, 0, 1, 2, 100, 127]), max_size=2))
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 4))):
        known = 2 + len(constants) + number
        # The last values and the accumulator are the likely operands, or most bodies would not use it.
        pick = st.one_of(st.just(1), st.just(known - 1), st.integers(0, known - 1))
        name = draw(st.sampled_from([*BINARY, *(f"select {p}" for p in COMPARE)]))
        steps.append((name, draw(pick), draw(pick), draw(pick), draw(pick)))
    return constants, steps


def _text(constants: list[int], steps: list[Step]) -> str:
    names = ["%a", "%b", *(f"%k{k}" for k in range(len(constants)))]
    lines = [f"%k{k} = arith.constant {value} : i8" for k, value in enumerate(constants)]
    for k, (name, *operands) in enumerate(steps):
        p, q, r, t = (names[o] for o in operands)
        if name in BINARY:
            lines.append(f"%v{k} = arith.{name} {p}, {q} : i8")
        else:
            lines.append(f"%c{k} = arith.cmpi {name.split()[1]}, {p}, {q} : i8")
            lines.append(f"%v{k} = arith.select %c{k}, {r}, {t} : i8")
        names.append(f"%v{k}")
    return "\n".join(lines)


def _value(constants: list[int], steps: list[Step], element: int, accumulator: int) -> int:
    values = [element, accumulator, *constants]
    for name, p, q, r, t in steps:
        if name in BINARY:
            values.append(_signed(BINARY[name](values[p], values[q])))
        else:
            values.append(values[r] if COMPARE[name.split()[1]](values[p], values[q]) else values[t])
    return values[-1]


@settings(max_examples=300, deadline=None)
@given(bodies())
def test_a_number_that_is_claimed_neutral_is_so_for_every_accumulator(body: tuple[list[int], list[Step]]):
    constants, steps = body
    found = neutral(_reduction(_text(constants, steps), yields=f"%v{len(steps) - 1}"), 1)
    if found is not None:
        kept = [x for x in range(-128, 128) if _value(constants, steps, int(found), x) == x]
        assert len(kept) == 256


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ("%m = arith.addi %b, %a : i8", 0),
        ("%m = arith.subi %b, %a : i8", 0),
        ("%m = arith.muli %a, %b : i8", 1),
        ("%m = arith.maxsi %a, %b : i8", -128),
        ("%m = arith.minsi %a, %b : i8", 127),
        ("%m = arith.maxui %a, %b : i8", 0),
        ("%m = arith.minui %a, %b : i8", -1),
        ("%m = arith.andi %a, %b : i8", -1),
        ("%m = arith.xori %a, %b : i8", 0),
        ("%s = arith.muli %a, %a : i8\n %m = arith.ori %s, %b : i8", 0),
        ("%c = arith.cmpi sgt, %a, %b : i8\n %m = arith.select %c, %a, %b : i8", -128),
        ("%c = arith.cmpi ule, %b, %a : i8\n %m = arith.select %c, %b, %a : i8", -1),
        (
            """
            %u = arith.extsi %a : i8 to i32
            %v = arith.extsi %b : i8 to i32
            %s = arith.addi %u, %v : i32
            %m = arith.trunci %s : i32 to i8""",
            0,
        ),
    ],
)
def test_neutral_numbers_of_integers(body: str, number: int):
    assert neutral(_reduction(body), 1) == number


@pytest.mark.parametrize(
    "body",
    [
        "%m = arith.subi %a, %b : i8",
        "%c = arith.cmpi sge, %a, %b : i8\n %m = arith.select %c, %a, %a : i8",
        "%t = arith.constant 2 : i8\n %h = arith.divsi %b, %t : i8\n %m = arith.addi %a, %h : i8",
    ],
)
def test_negative_bodies_that_change_the_accumulator(body: str):
    assert neutral(_reduction(body), 1) is None


def test_negative_a_body_that_halves_its_accumulator_between_two_numbers():
    """Seven samples outside of the range say that 0 is neutral; it is not."""
    body = """
    %low = arith.constant 100.0 : f32
    %high = arith.constant 1000.0 : f32
    %half = arith.constant 0.5 : f32
    %c = arith.cmpf ogt, %b, %low : f32
    %d = arith.cmpf olt, %b, %high : f32
    %e = arith.andi %c, %d : i1
    %h = arith.mulf %b, %half : f32
    %s = arith.select %e, %h, %b : f32
    %m = arith.addf %s, %a : f32"""
    assert neutral(_reduction(body, "f32"), 1) is None


# Floats --------------------------------------------------------------------------------------------------------------

_EDGES = [0.0, -0.0, 1.0, -1.0, 3e38, -3e38, 1e-45, -1e-45, math.inf, -math.inf, math.nan, 0.1, -2.5]


def _f32(x: float) -> float:
    return struct.unpack("f", struct.pack("f", x))[0]


def _maximum(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)


def _minimum(a: float, b: float) -> float:
    return -_maximum(-a, -b)


@pytest.mark.parametrize(
    ("op", "number", "by_hand"),
    [
        ("addf", 0.0, operator.add),
        ("mulf", 1.0, operator.mul),
        ("maximumf", -math.inf, _maximum),
        ("minimumf", math.inf, _minimum),
    ],
)
def test_neutral_numbers_of_floats(op: str, number: float, by_hand: Callable[[float, float], float]):
    assert neutral(_reduction(f"%m = arith.{op} %a, %b : f32", "f32"), 1) == number
    for accumulator in map(_f32, _EDGES):
        left = by_hand(number, accumulator)
        assert left == accumulator or (math.isnan(left) and math.isnan(accumulator))


@pytest.mark.parametrize("op", ["maxnumf", "minnumf"])
def test_negative_an_infinity_replaces_a_nan_where_nans_are_passed_over(op: str):
    assert neutral(_reduction(f"%m = arith.{op} %a, %b : f32", "f32"), 1) is None


def test_negative_a_sum_whose_accumulator_shows_the_sign_of_its_zero():
    body = """
    %s = arith.addf %a, %b : f32
    %o = arith.constant 1.0 : f32
    %t = math.copysign %o, %b : f32
    %m = arith.mulf %s, %t : f32"""
    assert neutral(_reduction(body, "f32"), 1) is None


def test_two_accumulators_are_both_kept():
    """The greatest element and where it is: -inf is never greater, not than NaN either."""
    text = """
#m = affine_map<(a, b) -> (a, b)>
#r = affine_map<(a, b) -> (a)>
func.func @main(%x : tensor<4x17xf32>, %i : tensor<4xf32>, %j : tensor<4xi32>) {
  %r, %s = linalg.generic {indexing_maps = [#m, #r, #r], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x17xf32>) outs(%i, %j : tensor<4xf32>, tensor<4xi32>) {
  ^bb0(%a : f32, %b : f32, %k : i32):
    %n = linalg.index 1 : index
    %p = arith.index_cast %n : index to i32
    %c = arith.cmpf PREDICATE, %a, %b : f32
    %m = arith.select %c, %a, %b : f32
    %q = arith.select %c, %p, %k : i32
    linalg.yield %m, %q : f32, i32
  } -> tensor<4xf32>, tensor<4xi32>
  func.return
}"""

    def found(predicate: str) -> float | None:
        return neutral(structured_of(the_op("linalg.generic", text.replace("PREDICATE", predicate))), 1)

    assert found("ogt") == -math.inf
    assert found("oge") is None  # an accumulator of -inf would take the place of the pad
    assert found("ugt") is None  # as would one that is NaN
