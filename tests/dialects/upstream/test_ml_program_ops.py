"""Ops of ml_program: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from layout_ir.api.program_text import ProgramError, parse_program, to_text
from tests.dialects.upstream.round_trips import check_round_trip

PROGRAM = """
ml_program.global private mutable @g(dense<4> : tensor<4xi32>) : tensor<4xi32>
ml_program.global private @e(#ml_program.extern) : i32
ml_program.global public mutable @open : tensor<4xi32> {a.e}
ml_program.global private mutable @dynamic(dense<4> : tensor<4xi32>) : tensor<?xi32>
ml_program.global private @h(#ml_program.extern<tensor<4xi32>>) : tensor<?xi32>
func.func @globals(%x: tensor<?xi32>) -> tensor<?xi32> {
  %0 = ml_program.global_load @dynamic : tensor<?xi32>
  %1 = ml_program.global_load_const @h : tensor<?xi32>
  ml_program.global_store @dynamic = %x : tensor<?xi32>
  return %0 : tensor<?xi32>
}
ml_program.func @f(%x: i32) -> i32 {
  ml_program.return %x : i32
}
ml_program.func private @declared(i32 {a.b}) -> (i32 {a.c = 1 : i64}) attributes {a.d}
ml_program.func @nothing() {
  ml_program.return
}
ml_program.subgraph private @declared_graph(i32) -> i32
ml_program.subgraph @in_any_order(%x: i32) -> i32 {
  %0 = arith.addi %1, %x : i32
  %1 = arith.addi %x, %x : i32
  ml_program.output %0 : i32
}
ml_program.subgraph @ordered() -> (tensor<4xi32>, !ml_program.token) {
  %t = ml_program.token
  %0, %u = ml_program.global_load_graph @g ordering(%t -> !ml_program.token) : tensor<4xi32>
  %1, %v = ml_program.global_load_graph @g ordering(() -> !ml_program.token) : tensor<4xi32>
  %w = ml_program.global_store_graph @g = %0 ordering(%u, %v -> !ml_program.token) : tensor<4xi32>
  ml_program.output %1, %w : tensor<4xi32>, !ml_program.token
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


def test_the_type_of_a_value_from_elsewhere_is_kept():
    text = "ml_program.global private @e(#ml_program.extern<tensor<4xi32>>) : tensor<?xi32>"
    assert "@e(#ml_program.extern<tensor<4xi32>>) : tensor<?xi32>" in to_text(parse_program(text, "p.mlir"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ml_program.global private @g : i32", "a global that never changes has a value"),
        (
            "ml_program.func @f(%x: i32) -> f32 {\nml_program.return %x : i32\n}",
            "it returns i32, its function f32",
        ),
        ("ml_program.func @f(%x: i32) {\nml_program.output\n}", "expects parent op 'ml_program.subgraph'"),
        (
            "ml_program.func @f(%x: i32, i32) {\nml_program.return\n}",
            "either all arguments have names or none",
        ),
        (
            "ml_program.subgraph @f(%x: i32) {\n%0, %1 = ml_program.global_load_graph @g ordering(%x -> i32) : i32\n}",
            "accesses are ordered by !ml_program.token, not by i32",
        ),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(text: str, reason: str):
    with pytest.raises(ProgramError, match=reason):
        parse_program(text, "program.mlir")
