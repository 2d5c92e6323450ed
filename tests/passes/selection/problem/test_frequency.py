"""How often ops run."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.diagnostics import PassError
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp
from layout_ir.passes.propagate import propagate
from layout_ir.passes.selection.problem.decision_points import decision_points
from layout_ir.passes.selection.problem.frequency import MOST_RUNS, BlockFrequencies, calls_of
from tests.programs import parse

T = "tensor<1x64x8x8xf32, #layout.any>"


def _weights(module: ModuleOp) -> dict[str, int]:
    weights = BlockFrequencies(calls_of(module))
    return {
        str(op.results[0].name_hint): weights.of(op) for op in module.walk() if isinstance(op, nn.UnaryOp)
    }


def _loops(trips: int) -> str:
    return f"""
  %low = arith.constant 0 : index
  %high = arith.constant {trips} : index
  %step = arith.constant 1 : index
  %r = scf.for %i = %low to %high step %step iter_args(%a = %x) -> ({T}) {{
    %q = scf.for %j = %low to %high step %step iter_args(%b = %a) -> ({T}) {{
      %c = BODY : ({T}) -> {T}
      scf.yield %c : {T}
    }}
    scf.yield %q : {T}
  }}"""


def test_a_function_runs_as_often_as_it_is_called():
    module = parse(f"""
func.func @main(%x : {T}) -> {T} {{
  %one = func.call @f(%x) : ({T}) -> {T}
  {_loops(5).replace("BODY", "func.call @f(%b)")}
  func.return %r : {T}
}}
func.func private @f(%x : {T}) -> {T} {{
  %f = nn.relu %x : {T}
  %y = func.call @g(%f) : ({T}) -> {T}
  func.return %y : {T}
}}
func.func private @g(%x : {T}) -> {T} {{
  %g = nn.relu %x : {T}
  func.return %g : {T}
}}
func.func @alone(%x : {T}) -> {T} attributes {{layout.frequency = 7}} {{
  %h = nn.relu %x : {T}
  func.return %h : {T}
}}""")
    assert _weights(module) == {"f": 26, "g": 26, "h": 7}


def test_what_a_called_function_needs_is_reordered_outside_of_the_loop_that_calls_it():
    kind = "layout.options = [#layout.option<ins = [#nChw8c], outs = [#nchw], cost = 1>]"
    module = parse(f"""
#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>
func.func @main(%x : tensor<1x64x8x8xf32, #nchw>) -> {T} {{
  %low = arith.constant 0 : index
  %high = arith.constant 5 : index
  %step = arith.constant 1 : index
  %s = nn.constant dense<0.0> : {T}
  %r = scf.for %i = %low to %high step %step iter_args(%a = %s) -> ({T}) {{
    %x1 = layout.reorder %x : tensor<1x64x8x8xf32, #nchw> -> {T}
    %c = func.call @f(%x1) : ({T}) -> {T}
    scf.yield %c : {T}
  }}
  func.return %r : {T}
}}
func.func private @f(%x : {T}) -> {T} {{
  %f = nn.relu %x {{{kind}}} : {T}
  func.return %f : {T}
}}""")
    propagate(module, "blocked8")
    moves = [op for op in module.walk() if isinstance(op, ReorderOp) and op.source_type != op.result_type]
    assert [op.parent_op() for op in moves] == [module.body.block.first_op]


@pytest.mark.parametrize("trips", [10**6, 2**63 - 1])
def test_loops_that_hardly_end_leave_room_for_costs(trips: int):
    module = parse(f"""
func.func @main(%x : {T}) -> {T} {{
  {_loops(trips).replace("BODY", "nn.relu %b").replace(f": ({T}) -> {T}", f": {T}")}
  func.return %r : {T}
}}""")
    assert _weights(module) == {"c": MOST_RUNS}
    solution = propagate(module, "blocked8")
    assert solution is not None and solution.bound is None and solution.omitted


@pytest.mark.parametrize("place", ["func.func", "nn.relu"])
def test_negative_a_frequency_that_is_no_count(place: str):
    on_function = "attributes {layout.frequency = -3}" if place == "func.func" else ""
    on_op = '{layout.frequency = "often"}' if place == "nn.relu" else ""
    module = parse(
        f"func.func @f(%x : {T}) -> {T} {on_function} {{ %y = nn.relu %x {on_op} : {T} func.return %y : {T} }}"
    )
    with pytest.raises(PassError, match="is no count: a whole number from 0 on"):
        decision_points(module)


@pytest.mark.parametrize("forwards", [True, False])
def test_a_chain_of_callers_may_be_long(forwards: bool):
    """Each of the first ten functions calls the next one twice, all others once."""
    count = 400
    functions: list[str] = []
    for k in range(count):
        calls = "" if k == count - 1 else f"%a = func.call @f{k + 1}(%x) : ({T}) -> {T}\n" * (1 + (k < 10))
        functions.append(f"""
func.func private @f{k}(%x : {T}) -> {T} {{
  {calls.replace("%a", "%b", 1) if calls else f"%a = nn.relu %x : {T}"}
  func.return %x : {T}
}}""")
    module = parse("".join(functions if forwards else reversed(functions)))
    relu = next(op for op in module.walk() if isinstance(op, nn.ReluOp))
    assert BlockFrequencies(calls_of(module)).of(relu) == 2**10


def test_functions_that_call_one_another_end():
    module = parse(f"""
func.func private @f(%x : {T}) -> {T} {{
  %y = func.call @g(%x) : ({T}) -> {T}
  func.return %y : {T}
}}
func.func private @g(%x : {T}) -> {T} {{
  %y = func.call @f(%x) : ({T}) -> {T}
  func.return %y : {T}
}}""")
    frequencies = BlockFrequencies(calls_of(module))
    assert [frequencies.of(op) for op in module.walk() if op.name == "func.call"] == [1, 1]
