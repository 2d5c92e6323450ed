"""Ops of tensor that xDSL lacks: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from tests.dialects.upstream.round_trips import check_error, check_round_trip

PROGRAM = """
func.func @generate(%m: index, %n: index) -> tensor<?x3x?xf32> {
  %c = arith.constant 1.0 : f32
  %t = tensor.generate %m, %n {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %c : f32
  } : tensor<?x3x?xf32>
  return %t : tensor<?x3x?xf32>
}
func.func @generate_static() -> tensor<4xindex> {
  %t = tensor.generate {
  ^bb0(%i: index):
    tensor.yield %i : index
  } : tensor<4xindex>
  return %t : tensor<4xindex>
}
func.func @gather(%d: tensor<4x5x6xf32>, %i: tensor<1x3x2xindex>) -> tensor<1x3x1x5x1xf32> {
  %g = tensor.gather %d[%i] gather_dims([0, 2]) unique : (tensor<4x5x6xf32>, tensor<1x3x2xindex>) ->
      tensor<1x3x1x5x1xf32>
  return %g : tensor<1x3x1x5x1xf32>
}
func.func @gather2(%d: tensor<4x5x6xf32>, %i: tensor<1x3x2xindex>) -> tensor<1x3x5xf32> {
  %g = tensor.gather %d[%i] gather_dims([0, 2]) : (tensor<4x5x6xf32>, tensor<1x3x2xindex>) ->
      tensor<1x3x5xf32>
  return %g : tensor<1x3x5xf32>
}
func.func @scatter(%s: tensor<1x3x5xf32>, %d: tensor<4x5x6xf32>, %i: tensor<1x3x2xindex>) ->
      tensor<4x5x6xf32> {
  %g = tensor.scatter %s into %d[%i] scatter_dims([0, 2]) unique : (tensor<1x3x5xf32>, tensor<4x5x6xf32>,
      tensor<1x3x2xindex>) -> tensor<4x5x6xf32>
  return %g : tensor<4x5x6xf32>
}
func.func @bitcast(%s: tensor<3x?xf32>) -> tensor<3x?xi32> {
  %g = tensor.bitcast %s : tensor<3x?xf32> to tensor<3x?xi32>
  return %g : tensor<3x?xi32>
}
func.func @cast(%s: tensor<*xf32>) -> tensor<3x?xf32> {
  %g = tensor.cast %s : tensor<*xf32> to tensor<3x?xf32>
  return %g : tensor<3x?xf32>
}
func.func @concat(%a: tensor<3x6xf32>, %b: tensor<3x6xf32>) -> tensor<3x12xf32> {
  %g = tensor.concat dim(1) %a, %b : (tensor<3x6xf32>, tensor<3x6xf32>) -> tensor<3x12xf32>
  return %g : tensor<3x12xf32>
}
func.func @dim(%a: tensor<3x?xf32>, %b: tensor<*xf32>, %c : index) -> (index, index) {
  %g = tensor.dim %a, %c : tensor<3x?xf32>
  %h = tensor.dim %b, %c : tensor<*xf32>
  return %g, %h : index, index
}
func.func @empty(%n: index) -> tensor<3x?xf32> {
  %g = tensor.empty(%n) : tensor<3x?xf32>
  return %g : tensor<3x?xf32>
}
func.func @empty_encoding() -> tensor<3xf32, "foo"> {
  %g = tensor.empty() : tensor<3xf32, "foo">
  return %g : tensor<3xf32, "foo">
}
func.func @extract(%n: index, %t: tensor<3x?xf32>, %z: tensor<f32>) -> (f32, f32) {
  %g = tensor.extract %t[%n, %n] : tensor<3x?xf32>
  %h = tensor.extract %z[] : tensor<f32>
  return %g, %h : f32, f32
}
func.func @insert(%n: index, %t: tensor<3x?xf32>, %z: f32) -> tensor<3x?xf32> {
  %g = tensor.insert %z into %t[%n, %n] : tensor<3x?xf32>
  return %g : tensor<3x?xf32>
}
func.func @extract_slice(%n: index, %t: tensor<8x16x4xf32>) -> tensor<1x?xf32> {
  %g = tensor.extract_slice %t[%n, 1, 0] [1, 4, %n] [1, %n, 1] : tensor<8x16x4xf32> to tensor<1x4x?xf32>
  %h = tensor.extract_slice %t[%n, 1, 0] [1, 1, %n] [1, %n, 1] : tensor<8x16x4xf32> to tensor<1x?xf32>
  return %h : tensor<1x?xf32>
}
func.func @insert_slice(%n: index, %t: tensor<8x16x4xf32>, %u: tensor<?xf32>) -> tensor<8x16x4xf32> {
  %h = tensor.insert_slice %u into %t[%n, 1, 0] [1, 1, %n] [1, %n, 1] : tensor<?xf32> into tensor<8x16x4xf32>
  return %h : tensor<8x16x4xf32>
}
func.func @from_elements(%a: index, %b: index) -> (tensor<2xindex>, tensor<index>, tensor<1x2xindex>,
      tensor<0xindex>) {
  %0 = tensor.from_elements %a, %b : tensor<2xindex>
  %1 = tensor.from_elements %a : tensor<index>
  %2 = tensor.from_elements %a, %b : tensor<1x2xindex>
  %3 = tensor.from_elements : tensor<0xindex>
  return %0, %1, %2, %3 : tensor<2xindex>, tensor<index>, tensor<1x2xindex>, tensor<0xindex>
}
func.func @expand(%a: tensor<?x32xf32>, %s: index) -> tensor<?x4x4x8xf32> {
  %0 = tensor.expand_shape %a [[0, 1], [2, 3]] output_shape [%s, 4, 4, 8] : tensor<?x32xf32> into
      tensor<?x4x4x8xf32>
  return %0 : tensor<?x4x4x8xf32>
}
func.func @collapse(%a: tensor<?x4x4x8xf32>) -> tensor<?x32xf32> {
  %0 = tensor.collapse_shape %a [[0, 1], [2, 3]] : tensor<?x4x4x8xf32> into tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}
func.func @collapse0(%a: tensor<1x1xf32>) -> tensor<f32> {
  %0 = tensor.collapse_shape %a [] : tensor<1x1xf32> into tensor<f32>
  return %0 : tensor<f32>
}
func.func @reshape(%a: tensor<4x1xf32>, %s: tensor<1xi32>) -> tensor<4xf32> {
  %0 = tensor.reshape %a(%s) : (tensor<4x1xf32>, tensor<1xi32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @reshape_unranked(%a: tensor<*xf32>, %s: tensor<?xindex>) -> tensor<*xf32> {
  %0 = tensor.reshape %a(%s) : (tensor<*xf32>, tensor<?xindex>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
func.func @splat(%a: f32, %n: index) -> (tensor<8xf32>, tensor<?x3xf32>) {
  %0 = tensor.splat %a : tensor<8xf32>
  %1 = tensor.splat %a[%n] : tensor<?x3xf32>
  return %0, %1 : tensor<8xf32>, tensor<?x3xf32>
}
func.func @pad(%a: tensor<?x3xf32>, %n: index, %v: f32) -> tensor<?x?xf32> {
  %0 = tensor.pad %a nofold low[1, %n] high[%n, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : f32
  } : tensor<?x3xf32> to tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
func.func @rank(%a: tensor<*xf32>) -> index {
  %0 = tensor.rank %a : tensor<*xf32>
  return %0 : index
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


ARGUMENTS = "%t: tensor<4x5xf32>, %i: tensor<3x1xindex>, %n: index, %s: tensor<3x5xf32>"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        (
            """%r = tensor.generate {
^bb0(%a: index):
tensor.yield %n : index
} : tensor<?xindex>""",
            r"0 extents for the 1 dynamic dims",
        ),
        (
            """%r = tensor.generate {
^bb0(%a: index):
tensor.yield %n : index
} : tensor<2x3xindex>""",
            r"an index for each of the 2 dims",
        ),
        (
            """%r = tensor.generate {
^bb0(%a: index):
tensor.yield %n : index
} : tensor<2xf32>""",
            r"tensor.yield of one f32",
        ),
        (
            """%r = tensor.gather %t[%i] gather_dims([2]) : (tensor<4x5xf32>, tensor<3x1xindex>) ->
      tensor<3x5xf32>""",
            r"gather_dims = \[2\] has to name dims",
        ),
        (
            """%r = tensor.gather %t[%i] gather_dims([0, 1]) : (tensor<4x5xf32>, tensor<3x1xindex>) ->
      tensor<3xf32>""",
            r"the number of gather_dims, 2",
        ),
        (
            """%r = tensor.gather %t[%i] gather_dims([0]) : (tensor<4x5xf32>, tensor<3x1xindex>) ->
      tensor<3x4xf32>""",
            r"of shape \[3, 1, 5\], or \[3, 5\]",
        ),
        (
            """%r = tensor.scatter %s into %t[%i] scatter_dims([0]) : (tensor<3x5xf32>, tensor<4x5xf32>,
      tensor<3x1xindex>) -> tensor<4x5xf32>""",
            r"has to be 'unique'",
        ),
        (
            """%r = tensor.bitcast %t : tensor<4x5xf32> to tensor<4x5xi16>""",
            r"differ in width: 32 != 16 bits",
        ),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)
