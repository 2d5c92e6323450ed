"""Sets of formats by their numbers: those of one format first, then those of two, each size in lexicographic order.

Tables have an axis on which such sets are places, and only sets of at most some size. A format is said by its place
among those that are asked for, 0 to count - 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

NARROW = 12
"""Up to so many formats, the number of a set is looked up by the bits of its members, which is the quicker way."""

LISTED = 1 << 15
"""Up to so many combinations of what the uses of a value ask for, the numbers of their sets are listed once."""


def sets_of(wanted: int, most: int) -> Iterator[tuple[int, ...]]:
    """The sets of 1 to `most` of the places 0 to wanted - 1: by size, then in lexicographic order."""
    for size in range(1, min(wanted, most) + 1):
        yield from combinations(range(wanted), size)


@lru_cache(maxsize=64)
def place_of_sets(wanted: int, most: int) -> dict[tuple[int, ...], int]:
    """The number of each set, given as ascending places."""
    return {chosen: number for number, chosen in enumerate(sets_of(wanted, most))}


@lru_cache(maxsize=1 << 12)
def count_sets(wanted: int, uses: int) -> int:
    """How many sets of at least one of `wanted` formats `uses` uses may ask for together."""
    total, term = 0, 1
    for size in range(1, min(wanted, uses) + 1):
        term = term * (wanted - size + 1) // size
        total += term
    return total


def told_apart(wanted: int, uses: int, limit: int) -> int:
    """The largest size up to which there are no more than `limit` sets of `wanted` formats; 1 at least."""
    most = min(wanted, uses)
    while most > 1 and count_sets(wanted, most) > limit:
        most -= 1
    return most


@lru_cache(maxsize=1 << 8)
def members_of(wanted: int, most: int) -> NDArray[np.bool_]:
    """[set, place] -> whether the set, in the order of `sets_of`, has the format at that place."""
    members = np.zeros((count_sets(wanted, most), wanted), np.bool_)
    for row, chosen in zip(members, sets_of(wanted, most), strict=True):
        row[list(chosen)] = True
    return members


def set_numbers(used: Sequence[NDArray[np.int64]], count: int) -> NDArray[np.int64]:
    """The number of the set of all formats asked for, elementwise: `used` has one array of formats per use."""
    if count <= NARROW:
        mask = np.zeros(1, np.int64)
        for formats in used:
            mask = mask | (1 << formats)
        return _by_bits(count, min(count, len(used)))[mask]
    if count ** len(used) <= LISTED:
        place = np.zeros(1, np.int64)
        for formats in used:
            place = place * count + formats
        return _by_formats(count, len(used))[place]
    return numbers_of(np.sort(np.stack(np.broadcast_arrays(*used), axis=-1), axis=-1), count)


@lru_cache(maxsize=64)
def _by_formats(count: int, uses: int) -> NDArray[np.int64]:
    """[the formats that `uses` uses ask for, as digits of a number to base `count`] -> the number of their set."""
    formats = np.indices([count] * uses).reshape(uses, -1).T
    return numbers_of(np.sort(formats, axis=-1), count)


@lru_cache(maxsize=256)
def _by_bits(count: int, most: int) -> NDArray[np.int64]:
    """[bits of the members of a set] -> the number of the set in the order of `sets_of`."""
    numbers = np.zeros(1 << count, np.int64)
    for number, chosen in enumerate(sets_of(count, most)):
        numbers[sum(1 << k for k in chosen)] = number
    return numbers


def numbers_of(formats: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The numbers, in the order of `sets_of`, of sets given as ascending formats, the same ones repeated or not."""
    most = formats.shape[-1]
    choose = np.array([[comb(n, k) for k in range(most + 1)] for n in range(count + 1)], np.int64)
    smaller = np.array([0, *(count_sets(count, size) for size in range(most))], np.int64)
    is_new = np.ones(formats.shape, np.bool_)
    is_new[..., 1:] = formats[..., 1:] != formats[..., :-1]
    place = np.cumsum(is_new, axis=-1) - 1
    size = place[..., -1] + 1
    # Those behind a set in the order of its size: equal up to some place, and greater there.
    behind = choose[count - 1 - formats, np.maximum(size[..., None] - place, 0)]
    return smaller[size] + choose[count, size] - 1 - np.where(is_new, behind, 0).sum(axis=-1)
