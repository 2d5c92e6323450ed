"""The sum of all tables is the cost of a choice, and their least sum that of the best one."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from layout_ir.selection.solver.cost_functions import CostFunctions, is_free
from layout_ir.selection.solver.format_sets import sets_of
from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    Choice,
    OpNode,
    Problem,
    ValueNode,
    evaluate,
)
from tests.selection.problems import cyclic_problem, dense_problem, hub_problem, random_problem


def _sum(functions: CostFunctions, states: list[int]) -> int:
    total = 0
    for number, function in enumerate(functions.functions):
        total += int(functions.tables([number])[0][tuple(states[v] for v in function.scope)])
    return total


@pytest.mark.parametrize("direct", [1, 20, 1 << 20])
def test_tables_add_up_to_what_the_definition_says(direct: int):
    """Every choice, with and without variables for values, in states where each set is what is asked for."""
    rng = random.Random(direct)
    problems = [random_problem(rng, rng.randint(1, 4), rng.randint(2, 5)) for _ in range(15)]
    with_sets = 0
    for problem in (*problems, dense_problem(rng, 3, 3), hub_problem(rng, 4, 3)):
        functions = CostFunctions(problem, direct)
        with_sets += bool(functions.demand_sets)
        ways = list(itertools.product(*(range(len(op.choices)) for op in problem.ops)))
        for choices in rng.sample(ways, min(len(ways), 30)):
            assert _sum(functions, functions.states_of(choices)) == evaluate(problem, choices)
    assert with_sets if direct == 1 else with_sets < 17


def _contents(functions: CostFunctions) -> list[tuple[object, ...]]:
    return [(f.kind, f.number, f.scope, f.signature, f.op) for f in functions.functions]


def test_the_next_limit_is_the_least_one_that_changes_which_values_have_sets():
    rng = random.Random(9)
    problems = [random_problem(rng, 12, 4) for _ in range(20)] + [
        hub_problem(rng, 5, 4),
        dense_problem(rng, 4, 3),
    ]
    stepped = 0
    for problem in problems:
        functions = CostFunctions(problem, 1, tails=False)
        while functions.next_direct is not None:
            limit = functions.next_direct
            assert _contents(CostFunctions(problem, limit - 1, tails=False)) == _contents(functions)
            more = CostFunctions(problem, limit, tails=False)
            assert _contents(more) != _contents(functions)
            functions = more
            stepped += 1
        assert not functions.demand_sets
        assert _contents(CostFunctions(problem, 1 << 30, tails=False)) == _contents(functions)
    assert stepped > 10


def test_no_limit_gives_a_table_to_a_value_of_too_many_trees():
    problem = hub_problem(random.Random(10), 24, 20)
    functions = CostFunctions(problem, 1 << 12)
    assert functions.demand_sets and functions.next_direct is None
    assert _contents(CostFunctions(problem, 20**25)) == _contents(functions)


def test_more_formats_than_are_asked_for_cost_no_less_and_fewer_are_forbidden():
    rng = random.Random(5)
    for _ in range(5):
        problem = hub_problem(rng, 4, 4)
        functions = CostFunctions(problem, 1)
        (sets,) = functions.demand_sets.values()
        members = [
            frozenset(sets.wanted[k] for k in places) for places in sets_of(len(sets.wanted), sets.most)
        ]
        choices = [rng.randrange(len(op.choices)) for op in problem.ops]
        cost = evaluate(problem, choices)
        asked = {problem.ops[k].choices[choices[k]].ins[0] for k in range(1, 5)}
        for state, made in enumerate(members):
            total = _sum(functions, [*choices, state])
            assert total >= cost if asked <= made else total >= FORBIDDEN


def test_tables_filled_together_are_those_filled_alone():
    problem = random_problem(random.Random(7), 30, 3)
    functions = CostFunctions(problem, 20)
    alike: dict[object, list[int]] = {}
    for number, function in enumerate(functions.functions):
        alike.setdefault(function.signature, []).append(number)
    assert max(map(len, alike.values())) > 5
    for numbers in alike.values():
        together = functions.tables(numbers)
        for number, table in zip(numbers, together, strict=True):
            assert np.array_equal(table, functions.tables([number])[0])


@pytest.mark.parametrize("direct", [1, 1 << 20])
def test_entries_are_those_of_the_table(direct: int):
    rng = random.Random(6)
    problems = [random_problem(rng, 8, 4) for _ in range(30)] + [cyclic_problem(rng, 5, 4) for _ in range(30)]
    for problem in (*problems, dense_problem(rng, 3, 3), hub_problem(rng, 4, 3)):
        functions = CostFunctions(problem, direct)
        for number in range(len(functions.functions)):
            assert list(functions.entries(number)) == functions.tables([number]).ravel().tolist()


def test_ops_of_one_choice_are_no_variables_and_scopes_ascend():
    problem = random_problem(random.Random(8), 30, 4)
    functions = CostFunctions(problem, 1)
    for function in functions.functions:
        assert list(function.scope) == sorted(set(function.scope))
        assert all(functions.domains[v] > 1 for v in function.scope)
    assert any(len(op.choices) == 1 for op in problem.ops)


def test_a_forbidden_reorder_stays_one_whatever_the_weight():
    value = ValueNode(((0, FORBIDDEN), (FORBIDDEN, 0)), weight=1 << 20)
    make = OpNode((), (0,), (Choice((), (0,), 0), Choice((), (1,), 0)))
    use = OpNode((0,), (), (Choice((0,), (), 3), Choice((1,), (), 4)))
    functions = CostFunctions(Problem((make, use), (value,)))
    assert _sum(functions, functions.states_of((0, 0))) == 3
    assert FORBIDDEN <= _sum(functions, functions.states_of((0, 1))) < 1 << 63


def test_values_that_cost_nothing_have_no_table():
    costs = ((0, 5), (7, 0))
    make = OpNode((), (0,), (Choice((), (0,), 0), Choice((), (1,), 1)))
    use = OpNode((0,), (), (Choice((0,), (), 0), Choice((1,), (), 1)))
    for value, free in (
        (ValueNode(costs, 0), True),
        (ValueNode(((0, 0), (0, 0)), 3), True),
        (ValueNode(costs, 3), False),
    ):
        assert is_free(value.reorder, value.weight) == free
        kinds = [f.kind for f in CostFunctions(Problem((make, use), (value,))).functions]
        assert ("value" not in kinds) == free
