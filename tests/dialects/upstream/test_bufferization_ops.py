"""Ops of bufferization: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from tests.dialects.upstream.round_trips import check_error, check_round_trip

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
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


ARGUMENTS = "%c: i1, %m: memref<2xf32>, %t: tensor<2xf32>"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        ("%r = bufferization.to_buffer %t : tensor<2xf32> to memref<3xf32>", r"differ in shape"),
        ("%r = bufferization.to_tensor %m : memref<2xf32> to tensor<2xi32>", r"differ in element type"),
        (
            "bufferization.materialize_in_destination %t in %t : (tensor<2xf32>, tensor<2xf32>) -> ()",
            r"a tensor as the destination makes a result",
        ),
        ("%r = bufferization.alloc_tensor() copy(%t) : tensor<3xf32>", r"is used with type tensor<3xf32>"),
        ("bufferization.dealloc (%m : memref<2xf32>) if (%c, %c)", r"2 conditions for 1 buffers"),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)
