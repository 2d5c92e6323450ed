"""The dialect shape: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from tests.dialects.upstream.round_trips import check_error, check_round_trip

PROGRAM = """
func.func @shapes(%t: tensor<?x4xf32>, %n: !shape.size, %s: !shape.shape, %e: tensor<?xindex>, %i: index) {
  %0 = shape.shape_of %t : tensor<?x4xf32> -> tensor<2xindex>
  %1 = shape.shape_of %t : tensor<?x4xf32> -> !shape.shape
  %2 = shape.const_shape [1, 2, 3] : !shape.shape
  %3 = shape.const_shape [] : tensor<0xindex>
  %4 = shape.const_shape {note = 1 : i64} [4, 5] : tensor<2xindex>
  %5 = shape.const_size 7
  %6 = shape.const_witness true
  %7 = shape.broadcast %1, %2, %s : !shape.shape, !shape.shape, !shape.shape -> !shape.shape
  %8 = shape.broadcast %0, %e {error = "no"} : tensor<2xindex>, tensor<?xindex> -> tensor<?xindex>
  %9 = shape.num_elements %2 : !shape.shape -> !shape.size
  %10 = shape.num_elements %e : tensor<?xindex> -> index
  %11 = shape.rank %2 : !shape.shape -> !shape.size
  %12 = shape.rank %e : tensor<?xindex> -> index
  %13 = shape.get_extent %2, %5 : !shape.shape, !shape.size -> !shape.size
  %14 = shape.get_extent %e, %i : tensor<?xindex>, index -> index
  %15 = shape.to_extent_tensor %2 : !shape.shape -> tensor<?xindex>
  %16 = shape.from_extents %5, %i : !shape.size, index
  %17 = shape.from_extent_tensor %e : tensor<?xindex>
  %18 = shape.cstr_broadcastable %0, %e : tensor<2xindex>, tensor<?xindex>
  %19 = shape.cstr_eq %2, %2 : !shape.shape, !shape.shape
  %20 = shape.assuming_all %18, %19, %6
  %21 = shape.add %n, %5 : !shape.size, !shape.size -> !shape.size
  %22 = shape.mul %i, %i : index, index -> index
  %23 = shape.div %n, %i : !shape.size, index -> !shape.size
  %24 = shape.size_to_index %23 : !shape.size
  %25 = shape.index_to_size %24
  %26 = shape.dim %t, %i : tensor<?x4xf32>, index -> index
  %27 = shape.concat %2, %2 : !shape.shape, !shape.shape -> !shape.shape
  %28 = shape.is_broadcastable %0, %e : tensor<2xindex>, tensor<?xindex>
  %29 = shape.shape_eq %0, %e : tensor<2xindex>, tensor<?xindex>
  %30 = shape.min %n, %5 : !shape.size, !shape.size -> !shape.size
  %31 = shape.max %2, %2 : !shape.shape, !shape.shape -> !shape.shape
  %32 = shape.cstr_require %28, "must broadcast"
  %33 = shape.any %2, %s : !shape.shape, !shape.shape -> !shape.shape
  %34 = shape.meet %2, %s : !shape.shape, !shape.shape -> !shape.shape
  return
}
func.func @values(%a: !shape.value_shape, %s: !shape.shape, %t: tensor<f32>) -> !shape.value_shape {
  %0 = shape.value_of %a : tensor<f32>
  %1 = shape.with_shape %a, %s : !shape.value_shape, !shape.shape
  %2 = shape.value_as_shape %1 : !shape.value_shape -> !shape.shape
  return %1 : !shape.value_shape
}
func.func @assumed(%w: !shape.witness, %t: tensor<?xf32>) -> tensor<?xf32> {
  %0:2 = shape.assuming %w -> (tensor<?xf32>, tensor<?xf32>) {
    %1 = arith.addf %t, %t : tensor<?xf32>
    shape.assuming_yield %1, %t : tensor<?xf32>, tensor<?xf32>
  }
  shape.assuming %w {
    %1 = arith.addf %t, %t : tensor<?xf32>
  }
  return %0#0 : tensor<?xf32>
}
func.func @reduced(%s: !shape.shape, %one: !shape.size, %e: tensor<?xindex>, %i: index) -> (!shape.size, index) {
  %0 = shape.reduce(%s, %one) : !shape.shape -> !shape.size {
  ^bb0(%at: index, %extent: !shape.size, %product: !shape.size):
    %2 = shape.mul %product, %extent : !shape.size, !shape.size -> !shape.size
    shape.yield %2 : !shape.size
  }
  %1 = shape.reduce(%e, %i) : tensor<?xindex> -> index {
  ^bb0(%at: index, %extent: index, %product: index):
    %2 = arith.muli %product, %extent : index
    shape.yield %2 : index
  }
  return %0, %1 : !shape.size, index
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


ARGUMENTS = "%s: !shape.shape, %n: !shape.size, %w: !shape.witness, %x: f32"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        ("%r = shape.const_shape [1, 2] : tensor<3xindex>", r"2 extents are no tensor<3xindex>"),
        ("%r = shape.const_shape [1, x] : !shape.shape", r"[Ee]xpected"),
        ("%r = shape.assuming %w -> (f32) {\n}", r"has to yield values of the types of the results"),
        (
            "%r = shape.assuming %n -> (f32) {\nshape.assuming_yield %x : f32\n}",
            r"!shape.witness.*!shape.size|!shape.size.*!shape.witness",
        ),
        (
            """%r = shape.reduce(%s, %n) : !shape.shape -> !shape.size {
^a(%i: index, %e: index, %c: !shape.size):
  shape.yield %c : !shape.size
}""",
            r"an extent of !shape.size",
        ),
        (
            "%r = shape.shape_off %x : f32 -> !shape.shape",
            r"'shape.shape_off': did you mean 'shape.shape_of'",
        ),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)
