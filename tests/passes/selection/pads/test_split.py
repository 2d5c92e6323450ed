"""What pads hold is part of the problem: fills are priced, shared, hoisted, and traded against formats without pads."""

from __future__ import annotations

import pytest

from layout_ir.algebra.format import Format
from layout_ir.dialects.layout import FillPadsOp, ReorderOp
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.selection.costs.cost_model import BUILT_IN, fill_ns
from tests.passes.selection.pads.padded_programs import (
    BLOCKED,
    NEEDS_NOTHING,
    NEEDS_ZERO,
    TYPE,
    UNDECIDED,
    selected,
)
from tests.programs import parse

FILL = fill_ns(Format.from_tag("nChw8c").bind((1, 17, 4, 4)), "f32")


def test_a_fill_costs_the_pads_that_it_writes():
    _, cost = selected(f"""
      %b = nn.exp %x : ({BLOCKED}) -> {TYPE}
      %y = "test.op"(%b) {{{NEEDS_ZERO}}} : ({TYPE}) -> {TYPE}""")
    assert cost == FILL + 5
    assert BUILT_IN.call_ns + 4 * (24 - 17) * 16 // 20 == FILL


def test_negative_no_fill_where_nothing_needs_it():
    _, cost = selected(f"""
      %b = nn.exp %x : ({BLOCKED}) -> {TYPE}
      %y = "test.op"(%b) {{{NEEDS_NOTHING}}} : ({TYPE}) -> {TYPE}""")
    assert cost == 5


def test_one_fill_serves_all_uses():
    _, cost = selected(f"""
      %b = nn.exp %x : ({BLOCKED}) -> {TYPE}
      %c = "test.op"(%b) {{{NEEDS_ZERO}}} : ({TYPE}) -> {TYPE}
      %y = "test.op"(%b) {{{NEEDS_ZERO}}} : ({TYPE}) -> {TYPE}""")
    assert cost == FILL + 10


def test_one_fill_in_front_of_ops_that_keep_it():
    _, cost = selected(f"""
      %b = nn.exp %x : ({BLOCKED}) -> {TYPE}
      %c = nn.relu %b : {TYPE}
      %d = nn.neg %b : {TYPE}
      %e = "test.op"(%c) {{{NEEDS_ZERO}}} : ({TYPE}) -> {TYPE}
      %y = "test.op"(%d) {{{NEEDS_ZERO}}} : ({TYPE}) -> {TYPE}""")
    assert cost == FILL + 10


def test_a_fill_stands_in_front_of_the_loop_that_needs_it():
    _, cost = selected(f"""
      %low = arith.constant 0 : index
      %high = arith.constant 7 : index
      %one = arith.constant 1 : index
      %b = nn.exp %x : ({BLOCKED}) -> {TYPE}
      %y = scf.for %k = %low to %high step %one iter_args(%s = %b) -> ({TYPE}) {{
        %c = "test.op"(%s) {{{NEEDS_ZERO}}} : ({TYPE}) -> {TYPE}
        %d = nn.relu %c : {TYPE}
        scf.yield %d : {TYPE}
      }}""")
    assert cost == FILL + 7 * 5


def test_a_loop_does_not_promise_what_nothing_in_it_needs():
    _, cost = selected(
        f"""
      %low = arith.constant 0 : index
      %high = arith.constant 7 : index
      %one = arith.constant 1 : index
      %y = scf.for %k = %low to %high step %one iter_args(%s = %x) -> ({TYPE}) {{
        %d = nn.exp %s : {TYPE}
        scf.yield %d : {TYPE}
      }}""".replace(f"iter_args(%s = %x) -> ({TYPE})", f"iter_args(%s = %i) -> ({TYPE})").replace(
            "%low =", f"%i = layout.reorder %x : {BLOCKED} -> {TYPE}\n      %low ="
        )
    )
    assert cost == 0


def test_options_that_differ_in_pads_only_are_weighed_against_a_fill():
    """Running on any pads is worth 8 to this op: less than a fill of its operand, more than nothing."""
    options = ", ".join(
        f"#layout.option<ins = [{fmt}], outs = [#layout.tag<nChw8c>], cost = {cost}>"
        for fmt, cost in (("#layout.tag<nChw8c>", 2), (UNDECIDED, 10))
    )
    _, kept = selected(f'%y = "test.op"(%x) {{layout.options = [{options}]}} : ({BLOCKED}) -> {TYPE}')
    assert kept == 2
    _, filled = selected(f"""
      %b = nn.exp %x : ({BLOCKED}) -> {TYPE}
      %y = "test.op"(%b) {{layout.options = [{options}]}} : ({TYPE}) -> {TYPE}""")
    assert filled == 10


@pytest.mark.parametrize(
    "op, pad", [("nn.softmax %i axis = 1", "-inf"), ("nn.reduce_max %i axes = [1]", "-inf")]
)
def test_a_fill_with_the_neutral_element_instead_of_a_reorder(op: str, pad: str):
    """A large tensor: filling its few pads is cheaper than moving all of it."""
    big, free = (f"tensor<1x17x128x128xf32, #layout.{text}>" for text in ("tag<nChw8c>", "any"))
    shape = "1x1x128x128" if "reduce" in op else "1x17x128x128"
    module = parse(f"""func.func @main(%x : {big}) -> tensor<{shape}xf32, #layout.tag<nChw8c>> {{
      %i = layout.reorder %x : {big} -> {free}
      %a = {op} : ({free}) -> tensor<{shape}xf32, #layout.any>
      %y = layout.reorder %a : tensor<{shape}xf32, #layout.any> -> tensor<{shape}xf32, #layout.tag<nChw8c>>
      func.return %y : tensor<{shape}xf32, #layout.tag<nChw8c>>
    }}""")
    optimize(module, "blocked8")
    module.verify()
    moves = [op for op in module.walk() if isinstance(op, ReorderOp | FillPadsOp)]
    assert [type(move) for move in moves] == [FillPadsOp]
    assert f"pad = {pad}" in str(moves[0].result.type)
