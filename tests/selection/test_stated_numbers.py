"""Problems that are stated in numbers: whole ones are solved, others are refused with the place."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layout_ir.errors import LayoutError
from layout_ir.selection import Choice, OpNode, Problem, ValueNode, certify, solve, verify
from layout_ir.selection.stated_numbers import check_problem
from tests.selection.problems import brute_force, cyclic_problem, random_problem

MAKER = OpNode((), (0,), (Choice((), (0,), cost=0), Choice((), (1,), cost=4)))
USER = OpNode((0,), (), (Choice((1,), (), cost=2),), weight=3)
VALUE = ValueNode(((0, 9), (9, 0)), weight=2)
WHOLE = Problem((MAKER, USER), (VALUE,))
NOTHING: Any = None
HALF: Any = 0.5


def test_a_whole_problem_is_solved():
    assert solve(WHOLE).cost == solve(WHOLE, "exact", 5).cost == 4 + 3 * 2
    solution, certificate = certify(WHOLE)
    assert verify(certificate).bound == solution.cost == 10


@pytest.mark.parametrize("seed", range(40))
def test_random_problems_are_whole(seed: int):
    rng = random.Random(seed)
    problem = random_problem(rng, 4, 3) if seed % 2 else cyclic_problem(rng, 3, 3)
    check_problem(problem)
    assert solve(problem).cost == brute_force(problem)


def _problem(**changes: Any) -> Problem:
    """WHOLE with other fields of its parts: `maker_weight=-1` is the weight of MAKER."""
    parts: dict[str, Any] = {"maker": MAKER, "user": USER, "value": VALUE}
    for name, value in changes.items():
        part, field = name.split("_")
        parts[part] = replace(parts[part], **{field: value})
    return Problem((parts["maker"], parts["user"]), (parts["value"],))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"user_operands": (1,)}, "op 1 names value 1, the problem has 1"),
        ({"user_operands": (-1,)}, "op 1 names value -1, the problem has 1"),
        ({"user_operands": ("x",)}, "op 1: value 'x' is no integer"),
        ({"maker_results": ()}, "option 0 of op 0 has 1 formats of results, and the op has 0 results"),
        ({"maker_results": (), "maker_choices": (Choice((), (), 0),)}, "value 0 is the result of no op"),
        (
            {"user_results": (0,), "user_choices": (Choice((1,), (0,), 0),)},
            "value 0 is made twice, by op 0 and by op 1",
        ),
        ({"user_choices": ()}, "op 1 needs an option to run in: it has none"),
        ({"user_choices": (Choice((2,), (), 0),)}, "option 0 of op 1 names format 2 of value 0, which has 2"),
        ({"user_choices": (Choice((-1,), (), 0),)}, "option 0 of op 1 names format -1"),
        (
            {"user_choices": (Choice((NOTHING,), (), 0),)},
            "option 0 of op 1: format None is no integer",
        ),
        (
            {"user_choices": (Choice((1, 1), (), 0),)},
            "option 0 of op 1 has 2 formats of operands, and the op has 1",
        ),
        (
            {"user_choices": (Choice((1,), (), -2),)},
            "option 0 of op 1 has cost -2: expected a whole number from 0 on",
        ),
        ({"user_choices": (Choice((1,), (), HALF),)}, "option 0 of op 1: cost 0.5 is no integer"),
        ({"maker_weight": -1}, "op 0 has weight -1"),
        ({"value_weight": 1.0}, "value 0: weight 1.0 is no integer"),
        (
            {"value_reorder": ((0, 9), (9,))},
            "reorder costs of value 0 are no square: row 1 of 2 has 1 entries",
        ),
        ({"value_reorder": ((0, -1), (9, 0))}, "value 0 has reorder cost -1"),
        ({"value_reorder": ((1, 9), (9, 0))}, "value 0 costs 1 from format 0 to itself, expected 0"),
    ],
)
def test_negative_problems_that_are_not_whole(changes: dict[str, Any], message: str):
    problem = _problem(**changes)
    with pytest.raises(LayoutError, match=message):
        solve(problem)
    with pytest.raises(LayoutError, match=message):
        certify(problem)


def test_integers_of_numpy_are_integers():
    assert solve(_problem(user_choices=(Choice((np.int64(1),), (), np.int32(2)),))).cost == 10  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("problem", [None, [], (WHOLE.ops, WHOLE.values)])
def test_negative_what_is_no_problem(problem: Any):
    with pytest.raises(LayoutError, match="a Problem is needed, not of type"):
        solve(problem)


@pytest.mark.parametrize("limit", [-1, "3", True])
def test_negative_time_limits(limit: Any):
    with pytest.raises(LayoutError, match="is no number of seconds from 0 on"):
        solve(WHOLE, time_limit=limit)
