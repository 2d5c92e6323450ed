"""Formats are left out that a map of several values at once leads away from, and the least cost stays."""

from __future__ import annotations

import random

from layout_ir.selection.solver.dominance import without_dominated_formats
from layout_ir.selection.solver.format_maps import without_mapped_formats
from layout_ir.selection.solver.selection_problem import (
    Choice,
    Matrix,
    OpNode,
    Problem,
    ValueNode,
    evaluate,
)
from layout_ir.selection.solver.solve import solve_exact
from tests.selection.problems import (
    agreeing_op,
    brute_force,
    cyclic_problem,
    random_problem,
    tied_problem,
    uniform_matrix,
)


def _diamond(formats: int, made: tuple[int, ...], wanted: int, matrix: Matrix) -> Problem:
    """A value and what three ops that agree make of it, wanted in one format."""
    source = OpNode((), (0,), tuple(Choice((), (f,), 0) for f in made))
    ops = (agreeing_op((0,), 1, formats), agreeing_op((0, 1), 2, formats), agreeing_op((1, 2), 3, formats))
    sink = OpNode((3,), (), (Choice((wanted,), (), 0),))
    return Problem((source, *ops, sink), (ValueNode(matrix),) * 4)


def _left(problem: Problem, value: int) -> set[int]:
    reduced = without_mapped_formats(problem)
    assert reduced is not None
    assert brute_force(reduced.problem) == brute_force(problem) == solve_exact(problem).cost
    return {choice.outs[0] for op in reduced.problem.ops if value in op.results for choice in op.choices}


def test_formats_that_nobody_makes_or_asks_for_go_from_all_values_that_are_tied():
    problem = _diamond(4, (0,), 2, uniform_matrix(4))
    assert without_dominated_formats(problem) is None
    assert [_left(problem, value) for value in range(4)] == [{0}, {0, 2}, {0, 2}, {0, 2}]


def test_the_choices_of_what_is_left_are_told_by_their_old_numbers():
    reduced = without_mapped_formats(_diamond(4, (0,), 2, uniform_matrix(4)))
    assert reduced is not None
    assert reduced.original((0, 1, 1, 1, 0)) == (0, 2, 2, 2, 0)


def test_maps_take_choices_to_some_that_cost_no_more():
    rng = random.Random(8)
    found = 0
    for _ in range(200):
        problem = tied_problem(rng)
        reduced = without_mapped_formats(problem)
        if reduced is not None:
            found += 1
            choices = [rng.randrange(len(op.choices)) for op in problem.ops]
            mapped = reduced.mapped(problem, choices)
            cost = evaluate(reduced.problem, mapped)
            assert evaluate(problem, reduced.original(mapped)) == cost <= evaluate(problem, choices)
    assert found > 100


def test_negative_formats_stay_where_all_are_made_and_one_is_wanted():
    problem = _diamond(3, (0, 1, 2), 2, uniform_matrix(3))
    reduced = without_mapped_formats(problem)
    left = problem if reduced is None else reduced.problem
    assert {choice.ins[0] for choice in left.ops[4].choices} == {2}
    assert brute_force(left) == brute_force(problem)


def test_negative_a_format_stays_on_the_way_to_which_reorders_are_cheaper():
    """Format 1 is near to 0 and to 2, and these are far from each other."""
    near = tuple(tuple(0 if f == g else 1 if 1 in (f, g) else 9 for g in range(3)) for f in range(3))
    assert without_mapped_formats(_diamond(3, (0,), 2, near)) is None


def test_an_op_that_takes_a_value_twice_keeps_one_format_for_both():
    values = (ValueNode(uniform_matrix(3)), ValueNode(uniform_matrix(3)))
    twice = OpNode((0, 0), (1,), tuple(Choice((f, f), (f,), int(f > 0)) for f in range(3)))
    source = OpNode((), (0,), (Choice((), (0,), 0),))
    sink = OpNode((1,), (), (Choice((1,), (), 0),))
    assert _left(Problem((source, twice, sink), values), 1) == {0, 1}


def test_least_cost_is_that_of_brute_force():
    rng = random.Random(5)
    found = 0
    for number in range(400):
        problem = tied_problem(rng)
        if number % 4 == 0:
            make = random_problem if number % 8 else cyclic_problem
            problem = make(rng, rng.randint(1, 4), rng.randint(3, 5))
        reduced = without_mapped_formats(problem)
        if reduced is not None:
            found += 1
            assert brute_force(reduced.problem) == brute_force(problem)
    assert found > 100
