"""What ops of other dialects need in pads and leave there follows from their bodies."""

from __future__ import annotations

import math

import pytest
from xdsl.ir import Operation

from layout_ir.dialects.layout import layout_of
from layout_ir.foreign.structured import Structured
from layout_ir.passes.pad_queries import needed_pad, provided_pad
from layout_ir.passes.selection.options.foreign.padding import divisors, held_pad, neutral, written
from tests.passes.selection.options.foreign.ops import blocked_op, generic, structured_of, the_op

ZERO = "%z = arith.constant 0.0 : f32"
ONE = "%o = arith.constant 1.0 : f32"
THREE = "%o = arith.constant 3.0 : f32"


@pytest.mark.parametrize(
    ("body", "pad", "left"),
    [
        (f"{ZERO}\n %m = arith.maximumf %a, %z : f32", "zero", 0.0),
        ("%m = math.exp %a : f32", "zero", 1.0),
        (f"{ONE}\n %m = arith.addf %a, %o : f32", "zero", 1.0),
        (f"{THREE}\n %m = arith.mulf %a, %o : f32", "2", 6.0),
        (f"{ZERO}\n %m = arith.divf %z, %a : f32", "zero", None),
        ("%m = math.log %a : f32", "zero", -math.inf),
        ("%m = math.exp %a : f32", "undef", None),
        ("%m = arith.addf %a, %b : f32", "zero", 0.0),
        (f"{ZERO}\n %c = arith.cmpf oge, %a, %z : f32\n %m = arith.select %c, %a, %z : f32", "zero", 0.0),
    ],
)
def test_pads_follow_from_the_body(body: str, pad: str, left: float | None):
    assert _written(blocked_op(generic(body, "%r", "TYPE", ["%0"]), pad)) == left


def _written(op: Operation) -> float | None:
    layouts = [layout_of(result.type) for result in op.results]
    return written(structured_of(op), layouts, [held_pad(value) for value in op.operands])


@pytest.mark.parametrize(
    ("text", "pad", "left"),
    [
        ("%r = arith.addf %0, %1 : TYPE", "zero", 0.0),
        ("%r = arith.subf %0, %1 : TYPE", "5", 0.0),
        ("%r = arith.divf %0, %1 : TYPE", "zero", None),
        ("%r = math.cos %0 : TYPE", "zero", 1.0),
        ("%r = tosa.add %0, %1 : (TYPE, TYPE) -> TYPE", "2", 4.0),
        ("%r = tosa.reciprocal %0 : (TYPE) -> TYPE", "2", 0.5),
        ("%r = tosa.clamp %0 {min_val = 1.0 : f32, max_val = 6.0 : f32} : (TYPE) -> TYPE", "zero", 1.0),
    ],
)
def test_pads_of_whole_tensor_ops(text: str, pad: str, left: float | None):
    assert _written(blocked_op(text, pad, 2)) == left


def test_one_type_for_all_promises_only_what_all_hold():
    assert provided_pad(blocked_op("%r = math.exp %0 : TYPE")) is None
    assert provided_pad(blocked_op("%r = math.sin %0 : TYPE")) == 0.0


def _reduction(body: str, element: str = "f32") -> Structured:
    text = f"""
func.func @main(%x : tensor<4x17x{element}>, %i : tensor<4x{element}>) {{
  %r = linalg.reduce ins(%x : tensor<4x17x{element}>) outs(%i : tensor<4x{element}>) dimensions = [1]
  (%a : {element}, %b : {element}) {{
    {body}
    linalg.yield %m : {element}
  }}
  func.return
}}"""
    return structured_of(the_op("linalg.reduce", text))


@pytest.mark.parametrize(
    ("body", "element", "number"),
    [
        ("%m = arith.addf %a, %b : f32", "f32", 0.0),
        ("%m = arith.mulf %a, %b : f32", "f32", 1.0),
        ("%m = arith.maximumf %a, %b : f32", "f32", -math.inf),
        ("%m = arith.minimumf %a, %b : f32", "f32", math.inf),
        ("%m = arith.maxsi %a, %b : i32", "i32", -(2.0**31)),
        ("%m = arith.andi %a, %b : i32", "i32", -1.0),
        ("%e = math.exp %a : f32\n %m = arith.addf %e, %b : f32", "f32", -math.inf),
        ("%m = arith.subf %a, %b : f32", "f32", None),
    ],
)
def test_the_neutral_number_is_found(body: str, element: str, number: float | None):
    assert neutral(_reduction(body, element), 1) == number


MATMUL = """
!X = tensor<9x17xf32, #layout.format<(m, k) : [m, k, k:8]>>
!W = tensor<17x6xf32, #layout.format<(k, n) : [k, n, k:8]>>
func.func @main(%x : !X, %w : !W, %i : tensor<9x6xf32>) {
  %r = linalg.matmul ins(%x, %w : !X, !W) outs(%i : tensor<9x6xf32>) -> tensor<9x6xf32>
  func.return
}"""


def test_both_factors_of_a_product_need_zeros():
    op = the_op("linalg.matmul", MATMUL)
    assert [needed_pad(op, k) for k in range(3)] == [0.0, 0.0, None]


def test_integer_division_wants_ones_in_the_divisor():
    text = generic("%m = arith.divsi %a, %b : i32", "%r", "TYPE", ["%0", "%1"], element="i32")
    op = blocked_op(text, "zero", 2, "i32")
    assert divisors(structured_of(op)) == {1}
    assert (needed_pad(op, 0), needed_pad(op, 1)) == (None, 1.0)
