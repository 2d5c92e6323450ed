"""Ops of complex: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from tests.dialects.upstream.round_trips import check_error, check_round_trip

PROGRAM = """
func.func @powers(%a: complex<f32>, %n: i32) {
  %0 = complex.powi %a, %n : complex<f32>, i32
  %1 = complex.powi %0, %n fastmath<contract> : complex<f32>, i32
  return
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


ARGUMENTS = "%z: complex<f32>"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        (
            "%r = complex.powi %z, %z : complex<f32>, complex<f32>",
            r"complex<f32> should be of base attribute integer",
        ),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)
