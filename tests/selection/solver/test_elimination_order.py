"""An order is one in which variables can go: every table is in one bucket, every message where it is taken later."""

from __future__ import annotations

import itertools
import random
from math import prod

import pytest

from layout_ir.selection.solver.elimination_order import (
    WRITERS,
    EliminationOrder,
    Scope,
    find_elimination_order,
)

Scopes = list[Scope]


def _tangle(rng: random.Random, variables: int) -> Scopes:
    """Tables over one to three variables, drawn at random."""
    return [tuple(sorted(rng.sample(range(variables), rng.randint(1, 3)))) for _ in range(rng.randint(1, 40))]


def _play(domains: list[int], scopes: Scopes, order: EliminationOrder, limit: int) -> None:
    """Eliminates with sets of variables alone, each bucket behind those that write what it takes."""
    waiting = set(range(len(scopes)))
    full: dict[int, int] = {}
    gone: set[int] = set()
    for number in order.postorder():
        bucket = order.buckets[number]
        # All tables that hold the variable are in its bucket: those given, and the messages made so far.
        assert {k for k in waiting if bucket.variable in scopes[k]} == set(bucket.functions)
        assert {s for s in full if bucket.variable in order.slots[s]} == set(bucket.slots)
        held = [*(scopes[k] for k in bucket.functions), *(order.slots[s] for s in bucket.slots)]
        around = {v for scope in held for v in scope} - {bucket.variable}
        assert set(bucket.rest) == around and not around & gone
        assert bucket.entries == prod(domains[v] for v in (bucket.variable, *around)) <= limit
        waiting -= set(bucket.functions)
        for slot in bucket.slots:
            assert order.consumer[slot] == number and full.pop(slot) < bucket.level <= len(order.buckets)
        gone.add(bucket.variable)
        assert (bucket.out >= 0) == bool(around)
        if around:
            assert order.slots[bucket.out] == bucket.rest
            full[bucket.out] = max(full.get(bucket.out, -1), bucket.level)
    left = {v for v, size in enumerate(domains) if size > 1} - gone
    assert set(order.core_variables) == left
    assert set(order.core_functions) == {k for k in waiting if scopes[k]}
    assert set(order.core_slots) == set(full)


@pytest.mark.parametrize("limit", [1, 9, 27, 1 << 20])
def test_every_table_and_message_is_in_the_bucket_of_the_variable_that_goes_first(limit: int):
    rng = random.Random(limit)
    for _ in range(150):
        variables = rng.randint(3, 15)
        domains = [rng.randint(2, 4) for _ in range(variables)]
        scopes = _tangle(rng, variables)
        order = find_elimination_order(domains, scopes, limit)
        _play(domains, scopes, order, limit)
        if limit == 1 << 20:
            assert not [v for v in order.core_variables if prod(domains) <= limit]


def test_negative_a_clique_beyond_the_limit_is_the_core():
    clique = list(itertools.combinations(range(5), 2))
    assert find_elimination_order([3] * 5, clique, 3**5 - 1).core_variables == list(range(5))
    assert not find_elimination_order([3] * 5, clique, 3**5).core_variables


def test_trees_and_series_parallel_graphs_go_by_tables_of_three_variables():
    rng = random.Random(2)
    for _ in range(30):
        edges = [(rng.randrange(v), v) for v in range(1, 40)]
        assert not find_elimination_order([3] * 40, edges, 9).core_variables
        # Every new variable is put between the ends of an edge there is.
        rings = [(0, 1)]
        for v in range(2, 40):
            a, b = rng.choice(rings)
            rings += [(a, v), (b, v)]
        assert not find_elimination_order([3] * 40, rings, 27).core_variables


def test_chain_is_as_deep_as_a_logarithm():
    scopes = [(k, k + 1) for k in range(1 << 12)]
    order = find_elimination_order([3] * ((1 << 12) + 1), scopes, 1 << 20)
    assert max(bucket.level for bucket in order.buckets) <= 2 * 12


def test_no_slot_adds_up_more_messages_than_fit():
    """A star: every leaf writes a message over the centre."""
    leaves = 3 * WRITERS
    order = find_elimination_order([2] * (leaves + 1), [(0, v) for v in range(1, leaves + 1)], 4)
    written = [bucket.out for bucket in order.buckets if bucket.out >= 0]
    assert len(written) == leaves and max(map(written.count, written)) <= WRITERS
