"""Ops of affine: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from tests.dialects.upstream.round_trips import check_error, check_round_trip

PROGRAM = """
#set = affine_set<(d0, d1)[s0] : (d0 - d1 + s0 >= 0, d0 == 0)>
func.func @if(%n: index, %m: memref<10x?xf32>) {
  affine.for %i = 0 to 10 {
    affine.for %j = 0 to %n step 2 {
      affine.if #set(%i, %j)[%n] {
        %v = affine.load %m[%i + 1, %j * 2] : memref<10x?xf32>
        affine.store %v, %m[%i, %j floordiv 2] : memref<10x?xf32>
      } else {
        %v = affine.load %m[%i, 0] : memref<10x?xf32>
      }
    }
  }
  return
}
#positive = affine_set<(d0) : (d0 - 1 >= 0)>
func.func @if_result(%n: index, %x: f32, %y: f32) -> f32 {
  %r = affine.if #positive(%n) -> f32 {
    affine.yield %x : f32
  } else {
    affine.yield %y : f32
  }
  return %r : f32
}
func.func @apply(%n: index, %k: index) -> index {
  %a = affine.apply affine_map<(d0)[s0] -> (d0 floordiv 2 + s0)>(%n)[%k]
  %b = affine.apply affine_map<() -> (42)>()
  %c = affine.min affine_map<(d0)[s0] -> (1000, d0 + 512, s0)>(%n)[%k]
  %d = affine.max affine_map<(d0)[s0] -> (1000, d0 + 512, s0)>(%n)[%k]
  return %a : index
}
func.func @linearize(%n: index, %k: index) -> index {
  %a:2 = affine.delinearize_index %n into (2, 3) : index, index
  %c:2 = affine.delinearize_index %n into (3) : index, index
  %d:3 = affine.delinearize_index %n into (%k, 3, 4) : index, index, index
  %b = affine.linearize_index [%a#0, %a#1] by (2, 3) : index
  %e = affine.linearize_index disjoint [%a#0, %a#1] by (%k, 3) : index
  %f = affine.linearize_index disjoint [%a#0, %a#1] by (3) : index
  return %b : index
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


ARGUMENTS = "%n: index, %x: f32"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        (
            """affine.if affine_set<(d0) : (d0 >= 0)>(%n)[%n] {
}""",
            r"1 dims and 1 symbols for a set of 1 and 0",
        ),
        (
            """%r = affine.if affine_set<(d0) : (d0 >= 0)>(%n) -> f32 {
affine.yield %x : f32
}""",
            r"with results has an else",
        ),
        (
            """%r = affine.max affine_map<(d0) -> (d0, 3)>(%n)[%n]""",
            r"2 operands for a map of 1 dims and 0 symbols",
        ),
        (
            """%r:2 = affine.delinearize_index %n into (2, 3, 4) : index, index""",
            r"2 digits for 3 radices",
        ),
        (
            """%r = affine.linearize_index [%n] by (2, 3) : index""",
            r"1 digits for 2 radices",
        ),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)
