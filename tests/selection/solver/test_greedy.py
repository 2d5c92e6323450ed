"""Greedy takes the cheapest option op by op, and is no better than that."""

from __future__ import annotations

import itertools
import random

from layout_ir.selection.solver.greedy import solve_greedy, solve_preferred
from layout_ir.selection.solver.selection_problem import (
    Choice,
    Matrix,
    OpNode,
    Problem,
    ValueNode,
    evaluate,
)
from tests.selection.problems import brute_force, cyclic_problem, random_problem


def _chain(reorder: Matrix, source: int, destination: int) -> int:
    """The least cost of a chain of reorders, over all chains that repeat no format."""
    others = [f for f in range(len(reorder)) if f not in (source, destination)]
    chains = (
        [source, *middle, destination]
        for n in range(len(others) + 1)
        for middle in itertools.permutations(others, n)
    )
    return min(sum(reorder[a][b] for a, b in itertools.pairwise(chain)) for chain in chains)


def _own_cost(problem: Problem, number: int, choice: Choice, made: dict[int, int]) -> int:
    """What `choice` costs the op alone: its option, and a chain of reorders for every operand."""
    op = problem.ops[number]
    values = [(problem.values[v], v, wanted) for v, wanted in zip(op.operands, choice.ins, strict=True)]
    chains = (value.weight * _chain(value.reorder, made[v], f) for value, v, f in values if v in made)
    return op.weight * choice.cost + sum(chains)


def test_no_op_has_an_option_that_costs_it_less():
    rng = random.Random(1)
    for _ in range(150):
        problem = random_problem(rng, rng.randint(1, 8), rng.randint(2, 4))
        solution = solve_greedy(problem)
        made: dict[int, int] = {}
        for number, (op, chosen) in enumerate(zip(problem.ops, solution.choices, strict=True)):
            costs = [_own_cost(problem, number, choice, made) for choice in op.choices]
            assert chosen == costs.index(min(costs))
            made |= dict(zip(op.results, op.choices[chosen].outs, strict=True))
        assert solution.cost == evaluate(problem, solution.choices) and solution.bound is None


def test_what_a_loop_yields_has_no_cost_where_it_is_entered():
    """Values are used in front of what makes them: every such choice is one, at a cost that the definition gives."""
    rng = random.Random(2)
    for _ in range(50):
        problem = cyclic_problem(rng, 4, 3)
        solution = solve_greedy(problem)
        assert brute_force(problem) <= solution.cost == evaluate(problem, solution.choices)


def test_negative_greedy_does_not_look_ahead():
    """The option that is cheaper by 1 makes the only user pay 10."""
    make = OpNode((), (0,), (Choice((), (0,), 0), Choice((), (1,), 1)))
    use = OpNode((0,), (), (Choice((1,), (), 0),))
    problem = Problem((make, use), (ValueNode(((0, 10), (10, 0))),))
    assert solve_greedy(problem).cost == 10 > brute_force(problem) == 1


def test_preferred_takes_the_cheapest_option_of_every_op():
    rng = random.Random(3)
    for _ in range(100):
        problem = random_problem(rng, 6, 3)
        solution = solve_preferred(problem)
        for op, chosen in zip(problem.ops, solution.choices, strict=True):
            costs = [choice.cost for choice in op.choices]
            assert chosen == costs.index(min(costs))
        assert solution.cost == evaluate(problem, solution.choices) and solution.bound is None


def test_negative_preferred_does_not_see_reorders():
    """An option that costs 1 more would spare a reorder of 10; greedy sees that one."""
    make = OpNode((), (0,), (Choice((), (0,), 0),))
    use = OpNode((0,), (), (Choice((0,), (), 1), Choice((1,), (), 0)))
    problem = Problem((make, use), (ValueNode(((0, 10), (10, 0))),))
    assert solve_preferred(problem).cost == 10 > solve_greedy(problem).cost == 1
