"""The least sum of tables is that over all assignments, and the places are those of one that has it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from layout_ir.selection.solver import table_elimination
from layout_ir.selection.solver.cost_functions import Scope, Table
from layout_ir.selection.solver.lower_bounds import INFINITE
from tests.selection.solver.tables import assignments, random_tables, tangle


def _sum(tables: list[tuple[Scope, Table]], places: dict[int, int]) -> int:
    return sum(int(table[tuple(places[v] for v in scope)]) for scope, table in tables)


@pytest.mark.parametrize("seed", range(20))
def test_least_sum_is_that_of_all_assignments(seed: int):
    rng = random.Random(seed)
    sizes = {v: rng.randint(1, 4) for v in range(6)}
    tables = random_tables(rng, tangle(rng, 6, 8), list(sizes.values()))
    # Scopes in any order, as those of tables that were made smaller.
    tables = [
        (scope[::-1], table.transpose()) if rng.random() < 0.5 else (scope, table) for scope, table in tables
    ]
    found = table_elimination.least_sum(tables, sizes)
    assert found is not None
    assert found.cost == min(cost for _, cost in assignments(tables))
    assert found.places.keys() == sizes.keys()
    assert _sum(tables, found.places) == found.cost


def test_many_infinite_entries_stay_infinite():
    tables = [((0, 1), np.full((2, 2), INFINITE, np.int64))] * 40
    found = table_elimination.least_sum(tables, {0: 2, 1: 2})
    assert found is not None
    assert found.cost == INFINITE


@pytest.mark.parametrize("limit", ["MOST_ENTRIES", "MOST_WORK", "ENTRIES_PER_VARIABLE"])
def test_negative_what_would_take_too_long_is_not_done(limit: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(table_elimination, limit, 8)
    tables = random_tables(random.Random(1), [(0, 1), (1, 2), (0, 2)], [3] * 3)
    assert table_elimination.least_sum(tables, dict.fromkeys(range(3), 3)) is None


def test_with_patience_more_is_done(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(table_elimination, "ENTRIES_PER_VARIABLE", 8)
    tables = random_tables(random.Random(1), [(0, 1), (1, 2), (0, 2)], [3] * 3)
    found = table_elimination.least_sum(tables, dict.fromkeys(range(3), 3), 2)
    assert found is not None and found.cost == min(cost for _, cost in assignments(tables))
