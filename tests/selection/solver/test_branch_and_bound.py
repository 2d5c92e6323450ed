"""The search finds what trying all assignments finds, and each step of its proof is true."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from layout_ir.selection.solver import branch_and_bound as search
from layout_ir.selection.solver import table_elimination
from layout_ir.selection.solver.branch_and_bound import ProofNode, branch_and_bound
from layout_ir.selection.solver.cost_functions import Scope, Table
from layout_ir.selection.solver.selection_problem import FORBIDDEN
from tests.selection.solver.tables import assignments, least_sum, random_tables, tangle

CHAIN = [(k, k + 1) for k in range(5)]
"""Makes one component of six variables."""


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("forbidden", [0, 0.2])
@pytest.mark.parametrize("seed", range(10))
def test_each_component_has_the_least_sum_of_its_tables(seed: int, forbidden: float, record: bool):
    rng = random.Random(seed)
    tables = random_tables(rng, tangle(rng, 6, 9), [rng.randint(1, 4) for _ in range(6)], forbidden)
    for part in branch_and_bound(tables, None, record=record):
        own = [tables[k] for k in part.tables]
        assert part.cost == part.bound == min(FORBIDDEN, least_sum(own))
        if part.cost < FORBIDDEN:
            assert part.cost == sum(int(t[tuple(part.states[v] for v in scope)]) for scope, t in own)


def test_what_shares_no_variable_is_searched_apart():
    rng = random.Random(1)
    left, right = [(0, 1), (1, 2), (0, 2)], [(3, 4), (3,)]
    parts = branch_and_bound(random_tables(rng, [left[0], right[0], *left[1:], right[1]], [3] * 5), None)
    assert sorted(part.tables for part in parts) == [(0, 2, 3), (1, 4)]
    assert [sorted(part.states) for part in sorted(parts, key=lambda p: p.tables)] == [[0, 1, 2], [3, 4]]


def test_negative_tables_in_a_chain_of_shared_variables_are_one_component():
    scopes = [(0, 1), (2, 3), (1, 2)]
    (part,) = branch_and_bound(random_tables(random.Random(1), scopes, [2] * 4), None)
    assert part.tables == (0, 1, 2)


def test_negative_without_an_allowed_assignment_the_cost_is_forbidden():
    """Three variables of two states, no two of which may be equal."""
    unequal = np.array([[FORBIDDEN, 0], [0, FORBIDDEN]], np.int64)
    (part,) = branch_and_bound([((0, 1), unequal), ((1, 2), unequal), ((0, 2), unequal)], None)
    assert part.cost == part.bound == FORBIDDEN


def test_a_deadline_that_is_over_leaves_a_true_bound_and_a_real_assignment():
    gaps = 0
    for seed in range(12):
        rng = random.Random(seed)
        tables = random_tables(rng, [*CHAIN, *tangle(rng, 6, 8)], [3] * 6)
        (part,) = branch_and_bound(tables, 0.0)
        costs = {tuple(sorted(states.items())): cost for states, cost in assignments(tables)}
        assert part.bound <= min(costs.values()) <= part.cost == costs[tuple(sorted(part.states.items()))]
        gaps += part.bound < part.cost
    assert gaps > 4, "the first assignment is the best: nothing is tested"


def test_what_is_open_at_the_deadline_is_bounded_and_not_rounded_one_by_one(monkeypatch: pytest.MonkeyPatch):
    rng = random.Random(0)
    chain = [(k, k + 1) for k in range(11)]
    tables = random_tables(rng, [*chain, *tangle(rng, 12, 40)], [5] * 12)
    asked, offered_late = 0, 0
    inner = search._Search._offer  # pyright: ignore[reportPrivateUsage]

    def clock() -> float:
        nonlocal asked
        asked += 1
        return 0.0 if asked < 150 else 2.0

    def offer(self: Any, now: Any) -> None:
        nonlocal offered_late
        offered_late += asked >= 150
        inner(self, now)

    monkeypatch.setattr(search.time, "monotonic", clock)
    monkeypatch.setattr(search._Search, "_offer", offer)  # pyright: ignore[reportPrivateUsage]
    (part,) = branch_and_bound(tables, 1.0)
    assert part.bound < part.cost  # so it was ended
    assert asked > 153 and offered_late <= 2


def _check(
    node: ProofNode, left: dict[int, set[int]], costs: list[tuple[dict[int, int], int]], best: int
) -> int:
    """The number of branches below `node`, after every step from there on was found to be true."""
    for v, state in node.dropped:
        assert state in left[v]
        inside = [c for s, c in costs if s[v] == state and all(s[w] in own for w, own in left.items())]
        assert min(inside, default=best) >= best
        left = left | {v: left[v] - {state}}
    branches = 0
    if node.split is not None:
        states = sorted(left[node.split])
        branches = len(node.cases)
        for state, case in zip(states, node.cases, strict=True):
            branches += _check(case, left | {node.split: {state}}, costs, best)
    return branches + (0 if node.then is None else _check(node.then, left, costs, best))


def test_no_dropped_state_is_part_of_a_cheaper_assignment_and_branches_take_all_states():
    branches = 0
    for seed in range(12):
        rng = random.Random(seed)
        tables = random_tables(rng, [*CHAIN, *tangle(rng, 6, 8)], [3] * 6, 0.1)
        (part,) = branch_and_bound(tables, None)
        branches += _check(
            part.proof, {v: set(range(3)) for v in range(6)}, list(assignments(tables)), part.cost
        )
    assert branches > 10, "no search branches: nothing is tested"


def hub(spokes: int) -> list[tuple[Scope, Table]]:
    """The last variable of two states is equal to each of many, which cost less in state 0; or, next to each other,
    nothing where they differ."""
    equal = np.array([[0, FORBIDDEN], [FORBIDDEN, 0]], np.int64)
    beside = np.array([[1, 0], [0, 3]], np.int64)
    tables: list[tuple[Scope, Table]] = [((k, spokes), equal) for k in range(spokes)]
    return [*tables, *(((k, k + 1), beside) for k in range(spokes - 1))]


@pytest.mark.parametrize("deadline", [None, 0.0])
def test_what_many_tables_forbid_is_forbidden(deadline: float | None):
    """Of 128 times what is forbidden, the sum is negative in 64 bits."""
    (part,) = branch_and_bound(hub(200), deadline, [0] * 201)
    assert part.bound <= part.cost == 199
    assert set(part.states.values()) == {0}


def test_negative_what_is_known_need_not_be_possible():
    (part,) = branch_and_bound(hub(20), None, [0, 1] * 10 + [0])
    assert part.cost == part.bound == 19


@pytest.mark.parametrize("seed", range(4))
def test_blocks_that_share_a_variable_are_eliminated_once_it_has_a_state(
    monkeypatch: pytest.MonkeyPatch, seed: int
):
    """With no patience, the search has to branch in each block, and in all of them together."""
    monkeypatch.setattr(table_elimination, "ENTRIES_PER_VARIABLE", 4)
    blocks = [(3 * k + 1, 3 * k + 2, 3 * k + 3) for k in range(3)]
    scopes = [pair for a, b, c in blocks for pair in ((a, b), (b, c), (a, c), (0, a), (0, b), (0, c))]
    tables = random_tables(random.Random(seed), scopes, [6, *[2] * 9])
    patience: list[int] = []

    def eliminated(tables: Any, sizes: Any, most: int) -> Any:
        patience.append(most)
        return table_elimination.least_sum(tables, sizes, most)

    monkeypatch.setattr(search, "least_sum", eliminated)
    (part,) = branch_and_bound(tables, None, record=False)
    assert part.cost == part.bound == least_sum(tables)
    assert patience == sorted(patience)
