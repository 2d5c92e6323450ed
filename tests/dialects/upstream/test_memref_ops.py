"""Ops of memref: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from layout_ir.dialects.upstream.operand_syntax import ATOMIC_KINDS
from tests.dialects.upstream.round_trips import check_error, check_round_trip

PROGRAM = """
memref.global "private" constant @g : memref<2x2xf32> = dense<[[1.0, 2.0], [3.0, 4.0]]>
memref.global @u : memref<4xi32> = uninitialized
memref.global "public" @v : memref<4xi32>
memref.global constant @w : memref<4xi32> = dense<3> {alignment = 64 : i64}
memref.global "private" @s : memref<i32> = dense<3>
func.func @globals() -> f32 {
  %m = memref.get_global @g : memref<2x2xf32>
  %c = arith.constant 0 : index
  %x = memref.load %m[%c, %c] : memref<2x2xf32>
  return %x : f32
}
func.func @transpose(%m: memref<2x3xf32>, %n: memref<?x?xf32, strided<[?, 1], offset: ?>>) {
  %t = memref.transpose %m (d0, d1) -> (d1, d0) : memref<2x3xf32> to memref<3x2xf32, strided<[1, 3]>>
  %u = memref.transpose %n (i, j) -> (j, i) : memref<?x?xf32, strided<[?, 1], offset: ?>> to memref<?x?xf32,
      strided<[1, ?], offset: ?>>
  return
}
func.func @reshape(%m: memref<?xf32>, %s: memref<2xi32>, %q: memref<?xindex>, %z: memref<*xf32>) {
  %a = memref.reshape %m(%s) : (memref<?xf32>, memref<2xi32>) -> memref<?x?xf32>
  %b = memref.reshape %z(%q) : (memref<*xf32>, memref<?xindex>) -> memref<*xf32>
  return
}
func.func @reinterpret(%m: memref<?xf32>, %o: index, %u: memref<*xf32>) {
  %a = memref.reinterpret_cast %m to offset: [%o], sizes: [10, %o], strides: [%o, 1] : memref<?xf32> to
      memref<10x?xf32, strided<[?, 1], offset: ?>>
  %b = memref.reinterpret_cast %u to offset: [0], sizes: [], strides: [] : memref<*xf32> to memref<f32>
  %c = memref.reinterpret_cast %u to offset: [0], sizes: [4], strides: [1] : memref<*xf32> to memref<4xf32>
  return
}
func.func @alloc(%n: index) {
  %a = memref.alloc(%n) : memref<?x4xf32>
  %b = memref.alloc() {alignment = 64 : i64} : memref<4xf32>
  %c = memref.alloca(%n) : memref<?x4xf32>
  %d = memref.alloc(%n)[%n] : memref<?x4xf32, affine_map<(d0, d1)[s0] -> (d0 + s0, d1)>>
  memref.dealloc %a : memref<?x4xf32>
  return
}
func.func @realloc(%m: memref<4xf32>, %n: index) {
  %a = memref.realloc %m : memref<4xf32> to memref<8xf32>
  %b = memref.realloc %a(%n) : memref<8xf32> to memref<?xf32>
  return
}
func.func @alloca_scope(%n: index) -> i32 {
  %r = memref.alloca_scope -> (i32) {
    %c = arith.constant 1 : i32
    memref.alloca_scope.return %c : i32
  }
  memref.alloca_scope {
    %c = memref.alloca() : memref<4xf32>
  }
  return %r : i32
}
func.func @assume(%m: memref<4xf32>) -> memref<4xf32> {
  %a = memref.assume_alignment %m, 16 : memref<4xf32>
  return %a : memref<4xf32>
}
func.func @atomic(%m: memref<4xf32>, %x: f32, %i: index) -> f32 {
  %a = memref.atomic_rmw addf %x, %m[%i] : (f32, memref<4xf32>) -> f32
  %b = memref.generic_atomic_rmw %m[%i] : memref<4xf32> {
  ^bb0(%v: f32):
    %c = arith.addf %v, %x : f32
    memref.atomic_yield %c : f32
  }
  return %a : f32
}
func.func @subview(%m: memref<8x16x4xf32>, %n: index) {
  %a = memref.subview %m[%n, 0, 1] [%n, 4, 1] [1, %n, 2] : memref<8x16x4xf32> to memref<?x4x1xf32,
      strided<[64, ?, 2], offset: ?>>
  %b = memref.subview %m[0, 0, 0] [1, 16, 4] [1, 1, 1] : memref<8x16x4xf32> to memref<16x4xf32>
  return
}
func.func @shape(%m: memref<8x16xf32>, %n: memref<?x4xf32>, %s: index) {
  %a = memref.collapse_shape %m [[0, 1]] : memref<8x16xf32> into memref<128xf32>
  %b = memref.expand_shape %m [[0, 1], [2]] output_shape [2, 4, 16] : memref<8x16xf32> into memref<2x4x16xf32>
  %c = memref.expand_shape %n [[0, 1], [2]] output_shape [%s, 2, 4] : memref<?x4xf32> into memref<?x2x4xf32>
  return
}
func.func @meta(%m: memref<?x16xf32, strided<[?, 1], offset: ?>>) -> index {
  %b, %o, %s:2, %t:2 = memref.extract_strided_metadata %m : memref<?x16xf32, strided<[?, 1], offset: ?>> ->
      memref<f32>, index, index, index, index, index
  %p = memref.extract_aligned_pointer_as_index %m : memref<?x16xf32, strided<[?, 1], offset: ?>> -> index
  return %p : index
}
func.func @view(%m: memref<2048xi8>, %o: index, %n: index) {
  %a = memref.view %m[%o][%n] : memref<2048xi8> to memref<?x4xf32>
  %b = memref.view %m[%o][] : memref<2048xi8> to memref<4x4xf32>
  return
}
func.func @misc(%m: memref<4x?xf32>, %o: index, %u: memref<*xf32>, %k: memref<4xf32, 1>) {
  %a = memref.dim %m, %o : memref<4x?xf32>
  %b = memref.rank %u : memref<*xf32>
  %d = memref.dim %u, %o : memref<*xf32>
  %c = memref.cast %m : memref<4x?xf32> to memref<?x?xf32>
  %e = memref.cast %m : memref<4x?xf32> to memref<*xf32>
  %f = memref.memory_space_cast %k : memref<4xf32, 1> to memref<4xf32>
  memref.copy %m, %c : memref<4x?xf32> to memref<?x?xf32>
  memref.prefetch %m[%o, %o], write, locality<1>, data : memref<4x?xf32>
  %l = memref.load %m[%o, %o] {nontemporal = true} : memref<4x?xf32>
  memref.store %l, %m[%o, %o] : memref<4x?xf32>
  return
}
func.func @distinct(%a: memref<10xf32>, %b: memref<10xf32>) {
  %r:2 = memref.distinct_objects %a, %b : memref<10xf32>, memref<10xf32>
  return
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


@pytest.mark.parametrize("kind", ATOMIC_KINDS)
def test_updates_have_the_numbers_that_mlir_has_for_them(kind: str):
    type = "f32" if kind.endswith("f") or kind == "assign" else "i32"
    check_round_trip(f"""
func.func @update(%m: memref<4x{type}>, %x: {type}, %i: index) {{
  %a = memref.atomic_rmw {kind} %x, %m[%i] : ({type}, memref<4x{type}>) -> {type}
  return
}}""")


ARGUMENTS = "%m: memref<2x3xf32>, %x: f32, %n: index, %s: memref<2xindex>, %q: memref<2x1xindex>"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        (
            """%r = memref.transpose %m (i, j) -> (i, i) : memref<2x3xf32> to memref<2x2xf32>""",
            r"no permutation of the 2 dims",
        ),
        (
            """%r = memref.transpose %m (i, j) -> (j, i) : memref<2x3xf32> to memref<2x3xf32>""",
            r"is of shape \[3, 2\]",
        ),
        (
            """%r = memref.reshape %m(%q) : (memref<2x3xf32>, memref<2x1xindex>) -> memref<6xf32>""",
            r"the shape has one dim",
        ),
        (
            """%r = memref.reshape %m(%s) : (memref<2x3xf32>, memref<2xindex>) -> memref<6xf32>""",
            r"2 extents for memref<6xf32> of rank 1",
        ),
        (
            """%r = memref.atomic_rmw addd %x, %m[%n, %n] : (f32, memref<2x3xf32>) -> f32""",
            r"'addd' is none of addf",
        ),
        (
            """memref.global @g : memref<2xf32> = dense<[1.0, 2.0, 3.0]>""",
            r"Shape mismatch",
        ),
        (
            """memref.global @g : tensor<2xf32>""",
            r"a buffer is a memref, not tensor<2xf32>",
        ),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)
