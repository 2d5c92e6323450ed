"""Shapes and constants of vector: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from tests.dialects.upstream.round_trips import check_error, check_round_trip

PROGRAM = """
func.func @print(%f: f32, %w: vector<4xf32>, %s: vector<[4]xi32>) {
  vector.print %f : f32
  vector.print %w : vector<4xf32> punctuation <comma>
  vector.print punctuation <no_punctuation>
  vector.print str "one\\0Atwo"
  vector.print %s : vector<[4]xi32>
  return
}
func.func @shape2(%v: vector<2x4xf32>, %f: f32, %i: index, %w: vector<4xf32>) {
  %0 = vector.broadcast %f : f32 to vector<4xf32>
  %2 = vector.shape_cast %v : vector<2x4xf32> to vector<8xf32>
  %3 = vector.transpose %v, [1, 0] : vector<2x4xf32> to vector<4x2xf32>
  %4 = vector.extract %v[1] : vector<4xf32> from vector<2x4xf32>
  %5 = vector.extract %v[1, %i] : f32 from vector<2x4xf32>
  %6 = vector.insert %f, %v[1, %i] : f32 into vector<2x4xf32>
  %7 = vector.insert %w, %v[0] : vector<4xf32> into vector<2x4xf32>
  %8 = vector.extract_strided_slice %v {offsets = [0, 1], sizes = [1, 2], strides = [1, 1]} : vector<2x4xf32>
      to vector<1x2xf32>
  %9 = vector.insert_strided_slice %w, %v {offsets = [0, 0], strides = [1]} : vector<4xf32> into
      vector<2x4xf32>
  %10 = vector.shuffle %w, %w [0, 1, 4, 5] : vector<4xf32>, vector<4xf32>
  %11 = vector.interleave %w, %w : vector<4xf32> -> vector<8xf32>
  %12, %13 = vector.deinterleave %w : vector<4xf32> -> vector<2xf32>
  %14 = vector.bitcast %w : vector<4xf32> to vector<8xi16>
  %15 = vector.from_elements %f, %f : vector<2xf32>
  %16:4 = vector.to_elements %w : vector<4xf32>
  %17 = vector.fma %w, %w, %w : vector<4xf32>
  %18 = vector.create_mask %i, %i : vector<4x3xi1>
  %19 = vector.constant_mask [3, 2] : vector<4x3xi1>
  %20 = vector.vscale
  %21 = vector.step : vector<4xindex>
  return
}
func.func @scalable(%v: vector<[4]xf32>, %w: vector<2xf32>) {
  %0 = vector.scalable.extract %v[0] : vector<2xf32> from vector<[4]xf32>
  %1 = vector.scalable.insert %0, %v[2] : vector<2xf32> into vector<[4]xf32>
  %2 = arith.addf %v, %v : vector<[4]xf32>
  return
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


ARGUMENTS = "%v: vector<2x4xf32>, %x: f32"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        (
            """%r = vector.shape_cast %v : vector<2x4xf32> to vector<6xf32>""",
            r"differ in elements: 8 and 6",
        ),
        (
            """%r = vector.transpose %v, [0, 0] : vector<2x4xf32> to vector<2x2xf32>""",
            r"\[0, 0\] is no permutation",
        ),
        (
            """%r = vector.transpose %v, [1, 0] : vector<2x4xf32> to vector<2x4xf32>""",
            r"in the order \[1, 0\] is not",
        ),
        (
            """%r = vector.from_elements %x : vector<2xf32>""",
            r"1 elements for vector<2xf32>",
        ),
        (
            """%r = vector.constant_mask [3] : vector<2xi1>""",
            r"a box of \[3\] does not lie in",
        ),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)
