"""Sums and products of vectors: round trips through mlir-opt."""

from __future__ import annotations

from tests.dialects.upstream.round_trips import check_round_trip

PROGRAM = """
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
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)
