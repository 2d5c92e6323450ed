"""With two formats a minimum cut is the optimum, and its prices prove it."""

from __future__ import annotations

import random

from layout_ir.certificate.checking import verify
from layout_ir.selection.solver.certificate import certify
from layout_ir.selection.solver.mincut import bound_of, solve_by_cut
from layout_ir.selection.solver.selection_problem import Choice, OpNode, Problem, ValueNode, evaluate
from layout_ir.selection.solver.solve import run, solve_exact
from tests.selection.problems import brute_force, hub_problem, random_problem, two_format_problem


def test_cut_is_the_optimum():
    rng = random.Random(1)
    for _ in range(300):
        problem = two_format_problem(rng, rng.randint(2, 7))
        cut = solve_by_cut(problem)
        assert cut is not None
        assert evaluate(problem, cut.choices) == brute_force(problem) == bound_of(problem, cut)


def test_cut_agrees_with_elimination_and_has_a_certificate():
    rng = random.Random(2)
    cuts = 0
    for _ in range(40):
        problem = two_format_problem(rng, 24)
        assert run(problem, None, 4).solution.cost == solve_exact(problem).cost
        cuts += run(problem, None, 4).cut is not None
        _, certificate = certify(problem, table_limit=4)
        assert verify(certificate).is_optimal
    assert cuts > 20


def test_cut_of_a_hub_is_certified_by_way_of_its_states():
    problem = hub_problem(random.Random(3), 40, 2)
    found, certificate = certify(problem, table_limit=1)
    assert run(problem, None, 1).cut is not None
    assert [v for v, _, _ in certificate["sets"]] == [0]
    assert verify(certificate).bound == found.cost == solve_exact(problem).cost


def test_tangle_of_thousands_is_solved_where_elimination_cannot():
    found = run(two_format_problem(random.Random(4), 3000), None, 1 << 10)
    assert found.cut is not None and found.solution.is_optimal


def test_cut_has_no_more_time_than_there_is():
    assert solve_by_cut(two_format_problem(random.Random(4), 300), deadline=0.0) is None


def test_negative_ops_that_fit_no_direction_are_left_to_the_search():
    value = ValueNode(((0, 1), (1, 0)))
    make = OpNode((), (0,), (Choice((), (0,), 0), Choice((), (1,), 0)))
    same = OpNode((0,), (1,), (Choice((0,), (0,), 0), Choice((1,), (1,), 0)))
    opposite = OpNode((0, 1), (), (Choice((0, 1), (), 0), Choice((1, 0), (), 0)))
    problem = Problem((make, same, opposite), (value, value))
    assert solve_by_cut(problem) is None
    assert solve_exact(problem, table_limit=1).cost == brute_force(problem)


def test_negative_three_formats_are_not_a_cut():
    assert solve_by_cut(random_problem(random.Random(1), 20, 4)) is None
