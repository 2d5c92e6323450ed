"""Exact selection finds the optimum that brute force finds."""

from __future__ import annotations

import random

import pytest

from layout_ir.passes.selection import elimination
from layout_ir.passes.selection.elimination import Infeasible, TooWide, solve_exact
from layout_ir.passes.selection.greedy import solve_greedy, solve_preferred
from layout_ir.passes.selection.problem import FORBIDDEN, Choice, OpNode, Problem, ValueNode, evaluate
from tests.passes.selection.problems import brute_force, random_problem


def test_optimum_equals_brute_force():
    rng = random.Random(1)
    worse = 0
    for _ in range(1000):
        problem = random_problem(rng, rng.randint(1, 5), rng.randint(2, 6))
        solution = solve_exact(problem)
        assert solution.cost == solution.bound == brute_force(problem) == evaluate(problem, solution.choices)
        greedy = solve_greedy(problem)
        assert greedy.cost >= solution.cost
        assert solve_preferred(problem).cost >= solution.cost
        worse += greedy.cost > solution.cost
    assert worse > 100, "greedy is as good as exact: the problems are too easy to test anything"


def test_result_is_deterministic():
    problem = random_problem(random.Random(5), 30, 3)
    assert solve_exact(problem) == solve_exact(problem)


def test_negative_forbidden_reorder_makes_it_infeasible():
    value = ValueNode(((0, FORBIDDEN), (FORBIDDEN, 0)))
    make = OpNode((), (0,), (Choice((), (0,), 0),))
    use = OpNode((0,), (), (Choice((1,), (), 1),))
    with pytest.raises(Infeasible, match="some value would need a forbidden reorder"):
        solve_exact(Problem((make, use), (value,)))


def test_negative_too_wide_is_refused_and_not_approximated(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(elimination, "TABLE_LIMIT", 4)
    with pytest.raises(TooWide, match="the limit is 4"):
        solve_exact(random_problem(random.Random(3), 20, 4))
