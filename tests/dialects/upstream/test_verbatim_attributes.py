"""Attributes that are carried as text: which texts are equal, what is no text, and what mlir-opt reads back."""

from __future__ import annotations

import pytest

from layout_ir.api.program_text import ProgramError, parse_program
from tests.dialects.upstream.round_trips import check_round_trip

PROGRAM = """
#csr = #sparse_tensor.encoding<{ map = (d0, d1) -> (d0 : dense, d1 : compressed), posWidth = 32, crdWidth = 32 }>
#blocks = #sparse_tensor.encoding<{
  map = (i, j) -> (i floordiv 2 : dense, j floordiv 3 : compressed, i mod 2 : dense, j mod 3 : dense)
}>
#some = #sparse_tensor.encoding<{
  map = (i, j, k) -> (i : dense, j : dense, k floordiv 4 : dense, k mod 4 : structured[2, 4])
}>
func.func private @sparse(tensor<4x?xf32, #csr>, tensor<4x6xf32, #blocks>) -> tensor<4x6x8xf32, #some>
func.func private @by_channel(tensor<2x2x!quant.uniform<i8<-127:127>:f32:1, {0.5, 0.25:3}>>)
func.func private @by_block(tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{0.5, 0.25}, {1.0, 2.0}}>>)
func.func private @others(!quant.calibrated<f32<-0.998:1.25>>, !quant.any<i8<-8:7>:f32>)
func.func private @shared(memref<4xf32, #gpu.address_space<workgroup>>) attributes {m = [#gpu.block<y>, #gpu.warp<x>]}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


def test_texts_that_differ_in_spaces_are_equal():
    text = """func.func private @f(tensor<4xf32, #sparse_tensor.encoding<{map = (d0) ->
      (d0 :  dense)}>>, tensor<4xf32, #sparse_tensor.encoding<{map = (d0) -> (d0 : dense)}>>)"""
    (function,) = parse_program(text, "program.mlir").body.block.ops
    first, second = function.properties["function_type"].inputs  # pyright: ignore
    assert first == second


@pytest.mark.parametrize("body", ["<i8:f32, 0.5)", "<i8:f32, {0.5>", "", '<"i8>'])
def test_negative_brackets_have_to_be_balanced(body: str):
    with pytest.raises(ProgramError, match=r"expected balanced angle brackets behind quant.uniform"):
        parse_program(f"func.func private @f(!quant.uniform{body})", "program.mlir")
