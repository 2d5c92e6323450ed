"""The solver: optimal whatever of it does the work, honest where it is stopped."""

from __future__ import annotations

import random
import time

import pytest

from layout_ir.errors import LayoutError
from layout_ir.selection.solver.elimination import Elimination, prepare
from layout_ir.selection.solver.greedy import solve_greedy, solve_preferred
from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    Choice,
    Infeasible,
    OpNode,
    Problem,
    ValueNode,
    evaluate,
)
from layout_ir.selection.solver.solve import solve, solve_exact
from tests.selection.problems import brute_force, dense_problem, random_problem, tangled_problem


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


@pytest.mark.parametrize("limit", [1, 8, 64])
def test_search_in_the_core_finds_the_optimum(limit: int):
    rng = random.Random(limit)
    for _ in range(100):
        problem = random_problem(rng, rng.randint(1, 5), rng.randint(2, 6))
        solution = solve_exact(problem, table_limit=limit)
        assert solution.cost == solution.bound == brute_force(problem) == evaluate(problem, solution.choices)


@pytest.mark.parametrize("formats", [2, 3])
def test_search_agrees_with_elimination_on_tangles(formats: int):
    rng = random.Random(formats)
    for _ in range(10):
        problem = tangled_problem(rng, 14, formats)
        wide, narrow = solve_exact(problem), solve_exact(problem, table_limit=16)
        assert wide.cost == narrow.cost == wide.bound == narrow.bound


def test_time_limit_of_nothing_leaves_an_honest_gap():
    rng = random.Random(4)
    gaps = 0
    for _ in range(60):
        problem = tangled_problem(rng, 12, 3)
        optimum = solve_exact(problem).cost
        solution = solve_exact(problem, time_limit=0, table_limit=8)
        assert solution.bound is not None
        assert solution.bound <= optimum <= solution.cost == evaluate(problem, solution.choices)
        assert solution.is_optimal == (solution.bound == solution.cost)
        gaps += not solution.is_optimal
    assert gaps > 10, "the search has nothing to do: the problems are too easy to test anything"


def test_time_limit_stops_elimination_at_any_place():
    """The clock strikes after so many batches; wherever that is, cost and bound hold, and a later end is no worse."""
    problem = dense_problem(random.Random(3), 60, 4)
    functions, order = prepare(problem, 1 << 23)
    optimum = solve_exact(problem)
    assert optimum.is_optimal
    bounds: list[int] = []
    for batches in range(0, 200, 4):
        elimination = Elimination(functions, order)
        ticks = iter(range(batches))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                time, "monotonic", lambda ticks=ticks: -1.0 if next(ticks, None) is not None else 1.0
            )
            if elimination.run(deadline=0.0):
                break
        bounds.append(elimination.least())
        # What was stopped can go on.
        assert elimination.run() and elimination.total == optimum.cost
    assert len(bounds) > 3 and bounds == sorted(bounds) and bounds[0] < bounds[-1] <= optimum.cost


def test_no_time_for_elimination_leaves_an_honest_gap():
    for seed in range(20):
        problem = dense_problem(random.Random(seed), 6, 4)
        optimum = solve_exact(problem)
        solution = solve_exact(problem, time_limit=0)
        assert solution.bound is not None and optimum.is_optimal
        assert solution.bound <= optimum.cost <= solution.cost == evaluate(problem, solution.choices)
        assert solution.bound < optimum.cost


def test_result_is_deterministic():
    problem = random_problem(random.Random(5), 30, 3)
    assert solve_exact(problem) == solve_exact(problem)
    tangle = tangled_problem(random.Random(5), 14, 3)
    assert solve_exact(tangle, table_limit=16) == solve_exact(tangle, table_limit=16)


def test_solvers_by_name():
    problem = random_problem(random.Random(6), 10, 3)
    assert solve(problem) == solve_exact(problem)
    assert solve(problem, "greedy") == solve_greedy(problem)
    assert solve(problem, "naive") == solve_preferred(problem)


def test_negative_unknown_solver():
    with pytest.raises(LayoutError, match="unknown solver 'best': solvers are exact, greedy, naive"):
        solve(random_problem(random.Random(6), 3, 3), "best")


@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_negative_forbidden_reorder_makes_it_infeasible(limit: int):
    value = ValueNode(((0, FORBIDDEN), (FORBIDDEN, 0)))
    make = OpNode((), (0,), (Choice((), (0,), 0),))
    use = OpNode((0,), (), (Choice((1,), (), 1),))
    with pytest.raises(Infeasible, match="some value would need a forbidden reorder"):
        solve_exact(Problem((make, use), (value,)), table_limit=limit)


@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_negative_agreement_across_a_forbidden_reorder_is_infeasible(limit: int):
    """Two makers that cannot agree, and a user of both that needs them to."""
    value = ValueNode(((0, FORBIDDEN), (FORBIDDEN, 0)))
    first = OpNode((), (0,), (Choice((), (0,), 0),))
    second = OpNode((), (1,), (Choice((), (1,), 0),))
    join = OpNode((0, 1), (), (Choice((0, 0), (), 1), Choice((1, 1), (), 1)))
    with pytest.raises(Infeasible):
        solve_exact(Problem((first, second, join), (value, value)), time_limit=0, table_limit=limit)
