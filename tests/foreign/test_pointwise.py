"""Which ops of tosa compute element by element, and how many of their operands they read so."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation

import layout_ir as li
from layout_ir.foreign.pointwise import pointwise_operands

F = "tensor<2x3xf32>"
BYTES = "tensor<2x3xi8>"
ONE = "tensor<1xi8>"
MODES = "scale32 = true, rounding_mode = SINGLE_ROUND, input_unsigned = false, output_unsigned = false"

RESCALE = (
    "%r = tosa.rescale %i, {}, %z, %z {{" + MODES + ", per_channel = {}}}"
    f" : ({BYTES}, {{}}, {ONE}, {ONE}) -> {BYTES}"
)


def _op(text: str) -> Operation:
    args = f"%f : {F}, %i : {BYTES}, %z : {ONE}, %m : tensor<1xi32>, %c : tensor<3xi32>, %s : tensor<3xi8>"
    module = li.parse(f"func.func @f({args}) {{\n  {text}\n  func.return\n}}")
    return next(op for op in module.walk() if op.name.startswith("tosa."))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"%r = tosa.sigmoid %f : ({F}) -> {F}", 1),
        (f"%r = tosa.cast %f : ({F}) -> {BYTES}", 1),
        (
            RESCALE.format("%m, %z", "false", f"tensor<1xi32>, {ONE}"),
            1,
        ),
        (f"%r = tosa.greater %f, %f : ({F}, {F}) -> tensor<2x3xi1>", 2),
        (f"%r = tosa.mul %i, %i, %z : ({BYTES}, {BYTES}, {ONE}) -> tensor<2x3xi32>", 2),
    ],
)
def test_elements_at_one_place_are_those_of_the_first_operands(text: str, count: int):
    assert pointwise_operands(_op(text)) == count


@pytest.mark.parametrize(
    "text",
    [
        f"%r = tosa.mul %f, %f, %z : ({F}, {F}, {ONE}) -> {F}",  # a product: loops
        RESCALE.format("%c, %s", "true", "tensor<3xi32>, tensor<3xi8>"),
        f"%r = tosa.reverse %f {{axis = 1 : i32}} : ({F}) -> {F}",
    ],
)
def test_negative_ops_that_are_loops_or_look_at_a_place(text: str):
    assert pointwise_operands(_op(text)) == 0
