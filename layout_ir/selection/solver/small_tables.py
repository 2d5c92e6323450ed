"""Tables of a few dozen entries, as lists of integers.

NumPy takes longer to begin an operation than these take in all. A table lists its entries with its last axis fastest,
as an array of that shape does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import add, itemgetter
from typing import Any

from layout_ir.selection.solver.selection_problem import FORBIDDEN

MOST_ENTRIES = 1 << 9
"""Entries of tables that are added up together up to which they are lists.

A list takes 20 us and 0.15 us for each entry, an array 100 us and next to nothing for the entries."""


def spread(entries: Sequence[int], axes: tuple[int, ...], shape: tuple[int, ...]) -> Sequence[int]:
    """A table of this shape, of two entries at least, where `entries` are over some of its axes, in this order."""
    return entries if axes == tuple(range(len(shape))) else _spreading(axes, shape)(entries)


@lru_cache(maxsize=1 << 10)
def _spreading(axes: tuple[int, ...], shape: tuple[int, ...]) -> Callable[[Sequence[int]], tuple[Any, ...]]:
    strides: dict[int, int] = {}
    stride = 1
    for axis in reversed(axes):
        strides[axis] = stride
        stride *= shape[axis]
    places = [0]
    for axis, size in enumerate(shape):
        steps = [strides.get(axis, 0) * index for index in range(size)]
        places = [place + step for place in places for step in steps]
    return itemgetter(*places)


def added(tables: Sequence[Sequence[int]]) -> list[int]:
    """The sum of tables of one shape, FORBIDDEN and more where an entry is forbidden: these integers have no limit."""
    first, *others = tables
    total = list(first)
    for table in others:
        total = list(map(add, total, table))
    return total


def limited(entries: list[int]) -> list[int]:
    """The entries, FORBIDDEN at most."""
    return entries if max(entries) <= FORBIDDEN else [min(entry, FORBIDDEN) for entry in entries]


def least(table: Sequence[int], states: int) -> tuple[list[int], list[int]]:
    """The least entries over the first axis, which has so many states, and where they are: the first of equals."""
    rest = len(table) // states
    columns = list(zip(*[table[k : k + rest] for k in range(0, len(table), rest)], strict=True))
    low = list(map(min, columns))
    return low, [column.index(entry) for column, entry in zip(columns, low, strict=True)]


def combined(groups: Sequence[Sequence[int]]) -> list[int]:
    """Of each choice of one member per group, the last group's fastest, all bits that the members have."""
    found = [0]
    for group in groups:
        found = [bits | member for bits in found for member in group]
    return found
