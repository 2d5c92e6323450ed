"""The cost of a choice, and the trees of reorders it is made of."""

from __future__ import annotations

import itertools
import random

import pytest

from layout_ir.selection.solver.selection_problem import (
    Choice,
    Matrix,
    OpNode,
    Problem,
    ValueNode,
    evaluate,
    tree_cost,
    tree_edges,
)
from tests.selection.problems import random_matrix


def _tree_by_parents(reorder: Matrix, root: int, needed: frozenset[int]) -> int:
    """The cheapest tree, by giving every format every possible parent (or none)."""
    formats = range(len(reorder))
    best = 1 << 60
    for parents in itertools.product([None, *formats], repeat=len(reorder)):
        cost = sum(reorder[p][f] for f, p in enumerate(parents) if p is not None and f != root)
        if cost < best and all(_reaches(parents, f, root) for f in needed):
            best = cost
    return best


def _reaches(parents: tuple[int | None, ...], node: int, root: int) -> bool:
    seen: set[int] = set()
    current: int | None = node
    while current is not None and current != root:
        if current in seen:
            return False
        seen.add(current)
        current = parents[current]
    return current == root


def test_tree_is_the_cheapest_of_all_trees():
    rng = random.Random(0)
    for _ in range(300):
        formats = rng.randint(2, 5)
        reorder = random_matrix(rng, formats)
        root = rng.randrange(formats)
        needed = frozenset(rng.sample(range(formats), rng.randint(1, formats)))
        cost = tree_cost(reorder, root, needed)
        assert cost == _tree_by_parents(reorder, root, needed)
        edges = tree_edges(reorder, root, needed)
        assert sum(reorder[a][b] for a, b in edges) <= cost
        reached = {root}
        for a, b in edges:
            assert a in reached
            reached.add(b)
        assert needed <= reached


def test_a_reorder_is_paid_once_however_many_uses_share_it():
    value = ValueNode(((0, 5), (5, 0)))
    make = OpNode((), (0,), (Choice((), (0,), 0),))
    use = OpNode((0,), (), (Choice((1,), (), 1),))
    assert evaluate(Problem((make, use, use, use), (value,)), (0, 0, 0, 0)) == 5 + 3


def test_a_format_nobody_asked_for_may_be_the_cheapest_way():
    reorder = ((0, 100, 1), (100, 0, 100), (1, 1, 0))
    assert tree_cost(reorder, 0, {1}) == 2
    assert tree_edges(reorder, 0, {1}) == ((0, 2), (2, 1))


def test_negative_value_without_producer():
    with pytest.raises(ValueError, match="value 0 has no producer"):
        evaluate(Problem((), (ValueNode(((0,),)),)), ())
