"""Copies beside the program: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from layout_ir.api.program_text import ProgramError, parse_program
from tests.dialects.upstream.round_trips import check_error, check_round_trip

ARGUMENTS = (
    "%a: memref<40x128xf32>, %b: memref<1024xf32, 1>, %t: memref<1xi32>, %u: memref<i32>, %i: index, %n: i32"
)
BUFFERS = "memref<40x128xf32>, memref<1024xf32, 1>, memref<1xi32>"


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(f"""
func.func @copies({ARGUMENTS}) {{
  memref.dma_start %a[%i, %i], %b[%i], %i, %t[%i] : {BUFFERS}
  memref.dma_start %b[%i], %a[%i, %i], %i, %u[], %i, %i : memref<1024xf32, 1>, memref<40x128xf32>, memref<i32>
  memref.dma_wait %t[%i], %i : memref<1xi32>
  memref.dma_wait %u[], %i : memref<i32>
  return
}}""")


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        (
            f"memref.dma_start %a[%i], %b[%i], %i, %t[%i] : {BUFFERS}",
            "operand 0, .* not one index for each dim",
        ),
        (
            f"memref.dma_start %a[%i, %i], %b[%i], %i, %t[%i], %i : {BUFFERS}",
            "not 0 or 2 that are of type index",
        ),
        ("memref.dma_wait %t[], %i : memref<1xi32>", "not 1 that are of type index"),
        ("memref.dma_wait %t[%i, %i], %i : memref<1xi32>", "not 1 that are of type index"),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)


@pytest.mark.parametrize(
    ("operands", "types", "reason"),
    [
        ("%i", "index", "operand 0 is no buffer"),
        ("%t", "memref<1xi32>", "not one index for each dim"),
        ("%t, %i, %n", "memref<1xi32>, index, i32", "not 1 that are of type index"),
    ],
)
def test_negative_operands_of_the_generic_form_are_checked(operands: str, types: str, reason: str):
    text = f'func.func @f({ARGUMENTS}) {{ "memref.dma_wait"({operands}) : ({types}) -> () func.return }}'
    with pytest.raises(ProgramError, match=reason):
        parse_program(text, "program.mlir")
