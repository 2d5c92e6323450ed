"""Tables of integers over variables: added, and minimized over one variable after the other.

A certificate of some thousand ops has a hundred million entries to go over. Whatever is done once per entry is
therefore one call of the standard library for many of them: slices, `map`, `min`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from math import prod
from operator import add

from layout_ir.certificate.stated_problem import Budget
from layout_ir.errors import LayoutError

LARGEST = 1 << 23
"""Entries of a table at most; the solver makes none that is larger."""

_STEPS_PER_PART = 32
"""Steps that a look at the variables of a table takes."""

_Shapes = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
"""Tables whose variables are numbered in the order in which they come: which each has, and its entries."""

Live = Mapping[int, Sequence[int]]
"""Per variable, the states that are still possible."""


@dataclass(frozen=True, slots=True)
class Table:
    """One entry per assignment of the variables of `scope`, the last running fastest."""

    scope: tuple[int, ...]
    entries: list[int]

    @property
    def negated(self) -> Table:
        """The table with all signs changed."""
        return Table(self.scope, [-entry for entry in self.entries])


class Tables:
    """What is done with tables whose variable x has `size(x)` states. Raises LayoutError where a table would be too
    large, or the work is more than the budget allows."""

    def __init__(self, size: Callable[[int], int], budget: Budget):
        self._size = size
        self._budget = budget
        self._leasts: dict[tuple[tuple[int, ...], _Shapes], int] = {}
        """Per sizes of variables and parts that have 0 as their least entry: the least entry of the sum."""

    def count(self, scope: Collection[int], what: str) -> int:
        """How many entries a table over `scope` has; spends a step of the budget for each."""
        if any(x < 0 for x in scope):
            raise LayoutError(f"{list(scope)} is not a set of variables")
        entries = prod(self._size(x) for x in scope)
        if entries > LARGEST:
            raise LayoutError(f"too large to check: {what} over {len(scope)} variables has {entries} entries")
        self._budget.spend(entries, f"{what} over {len(scope)} variables, {entries} entries,")
        return entries

    def places(self, scope: Sequence[int], own: Sequence[int], live: Live | None = None) -> list[int]:
        """For every assignment of `scope`, of live states only, the place of its part in a table over `own`."""
        step: dict[int, int] = {}
        stride = 1
        for x in reversed(own):
            step[x], stride = stride, stride * self._size(x)
        places = [0]
        for x in scope:
            states = range(self._size(x)) if live is None else live[x]
            steps = [step.get(x, 0) * k for k in states]
            places = [place + k for place in places for k in steps]
        return places

    def plus(self, table: Table, part: Table) -> Table:
        """The sum over the variables of `table`, of which `part` has some."""
        self.count(table.scope, "a cluster")
        return Table(table.scope, list(map(add, table.entries, self._spread(part, table.scope))))

    def sum(self, parts: Sequence[Table], scope: Sequence[int] = ()) -> Table:
        """The sum over all variables of the parts, and of `scope`: next always what makes the smallest table."""
        rest = self._joined(parts)
        if scope:
            rest.append(Table(tuple(scope), [0] * self.count(scope, "a cluster")))
        total = Table((), [0])
        while rest:
            self._budget.spend(_STEPS_PER_PART * len(rest), f"the sum of {len(rest)} tables")
            _, k = min((prod(map(self._size, {*total.scope, *part.scope})), k) for k, part in enumerate(rest))
            part = rest.pop(k)
            union = tuple(dict.fromkeys((*part.scope, *total.scope)))
            self.count(union, "a cluster")
            total = self.plus(Table(union, self._spread(part, union)), total)
        return total

    def least(self, parts: Sequence[Table]) -> int:
        """The least entry of the sum of the parts.

        Where a network repeats a block, its tables come again with a constant more, and are not gone over again.
        """
        parts = self._joined(parts)
        place = {x: k for k, x in enumerate(dict.fromkeys(x for part in parts for x in part.scope))}
        constant = 0
        found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for part in parts:
            least = min(part.entries)
            constant += least
            entries = part.entries if least == 0 else [entry - least for entry in part.entries]
            found.append((tuple(place[x] for x in part.scope), tuple(entries)))
        sizes = tuple(map(self._size, place))
        shapes = tuple(found)
        known = self._leasts.get((sizes, shapes))
        if known is None:
            known = self._leasts[sizes, shapes] = self._least_sum(parts) - constant
        return constant + known

    def _least_sum(self, parts: Sequence[Table]) -> int:
        """`least`, each variable minimized out where that makes the smallest tables."""
        rest = list(parts)
        while variables := {x for part in rest for x in part.scope}:
            looks = len(variables) * len(rest)
            self._budget.spend(_STEPS_PER_PART * looks, f"the least entry of {len(rest)} tables")
            unions = {x: {y for part in rest if x in part.scope for y in part.scope} for x in variables}
            entries = {x: prod(map(self._size, union)) for x, union in unions.items()}
            x = min(variables, key=lambda x: (entries[x], x))
            total = self.sum([part for part in rest if x in part.scope])
            rest = [part for part in rest if x not in part.scope]
            rest.append(self._minimized(total, x))
        return sum(part.entries[0] for part in rest)

    def _joined(self, parts: Sequence[Table]) -> list[Table]:
        """The parts, those over the same variables added up."""
        found: dict[tuple[int, ...], Table] = {}
        for part in parts:
            known = found.get(part.scope)
            found[part.scope] = part if known is None else self.plus(known, part)
        return list(found.values())

    def least_by_state(self, table: Table, x: int) -> list[int]:
        """Per state of `x`, one of the variables of `table`, the least entry with that state."""
        self.count(table.scope, "the least entries")
        states, run = self._size(x), self._run(table, x)
        return [min(_kept_runs(table.entries, states, run, [k])) for k in range(states)]

    def keeping(self, table: Table, x: int, states: Sequence[int]) -> Table:
        """The entries of `table` with some states of `x`, one of its variables."""
        if len(states) == self._size(x):
            return table
        self.count(table.scope, "the states kept")
        return Table(table.scope, _kept_runs(table.entries, self._size(x), self._run(table, x), states))

    def _run(self, table: Table, x: int) -> int:
        """How many entries follow one another with the same state of `x`."""
        return prod(map(self._size, table.scope[table.scope.index(x) + 1 :]))

    def _minimized(self, table: Table, x: int) -> Table:
        self.count(table.scope, "the least entries")
        rest = tuple(y for y in table.scope if y != x)
        return Table(rest, _least_of_runs(table.entries, self._size(x), self._run(table, x)))

    def _spread(self, part: Table, scope: Sequence[int]) -> list[int]:
        """The entries of `part` for every assignment of `scope`."""
        own = [x for x in scope if x in part.scope]
        entries = part.entries
        if own != list(part.scope):
            entries = [entries[place] for place in self.places(own, part.scope)]
        inner = 1
        for is_missing, group in groupby(reversed(scope), lambda x: x not in part.scope):
            states = prod(map(self._size, group))
            if is_missing:
                entries = _repeated_runs(entries, states, inner)
            inner *= states
        return entries


def _repeated_runs(entries: list[int], times: int, run: int) -> list[int]:
    """Each `run` entries that follow one another, `times` times."""
    if times == 1:
        return entries
    if len(entries) // run <= times * run:
        starts = range(0, len(entries), run)
        return list(chain.from_iterable([entries[k : k + run] * times for k in starts]))
    repeated = [0] * (len(entries) * times)
    for k in range(run):
        column = entries[k::run]
        for n in range(times):
            repeated[n * run + k :: times * run] = column
    return repeated


def _kept_runs(entries: list[int], states: int, run: int, kept: Sequence[int]) -> list[int]:
    """Of each `states` runs of `run` entries those that have the numbers `kept`."""
    whole = states * run
    if len(entries) // whole <= len(kept) * run:
        starts = [start + k * run for start in range(0, len(entries), whole) for k in kept]
        return list(chain.from_iterable([entries[start : start + run] for start in starts]))
    rest = [0] * (len(entries) // states * len(kept))
    for n, k in enumerate(kept):
        for place in range(run):
            rest[n * run + place :: len(kept) * run] = entries[k * run + place :: whole]
    return rest


def _least_of_runs(entries: list[int], states: int, run: int) -> list[int]:
    """Of each `states` runs of `run` entries one: the least entry at each of its places."""
    if states == 1:
        return entries
    whole = states * run
    if len(entries) // whole <= run:
        return [
            least
            for start in range(0, len(entries), whole)
            for least in _least_of([entries[k : k + run] for k in range(start, start + whole, run)])
        ]
    reduced = [0] * (len(entries) // states)
    for k in range(run):
        reduced[k::run] = _least_of([entries[n + k :: whole] for n in range(0, whole, run)])
    return reduced


def _least_of(rows: list[list[int]]) -> Iterable[int]:
    """At each place, the least entry of the rows, two at least."""
    if len(rows) == 2:
        # A comparison takes a third of a call.
        return [a if a < b else b for a, b in zip(*rows, strict=True)]
    return map(min, *rows)
