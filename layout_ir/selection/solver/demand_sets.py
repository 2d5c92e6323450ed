"""The sets of formats that values may be demanded in, and which of these sets contain which.

The demand set of a value is the set of the formats that its uses ask for. In dense blocks many values have the same
last uses: of the parts that a chain of concats joins, each is used by all concats behind it. The demand set of a later
part is then contained in that of every earlier one, and it is enough to say so once: if all uses of w are the last uses
of v, and ask of v for what they ask of w up to the numbers of the formats, then v is demanded in w's set and in what
its first uses ask for. w is called the tail of v. So the dependencies form a chain, where listing the uses of each
value would make all of them depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from layout_ir.selection.solver.format_sets import count_sets, place_of_sets, told_apart

_Formats = tuple[int, ...]
Uses = Sequence[tuple[int, _Formats]]
"""The ops that use a value, ascending, each with the format it asks for in every choice."""

SETS = 1 << 12
"""How many sets of one value are told apart at first where values share their last uses; 12 formats have no more. See
`DemandSets.more`."""

ALONE = 1 << 9
"""How many are told apart of a value that shares no uses. A choice of least cost seldom has more than two formats of
one value, and tables over all sets are what leaves a core: with 1 << 12, a BERT of 24 layers took 4 times as long. With
1 << 7, a Flux transformer of dynamic shapes, 4 s otherwise, was not proven in 60 s."""

MOST_SETS = 1 << 17
"""How many sets of one value are told apart at most: those of 4 out of 40 formats, or of 3 out of 90."""

TAIL_LIMIT = 1 << 14
"""Entries of a table over the sets of two values above which a value gets no tail: the table would cost more than it
saves."""


@dataclass(frozen=True, slots=True)
class DemandSets:
    """The sets that one value may be demanded in, by the places of their formats in `wanted`: states of a variable.

    There may be more sets than a table has room for. Then all sets of more than `most` formats are one last state. Its
    cost is the least that `most` formats other than the one made cost, a lower bound of what each of those sets costs.
    So an optimum that has this state is one of the problem if it really costs what was counted for it.
    """

    wanted: _Formats
    most: int
    """Formats in a set at most, of those that are told apart."""
    more: bool
    """Whether there is a last state for all larger sets."""
    tail: int | None
    """The value whose set is part of this one's: place k there is place k here. None where either has `more`."""
    direct: tuple[tuple[int, tuple[_Formats, ...]], ...]
    """The uses that the tail does not cover: each op with, per operand, the place in `wanted` of the format that each
    of its choices asks for."""

    @property
    def states(self) -> int:
        """How many states the variable of the value has."""
        return count_sets(len(self.wanted), self.most) + self.more

    def state(self, needed: frozenset[int]) -> int:
        """The number of the state of a value that is demanded in the formats at these places of `wanted`."""
        if len(needed) > self.most:
            return self.states - 1
        return place_of_sets(len(self.wanted), self.most)[tuple(sorted(needed))]


def find_demand_sets(
    wide: Sequence[int],
    uses: Mapping[int, Uses],
    *,
    tails: bool = True,
    limits: Mapping[int, int] | None = None,
) -> dict[int, DemandSets]:
    """The demand sets of the values `wide`, and of those values in `uses` that are a tail of one of them.

    A value stands behind its tail in the result. Without `tails` no value has one, and only those of `wide` are in the
    result. `limits` has, per value, how many sets to tell apart where that is not SETS.
    """
    lists = _UseLists(uses, limits or {})
    chosen: dict[int, None] = {}
    pending = list(wide)
    while pending:
        v = pending.pop()
        if v not in chosen:
            chosen[v] = None
            pending += lists.within(v) if tails and not lists.has_more(v) else ()
    found: dict[int, DemandSets] = {}
    # A tail has fewer uses.
    for v in sorted(chosen, key=lambda v: (len(uses[v]), v)):
        found[v] = lists.demand_sets(v, found if tails else {})
    return found


class _UseLists:
    """The lists of uses of all values as a trie from their ends: equal ends have equal numbers."""

    def __init__(self, uses: Mapping[int, Uses], limits: Mapping[int, int]):
        self.uses = uses
        self.limits = limits
        self._numbers: dict[tuple[int, int, _Formats], int] = {}
        self._ends: dict[int, list[int]] = {}
        """Per value, the number of what is left of its list from each place on."""
        self._wanted: dict[int, _Formats] = {}
        self._bits: dict[int, list[_Formats]] = {}
        self._whole: dict[int, int] = {}
        """By number of an end, the value whose whole list it is."""
        for v in uses:
            self._enter(v)
        self._shared = {v for v in uses if self.within(v)}.union(*map(self.within, uses))
        """The values that may have a tail, or be one."""

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
        limit = self.limits.get(v, SETS if v in self._shared else ALONE)
        return told_apart(len(self._wanted[v]), len(self.uses[v]), limit)

    def has_more(self, v: int) -> bool:
        return self.most(v) < min(len(self._wanted[v]), len(self.uses[v]))

    def within(self, v: int) -> list[int]:
        """The values whose uses are the last ones of `v`, fewer than all."""
        return [self._whole[end] for end in self._ends[v][1:] if end in self._whole]

    def demand_sets(self, v: int, known: Mapping[int, DemandSets]) -> DemandSets:
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
        return DemandSets(
            wanted, most, more, tail, tuple([(op, tuple(columns)) for op, columns in asked.items()])
        )
