"""Ops of vector on memory, and masks: round trips through mlir-opt."""

from __future__ import annotations

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
func.func @mask(%k: vector<4xi1>, %w: vector<4xf32>, %m: memref<?xf32>, %i: index, %f: f32) {
  %0 = vector.mask %k { vector.reduction <add>, %w : vector<4xf32> into f32 } : vector<4xi1> -> f32
  %1 = vector.mask %k { vector.transfer_read %m[%i], %f : memref<?xf32>, vector<4xf32> } : vector<4xi1> ->
      vector<4xf32>
  vector.mask %k { vector.transfer_write %w, %m[%i] : vector<4xf32>, memref<?xf32> } : vector<4xi1>
  return
}
func.func @typecast(%m: memref<5x4xf32>) {
  %0 = vector.type_cast %m : memref<5x4xf32> to memref<vector<5x4xf32>>
  return
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)
