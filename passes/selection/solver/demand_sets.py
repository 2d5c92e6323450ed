"""Which sets of formats values need, and whose sets are part of whose.

What a value is needed in is the set of what its uses ask for. In dense blocks many values have the same last uses:
of the parts that a chain of concats joins, each is used by all concats behind it. The set that a later part is needed
in is then part of the set of every earlier one, and it is enough to say so once: if all uses of w are the last uses
of v, and ask of v for what they ask of w up to the names of the formats, v needs w's set and what its first uses ask
for. That keeps who depends on whom a chain, where listing the uses of each would make them all depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

_Formats = tuple[int, ...]
Uses = Sequence[tuple[int, _Formats]]
"""The ops that use a value, ascending, each with the format it asks for in every choice."""

SETS = 1 << 12
"""Sets of one value that are told apart at first; 12 formats have no more. See `Needs.more`."""

MOST_SETS = 1 << 17
"""Sets of one value that are told apart at most: of 40 formats four at a time, of 90 three."""

TAIL_LIMIT = 1 << 14
"""Pairs of sets above which two values are better not tied to each other."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The sets that one value may be needed in, by the places of their formats in `wanted`.

    Formats times uses may make more sets than there is room for. Then those of more than `most` formats are one last
    state, which costs what `most` formats other than the one made cost at least: a bound of what each of them costs. A
    choice that is the cheapest with such a state, and costs what was counted for it, is the cheapest.
    """

    wanted: _Formats
    most: int
    """Formats in a set at most, of those that are told apart."""
    more: bool
    """Whether there is a last state for all larger sets."""
    tail: int | None
    """The value whose set is part of this one's: place k there is place k here. None where either has `more`."""
    direct: tuple[tuple[int, tuple[_Formats, ...]], ...]
    """The ops whose wishes no tail stands for: per operand, the place that each choice asks for."""

    @property
    def states(self) -> int:
        return count_sets(len(self.wanted), self.most) + self.more

    def state(self, needed: frozenset[int]) -> int:
        """The state of a value that is needed in the formats at these places."""
        if len(needed) > self.most:
            return self.states - 1
        return _numbers(len(self.wanted), self.most)[tuple(sorted(needed))]


def sets_of(wanted: int, most: int) -> Iterator[tuple[int, ...]]:
    """The sets of at least one and at most `most` of so many places: small ones first, then in order."""
    for size in range(1, min(wanted, most) + 1):
        yield from combinations(range(wanted), size)


@lru_cache(maxsize=64)
def _numbers(wanted: int, most: int) -> dict[tuple[int, ...], int]:
    return {chosen: number for number, chosen in enumerate(sets_of(wanted, most))}


@lru_cache(maxsize=1 << 12)
def count_sets(wanted: int, uses: int) -> int:
    """How many sets of `wanted` formats so many uses may need."""
    total, term = 0, 1
    for size in range(1, min(wanted, uses) + 1):
        term = term * (wanted - size + 1) // size
        total += term
    return total


def value_sets(wanted: Sequence[int], uses: int) -> list[tuple[int, ...]]:
    """The sets of formats that `uses` uses may need together, in the order of `sets_of`."""
    return [s for size in range(1, min(len(wanted), uses) + 1) for s in combinations(wanted, size)]


def told_apart(wanted: int, uses: int, limit: int) -> int:
    """How many formats a set may have, so that there are no more than `limit` sets, or only those of one format."""
    most = min(wanted, uses)
    while most > 1 and count_sets(wanted, most) > limit:
        most -= 1
    return most


def nested(
    wide: Sequence[int],
    uses: Mapping[int, Uses],
    *,
    tails: bool = True,
    limits: Mapping[int, int] | None = None,
) -> dict[int, Needs]:
    """The needs of the values `wide`, and of those of `uses` whose uses are the last ones of such a value.

    Each stands behind its tail. Without `tails` none has one, and only those of `wide` have needs. `limits` has the
    number of sets to tell apart where that is not SETS.
    """
    lists = _Lists(uses, limits or {})
    chosen: dict[int, None] = {}
    pending = list(wide)
    while pending:
        v = pending.pop()
        if v not in chosen:
            chosen[v] = None
            pending += lists.within(v) if tails and not lists.has_more(v) else ()
    found: dict[int, Needs] = {}
    # A tail has fewer uses.
    for v in sorted(chosen, key=lambda v: (len(uses[v]), v)):
        found[v] = lists.needs(v, found if tails else {})
    return found


class _Lists:
    """The lists of uses, read from their ends: equal ends have equal numbers."""

    def __init__(self, uses: Mapping[int, Uses], limits: Mapping[int, int]):
        self.uses = uses
        self.limits = limits
        self._numbers: dict[tuple[int, int, _Formats], int] = {}
        self._ends: dict[int, list[int]] = {}
        """Per value, the number of what is left of its list from each place on."""
        self._wanted: dict[int, _Formats] = {}
        self._bits: dict[int, list[_Formats]] = {}
        self._whole: dict[int, int] = {}
        """The value whose whole list has this number."""
        for v in uses:
            self._enter(v)

    def _enter(self, v: int) -> None:
        bit: dict[int, int] = {}
        end = -1
        ends: list[int] = []
        bits: list[_Formats] = []
        for op, formats in reversed(self.uses[v]):
            own = tuple([bit.setdefault(f, len(bit)) for f in formats])
            end = self._numbers.setdefault((end, op, own), len(self._numbers))
            ends.append(end)
            bits.append(own)
        self._ends[v] = ends[::-1]
        self._bits[v] = bits[::-1]
        self._wanted[v] = tuple(bit)
        self._whole.setdefault(end, v)

    def most(self, v: int) -> int:
        return told_apart(len(self._wanted[v]), len(self.uses[v]), self.limits.get(v, SETS))

    def has_more(self, v: int) -> bool:
        return self.most(v) < min(len(self._wanted[v]), len(self.uses[v]))

    def within(self, v: int) -> list[int]:
        """The values whose uses are the last ones of `v`, fewer than all."""
        return [self._whole[end] for end in self._ends[v][1:] if end in self._whole]

    def needs(self, v: int, known: Mapping[int, Needs]) -> Needs:
        uses, wanted = self.uses[v], self._wanted[v]
        most, more = self.most(v), self.has_more(v)
        tail: int | None = None
        first = len(uses)
        for place, end in enumerate(self._ends[v]):
            other = self._whole.get(end) if place else None
            # An op that uses v twice must be on one side.
            if more or other is None or other not in known or uses[place - 1][0] == uses[place][0]:
                continue
            if not known[other].more and known[other].states * count_sets(len(wanted), most) <= TAIL_LIMIT:
                tail, first = other, place
            break
        asked: dict[int, list[_Formats]] = {}
        for (op, _), bits in zip(uses[:first], self._bits[v], strict=False):
            asked.setdefault(op, []).append(bits)
        return Needs(wanted, most, more, tail, tuple([(op, tuple(ports)) for op, ports in asked.items()]))
