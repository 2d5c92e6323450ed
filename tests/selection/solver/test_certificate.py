"""The certificates of every way to solve a problem prove what the solver says."""

from __future__ import annotations

import json
import random

import pytest

from layout_ir.certificate.checking import verify
from layout_ir.selection.solver.certificate import certify
from layout_ir.selection.solver.selection_problem import Problem
from layout_ir.selection.solver.solve import solve_exact
from tests.selection.problems import (
    brute_force,
    cyclic_problem,
    dense_problem,
    hub_problem,
    problem_of,
    random_problem,
    tangled_problem,
    tied_problem,
)


def test_certificate_of_elimination_proves_the_optimum():
    rng = random.Random(1)
    for _ in range(1000):
        problem = random_problem(rng, rng.randint(1, 5), rng.randint(2, 6))
        solution, certificate = certify(problem)
        verdict = verify(json.loads(json.dumps(certificate)))
        assert verdict.cost == verdict.bound == solution.cost == brute_force(problem)
        assert problem_of(certificate) == problem


@pytest.mark.parametrize("limit", [1, 8, 16])
def test_certificate_of_search_proves_the_optimum(limit: int):
    rng = random.Random(limit)
    searched = 0
    for _ in range(150):
        problem = random_problem(rng, rng.randint(1, 5), rng.randint(2, 6))
        _, certificate = certify(problem, table_limit=limit)
        verdict = verify(certificate)
        assert verdict.cost == verdict.bound == brute_force(problem)
        searched += bool(certificate["proofs"])
    assert searched > 20


@pytest.mark.parametrize("limit", [1, 12, 1 << 20])
def test_certificate_of_programs_with_loops(limit: int):
    rng = random.Random(limit)
    for _ in range(150):
        problem = cyclic_problem(rng, rng.randint(1, 5), rng.randint(1, 6))
        solution, certificate = certify(problem, table_limit=limit)
        assert verify(certificate).bound == solution.bound == solution.cost == brute_force(problem)


@pytest.mark.parametrize("is_known", [False, True])
def test_certificate_of_what_maps_leave_proves_the_optimum_of_the_whole(is_known: bool):
    rng = random.Random(12)
    mapped = 0
    for _ in range(100):
        problem = tied_problem(rng)
        known = solve_exact(problem).choices if is_known else None
        solution, certificate = certify(problem, table_limit=1, known=known)
        verdict = verify(json.loads(json.dumps(certificate)))
        assert verdict.cost == verdict.bound == solution.cost == brute_force(problem)
        assert problem_of(certificate) == problem
        mapped += "maps" in certificate
    assert mapped > 50


def test_a_choice_that_is_known_is_certified_where_there_is_no_time_for_a_better_one():
    rng = random.Random(2)
    for _ in range(20):
        problem = tangled_problem(rng, 9, 3)
        known = solve_exact(problem)
        solution, certificate = certify(problem, 0.0, table_limit=4, known=known.choices)
        assert solution.cost == verify(certificate).cost == known.cost


def test_certificate_of_a_search_that_was_stopped_proves_its_gap():
    rng = random.Random(7)
    gaps = 0
    for _ in range(40):
        problem = tangled_problem(rng, 9, 3)
        solution, certificate = certify(problem, time_limit=0, table_limit=8)
        verdict = verify(certificate)
        assert verdict.bound == solution.bound
        assert verdict.bound <= _optimum(problem) <= verdict.cost
        gaps += not verdict.is_optimal
    assert gaps > 5


def _optimum(problem: Problem) -> int:
    return brute_force(problem) if len(problem.ops) < 8 else certify(problem)[0].cost


def test_certificate_of_a_dense_block():
    rng = random.Random(4)
    tails = 0
    for _ in range(20):
        problem = dense_problem(rng, 8, 3)
        solution, certificate = certify(problem, table_limit=1 << 8)
        verdict = verify(json.loads(json.dumps(certificate)))
        assert verdict.cost == verdict.bound == solution.cost
        tails += sum(entry[1] != -1 for entry in certificate["sets"])
    assert tails, "no set is part of another: nothing is tested"


def test_certificate_of_an_elimination_without_time_proves_its_bound():
    problem = dense_problem(random.Random(4), 8, 3)
    solution, certificate = certify(problem, time_limit=0)
    verdict = verify(json.loads(json.dumps(certificate)))
    optimum = certify(problem)[0].cost
    assert solution.bound is not None
    assert solution.bound <= verdict.bound < optimum <= verdict.cost == solution.cost


def test_certificate_of_a_hub():
    solution, certificate = certify(hub_problem(random.Random(3), 40, 4))
    assert [v for v, _, _ in certificate["sets"]] == [0]
    assert verify(certificate).bound == solution.cost
