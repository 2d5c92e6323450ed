"""Formats that others serve for are left out, and the least cost stays that which brute force finds."""

from __future__ import annotations

import random
from dataclasses import replace

from layout_ir.selection.solver.dominance import without_dominated_formats
from layout_ir.selection.solver.selection_problem import (
    Choice,
    Matrix,
    OpNode,
    Problem,
    ValueNode,
    evaluate,
)
from layout_ir.selection.solver.solve import solve_exact
from tests.selection.problems import brute_force, cyclic_problem, random_matrix, random_problem


def _uniform(formats: int, cost: int = 5) -> Matrix:
    return tuple(tuple(cost * (f != g) for g in range(formats)) for f in range(formats))


def _parts(takes: tuple[Choice, ...], made: tuple[int, ...], matrix: Matrix, users: int = 2) -> Problem:
    """A value that is made in `made`, and users that each take a part of it, whose results are wanted in format 0."""
    source = OpNode((), (0,), tuple(Choice((), (f,), f) for f in made))
    part = ValueNode(_uniform(2, 7))
    gathers = [OpNode((0,), (1 + k,), takes) for k in range(users)]
    wanted = [OpNode((1 + k,), (), (Choice((0,), (), 0),)) for k in range(users)]
    return Problem((source, *gathers, *wanted), (ValueNode(matrix), *[part] * users))


def _gather(cost: int = 1) -> tuple[Choice, ...]:
    """Formats 0, 1 and 2 give a part in format 0; 3, 4 and 5 one in format 1."""
    return tuple(Choice((f,), (f // 3,), cost) for f in range(6))


def test_of_formats_that_are_asked_for_alike_and_not_made_one_stays():
    problem = _parts(_gather(), (3,), _uniform(6))
    reduced = without_dominated_formats(problem)
    assert reduced is not None
    assert [choice.ins for choice in reduced.problem.ops[1].choices] == [(0,), (3,)]
    assert reduced.original([0, 1, 1, 0, 0]) == (0, 3, 3, 0, 0)
    assert solve_exact(problem).cost == brute_force(problem)


def test_the_one_that_stays_is_the_cheapest():
    takes = tuple(replace(choice, cost=int(choice.ins != (2,))) for choice in _gather())
    reduced = without_dominated_formats(_parts(takes, (3,), _uniform(6)))
    assert reduced is not None
    assert [choice.ins for choice in reduced.problem.ops[1].choices] == [(2,), (3,)]


def test_negative_formats_that_are_made_stay():
    assert without_dominated_formats(_parts(_gather(), (0, 1, 2, 3, 4, 5), _uniform(6))) is None


def test_negative_formats_that_lead_to_different_results_stay():
    takes = tuple(Choice((f,), (f % 2,), 1) for f in range(2))
    assert without_dominated_formats(_parts(takes, (0,), _uniform(3))) is None


def test_negative_formats_stay_that_are_cheaper_to_come_by():
    near = tuple(tuple(0 if f == g else 1 if {f, g} == {3, 1} else 5 for g in range(6)) for f in range(6))
    takes = tuple(replace(choice, cost=3 * (choice.ins == (1,))) for choice in _gather())
    assert without_dominated_formats(_parts(takes, (3,), near)) is None


def test_negative_an_op_that_takes_a_value_twice_keeps_all():
    problem = _parts(_gather(), (3,), _uniform(6), users=1)
    twice = tuple(Choice((f, f), (f // 3,), 1) for f in range(6))
    ops = (problem.ops[0], OpNode((0, 0), (1,), twice), problem.ops[2])
    assert without_dominated_formats(Problem(ops, problem.values)) is None


def _alike(rng: random.Random) -> Problem:
    """Users of one value with few different choices; reorders of few costs, equal ones among them."""
    formats = rng.randint(3, 6)
    matrix = random_matrix(rng, formats)
    if rng.random() < 0.8:
        classes = [rng.randrange(3) for _ in range(formats)]
        matrix = tuple(
            tuple(0 if f == g else 1 if classes[f] == classes[g] else 6 for g in range(formats))
            for f in range(formats)
        )
    made = tuple(sorted(rng.sample(range(formats), rng.randint(1, 2))))
    takes = tuple(Choice((f,), (rng.randrange(2),), rng.randint(0, 2)) for f in range(formats))
    return _parts(takes, made, matrix, rng.randint(1, 3))


def test_least_cost_is_that_of_brute_force():
    rng = random.Random(5)
    reduced = 0
    for _ in range(300):
        problem = _alike(rng)
        reduced += without_dominated_formats(problem) is not None
        solution = solve_exact(problem)
        assert solution.cost == solution.bound == brute_force(problem) == evaluate(problem, solution.choices)
    assert reduced > 50


def test_least_cost_of_any_problem_is_that_of_brute_force():
    rng = random.Random(6)
    for number in range(200):
        problem = (random_problem if number % 2 else cyclic_problem)(
            rng, rng.randint(1, 4), rng.randint(3, 6)
        )
        reduced = without_dominated_formats(problem)
        if reduced is not None:
            assert brute_force(reduced.problem) == brute_force(problem)
