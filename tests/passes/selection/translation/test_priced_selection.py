"""A problem whose prices can change is the problem that would be stated under the changed prices."""

from __future__ import annotations

import pytest

from layout_ir.passes.selection.costs.measured_costs import End, MeasuredCosts, Origin
from layout_ir.passes.selection.costs.price_keys import REORDER
from layout_ir.selection.solver.selection_problem import evaluate
from layout_ir.selection.solver.solve import solve
from tests.passes.selection.costs.priced_problems import SOURCE, Truth, priced

PROGRAMS = [
    ("residual", "blocked8"),
    ("residual", "blocked16"),
    ("unet", "blocked8"),
    ("attention", "blocked16"),
]


@pytest.mark.parametrize(("name", "target"), PROGRAMS)
def test_without_prices_it_is_the_problem_as_stated(name: str, target: str) -> None:
    problem = priced(name, target)
    assert problem.problem_at(End.MIDDLE) == problem.selection.problem
    assert set(problem.origins()) == {Origin.BUILT_IN}


@pytest.mark.parametrize(("name", "target"), PROGRAMS)
def test_prices_that_come_later_give_what_they_would_have_given(name: str, target: str) -> None:
    later = priced(name, target)
    truth = Truth(later, seed=1)
    later.costs.prices.update(truth.prices)
    stated = priced(name, target, MeasuredCosts(dict(truth.prices), SOURCE))
    assert solve(later.problem_at(End.MIDDLE)).cost == solve(stated.selection.problem).cost
    assert set(stated.questions) <= set(later.questions)
    assert set(later.origins()) == {Origin.MEASURED}


def test_the_questions_of_a_choice_are_those_that_its_cost_depends_on() -> None:
    problem = priced("unet")
    choices = solve(problem.selection.problem).choices
    asked = problem.questions_of(choices)
    assert 0 < len(asked) < len(problem.questions)
    cost = evaluate(problem.problem_at(End.MIDDLE), choices)
    for key in problem.questions:
        before = problem.price(key)
        problem.costs.prices[key] = type(before)(
            before.low, before.ns + 1_000_000_000, before.high + 2_000_000_000
        )
        is_dearer = evaluate(problem.problem_at(End.MIDDLE), choices) > cost
        # A reorder that becomes dearer may be done by way of another format.
        assert is_dearer == (key in asked) or key.op == REORDER, key
        del problem.costs.prices[key]


def test_what_a_choice_rests_on_can_be_dear_where_all_else_is_cheap() -> None:
    problem = priced("residual")
    truth = Truth(problem, seed=3)
    choices = solve(problem.selection.problem).choices
    worst = problem.problem_at(End.LOW, choices)
    assert evaluate(worst, choices) == evaluate(problem.problem_at(End.HIGH), choices)
    low = problem.problem_at(End.LOW)
    for number, (dear, cheap) in enumerate(zip(worst.ops, low.ops, strict=True)):
        changed = [k for k, (a, b) in enumerate(zip(dear.choices, cheap.choices, strict=True)) if a != b]
        assert changed in ([], [choices[number]])
    assert truth.asked == []
