"""linalg.generic, map, reduce, softmax and Winograd transforms, in the forms of the stock mlir-opt."""

from __future__ import annotations

import re

import pytest

from layout_ir.api.program_text import ProgramError, parse_program
from tests.oracles.mlir_text import check_forms, mlir_opt

needs_mlir = pytest.mark.skipif(mlir_opt() is None, reason="no mlir-opt-22: install mlir-22-tools")

PROGRAMS = {
    "a trait": """
#rows = {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
         iterator_types = ["parallel", "reduction"]}
func.func @f(%x : tensor<3x7xf32>, %s : tensor<3xf32>) -> tensor<3xf32> {
  %r = linalg.generic #rows ins(%x : tensor<3x7xf32>) outs(%s : tensor<3xf32>) {
  ^bb0(%a : f32, %b : f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<3xf32>
  return %r : tensor<3xf32>
}""",
    "several results": """
#id = affine_map<(i) -> (i)>
func.func @f(%x : tensor<4xf32>, %s : tensor<4xf32>, %t : tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %r:2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"], doc = "two",
    library_call = "both"} ins(%x : tensor<4xf32>) outs(%s, %t : tensor<4xf32>, tensor<4xi32>)
    attrs = {note = 1 : i64} {
  ^bb0(%a : f32, %b : f32, %c : i32):
    linalg.yield %a, %c : f32, i32
  } -> (tensor<4xf32>, tensor<4xi32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xi32>
}""",
    "a map in short": """
func.func @f(%x : tensor<4xf32>, %y : tensor<4xf32>, %s : tensor<4xf32>) -> tensor<4xf32> {
  %r = linalg.map { arith.addf {fastmath = #arith.fastmath<fast>} } ins(%x, %y : tensor<4xf32>, tensor<4xf32>)
    outs(%s : tensor<4xf32>)
  return %r : tensor<4xf32>
}""",
    "a map": """
func.func @f(%x : tensor<4xf32>, %s : tensor<4xi1>) -> tensor<4xi1> {
  %r = linalg.map ins(%x : tensor<4xf32>) outs(%s : tensor<4xi1>) (%a : f32, %b : i1) {
    %c = math.exp %a : f32
    %d = arith.cmpf olt, %a, %c : f32
    linalg.yield %d : i1
  }
  return %r : tensor<4xi1>
}""",
    "a map that knows where it is": """
func.func @f(%x : tensor<4x8xf32>, %s : tensor<4x8xindex>) -> tensor<4x8xindex> {
  %r = linalg.map ins(%x : tensor<4x8xf32>) outs(%s : tensor<4x8xindex>) (%a : f32, %b : index) {
    %c = linalg.index 1 : index
    linalg.yield %c : index
  }
  return %r : tensor<4x8xindex>
}""",
    "a reduction in short": """
func.func @f(%x : tensor<4x8xf32>, %s : tensor<4xf32>) -> tensor<4xf32> {
  %r = linalg.reduce { arith.subf } ins(%x : tensor<4x8xf32>) outs(%s : tensor<4xf32>) dimensions = [1]
  return %r : tensor<4xf32>
}""",
    "a reduction of several": """
func.func @f(%x : tensor<4x8xf32>, %y : tensor<4x8xi64>, %s : tensor<8xf32>, %t : tensor<8xi64>)
    -> (tensor<8xf32>, tensor<8xi64>) {
  %r:2 = linalg.reduce ins(%x, %y : tensor<4x8xf32>, tensor<4x8xi64>) outs(%s, %t : tensor<8xf32>, tensor<8xi64>)
    dimensions = [0] (%a : f32, %b : i64, %c : f32, %d : i64) {
    %e = arith.addf %a, %c : f32
    %g = arith.maxsi %b, %d : i64
    linalg.yield %e, %g : f32, i64
  }
  return %r#0, %r#1 : tensor<8xf32>, tensor<8xi64>
}""",
    "softmax": """
func.func @f(%x : tensor<4x8xf32>, %s : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = linalg.softmax dimension(1) ins(%x : tensor<4x8xf32>) outs(%s : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}""",
    "Winograd": """
func.func @f(%w : tensor<2x3x3x5xf32>, %s : tensor<6x6x5x2xf32>) -> tensor<6x6x5x2xf32> {
  %r = linalg.winograd_filter_transform fmr(F_4_3) ins(%w : tensor<2x3x3x5xf32>) outs(%s : tensor<6x6x5x2xf32>)
    -> tensor<6x6x5x2xf32>
  return %r : tensor<6x6x5x2xf32>
}""",
    "buffers": """
func.func @f(%x : memref<4x8xf32>, %s : memref<4xf32>) {
  linalg.reduce { arith.addf } ins(%x : memref<4x8xf32>) outs(%s : memref<4xf32>) dimensions = [1]
  linalg.map { math.exp } ins(%s : memref<4xf32>) outs(%s : memref<4xf32>)
  return
}""",
}


@needs_mlir
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_form_is_that_of_mlir(name: str):
    check_forms(PROGRAMS[name])


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            "a trait",
            '"reduction"',
            '"sideways"',
            '"sideways" is no iterator type: these are parallel, reduction',
        ),
        ("a trait", "indexing_maps = ", "maps = ", "linalg.generic needs a list of indexing_maps"),
        ("a trait", "(i, j) -> (i)>", "(i, j) -> (j)>", "to be 7, but found 3"),
        ("a map in short", "arith.addf", "arith.nothing", "unknown operation 'arith.nothing'"),
        ("a map", "(%a : f32, %b : i1)", "(%a : f32, %b : i8)", "to match element or self type"),
        ("a map that knows where it is", "index 1", "index 2", "dim 2 is none of the 2 loops of linalg.map"),
        ("a reduction in short", "[1]", "[2]", "dimensions = [2] has to name dims of tensor<4x8xf32>"),
        ("softmax", "(1)", "(2)", "dimension 2 is not one of tensor<4x8xf32>"),
        ("Winograd", "F_4_3", "F_9_9", "no size 'F_9_9': there are F_2_3, F_4_3, F_2_5"),
    ],
)
def test_negative_a_wrong_form_is_an_error_that_says_why(name: str, old: str, new: str, message: str):
    text = PROGRAMS[name]
    assert old in text
    with pytest.raises(ProgramError, match=re.escape(message)):
        parse_program(text.replace(old, new), "program.mlir")


def test_negative_an_index_outside_of_linalg():
    text = "func.func @f() -> index {\n  %c = linalg.index 0 : index\n  func.return %c : index\n}"
    with pytest.raises(ProgramError, match=r"in the body of a structured op of linalg, not of func\.func"):
        parse_program(text, "program.mlir")
