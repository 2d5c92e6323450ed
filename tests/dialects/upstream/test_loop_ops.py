"""Loops of scf: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from layout_ir.api.program_text import parse_program, to_text
from tests.dialects.upstream.round_trips import check_error, check_round_trip

PROGRAM = """
func.func @forall(%in: tensor<100xf32>, %out: tensor<100xf32>) -> tensor<100xf32> {
  %n = arith.constant 100 : index
  %r = scf.forall (%i) in (%n) shared_outs(%o = %out) -> (tensor<100xf32>) {
    %x = tensor.extract_slice %in[%i][1][1] : tensor<100xf32> to tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %x into %o[%i][1][1] : tensor<1xf32> into tensor<100xf32>
    }
  }
  return %r : tensor<100xf32>
}
func.func @forall_static(%in: tensor<100x3xf32>, %out: tensor<100x3xf32>, %out2: tensor<100x3xf32>) ->
      (tensor<100x3xf32>, tensor<100x3xf32>) {
  %r:2 = scf.forall (%i, %j) = (0, 1) to (100, 3) step (1, 2) shared_outs(%o = %out, %p = %out2) ->
      (tensor<100x3xf32>, tensor<100x3xf32>) {
    %x = tensor.extract_slice %in[%i, %j][1, 1][1, 1] : tensor<100x3xf32> to tensor<1x1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %x into %o[%i, %j][1, 1][1, 1] : tensor<1x1xf32> into tensor<100x3xf32>
      tensor.parallel_insert_slice %x into %p[%i, %j][1, 1][1, 1] : tensor<1x1xf32> into tensor<100x3xf32>
    }
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return %r#0, %r#1 : tensor<100x3xf32>, tensor<100x3xf32>
}
func.func @forall_memref(%m: memref<100xf32>, %n: index) {
  %c = arith.constant 1.0 : f32
  scf.forall (%i) in (%n) {
    memref.store %c, %m[%i] : memref<100xf32>
  }
  return
}
func.func @forall_lb(%m: memref<100xf32>, %n: index) {
  %c = arith.constant 1.0 : f32
  scf.forall (%i, %j) = (%n, 0) to (10, %n) step (2, %n) {
    memref.store %c, %m[%i] : memref<100xf32>
    scf.forall.in_parallel {
    }
  } {foo = 1 : i32}
  return
}
func.func @parallel(%a: index, %b: index, %s: index) {
  scf.parallel (%i, %j) = (%a, %a) to (%b, %b) step (%s, %s) {
    %x = arith.addi %i, %j : index
    scf.reduce
  }
  scf.parallel (%i, %j) = (%a, %a) to (%b, %b) step (%s, %s) {
    %x = arith.addi %i, %j : index
  } {foo}
  return
}
func.func @parallel_reduce(%a: index, %b: index, %s: index, %z: f32) -> (f32, f32) {
  %r:2 = scf.parallel (%i, %j) = (%a, %a) to (%b, %b) step (%s, %s) init (%z, %z) -> (f32, f32) {
    scf.reduce(%z, %z : f32, f32) {
    ^bb0(%l: f32, %m: f32):
      %q = arith.addf %l, %m : f32
      scf.reduce.return %q : f32
    }, {
    ^bb0(%l: f32, %m: f32):
      %q = arith.mulf %l, %m : f32
      scf.reduce.return %q : f32
    }
  }
  return %r#0, %r#1 : f32, f32
}
func.func @for(%a: index, %b: index, %s: index, %z: f32) -> (f32, f32) {
  %r:2 = scf.for %i = %a to %b step %s iter_args(%x = %z, %y = %z) -> (f32, f32) {
    %q = arith.addf %x, %y : f32
    scf.yield %q, %x : f32, f32
  } {foo}
  scf.for %i = %a to %b step %s {
    %q = arith.addf %z, %z : f32
  }
  return %r#0, %r#1 : f32, f32
}
func.func @for_i32(%a: i32, %b: i32, %s: i32) {
  scf.for %i = %a to %b step %s : i32 {
    %q = arith.addi %i, %i : i32
  }
  scf.for unsigned %i = %a to %b step %s : i32 {
    %q = arith.addi %i, %i : i32
  }
  return
}
func.func @if(%a: i1, %x: f32) -> f32 {
  scf.if %a {
    %q = arith.addf %x, %x : f32
  }
  scf.if %a {
    %q = arith.addf %x, %x : f32
  } else {
    %q = arith.mulf %x, %x : f32
  } {foo}
  %r = scf.if %a -> (f32) {
    scf.yield %x : f32
  } else {
    %q = arith.mulf %x, %x : f32
    scf.yield %q : f32
  }
  return %r : f32
}
func.func @while(%x: f32, %c: i1) -> f32 {
  %r = scf.while (%a = %x) : (f32) -> f32 {
    scf.condition(%c) %a : f32
  } do {
  ^bb0(%b: f32):
    scf.yield %b : f32
  }
  %s:2 = scf.while (%a = %x, %k = %x) : (f32, f32) -> (f32, f32) {
    scf.condition(%c) %a, %a : f32, f32
  } do {
  ^bb0(%b: f32, %d: f32):
    scf.yield %b, %d : f32, f32
  } attributes {foo}
  return %r : f32
}
func.func @while0(%c: i1) {
  scf.while : () -> () {
    scf.condition(%c)
  } do {
    scf.yield
  }
  return
}
func.func @execute_region(%c: i1) -> i64 {
  %r = scf.execute_region -> i64 {
    cf.cond_br %c, ^a, ^b
  ^a:
    %x = arith.constant 1 : i64
    cf.br ^d(%x : i64)
  ^b:
    %y = arith.constant 2 : i64
    cf.br ^d(%y : i64)
  ^d(%z: i64):
    scf.yield %z : i64
  }
  scf.execute_region no_inline {
    scf.yield
  }
  return %r : i64
}
func.func @switch(%c: index) -> i32 {
  %r = scf.index_switch %c -> i32
  case 2 {
    %x = arith.constant 1 : i32
    scf.yield %x : i32
  }
  case 5 {
    %x = arith.constant 2 : i32
    scf.yield %x : i32
  }
  default {
    %x = arith.constant 3 : i32
    scf.yield %x : i32
  }
  scf.index_switch %c
  default {
  }
  return %r : i32
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


ARGUMENTS = "%t: tensor<8xf32>, %s: tensor<1xf32>, %n: index, %x: f32, %m: i32"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        (
            """scf.forall (%i) in (2) {
scf.forall.in_parallel {
tensor.parallel_insert_slice %s into %t[%i] [1] [1] : tensor<1xf32> into tensor<8xf32>
}
}""",
            r"shared tensors that the body takes alone",
        ),
        (
            """scf.forall (%i) in (2) {
scf.forall.in_parallel {
%q = arith.addf %x, %x : f32
}
}""",
            r"takes tensor.parallel_insert_slice alone, not arith.addf",
        ),
        (
            """scf.forall (%i, %j) in (2) {
}""",
            r"2 and 1 bounds or steps for the same loops",
        ),
        (
            """scf.parallel (%i) = (%n, %n) to (%n) step (%n) {
scf.reduce
}""",
            r"same number of lower bounds",
        ),
        (
            """scf.for unsigned %i = %n to %n step %n {
}""",
            r"'unsigned' is said of integers, not of index",
        ),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)


def test_one_result_of_a_branch_may_be_written_without_parentheses():
    text = """
func.func @f(%c: i1, %x: f32) -> f32 {
  %r = scf.if %c -> f32 {
    scf.yield %x : f32
  } else {
    scf.yield %x : f32
  }
  func.return %r : f32
}"""
    written = to_text(parse_program(text, "program.mlir"))
    assert written == to_text(parse_program(text.replace("if %c -> f32", "if %c -> (f32)"), "program.mlir"))


def test_a_branch_may_end_with_an_op_that_is_not_known():
    text = 'func.func @f(%c: i1) {\nscf.if %c {\n  "their.op"() : () -> ()\n}\nfunc.return\n}'
    module = parse_program(text, "program.mlir", allow_unregistered=True)
    assert [op.name for op in module.walk()].count("scf.yield") == 1
