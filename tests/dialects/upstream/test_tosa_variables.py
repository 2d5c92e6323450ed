"""Variables of tosa: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from tests.dialects.upstream.round_trips import check_error, check_round_trip

PROGRAM = """
tosa.variable @variable = dense<1.0> : tensor<4xf32>
tosa.variable @declared : tensor<4xf32>
func.func @vars(%x: tensor<4xf32>) -> tensor<4xf32> {
  tosa.variable_write @variable, %x : tensor<4xf32>
  %0 = tosa.variable_read @variable : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


ARGUMENTS = "%t: tensor<2xf32>"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        ("tosa.variable @other = 1.0 : f32", r"a variable is a tensor, not f32"),
        ("tosa.variable @other : f32", r"a variable is a tensor, not f32"),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)
