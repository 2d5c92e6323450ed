"""Ops of bufferization, complex, quant, ml_program and tosa: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from layout_ir.api.program_text import parse_program, to_text
from tests.dialects.upstream.round_trips import check_error, check_round_trip
from tests.exits.linalg.mlir_tools import mlir_opt

PROGRAM = """
func.func @buffers(%m: memref<4x?xf32>, %t: tensor<4x?xf32>, %n: index) -> tensor<4x?xf32> {
  %0 = bufferization.to_tensor %m : memref<4x?xf32> to tensor<4x?xf32>
  %1 = bufferization.to_tensor %m restrict writable : memref<4x?xf32> to tensor<4x?xf32>
  %2 = bufferization.to_buffer %t : tensor<4x?xf32> to memref<4x?xf32>
  %3 = bufferization.to_buffer %t read_only : tensor<4x?xf32> to memref<4x?xf32, strided<[?, ?], offset: ?>>
  %4 = bufferization.alloc_tensor(%n) : tensor<4x?xf32>
  %5 = bufferization.alloc_tensor() copy(%t) : tensor<4x?xf32>

  %7 = bufferization.clone %m : memref<4x?xf32> to memref<4x?xf32>
  bufferization.dealloc_tensor %t : tensor<4x?xf32>
  bufferization.materialize_in_destination %t in restrict writable %m : (tensor<4x?xf32>, memref<4x?xf32>) ->
      ()
  %8 = bufferization.materialize_in_destination %t in %0 : (tensor<4x?xf32>, tensor<4x?xf32>) ->
      tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}
#any = strided<[?, 1], offset: ?>
func.func @any_layout(%m: memref<?x4xf32, #any>, %t: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = bufferization.to_tensor %m restrict writable : memref<?x4xf32, #any> to tensor<?x4xf32>
  bufferization.materialize_in_destination %t in writable %m : (tensor<?x4xf32>, memref<?x4xf32, #any>) -> ()
  %1 = bufferization.alloc_tensor() copy(%t) {memory_space = 1 : i64} : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
func.func @dealloc(%a: memref<2xf32>, %b: memref<4xi32>, %c: i1, %d: i1) -> i1 {
  %0:2 = bufferization.dealloc (%a, %b : memref<2xf32>, memref<4xi32>) if (%c, %d) retain (%a, %b :
      memref<2xf32>, memref<4xi32>)
  bufferization.dealloc (%a : memref<2xf32>) if (%c)
  bufferization.dealloc
  return %0#0 : i1
}
!q = !quant.uniform<i8:f32, 0.5:3>
!qa = !quant.uniform<i8<-127:127>:f32:1, {0.5, 0.25:3}>
!qs = !quant.uniform<u8:f32, 1.0>
!c = !quant.calibrated<f32<-0.998:1.2>>
!a = !quant.any<i8<-8:7>:f32>
func.func private @quantized_types(!q, tensor<2x2x!qa>, !qs, !c, !a)
func.func @quantized(%t: tensor<4xf32>, %s: tensor<4xi8>) {
  %0 = quant.qcast %t : tensor<4xf32> to tensor<4x!q>
  %1 = quant.dcast %0 : tensor<4x!q> to tensor<4xf32>
  %2 = quant.scast %s : tensor<4xi8> to tensor<4x!q>
  return
}
func.func @powers(%a: complex<f32>, %n: i32) {
  %0 = complex.powi %a, %n : complex<f32>, i32
  %1 = complex.powi %0, %n fastmath<contract> : complex<f32>, i32
  return
}
tosa.variable @variable = dense<1.0> : tensor<4xf32>
tosa.variable @declared : tensor<4xf32>
func.func @vars(%x: tensor<4xf32>) -> tensor<4xf32> {
  tosa.variable_write @variable, %x : tensor<4xf32>
  %0 = tosa.variable_read @variable : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


GLOBALS = """
ml_program.global private mutable @mutable(dense<4> : tensor<4xi32>) : tensor<?xi32>
ml_program.global private @h(#ml_program.extern<tensor<4xi32>>) : tensor<?xi32>
ml_program.global public mutable @k : tensor<4xi32>
ml_program.global private @e(dense<1.0> : tensor<4xf32>) : tensor<4xf32>
func.func @globals(%x: tensor<?xi32>) -> tensor<?xi32> {
  %0 = ml_program.global_load @mutable : tensor<?xi32>
  %1 = ml_program.global_load_const @h : tensor<?xi32>
  ml_program.global_store @mutable = %x : tensor<?xi32>
  return %0 : tensor<?xi32>
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


def test_globals_of_ml_program_are_read_and_printed_in_their_custom_form():
    written = mlir_opt(GLOBALS)
    assert mlir_opt(to_text(parse_program(written, "program.mlir"))) == written


ARGUMENTS = "%z: complex<f32>, %c: i1, %m: memref<2xf32>, %t: tensor<2xf32>"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        (
            """%r = bufferization.to_buffer %t : tensor<2xf32> to memref<3xf32>""",
            r"differ in shape",
        ),
        ("%r = bufferization.to_tensor %m : memref<2xf32> to tensor<2xi32>", r"differ in element type"),
        (
            "bufferization.materialize_in_destination %t in %t : (tensor<2xf32>, tensor<2xf32>) -> ()",
            r"a tensor as the destination makes a result",
        ),
        ("%r = bufferization.alloc_tensor() copy(%t) : tensor<3xf32>", r"is used with type tensor<3xf32>"),
        (
            """bufferization.dealloc (%m : memref<2xf32>) if (%c, %c)""",
            r"2 conditions for 1 buffers",
        ),
        (
            """%r = complex.powi %z, %z : complex<f32>, complex<f32>""",
            r"complex<f32> should be of base attribute integer",
        ),
        (
            """%r = quant.qcast %t : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 0.5)""",
            r"expected balanced angle brackets behind quant.uniform",
        ),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)
