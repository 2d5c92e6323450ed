"""`affine.parallel`: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from tests.dialects.upstream.round_trips import check_error, check_round_trip

PROGRAM = """
func.func @plain(%m: memref<100x100xf32>) {
  affine.parallel (%i, %j) = (0, 0) to (100, 100) step (10, 5) {
    %v = affine.load %m[%i, %j] : memref<100x100xf32>
    affine.store %v, %m[%j, %i] : memref<100x100xf32>
  }
  affine.parallel () = () to () {
  }
  return
}
func.func @bounds(%b: index, %c: index) {
  affine.parallel (%i, %j, %k) = (max(%b, %c), 0, symbol(%c) * 2)
      to (%b + 4, min(%b, %c, 5), %b floordiv 2) step (1, 2, 3) {
    affine.parallel (%l) = (%i - 8) to (min(%j mod 3 + symbol(%b), 100)) {
    }
  } {note = 1 : i64}
  return
}
func.func @reduced(%m: memref<100xf32>, %n: index) -> f32 {
  %0:2 = affine.parallel (%i) = (symbol(%n)) to (100) reduce ("maximumf", "addf") -> (f32, f32) {
    %v = affine.load %m[%i] : memref<100xf32>
    affine.yield %v, %v : f32, f32
  }
  return %0#1 : f32
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


ARGUMENTS = "%n: index, %x: f32"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        ("affine.parallel (%i) = (0, 0) to (4) {\n}", r"groups \[1, 1\] of the 2 bounds for 1 loops"),
        ("affine.parallel (%i, %j) = (0, 0) to (4) {\n}", r"groups \[1\] of the 1 bounds for 2 loops"),
        ("affine.parallel (%i) = (0) to (4) step (0) {\n}", r"steps are numbers from 1 on"),
        ("affine.parallel (%i) = (0) to (4) step (1, 1) {\n}", r"for 2 loops: each takes one or more"),
        ("affine.parallel (%i) = (min(0, %n)) to (4) {\n}", r"[Ee]xpected"),
        (
            'affine.parallel (%i) = (0) to (4) reduce ("addg") -> (f32) {\naffine.yield %x : f32\n}',
            r"'addg' is none of addf, ",
        ),
        (
            'affine.parallel (%i) = (0) to (4) reduce ("addf", "mulf") -> (f32) {\naffine.yield %x : f32\n}',
            r"2 reductions for 1 results",
        ),
        (
            '%r = affine.parallel (%i) = (0) to (4) reduce ("addf") -> (f32) {\n}',
            r"has to yield values of the types of the results",
        ),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)
