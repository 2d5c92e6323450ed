"""Ops of vector: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from layout_ir.api.program_text import ProgramError, parse_program
from tests.dialects.upstream.round_trips import check_round_trip

PROGRAM = """
func.func @rw(%t: tensor<4x?xf32>, %m: memref<4x?xf32>, %i: index, %f: f32, %k: vector<4xi1>) ->
      tensor<4x?xf32> {
  %0 = vector.transfer_read %t[%i, %i], %f : tensor<4x?xf32>, vector<4xf32>
  %1 = vector.transfer_read %m[%i, %i], %f {in_bounds = [true, false], permutation_map = affine_map<(d0, d1)
      -> (d1, d0)>} : memref<4x?xf32>, vector<2x4xf32>
  %2 = vector.transfer_read %m[%i, %i], %f, %k {in_bounds = [true]} : memref<4x?xf32>, vector<4xf32>
  vector.transfer_write %0, %m[%i, %i] {in_bounds = [true]} : vector<4xf32>, memref<4x?xf32>
  vector.transfer_write %0, %m[%i, %i], %k {in_bounds = [true]} : vector<4xf32>, memref<4x?xf32>
  %3 = vector.transfer_write %0, %t[%i, %i] : vector<4xf32>, tensor<4x?xf32>
  %4 = vector.load %m[%i, %i] : memref<4x?xf32>, vector<8xf32>
  %5 = vector.load %m[%i, %i] {nontemporal = true} : memref<4x?xf32>, vector<8xf32>
  vector.store %4, %m[%i, %i] : memref<4x?xf32>, vector<8xf32>
  %6 = vector.maskedload %m[%i, %i], %k, %0 : memref<4x?xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  vector.maskedstore %m[%i, %i], %k, %6 : memref<4x?xf32>, vector<4xi1>, vector<4xf32>
  vector.compressstore %m[%i, %i], %k, %6 : memref<4x?xf32>, vector<4xi1>, vector<4xf32>
  %7 = vector.expandload %m[%i, %i], %k, %6 : memref<4x?xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  return %3 : tensor<4x?xf32>
}
func.func @rw_out(%m: memref<4x?xf32>, %i: index, %f: f32) {
  %0 = vector.transfer_read %m[%i, %i], %f {in_bounds = [true, true]} : memref<4x?xf32>, vector<2x4xf32>
  vector.transfer_write %0, %m[%i, %i] {in_bounds = [true, true], permutation_map = affine_map<(d0, d1) ->
      (d1, d0)>} : vector<2x4xf32>, memref<4x?xf32>
  return
}
func.func @gather(%m: memref<?xf32>, %i: index, %v: vector<4xi32>, %k: vector<4xi1>, %p: vector<4xf32>) {
  %0 = vector.gather %m[%i] [%v], %k, %p : memref<?xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into
      vector<4xf32>
  vector.scatter %m[%i] [%v], %k, %p : memref<?xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
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
func.func @reduce(%v: vector<2x4xf32>, %f: f32, %w: vector<4xf32>, %x: vector<2xf32>) {
  %0 = vector.reduction <add>, %w : vector<4xf32> into f32
  %1 = vector.reduction <mul>, %w, %f fastmath<reassoc> : vector<4xf32> into f32
  %2 = vector.multi_reduction <add>, %v, %x [1] : vector<2x4xf32> to vector<2xf32>
  %3 = vector.multi_reduction <maximumf>, %v, %f [0, 1] : vector<2x4xf32> to f32
  %4 = vector.outerproduct %x, %w : vector<2xf32>, vector<4xf32>
  %5 = vector.outerproduct %x, %w, %4 {kind = #vector.kind<maxnumf>} : vector<2xf32>, vector<4xf32>
  %6 = vector.outerproduct %x, %f : vector<2xf32>, f32
  %7:2 = vector.scan <add>, %v, %x {inclusive = true, reduction_dim = 1 : i64} : vector<2x4xf32>,
      vector<2xf32>
  return
}
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @contract(%v: vector<2x4xf32>, %w: vector<4x3xf32>, %x: vector<2x3xf32>) -> vector<2x3xf32> {
  %0 = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"],
      kind = #vector.kind<add>} %v, %w, %x : vector<2x4xf32>, vector<4x3xf32> into vector<2x3xf32>
  return %0 : vector<2x3xf32>
}
func.func @mask(%k: vector<4xi1>, %w: vector<4xf32>, %m: memref<?xf32>, %i: index, %f: f32) {
  %0 = vector.mask %k { vector.reduction <add>, %w : vector<4xf32> into f32 } : vector<4xi1> -> f32
  %1 = vector.mask %k { vector.transfer_read %m[%i], %f : memref<?xf32>, vector<4xf32> } : vector<4xi1> ->
      vector<4xf32>
  vector.mask %k { vector.transfer_write %w, %m[%i] : vector<4xf32>, memref<?xf32> } : vector<4xi1>
  return
}
func.func @scalable(%v: vector<[4]xf32>, %w: vector<2xf32>) {
  %0 = vector.scalable.extract %v[0] : vector<2xf32> from vector<[4]xf32>
  %1 = vector.scalable.insert %0, %v[2] : vector<2xf32> into vector<[4]xf32>
  %2 = arith.addf %v, %v : vector<[4]xf32>
  return
}
func.func @typecast(%m: memref<5x4xf32>) {
  %0 = vector.type_cast %m : memref<5x4xf32> to memref<vector<5x4xf32>>
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
    with pytest.raises(ProgramError, match=reason):
        parse_program(f"func.func @f({ARGUMENTS}) {{\n{ops}\nfunc.return\n}}", "program.mlir")
