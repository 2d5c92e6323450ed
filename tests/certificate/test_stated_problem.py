"""Costs of choices, computed from the problem as it is stated."""

from __future__ import annotations

import random
from typing import Any

import pytest

from layout_ir.certificate.stated_problem import INFINITE, StatedProblem
from layout_ir.errors import LayoutError
from layout_ir.selection.solver.certificate import problem_to_json
from layout_ir.selection.solver.selection_problem import evaluate
from tests.selection.problems import random_problem


def _given() -> dict[str, Any]:
    """Op 0 makes value 0, which op 1 takes twice; three formats, to the last of which a detour is cheapest."""
    return {
        "ops": [
            {"operands": [], "results": [0], "weight": 1, "choices": [[[], [0], 5], [[], [2], 7]]},
            {"operands": [0, 0], "results": [], "weight": 10, "choices": [[[1, 2], [], 3], [[0, 0], [], 4]]},
        ],
        "values": [{"reorder": [[0, 2, 9], [2, 0, 3], [9, 9, 0]], "weight": 2}],
    }


def test_reorders_are_shared_where_that_is_cheapest():
    problem = StatedProblem(_given())
    # From format 0 to 1 and on to 2: 2 + 3, twice. From 2 to 1: 9, twice. From 2 to 0: 9, twice.
    assert problem.cost([0, 0]) == 5 + 30 + 2 * (2 + 3)
    assert problem.cost([1, 0]) == 7 + 30 + 2 * 9
    assert problem.cost([0, 1]) == 5 + 40
    assert problem.cost([1, 1]) == 7 + 40 + 2 * 9


def test_sums_of_large_costs_are_counted_whole():
    half = INFINITE // 2
    given = {
        "ops": [
            {"operands": [], "results": [0], "weight": 1, "choices": [[[], [0], -half]]},
            {"operands": [0] * 4, "results": [], "weight": 1, "choices": [[[1, 2, 3, 4], [], 0]]},
        ],
        "values": [{"reorder": [[half * (i != j) for i in range(5)] for j in range(5)], "weight": 1}],
    }
    assert StatedProblem(given).cost([0, 0]) == 3 * half


def test_costs_of_random_choices_are_those_of_the_solver():
    rng = random.Random(5)
    for _ in range(100):
        problem = random_problem(rng, rng.randint(1, 5), rng.randint(2, 6))
        choices = [rng.randrange(len(op.choices)) for op in problem.ops]
        assert StatedProblem(problem_to_json(problem)).cost(choices) == evaluate(problem, choices)


@pytest.mark.parametrize(
    "path, value, match",
    [
        (("ops", 1, "results"), [0], "value 0 is made twice, by op 0 and by op 1"),
        (("ops", 0, "results"), [], "op 0 has an option that is not of its operands and results"),
        (("ops", 0, "results"), [1], "number 1 is not below 1"),
        (("ops", 0), {"operands": [], "results": [], "weight": 1, "choices": []}, "value 0 has no maker"),
        (("ops", 0, "choices", 0), [[], [3], 5], "number 3 is not below 3"),
        (("values", 0, "reorder", 1), [2, 0], "the reorder costs of value 0 are not a square"),
        (("values", 0, "reorder", 1), [2, 1, 3], "not 0 from a format to itself"),
        (("values", 0, "reorder", 1), [-1, 0, 3], "a reorder cost is negative"),
    ],
)
def test_negative_what_is_no_problem(path: tuple[Any, ...], value: Any, match: str):
    given = _given()
    node: Any = given
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    with pytest.raises(LayoutError, match=match):
        StatedProblem(given).cost([0, 0])


def test_negative_choices_that_are_none():
    with pytest.raises(LayoutError, match="1 choices for 2 ops"):
        StatedProblem(_given()).cost([0])
    with pytest.raises(LayoutError, match="number -1 is not below 2"):
        StatedProblem(_given()).cost([0, -1])
