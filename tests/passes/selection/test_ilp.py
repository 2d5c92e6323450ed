"""Selections of many options cost what an integer program says that shares no code with them; and their proofs hold."""

from __future__ import annotations

import random

import pytest

from tests.passes.selection.ilp import check, check_problem, check_program, least_cost, of_problem
from tests.selection import problems

PARTS, NUMBER = 4, 48


@pytest.mark.parametrize("part", range(PARTS))
def test_optimum_of_problems_and_programs_of_many_options(part: int):
    """`python -m tests.passes.selection.ilp` checks as many as one likes."""
    for number in range(part, NUMBER, PARTS):
        check(0, number)


def test_the_integer_program_agrees_with_brute_force():
    rng = random.Random(5)
    for _ in range(40):
        problem = problems.random_problem(rng, rng.randint(1, 4), rng.randint(2, 5))
        assert least_cost(of_problem(problem)) == problems.brute_force(problem)


def test_problems_and_programs_of_forty_options():
    rng = random.Random(3)
    check_problem(rng, 40)
    check_program(rng, 24)


def test_one_write_of_zeros_serves_both_operands_of_an_addition():
    """Ones, which another op asks for, and minus ones would do as well, for one write more."""
    check(1, 1284)
