"""Ops of math on scalars, tensors and vectors, in the forms of the stock mlir-opt."""

from __future__ import annotations

import pytest

from layout_ir.api.program_text import ProgramError, parse_program
from tests.dialects.upstream.elementwise_programs import as_one, elementwise_programs, one_op
from tests.dialects.upstream.round_trips import check_round_trip
from tests.oracles.mlir_text import check_forms, mlir_opt

needs_mlir = pytest.mark.skipif(mlir_opt() is None, reason="no mlir-opt-22: install mlir-22-tools")

OPS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("math.erfc %a : A", ("f32",), "f32"),
    ("math.isnan %a : A", ("f32",), "i1"),
    ("math.isfinite %a {fastmath = #arith.fastmath<nnan>} : A", ("f16",), "i1"),
    ("math.isinf %a : A", ("f64",), "i1"),
    ("math.isnormal %a : A", ("bf16",), "i1"),
    ("math.clampf %a to [%b, %c] : A", ("f32", "f32", "f32"), "f32"),
)


@needs_mlir
def test_they_are_the_ops_of_mlir():
    check_forms(as_one(elementwise_programs(OPS)))


@needs_mlir
def test_an_op_of_two_results():
    check_round_trip(
        "func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {\n"
        "  %sin, %cos = math.sincos %x : tensor<4xf32>\n"
        "  return %sin, %cos : tensor<4xf32>, tensor<4xf32>\n}\n"
    )


def test_negative_a_float_predicate_of_integers():
    program = one_op("math.isnan %a : tensor<4xi32>", ("tensor<4xi32>",), "tensor<4xi1>")
    with pytest.raises(ProgramError, match=r"program.mlir:2:\d+: .*elements of"):
        parse_program(program, "program.mlir")
