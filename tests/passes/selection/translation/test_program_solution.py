"""What a solver finds is said of the program: what is proven, what is left out, and which op is to blame."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layout_ir.certificate.checking import verify
from layout_ir.diagnostics import PassError
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.problem.selection import Omission, Selection
from layout_ir.passes.selection.translation import program_solution
from layout_ir.passes.selection.translation.from_ir import build
from layout_ir.passes.selection.translation.program_solution import certify_program, solve_program
from layout_ir.selection.solver.selection_problem import FORBIDDEN, Problem, ValueNode, evaluate
from tests.passes.programs import random_program
from tests.programs import parse
from tests.selection.problems import brute_force

ANY = "tensor<1x16x8x8xf32, #layout.any>"
CHAIN = f"""func.func @f(%x : tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32> {{
  %0 = nn.softmax %x axis = 1 : (tensor<1x16x8x8xf32>) -> {ANY}
  %1 = nn.add %0, %0 : {ANY}
  %2 = layout.reorder %1 : {ANY} -> tensor<1x16x8x8xf32>
  func.return %2 : tensor<1x16x8x8xf32>
}}"""


def _selection() -> Selection:
    return build(parse(CHAIN), target_named("blocked8"))


def test_solution_is_the_optimum_and_its_certificate_proves_it():
    selection = _selection()
    solution = solve_program(selection)
    certified, certificate = certify_program(selection, None, {"target": "blocked8"})
    assert solution == certified and solution.cost == solution.bound == brute_force(selection.problem)
    verdict = verify(certificate)
    assert verdict.is_optimal and verdict.bound == solution.bound
    assert certificate["origin"] == {"target": "blocked8"} and "omitted" not in certificate


@pytest.mark.parametrize("solver", ["greedy", "naive"])
def test_negative_other_solvers_prove_nothing(solver: str):
    module, _ = random_program(3, 6)
    selection = build(module, target_named("blocked8"))
    solution = solve_program(selection, solver)
    assert solution.bound is None and not solution.is_optimal
    assert solution.cost == evaluate(selection.problem, solution.choices) >= solve_program(selection).cost


def test_negative_where_a_part_of_the_choice_is_left_out_nothing_is_proven():
    selection = _selection()
    op = selection.decisions[0].point.op
    lacking = replace(selection, omissions=tuple(Omission(op, what) for what in ("this", "that", "this")))
    solution = solve_program(lacking)
    assert solution.omitted == ("this", "that") and solution.bound is None and not solution.is_optimal
    assert solution.choices == solve_program(selection).choices
    certified, certificate = certify_program(lacking, None, {})
    assert certified == solution and certificate["omitted"] == 2
    assert not verify(certificate).is_optimal


@pytest.mark.parametrize("certified", [True, False])
def test_negative_an_op_beyond_the_range_of_costs_is_named(certified: bool):
    selection = _selection()
    ops = list(selection.problem.ops)
    number = next(k for k, d in enumerate(selection.decisions) if d.point.op.name == "nn.softmax")
    ops[number] = replace(
        ops[number], choices=tuple(replace(choice, cost=FORBIDDEN) for choice in ops[number].choices)
    )
    dear = replace(selection, problem=Problem(tuple(ops), selection.problem.values))
    with pytest.raises(PassError, match="softmax"):
        certify_program(dear, None, {}) if certified else solve_program(dear)


def test_negative_options_that_do_not_meet_are_named_on_both_sides(monkeypatch: pytest.MonkeyPatch):
    """Only the problem forbids the reorder between the two formats; by the cost model it is possible."""
    takes, makes = ("[#layout.tag<nhwc>]", "[]"), ("[]", "[#layout.tag<nchw>]")
    made, taken = (
        f"layout.options = [#layout.option<ins = {ins}, outs = {outs}, cost = 1>]"
        for ins, outs in (makes, takes)
    )
    selection = build(
        parse(f"""func.func @f() {{
          %0 = "test.op"() {{{made}}} : () -> {ANY}
          "test.op"(%0) {{{taken}}} : ({ANY}) -> ()
          func.return }}"""),
        target_named("blocked8"),
    )
    assert solve_program(selection).is_optimal
    apart = ValueNode(((0, FORBIDDEN), (FORBIDDEN, 0)))
    stuck = replace(selection, problem=Problem(selection.problem.ops, (apart,)))
    with pytest.raises(PassError, match=r"test\.op makes a .* in nchw, and test\.op takes it in nhwc"):
        solve_program(stuck)
    monkeypatch.setattr(program_solution, "NAMED", 1)
    with pytest.raises(LayoutError, match="no choice of options fits together") as caught:
        solve_program(stuck)
    assert not isinstance(caught.value, PassError)
