"""Ops that xDSL verifies more strictly than MLIR: what stock mlir-opt takes is taken, and no more."""

from __future__ import annotations

import pytest

from layout_ir.api.program_text import ProgramError, parse_program
from tests.exits.linalg.mlir_tools import mlir_opt

EXPANDED = """
func.func @f(%x: tensor<f32>) -> tensor<{shape}xf32> {{
  %y = tensor.expand_shape %x [] output_shape [{extents}] : tensor<f32> into tensor<{shape}xf32>
  func.return %y : tensor<{shape}xf32>
}}
"""


@pytest.mark.parametrize(("shape", "extents"), [("1", "1"), ("1x1x1", "1, 1, 1")])
def test_a_tensor_without_dims_is_expanded(shape: str, extents: str):
    text = EXPANDED.format(shape=shape, extents=extents)
    parse_program(text, "program.mlir")
    mlir_opt(text)


def test_negative_a_tensor_without_dims_is_not_expanded_to_more_elements():
    with pytest.raises(
        ProgramError, match=r"program.mlir:3:8: .*tensor<f32> has one element, tensor<1x2xf32> has not"
    ):
        parse_program(EXPANDED.format(shape="1x2", extents="1, 2"), "program.mlir")
