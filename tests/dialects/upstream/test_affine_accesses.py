"""Reads and writes of affine: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from layout_ir.api.program_text import ProgramError, parse_program, to_text
from tests.dialects.upstream.round_trips import check_error, check_round_trip
from tests.exits.linalg.mlir_tools import mlir_opt

PROGRAM = """
func.func @accesses(%m: memref<10x?xf32>, %n: index, %k: index, %s: memref<f32>) {
  affine.for %i = 0 to 10 {
    affine.for %j = 0 to %n {
      %a = affine.load %m[%i + 1, symbol(%n)] : memref<10x?xf32>
      %b = affine.load %m[symbol(%k) * 2 + symbol(%n), %i * 3 - %j] {place = "here"} : memref<10x?xf32>
      %c = affine.load %s[] : memref<f32>
      affine.store %b, %m[(%i + %j) floordiv 2, (%i + %j) mod 4 + 1] : memref<10x?xf32>
      affine.store %a, %m[%i floordiv 2 floordiv 2, (-(%i * 8)) ceildiv 8] : memref<10x?xf32>
      %v = affine.vector_load %m[%i, symbol(%n) + 5] : memref<10x?xf32>, vector<4xf32>
      affine.vector_store %v, %m[%j, %i + symbol(%n)] : memref<10x?xf32>, vector<4xf32>
      affine.prefetch %m[%i, %i + 5], read, locality<3>, data : memref<10x?xf32>
      affine.prefetch %m[%i * 2, symbol(%n) floordiv 4], write, locality<0>, instr : memref<10x?xf32>
    }
  }
  return
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


def test_symbols_are_printed_as_symbols():
    text = """
func.func @f(%m: memref<4x4xf32>, %n: index) {
  affine.for %i = 0 to 4 {
    %v = affine.load %m[%i, symbol(%n) + 1] : memref<4x4xf32>
  }
  return
}"""
    ours = to_text(parse_program(mlir_opt(text, "--mlir-print-op-generic"), "program.mlir"))
    assert "[%arg2, symbol(%arg1) + 1] : memref<4x4xf32>" in ours


ARGUMENTS = "%m: memref<4x4xf32>, %x: f32, %n: index"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        ("%v = affine.load %m[%n] : memref<4x4xf32>", "1 subscripts for memref<4x4xf32>"),
        ("%v = affine.load %m[%n, symbol(3)] : memref<4x4xf32>", r"[Ee]xpected"),
        ("%v = affine.load %m[%n, other(%n)] : memref<4x4xf32>", r"[Ee]xpected"),
        ("affine.store %x, %m[%n, %x] : memref<4x4xf32>", "type"),
        ("affine.store %x, %m[%n, %n] : tensor<4x4xf32>", "expected a buffer"),
        ("%v = affine.vector_load %m[%n, %n] : memref<4x4xf32>, f32", "expected a vector"),
        (
            "affine.prefetch %m[%n], read, locality<3>, data : memref<4x4xf32>",
            "1 subscripts for memref<4x4xf32>",
        ),
        ("affine.prefetch %m[%n, %n], reads, locality<3>, data : memref<4x4xf32>", "read or write"),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)


def test_negative_operands_that_are_not_those_of_the_map():
    text = f"""func.func @f({ARGUMENTS}) {{
  %v = "affine.load"(%m, %n) {{map = affine_map<(d0)[s0] -> (d0, s0)>}} : (memref<4x4xf32>, index) -> f32
  func.return
}}"""
    with pytest.raises(ProgramError, match="1 operands for a map of 1 dims and 1 symbols"):
        parse_program(text, "program.mlir")
