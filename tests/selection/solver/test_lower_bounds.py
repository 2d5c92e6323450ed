"""Cost shifts change no assignment, and the bound they raise is one."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from layout_ir.selection.solver.lower_bounds import INFINITE, SCALE, ReweightedTables
from layout_ir.selection.solver.selection_problem import FORBIDDEN
from tests.selection.solver.tables import Tables, assignments, least_sum, random_tables, tangle


def _swept(tables: Tables, sweeps: int) -> tuple[ReweightedTables, list[int]]:
    """Tables after so many sweeps there and back, and the bounds on the way."""
    now = ReweightedTables.of(tables)
    variables = list(now.at)
    bounds = [now.bound()]
    for _ in range(sweeps):
        for order in (variables, variables[::-1]):
            now.sweep(now.sweep_order(order))
            bounds.append(now.bound())
    return now, bounds


def _cost(now: ReweightedTables, states: dict[int, int]) -> int:
    held = sum(
        int(table[tuple(states[v] for v in scope)])
        for scope, table in zip(now.scopes, now.tables, strict=True)
    )
    return held + sum(int(own[states[v]]) for v, own in now.own.items())


@pytest.mark.parametrize("seed", range(8))
def test_no_assignment_costs_more_or_less_after_sweeps(seed: int):
    rng = random.Random(seed)
    tables = random_tables(rng, tangle(rng, 5, 7), [2, 3, 2, 4, 3])
    now, _ = _swept(tables, 5)
    for states, cost in assignments(tables):
        assert _cost(now, states) == SCALE * cost


@pytest.mark.parametrize("seed", range(8))
def test_bound_rises_but_for_rounding_and_never_passes_the_optimum(seed: int):
    rng = random.Random(seed)
    tables = random_tables(rng, tangle(rng, 5, 7), [3] * 5)
    now, bounds = _swept(tables, 10)
    rounding = sum(shares - 1 for _, _, shares in now.sweep_order(list(now.at)))
    assert all(after >= before - rounding for before, after in pairwise(bounds))
    assert bounds[0] + rounding < bounds[-1] and max(bounds) <= SCALE * least_sum(tables)


@pytest.mark.parametrize("seed", range(8))
def test_bound_of_a_tree_rounds_up_to_the_optimum(seed: int):
    rng = random.Random(seed)
    edges = [(rng.randrange(v), v) for v in range(1, 6)]
    tables = random_tables(rng, [*edges, *((v,) for v in range(6))], [3] * 6)
    _, bounds = _swept(tables, 20)
    assert -(-bounds[-1] // SCALE) == least_sum(tables)


def test_negative_bound_of_an_odd_cycle_stays_below_the_optimum():
    """Three variables of which no two like to be equal: each table has a 0, one of them is not taken."""
    unequal = np.array([[2, 0], [0, 2]], np.int64)
    tables: Tables = [((0, 1), unequal), ((1, 2), unequal), ((0, 2), unequal)]
    _, bounds = _swept(tables, 20)
    assert bounds[-1] == 0 and least_sum(tables) == 2


@pytest.mark.parametrize("seed", range(8))
def test_the_record_of_shifts_leads_from_the_first_tables_to_the_last(seed: int):
    rng = random.Random(seed)
    tables = random_tables(rng, tangle(rng, 5, 7), [2, 3, 2, 4, 3])
    now, _ = _swept(tables, 3)
    for number, (scope, table) in enumerate(tables):
        expected = SCALE * table
        for axis in range(len(scope)):
            if (number, axis) in now.shifts:
                expected = np.moveaxis(np.moveaxis(expected, axis, -1) - now.shifts[number, axis], -1, axis)
        assert np.array_equal(now.tables[number], expected)
    for v, own in now.own.items():
        moved = [shift for (number, axis), shift in now.shifts.items() if now.scopes[number][axis] == v]
        assert np.array_equal(own, sum(moved))


@pytest.mark.parametrize("seed", range(8))
def test_a_state_costs_at_least_the_bound_and_what_it_adds(seed: int):
    rng = random.Random(seed)
    tables = random_tables(rng, tangle(rng, 4, 5), [3] * 4)
    now, _ = _swept(tables, 3)
    for v in range(4):
        for state, more in enumerate(now.least(v).tolist()):
            best = min(cost for states, cost in assignments(tables) if states[v] == state)
            assert now.bound() + more <= SCALE * best


def test_kept_states_are_those_of_the_original_and_copies_keep_theirs():
    rng = random.Random(3)
    tables = random_tables(rng, tangle(rng, 4, 5), [3] * 4)
    now, _ = _swept(tables, 2)
    copy = now.copy()
    copy.keep(2, np.array([2]))
    assert copy.states[2].tolist() == [2] and now.states[2].tolist() == [0, 1, 2]
    for _ in range(5):
        copy.sweep(copy.sweep_order(list(copy.at)))
    best = min(cost for states, cost in assignments(tables) if states[2] == 2)
    assert now.bound() <= copy.bound() <= SCALE * best
    assert copy.round([0, 1, 2, 3])[2] == 2


def test_rounding_takes_no_forbidden_entry_where_none_must_be_taken():
    agree = np.where(np.eye(3, dtype=bool), 0, FORBIDDEN)
    tables: Tables = [*(((k, k + 1), agree) for k in range(4)), ((4,), np.array([5, 1, 7], np.int64))]
    now = ReweightedTables.of(tables)
    assert now.round(list(range(5)[::-1])) == dict.fromkeys(range(5), 1)


def test_negative_a_forbidden_state_adds_half_of_infinity_or_more():
    tables: Tables = [((0, 1), np.array([[0, 3], [FORBIDDEN, FORBIDDEN]], np.int64))]
    now, _ = _swept(tables, 0)
    free, forbidden = now.least(0).tolist()
    assert free == 0 and forbidden >= INFINITE // 2
