"""The sum of all tables is the cost of a choice, and their least sum that of the best one."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from layout_ir.selection.solver.cost_functions import CostFunctions, is_free, set_numbers, steiner
from layout_ir.selection.solver.demand_sets import sets_of
from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    Choice,
    OpNode,
    Problem,
    ValueNode,
    evaluate,
    tree_cost,
)
from tests.selection.problems import cyclic_problem, dense_problem, hub_problem, random_matrix, random_problem


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


def test_trees_of_every_set_are_those_of_the_definition():
    """More formats than have their sets numbered by bits, and as many uses."""
    rng = random.Random(6)
    for formats in (3, 14):
        matrix = random_matrix(rng, formats)
        wanted = rng.sample(range(formats), formats)
        trees = steiner(np.array([matrix]), np.array([wanted]), 3)[0]
        for row, chosen in zip(trees, sets_of(formats, 3), strict=True):
            for root in range(formats):
                assert row[root] == tree_cost(matrix, root, [wanted[k] for k in chosen])


def test_trees_where_all_reorders_into_a_format_cost_the_same_are_those_of_the_definition():
    costs = (3, 0, 5, FORBIDDEN, 7)
    matrix = tuple(tuple(0 if f == g else cost for g, cost in enumerate(costs)) for f in range(5))
    wanted = [4, 0, 3, 1]
    trees = steiner(np.array([matrix, matrix]), np.array([wanted, wanted]), 3)
    assert np.array_equal(trees[0], trees[1])
    for row, chosen in zip(trees[0], sets_of(4, 3), strict=True):
        for root in range(5):
            needed = [wanted[k] for k in chosen]
            assert row[root] == min(tree_cost(matrix, root, needed), FORBIDDEN)


def test_negative_trees_to_the_largest_sets_are_found_from_the_roots_asked_for_alone():
    rng = random.Random(7)
    matrix, wanted = random_matrix(rng, 6), [5, 0, 3, 1]
    whole, some = (steiner(np.array([matrix]), np.array([wanted]), 3, roots)[0] for roots in (None, (2, 3)))
    for row, own, chosen in zip(whole, some, sets_of(4, 3), strict=True):
        for root in range(6):
            is_found = root in (2, 3) or len(chosen) < 3
            assert own[root] == (row[root] if is_found else FORBIDDEN)


@pytest.mark.parametrize("step", [1, 9])
def test_reorders_by_way_of_others_are_found_where_they_are_cheaper(step: int):
    """A chain of 3 formats, of which the last is reached by the middle one for 2, or for 1 as it is."""
    costs = np.array([[[0, 1, step], [1, 0, 1], [step, 1, 0]]])
    trees = steiner(costs, np.array([[0, 1, 2]]), 1)[0]
    assert trees[2].tolist() == [min(step, 2), 1, 0]


@pytest.mark.parametrize("uses", [1, 2, 3, 4])
def test_sets_of_many_formats_have_the_numbers_of_sets_of(uses: int):
    # Of 13 formats, 1 to 3 uses are listed and 4 are counted.
    rng = np.random.default_rng(uses)
    number = {chosen: k for k, chosen in enumerate(sets_of(13, uses))}
    used = [rng.integers(0, 13, 50) for _ in range(uses)]
    asked = [tuple(sorted({int(formats[k]) for formats in used})) for k in range(50)]
    assert set_numbers(used, 13).tolist() == [number[chosen] for chosen in asked]
