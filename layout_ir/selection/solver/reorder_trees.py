"""The cheapest trees of reorders from one format to a set of others, for many cost matrices and all sets at once.

What one value costs is such a tree: it is made in one format, and each format that is asked for is reordered from it or
from another that is there already. The trees are found as Dreyfus and Wagner find Steiner trees in a graph, from small
sets to large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from layout_ir.selection.solver.format_sets import count_sets, members_of, numbers_of
from layout_ir.selection.solver.selection_problem import FORBIDDEN

Costs = NDArray[np.int64]

MOST_SUMMED = 64
"""Up to so many forbidden reorders add up to less than 2^63."""

_COMPARED = 1 << 15
"""Up to so many chains of two reorders, all are compared with the reorders themselves before chains are searched."""


def steiner(
    reorder: Costs, wanted: NDArray[np.int64], most: int, roots: Sequence[int] | None = None
) -> Costs:
    """[n, set of wanted formats, root] -> cost of the cheapest tree, for n matrices at once.

    The sets are those of at most `most` formats, in the order of `sets_of`. A tree goes from its root to some format
    in the cheapest way and splits there. Where only trees from `roots` are asked for, those from others to the largest
    sets are FORBIDDEN: no other tree has them in it.
    """
    n, formats = reorder.shape[:2]
    count = wanted.shape[1]
    most = min(most, count)
    cost = reorder.max(axis=1)
    if (
        count <= MOST_SUMMED
        and (reorder == np.where(np.eye(formats, dtype=np.bool_), 0, cost[:, None])).all()
    ):
        return _stars(cost, wanted, most)
    distance = distances(reorder)
    trees = np.zeros((n, count_sets(count, most), formats), np.int64)
    trees[:, :count] = distance.transpose(0, 2, 1)[np.arange(n)[:, None], wanted]
    first = count
    for size in range(2, most + 1):
        sets = comb(count, size)
        best: Costs | None = None
        for left, right in _splits(count, size):
            split = trees[:, left] + trees[:, right]
            best = split if best is None else np.minimum(best, split, out=best)
        assert best is not None
        whole = trees[:, first : first + sets]
        whole[...] = FORBIDDEN
        if size == most and roots is not None and len(roots) < formats:
            for root in roots:
                whole[:, :, root] = (distance[:, None, root] + best).min(axis=2)
            np.minimum(whole, FORBIDDEN, out=whole)
            break
        for middle in range(formats):
            reach = distance[:, None, :, middle] + best[:, :, middle, None]
            np.minimum(whole, reach, out=whole)
        first += sets
    return trees


def _stars(cost: Costs, wanted: NDArray[np.int64], most: int) -> Costs:
    """What `steiner` gives where a reorder into a format costs the same from any other: all in a tree start at its
    root."""
    n, formats = cost.shape
    members = members_of(wanted.shape[1], most)
    whole = cost[np.arange(n)[:, None], wanted] @ members.T.astype(np.int64)
    # Nobody has to bring the root into its own format.
    own = np.zeros((n, formats, len(members)), np.int64)
    own[np.arange(n)[:, None], wanted] = members.T
    return np.minimum(whole[:, :, None] - own.transpose(0, 2, 1) * cost[:, None], FORBIDDEN)


def distances(reorder: Costs) -> Costs:
    """[n, from, to] -> what the cheapest chain of reorders costs."""
    n, formats = reorder.shape[:2]
    distance = np.minimum(reorder, FORBIDDEN)
    if n * formats**3 <= _COMPARED:
        # Mostly, no chain is cheaper than one reorder, which all chains of two tell.
        chains = (distance[:, :, :, None] + distance[:, None]).min(axis=2)
        if (chains >= distance).all():
            return distance
    for middle in range(formats):
        np.minimum(distance, distance[:, :, middle, None] + distance[:, None, middle, :], out=distance)
    return distance


@lru_cache(maxsize=64)
def _splits(count: int, size: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """For every way to split a set of `size` formats in two: the numbers of both parts, for every such set."""
    chosen = np.array(list(combinations(range(count), size)), np.int64)
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    # The part that holds the first format is enumerated to avoid mirror images.
    for mask in range((1 << (size - 1)) - 1):
        left = [0, *(k + 1 for k in range(size - 1) if mask >> k & 1)]
        right = [k for k in range(size) if k not in left]
        found.append((numbers_of(chosen[:, left], count), numbers_of(chosen[:, right], count)))
    return found
