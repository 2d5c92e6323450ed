"""Ops without results that take a value alike are counted as one, and the least cost stays that which brute force
finds."""

from __future__ import annotations

import random
from dataclasses import replace

from layout_ir.selection.solver.equal_sinks import with_equal_sinks_merged
from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    Choice,
    OpNode,
    Problem,
    ValueNode,
    evaluate,
)
from layout_ir.selection.solver.solve import solve_exact
from tests.selection.problems import brute_force, random_matrix

_SOURCE = OpNode((), (0,), (Choice((), (0,), 0), Choice((), (1,), 2)))
_VALUE = ValueNode(((0, 9, 4), (9, 0, 9), (4, 9, 0)))


def _sink(*costs: int, weight: int = 1) -> OpNode:
    return OpNode((0,), (), tuple(Choice((f,), (), cost) for f, cost in enumerate(costs)), weight)


def test_equal_sinks_are_one_with_their_weights_and_choose_alike():
    problem = Problem(
        (_SOURCE, _sink(5, 0, 3), _sink(1, 2, 0), _sink(5, 0, 3), _sink(5, 0, 3, weight=2)), (_VALUE,)
    )
    merged = with_equal_sinks_merged(problem)
    assert merged is not None
    assert [op.weight for op in merged.problem.ops if op.operands] == [4, 1]
    assert merged.original((1, 1, 1, 0, 0)) == (1, 1, 1, 1, 1)
    assert solve_exact(problem).cost == brute_force(problem) == 4


def test_negative_sinks_that_cost_otherwise_or_whose_value_is_another_stay():
    problem = Problem((_SOURCE, _sink(5, 0, 3), _sink(5, 0, 2)), (_VALUE,))
    assert with_equal_sinks_merged(problem) is None
    other = OpNode((), (1,), (Choice((), (0,), 0),))
    of_other = replace(_sink(5, 0, 3), operands=(1,))
    assert (
        with_equal_sinks_merged(Problem((_SOURCE, other, _sink(5, 0, 3), of_other), (_VALUE, _VALUE))) is None
    )


def test_negative_ops_with_results_stay():
    users = [OpNode((0,), (k,), (Choice((0,), (0,), 0), Choice((1,), (0,), 0))) for k in (1, 2)]
    assert with_equal_sinks_merged(Problem((_SOURCE, *users), (_VALUE,) * 3)) is None


def test_negative_sinks_whose_costs_together_would_be_no_costs_any_more_stay():
    problem = Problem((_SOURCE, *[_sink(0, FORBIDDEN // 2, 0)] * 2), (_VALUE,))
    assert with_equal_sinks_merged(problem) is None


def test_the_least_cost_of_random_problems_is_that_of_brute_force():
    for seed in range(60):
        draw = random.Random(seed)
        made = tuple(Choice((), (f,), draw.randrange(9)) for f in range(draw.randrange(1, 4)))
        kinds = [_sink(*[draw.randrange(9) for _ in range(3)]) for _ in range(2)]
        sinks = [replace(draw.choice(kinds), weight=draw.randrange(1, 3)) for _ in range(5)]
        problem = Problem((OpNode((), (0,), made), *sinks), (ValueNode(random_matrix(draw, 3)),))
        found = solve_exact(problem)
        assert found.cost == evaluate(problem, found.choices) == brute_force(problem)
