"""The cheapest trees of reorders against their definition, one root and one set at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest

from layout_ir.selection.solver.format_sets import sets_of
from layout_ir.selection.solver.reorder_trees import steiner
from layout_ir.selection.solver.selection_problem import FORBIDDEN, tree_cost
from tests.selection.problems import random_matrix


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
