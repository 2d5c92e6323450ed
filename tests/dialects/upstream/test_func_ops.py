"""Ops of func and cf that xDSL lacks."""

from __future__ import annotations

import pytest

from layout_ir.api.program_text import ProgramError, parse_program
from tests.dialects.upstream.round_trips import check_round_trip

PROGRAM = """
func.func @weights(%c: i1, %x: i32) -> i32 {
  cf.cond_br %c weights([1, 2]), ^a(%x : i32), ^b
^a(%y: i32):
  cf.br ^b
^b:
  return %x : i32
}
func.func private @callee(%x: f32) -> f32
func.func private @two(f32, f32) -> (f32, i32)
func.func @calls(%x: f32) -> f32 {
  %c = constant @callee : (f32) -> f32
  %y = call_indirect %c(%x) : (f32) -> f32
  %z = call @callee(%y) : (f32) -> f32
  %q:2 = call @two(%x, %y) : (f32, f32) -> (f32, i32)
  return %z : f32
}
func.func @result_attrs(%x: tensor<4xf32> {bufferization.writable = true}) -> (tensor<4xf32> {jax.result_info
      = "a"}) {
  return %x : tensor<4xf32>
}
func.func private @declared(f32 {llvm.noundef}, i32) -> (f32 {llvm.noundef}, i32 {a.b = 1 : i32}) attributes {a.c}
func.func @not_inlined(%x: f32, %f: () -> ()) -> (() -> ()) attributes {no_inline} {
  %y = call @callee(%x) {no_inline} : (f32) -> f32
  %z = "func.call"(%x) <{callee = @callee, arg_attrs = [{a.b}], res_attrs = [{a.c}]}> : (f32) -> f32
  return %f : () -> ()
}
func.func nested @nested() {
  return
}
func.func @higher(%f: (f32) -> (f32, f32), %g: () -> ()) -> (f32) {
  %x = arith.constant 1.0 : f32
  %r:2 = call_indirect %f(%x) : (f32) -> (f32, f32)
  func.call_indirect %g() : () -> ()
  return %r#0 : f32
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


def test_negative_a_call_of_a_value_that_is_another_function():
    call = '%r:2 = "func.call_indirect"(%f, %x) : ((f32) -> f32, f32) -> (f32, f32)'
    with pytest.raises(ProgramError, match=r"operands and results are not those of"):
        parse_program(f"func.func @f(%f: (f32) -> f32, %x: f32) {{\n{call}\nfunc.return\n}}", "program.mlir")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("func.func @f(%x: f32, i32) {\nfunc.return\n}", "either all arguments have names or none has"),
        (
            '"func.func"() <{arg_attrs = [{a}, {}], function_type = (f32) -> (), sym_name = "f"}> ({\n}) : () -> ()',
            r"2 arg_attrs for the 1 of \(f32\) -> \(\)",
        ),
        (
            """"func.func"() <{function_type = (f32) -> (), sym_name = "f"}> ({
^a(%x: i32):
  "func.return"() : () -> ()
}) : () -> ()""",
            r"the body takes i32, not as \(f32\) -> \(\) says",
        ),
    ],
)
def test_negative_a_function_whose_arguments_do_not_fit(text: str, reason: str):
    with pytest.raises(ProgramError, match=reason):
        parse_program(text, "program.mlir")


def test_negative_a_branch_of_three_weights():
    weights = "branch_weights = array<i32: 1, 2, 3>, operandSegmentSizes = array<i32: 1, 0, 0>"
    text = f"""func.func @f(%c: i1) {{
  "cf.cond_br"(%c) [^a, ^a] <{{{weights}}}> : (i1) -> ()
^a:
  func.return
}}"""
    with pytest.raises(ProgramError, match=r"3 weights for 2 branches"):
        parse_program(text, "program.mlir")
