"""Sets in an order, one object for all that have the same members in the same order.

The values of a network are many, and the sets of formats or of orders that they may be had in are few. Where equal sets
are one object, what follows from them is found again by identity.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class SharedSets(Generic[T]):
    """The sets that were asked for so far, as mappings to None; they are not to be changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[T, ...], Mapping[T, None]] = {}
        self._unions: dict[tuple[int, int], Mapping[T, None]] = {}
        """By identity of the sets."""
        self.none = self.of(())

    def of(self, members: tuple[T, ...]) -> Mapping[T, None]:
        """The set of these members, each at its first place."""
        found = self._known.get(members)
        if found is None:
            different = dict.fromkeys(members)
            found = self._known[members] = self._known.setdefault(tuple(different), different)
        return found

    def union(self, one: Mapping[T, None], other: Mapping[T, None]) -> Mapping[T, None]:
        """The members of one set, and behind them those of the other; both are sets that this gave out."""
        key = id(one), id(other)
        found = self._unions.get(key)
        if found is None:
            found = self._unions[key] = self.of((*one, *other))
        return found
