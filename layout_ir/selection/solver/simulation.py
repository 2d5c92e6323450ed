"""Which formats of a value can stand for which others, all values of a problem looked at together.

Format g of a value stands for format f (it simulates f) if every op around the value has, for each choice with f, a
choice with g at no more cost whose other formats stand for those of the choice, and every reorder from or to f has one
from or to g at no more cost, in the same sense. The largest such relation is found by starting with all pairs and
crossing out those that some op or reorder stands against, until none is left to cross out (arc consistency).

A map of formats that takes all choices to choices is a choice of pairs of this relation that agree with each other.
To find one that leaves few formats, one format after the other is forbidden as the image of any; it stays forbidden if
every format keeps one that stands for it.

Networks repeat their layers, so this is done for classes of values: those of as many formats, around which there are
the same ops, around which there are the same values, and so on for a few steps. A map for each class is a map for each
value; what classes are too coarse for is not found.

Most ops take and make all in one order: each of their choices has another format of every value, and each format of a
value is that of one choice. Then two formats of one operand are in the relation exactly where those that go with them
are in that of each other value. Such values have one relation for all of them, with the formats of each numbered as
those of the first are.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layout_ir.selection.solver.selection_problem import OpNode, Problem

STEPS = 3
"""Steps over ops up to which the surroundings of values are told apart. With two, attention with rotary embeddings kept
twice as many formats, with four as many as with three."""

MOST_CLASSES = 1 << 9
"""Classes of ops above which nothing is looked for. A Llama of two layers has 160, and so has one of twenty-four."""

MOST_PAIRS = 1 << 20
"""Pairs of choices of one op, over all classes of ops, above which nothing is looked for; those have 60,000, for which
it takes 0.1 s."""

_Bits = NDArray[np.bool_]
_Words = NDArray[np.uint64]
"""[row, word]: rows of bits, 64 in a word."""


class _OpClass(NamedTuple):
    """What ops of one class have in common."""

    values: tuple[int, ...]
    """The relations of the operands and of the results."""
    pairs: tuple[NDArray[np.int64], ...]
    """For each of these, [choice, other choice]: the place of the formats of both in a relation."""
    members: tuple[_Words, ...]
    """For each of these, per format the choices that have it."""
    costs_no_more: _Bits
    """[choice, other choice]: whether the other one costs no more."""


class _ReorderClass(NamedTuple):
    """Reorders of the values of a class."""

    value: int
    near: tuple[_Words, ...]
    """Per cost of a reorder but the largest, per format those that are had from it for that cost."""


class _FormatTable(NamedTuple):
    """The choices of ops of one class."""

    values: tuple[int, ...]
    """The classes of the operands and of the results."""
    formats: tuple[NDArray[np.int64], ...]
    """For each of these, its format in every choice."""
    costs: NDArray[np.int64]

    @classmethod
    def of(cls, op: OpNode, values: tuple[int, ...]) -> _FormatTable:
        """The choices of an op whose operands and results are of these classes."""
        columns = np.array([(*choice.ins, *choice.outs) for choice in op.choices], np.int64)
        costs = np.array([choice.cost for choice in op.choices], np.int64)
        return cls(values, tuple(columns.reshape(len(costs), len(values)).T), costs)


class _SharedRelations:
    """Which classes of values share a relation, because ops tie each format of the one to one of the other."""

    def __init__(self, sizes: Sequence[int]):
        self.firsts = list(range(len(sizes)))
        """Per class, the first of those with which it shares its relation."""
        self.places = [np.arange(size) for size in sizes]
        """Per class, for each of its formats the number that it has in the relation."""
        self.allowed: dict[int, _Bits] = {}
        """Per relation, the pairs of formats that costs of such ops leave, where that is not all."""
        self._sizes = sizes

    def merges(self, table: _FormatTable) -> bool:
        """Has the values of an op share a relation; whether that says all that there is to say of the op."""
        count = len(table.costs)
        if not table.values or not all(
            self._sizes[number] == count and len(set(own.tolist())) == count
            for number, own in zip(table.values, table.formats, strict=True)
        ):
            return False
        order = sorted(range(len(table.values)), key=lambda k: self.firsts[table.values[k]])
        lead = table.values[order[0]]
        first = self.firsts[lead]
        wanted = self.places[lead][table.formats[order[0]]]
        """Per choice, the number that its format has in the relation."""
        is_whole = True
        for k in order[1:]:
            number, own = table.values[k], table.formats[k]
            had = self.places[number][own]
            if self.firsts[number] == first:
                is_whole &= np.array_equal(had, wanted)
                continue
            renumbered = np.empty(count, np.int64)
            renumbered[had] = wanted
            self._join(self.firsts[number], first, renumbered)
        if (table.costs != table.costs[0]).any():
            allowed = np.empty((count, count), np.bool_)
            allowed[wanted[:, None], wanted] = table.costs <= table.costs[:, None]
            self.allowed[first] = self.allowed.get(first, True) & allowed
        return is_whole

    def _join(self, number: int, first: int, renumbered: NDArray[np.int64]) -> None:
        """Gives up relation `number` for an earlier one, in which its formats have other numbers."""
        for other, own in enumerate(self.firsts):
            if own == number:
                self.firsts[other] = first
                self.places[other] = renumbered[self.places[other]]
        allowed = self.allowed.pop(number, None)
        if allowed is not None:
            moved = np.empty_like(allowed)
            moved[renumbered[:, None], renumbered] = allowed
            self.allowed[first] = self.allowed.get(first, True) & moved

    def renumbered(self, table: _FormatTable) -> _FormatTable:
        """The choices of an op by the relations of its values and the numbers that formats have in these."""
        columns = zip(table.values, table.formats, strict=True)
        formats = tuple([self.places[number][own] for number, own in columns])
        return _FormatTable(tuple([self.firsts[v] for v in table.values]), formats, table.costs)


class Simulation:
    """The pairs of formats of each class of values of which the second can stand for the first."""

    def __init__(self, problem: Problem):
        self.classes, ops = _classes(problem)
        """The class of each value."""
        count = max(self.classes, default=-1) + 1
        sizes = [0] * count
        for value, number in zip(problem.values, self.classes, strict=True):
            sizes[number] = len(value.reorder)
        pairs = sum(len(op.choices) ** 2 for op, _ in ops)
        self.is_small = len(ops) <= MOST_CLASSES and pairs <= MOST_PAIRS
        if not self.is_small:
            return
        tables = [_FormatTable.of(op, own) for op, own in ops]
        self._shared = _SharedRelations(sizes)
        left = [table for table in tables if not self._shared.merges(table)]
        firsts = self._shared.firsts
        self._numbers = sorted(set(firsts))
        """The classes that have a relation of their own: the first of those that share one."""
        self._used = [np.zeros(size, np.bool_) for size in sizes]
        for table in tables:
            for number, formats in zip(table.values, table.formats, strict=True):
                self._used[firsts[number]][self._shared.places[number][formats]] = True
        self._stops: list[_OpClass | _ReorderClass] = []
        known: set[tuple[object, ...]] = set()
        for table in left:
            table = self._shared.renumbered(table)
            key = table.values, table.costs.tobytes(), *[own.tobytes() for own in table.formats]
            if key not in known:
                known.add(key)
                self._stops.append(_op_class(table, sizes))
        reorders = {
            (number, value.reorder): None for value, number in zip(problem.values, self.classes, strict=True)
        }
        for number, reorder in reorders:
            costs = np.empty((len(reorder), len(reorder)), np.int64)
            places = self._shared.places[number]
            costs[places[:, None], places] = reorder
            if (firsts[number], costs.tobytes()) not in known:
                known.add((firsts[number], costs.tobytes()))
                self._add_reorders(firsts[number], costs)
        self._around: list[list[int]] = [[] for _ in sizes]
        for place, stop in enumerate(self._stops):
            for number in set(stop.values if isinstance(stop, _OpClass) else (stop.value,)):
                self._around[number].append(place)
        self._stands = [used[:, None] & used for used in self._used]
        """Per relation, [format, one that may stand for it]."""
        for number, allowed in self._shared.allowed.items():
            self._stands[number] &= allowed
        self._settle(range(len(self._stops)), {})

    def _add_reorders(self, number: int, reorder: NDArray[np.int64]) -> None:
        used = np.ix_(self._used[number], self._used[number])
        for costs in (reorder,) if np.array_equal(reorder, reorder.T) else (reorder, reorder.T):
            *levels, _ = np.unique(costs[used])
            near = tuple([_packed(costs <= level) for level in levels if level])
            if near:
                self._stops.append(_ReorderClass(number, near))

    def maps(self, deadline: float | None = None) -> list[tuple[int, ...]]:
        """Per class of values, a map of its formats to few of them, in which each stands for what is mapped to it;
        after `deadline`, a time of time.monotonic(), to no fewer."""
        for number in self._numbers:
            # The first formats are those of the problem as it was stated: they had better stay.
            for f in np.flatnonzero(self._used[number])[::-1].tolist():
                stands = self._stands[number]
                if stands[:, f].any() and stands[f].sum() > stands[f, f] and not _is_late(deadline):
                    fewer = stands.copy()
                    fewer[:, f] = False
                    self._try(number, fewer)
        self._keep_images()
        for number in self._numbers:
            for f in np.flatnonzero(self._stands[number].sum(axis=1) > 1).tolist():
                for g in np.flatnonzero(self._stands[number][f]).tolist():
                    if self._stands[number][f].sum() == 1 or _is_late(deadline):
                        break
                    one = self._stands[number].copy()
                    one[f] = False
                    one[f, g] = True
                    if self._try(number, one):
                        break
        found: list[tuple[int, ...]] = []
        for number in range(len(self._shared.firsts)):
            stands = self.relation(number)
            targets = np.where(stands.any(axis=1), stands.argmax(axis=1), np.arange(len(stands))).tolist()
            found.append(tuple([g if targets[g] == g else f for f, g in enumerate(targets)]))
        return found

    def relation(self, number: int) -> _Bits:
        """Of a class of values: [format, one that may stand for it]."""
        places = self._shared.places[number]
        return self._stands[self._shared.firsts[number]][places[:, None], places]

    def _keep_images(self) -> None:
        """Lets no format that stands for others be mapped elsewhere, unless some format is left with none then."""
        before = {number: self._stands[number] for number in self._numbers}
        for number, stands in before.items():
            images = np.flatnonzero(stands.any(axis=0) & stands.diagonal())
            own = self._stands[number] = stands.copy()
            own[images] = False
            own[images, images] = True
        if not self._settle(range(len(self._stops)), {}):
            for number, stands in before.items():
                self._stands[number] = stands

    def _try(self, number: int, stands: _Bits) -> bool:
        """Makes the relation of a class smaller, unless some format is left with none that stands for it; whether it
        was done."""
        before = {number: self._stands[number]}
        self._stands[number] = stands
        if self._has_all(number) and self._settle(self._around[number], before):
            return True
        for other, own in before.items():
            self._stands[other] = own
        return False

    def _has_all(self, number: int) -> bool:
        return bool((self._stands[number].any(axis=1) >= self._used[number]).all())

    def _settle(self, stops: Iterable[int], before: dict[int, _Bits]) -> bool:
        """Crosses out what ops and reorders stand against, from `stops` on; False where some format has none left.

        `before` gets the relations that were changed, as they were.
        """
        waiting = set(stops)
        while waiting:
            place = waiting.pop()
            stop = self._stops[place]
            own = self._of_op(stop) if isinstance(stop, _OpClass) else [self._of_reorders(stop)]
            for number, against in own:
                stands = self._stands[number]
                if (stands & against).any():
                    before.setdefault(number, stands)
                    self._stands[number] = stands & ~against
                    waiting.update(self._around[number])
                    if not self._has_all(number):
                        return False
        return True

    def _of_op(self, op: _OpClass) -> list[tuple[int, _Bits]]:
        """Per operand and result, its relation and the pairs of formats that the choices stand against."""
        serves = op.costs_no_more
        for number, pairs in zip(op.values, op.pairs, strict=True):
            serves = serves & self._stands[number].take(pairs)
        others = _packed(serves)
        found: list[tuple[int, _Bits]] = []
        for number, members in zip(op.values, op.members, strict=True):
            lacks = ~_meet(members, others)
            found.append((number, _meet(members, _packed(lacks))))
        return found

    def _of_reorders(self, stop: _ReorderClass) -> tuple[int, _Bits]:
        """The relation, and the pairs of formats that reorders stand against."""
        stands, used = self._stands[stop.value], self._used[stop.value]
        against = np.zeros(stands.shape, np.bool_)
        others = _packed(stands)
        for near in stop.near:
            lacks = ~_meet(near, others) & used
            against |= _meet(near, _packed(lacks))
        return stop.value, against


def _packed(rows: _Bits) -> _Words:
    """Rows of bits as words."""
    # Zeros behind the rows, so that they are whole words.
    bits = np.zeros((len(rows), -(-rows.shape[1] // 64) * 64), np.bool_)
    bits[:, : rows.shape[1]] = rows
    return np.packbits(bits, axis=1).view(np.uint64)


def _meet(rows: _Words, others: _Words) -> _Bits:
    """[row, other row]: whether some bit is in both.

    A product of matrices of floats tells it too, but BLAS shares it among threads, which wait for each other longer
    than so few numbers take.
    """
    found = np.zeros((len(rows), len(others)), np.bool_)
    for own, other in zip(rows.T, others.T, strict=True):
        found |= (own[:, None] & other) != 0
    return found


def _is_late(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _classes(problem: Problem) -> tuple[list[int], list[tuple[OpNode, tuple[int, ...]]]]:
    """The class of each value; an op of each class of ops, with the classes of its operands and results."""
    numbers: dict[object, int] = {}
    classes = [numbers.setdefault(len(value.reorder), len(numbers)) for value in problem.values]
    for _ in range(STEPS):
        around: list[set[tuple[int, int]]] = [set() for _ in classes]
        kinds: dict[tuple[int, ...], int] = {}
        for op in problem.ops:
            own = *op.operands, *op.results
            kind = kinds.setdefault((id(op.choices), *[classes[v] for v in own]), len(kinds))
            for place, v in enumerate(own):
                around[v].add((kind, place))
        numbers = {}
        classes = [
            numbers.setdefault((own, frozenset(uses)), len(numbers))
            for own, uses in zip(classes, around, strict=True)
        ]
    ops: dict[tuple[int, ...], tuple[OpNode, tuple[int, ...]]] = {}
    for op in problem.ops:
        own = tuple([classes[v] for v in (*op.operands, *op.results)])
        ops.setdefault((id(op.choices), *own), (op, own))
    return classes, list(ops.values())


def _op_class(table: _FormatTable, sizes: Sequence[int]) -> _OpClass:
    own_sizes = [sizes[v] for v in table.values]
    columns = list(zip(own_sizes, table.formats, strict=True))
    members = [_packed(np.arange(size)[:, None] == own) for size, own in columns]
    pairs = [own[:, None] * size + own for size, own in columns]
    return _OpClass(table.values, tuple(pairs), tuple(members), table.costs <= table.costs[:, None])
