"""Ops of arith on tensors, and flags, in the forms of the stock mlir-opt."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.api.program_text import ProgramError, parse_program
from tests.dialects.upstream.elementwise_programs import as_one, elementwise_programs, one_op
from tests.oracles.mlir_text import check_forms, mlir_opt

needs_mlir = pytest.mark.skipif(mlir_opt() is None, reason="no mlir-opt-22: install mlir-22-tools")

OPS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("arith.cmpf olt, %a, %b : A", ("f32", "f32"), "i1"),
    ("arith.cmpf uno, %a, %b fastmath<fast> : A", ("f16", "f16"), "i1"),
    ("arith.cmpi sge, %a, %b : A", ("i8", "i8"), "i1"),
    ("arith.cmpi eq, %a, %b : A", ("index", "index"), "i1"),
    ("arith.extsi %a : A to R", ("i8",), "i32"),
    ("arith.extui %a : A to R", ("i1",), "i64"),
    ("arith.trunci %a overflow<nsw> : A to R", ("i64",), "i8"),
    ("arith.extf %a : A to R", ("bf16",), "f32"),
    ("arith.truncf %a fastmath<nnan> : A to R", ("f64",), "f16"),
    ("arith.sitofp %a : A to R", ("i32",), "f32"),
    ("arith.uitofp %a : A to R", ("i8",), "f16"),
    ("arith.fptosi %a : A to R", ("f32",), "i8"),
    ("arith.fptoui %a : A to R", ("f32",), "i8"),
    ("arith.index_cast %a : A to R", ("i32",), "index"),
    ("arith.index_castui %a : A to R", ("index",), "i64"),
    ("arith.shrsi %a, %b exact : A", ("i32", "i32"), "i32"),
    ("arith.divui %a, %b exact : A", ("i8", "i8"), "i8"),
    ("arith.remf %a, %b : A", ("f32", "f32"), "f32"),
)


@needs_mlir
def test_they_are_the_ops_of_mlir():
    programs = elementwise_programs(OPS)
    tensor, bits = "tensor<3x4xf32>", "tensor<3x4xi1>"
    programs.append(one_op(f"arith.select %a, %b, %c : {bits}, {tensor}", (bits, tensor, tensor), tensor))
    programs.append(one_op(f"arith.select %a, %b, %c : {tensor}", ("i1", tensor, tensor), tensor))
    check_forms(as_one(programs))


@pytest.mark.parametrize(
    ("op", "types", "result", "message"),
    [
        ("arith.extsi %a : tensor<4xi32> to tensor<4xi8>", ("tensor<4xi32>",), "tensor<4xi8>", "wider than"),
        ("arith.sitofp %a : tensor<4xi32> to tensor<5xf32>", ("tensor<4xi32>",), "tensor<5xf32>", "shape"),
        ("arith.fptosi %a : tensor<4xi32> to tensor<4xi8>", ("tensor<4xi32>",), "tensor<4xi8>", "elements of"),
        ("arith.index_cast %a : index to index", ("index",), "index", "has to be of integers"),
        ("arith.extsi %a : i8 to tensor<i32>", ("i8",), "tensor<i32>", "not alike"),
        ("arith.cmpf lt, %a, %b : f32", ("f32", "f32"), "i1", "'lt' is no predicate"),
        (
            "arith.select %a, %b, %c : tensor<3xi1>, tensor<4xf32>",
            ("tensor<3xi1>", "tensor<4xf32>", "tensor<4xf32>"),
            "tensor<4xf32>",
            "the condition for",
        ),
    ],
)  # fmt: skip
def test_negative_types_that_do_not_fit(op: str, types: tuple[str, ...], result: str, message: str):
    with pytest.raises(ProgramError, match=rf"program.mlir:2:\d+: .*{message}"):
        parse_program(one_op(op, types, result), "program.mlir")


PROGRAM = """
func.func @main(%x: tensor<1x20x4x4xf32>, %y: tensor<1x20x4x4xf32>) -> (tensor<1x20x4x4xf32>, tensor<1x20x4x4xi8>) {
  %less = arith.cmpf olt, %x, %y : tensor<1x20x4x4xf32>
  %chosen = arith.select %less, %x, %y : tensor<1x20x4x4xi1>, tensor<1x20x4x4xf32>
  %bits = arith.extui %less : tensor<1x20x4x4xi1> to tensor<1x20x4x4xi32>
  %whole = arith.fptosi %chosen : tensor<1x20x4x4xf32> to tensor<1x20x4x4xi32>
  %sum = arith.addi %bits, %whole : tensor<1x20x4x4xi32>
  %small = arith.trunci %sum : tensor<1x20x4x4xi32> to tensor<1x20x4x4xi8>
  %bad = math.isnan %x : tensor<1x20x4x4xf32>
  %zero = arith.constant dense<0.0> : tensor<1x20x4x4xf32>
  %good = arith.select %bad, %zero, %chosen : tensor<1x20x4x4xi1>, tensor<1x20x4x4xf32>
  return %good, %small : tensor<1x20x4x4xf32>, tensor<1x20x4x4xi8>
}
"""


@pytest.mark.parametrize("form", [None, "linalg", "loops"])
def test_layouts_are_chosen_through_them(form: Any):
    rng = np.random.default_rng(0)
    x, y = (4 * rng.standard_normal((1, 20, 4, 4)).astype(np.float32) for _ in range(2))
    module = li.parse(PROGRAM)
    assert li.open_layouts(module) == 9
    li.optimize(module, "blocked8")
    if form is not None:
        text = li.to_text(li.to_mlir(module, form=form))
        assert "#layout" not in text
        if mlir_opt() is not None:
            check_forms(text)
        return
    good, small = li.run(module, [x, y])
    np.testing.assert_array_equal(good, np.where(x < y, x, y))
    np.testing.assert_array_equal(small, (x < y) + np.trunc(np.minimum(x, y)).astype(np.int8))
    x[0, 3] = math.nan
    np.testing.assert_array_equal(li.run(module, [x, y])[0][0, 3], 0)


def test_a_comparison_of_blocks_is_of_one_type():
    """MLIR's form says the type of the operands alone."""
    blocked = "tensor<1x20x4x4x{}, #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>>".format
    program = one_op(f"arith.cmpf olt, %a, %a : {blocked('f32')}", (blocked("f32"),), blocked("i1"))
    assert li.to_text(li.parse(li.to_text(li.parse(program)))) == li.to_text(li.parse(program))
    with pytest.raises(ProgramError, match="but has been previously used or defined with type"):
        li.parse(
            program.replace(f"-> {blocked('i1')}", "-> tensor<1x20x4x4xi1>").replace(
                f"%r : {blocked('i1')}", "%r : tensor<1x20x4x4xi1>"
            )
        )


def test_negative_an_op_that_is_not_known_is_not_taken_for_a_dialect_that_is_not():
    with pytest.raises(ProgramError, match=r"op 'tensor.nonesuch' is not known: .* generic form"):
        li.parse("func.func @f() {\n  tensor.nonesuch\n  return\n}", allow_unregistered=True)
