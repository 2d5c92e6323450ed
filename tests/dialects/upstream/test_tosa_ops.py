"""Ops of tosa that xDSL lacks, in the forms of the stock mlir-opt."""

from __future__ import annotations

import re

import pytest

from layout_ir.api.program_text import ProgramError, parse_program
from tests.oracles.mlir_text import check_forms, mlir_opt

needs_mlir = pytest.mark.skipif(mlir_opt() is None, reason="no mlir-opt-22: install mlir-22-tools")

T = "tensor<2x3x4xf32>"
I = "tensor<2x3x4xi32>"  # noqa: E741
B = "tensor<2x3x4xi1>"

OPS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    *(
        (op, (T,), T)
        for op in ("abs", "ceil", "erf", "exp", "floor", "log", "rsqrt", "sigmoid", "tanh", "identity")
    ),
    *((op, (T, T), T) for op in ("pow", "maximum", "minimum {nan_mode = IGNORE}")),
    *((op, (I, I), I) for op in ("bitwise_and", "bitwise_or", "bitwise_xor", "intdiv", "logical_left_shift")),
    *((op, (I, I), I) for op in ("logical_right_shift", "arithmetic_right_shift {round = false}")),
    *((op, (B, B), B) for op in ("logical_and", "logical_or", "logical_xor")),
    *((op, (T, T), B) for op in ("equal", "greater", "greater_equal")),
    ("logical_not", (B,), B),
    ("bitwise_not", (I,), I),
    ("clz", (I,), I),
    ("select", (B, T, T), T),
    ("negate", (T, "tensor<1xf32>", "tensor<1xf32>"), T),
    ("transpose {perms = array<i32: 2, 0, 1>}", (T,), "tensor<4x2x3xf32>"),
    ("reverse {axis = 1 : i32}", (T,), T),
    ("argmax {axis = 1 : i32, nan_mode = PROPAGATE}", (T,), "tensor<2x4xi32>"),
    ("reduce_max {axis = 1 : i32, nan_mode = IGNORE}", (T,), "tensor<2x1x4xf32>"),
    ("clamp {min_val = 0.0 : f32, max_val = 6.0 : f32, nan_mode = IGNORE}", (T,), T),
    ("cast", (T,), I),
    ("gather", (T, "tensor<2x5xi32>"), "tensor<2x5x4xf32>"),
    ("matmul", (T, "tensor<2x4x5xf32>", "tensor<1xf32>", "tensor<1xf32>"), "tensor<2x3x5xf32>"),
    (
        "conv2d {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}",
        ("tensor<1x4x4x4xf32>", "tensor<8x1x1x4xf32>", "tensor<8xf32>", "tensor<1xf32>", "tensor<1xf32>"),
        "tensor<1x4x4x8xf32>",
    ),
    (
        "max_pool2d {kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>}",
        ("tensor<1x4x4x4xf32>",),
        "tensor<1x2x2x4xf32>",
    ),
)


def _program(op: str, ins: tuple[str, ...], out: str) -> str:
    arguments = ", ".join(f"%a{k} : {type}" for k, type in enumerate(ins))
    name, _, attributes = op.partition(" ")
    operands = ", ".join(f"%a{k}" for k in range(len(ins)))
    return (
        f"func.func @f({arguments}) -> {out} {{\n"
        f"  %r = tosa.{name} {operands} {attributes} : ({', '.join(ins)}) -> {out}\n  return %r : {out}\n}}\n"
    )


@needs_mlir
@pytest.mark.parametrize(("op", "ins", "out"), OPS, ids=[op for op, _, _ in OPS])
def test_an_op_is_the_one_of_mlir(op: str, ins: tuple[str, ...], out: str):
    check_forms(_program(op, ins, out))


@needs_mlir
def test_shapes_loops_and_constants_are_those_of_mlir():
    check_forms("""
func.func @f(%x : tensor<2x3x4xf32>, %n : tensor<i32>) -> (tensor<6x4xf32>, tensor<i32>) {
  %s = tosa.const_shape {values = dense<[6, 4]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %r = tosa.reshape %x, %s : (tensor<2x3x4xf32>, !tosa.shape<2>) -> tensor<6x4xf32>
  %zero = "tosa.const"() {values = dense<0> : tensor<i32>} : () -> tensor<i32>
  %one = "tosa.const"() {values = dense<1> : tensor<i32>} : () -> tensor<i32>
  %k = tosa.while_loop (%a = %zero) : (tensor<i32>) -> tensor<i32> {
    %c = tosa.greater_equal %n, %a : (tensor<i32>, tensor<i32>) -> tensor<i1>
    tosa.yield %c : tensor<i1>
  } do {
  ^bb0(%b : tensor<i32>):
    %d = tosa.add %b, %one : (tensor<i32>, tensor<i32>) -> tensor<i32>
    tosa.yield %d : tensor<i32>
  }
  return %r, %k : tensor<6x4xf32>, tensor<i32>
}""")


@needs_mlir
def test_a_condition_is_that_of_mlir():
    check_forms("""
func.func @f(%c : tensor<i1>, %x : tensor<4xf32>) -> tensor<4xf32> {
  %r = tosa.cond_if %c : tensor<i1> -> tensor<4xf32> {
    tosa.yield %x : tensor<4xf32>
  } else {
    tosa.yield %x : tensor<4xf32>
  }
  %q = tosa.cond_if %c (%a = %x, %b = %r) : tensor<i1> (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a : tensor<4xf32>, %b : tensor<4xf32>):
    tosa.yield %a : tensor<4xf32>
  } else {
  ^bb0(%a : tensor<4xf32>, %b : tensor<4xf32>):
    tosa.yield %b : tensor<4xf32>
  }
  return %q : tensor<4xf32>
}""")


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("maximum {nan_mode = PERHAPS}", "'PERHAPS' is no nan_mode"),
        ("transpoze", "unknown operation 'tosa.transpoze': did you mean 'tosa.transpose'"),
    ],
)
def test_negative_a_wrong_word_is_an_error(op: str, message: str):
    with pytest.raises(ProgramError, match=re.escape(message)):
        parse_program(_program(op, (T, T), T), "program.mlir")
