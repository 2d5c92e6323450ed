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
_Floats = NDArray[np.float32]
"""Zeros and ones: whether there is any is asked by a product of matrices."""


class _OpClass(NamedTuple):
    """What ops of one class have in common."""

    values: tuple[int, ...]
    """The classes of the operands and of the results."""
    formats: tuple[NDArray[np.int64], ...]
    """For each of these, its format in every choice."""
    pairs: tuple[NDArray[np.int64], ...]
    """For each of these, [choice, other choice]: the place of the formats of both in a relation."""
    members: tuple[_Floats, ...]
    """For each of these, [choice, format]: whether it is the one of the choice."""
    choices: tuple[NDArray[np.int64], ...] | None
    """For each of these, where no two choices have the same format: [format, other format], the place of the choices
    of both among pairs of choices."""
    costs_no_more: _Bits
    """[choice, other choice]: whether the other one costs no more."""


class _ReorderClass(NamedTuple):
    """Reorders of the values of a class."""

    value: int
    near: tuple[_Floats, ...]
    """Per cost of a reorder but the largest, [format, other format]: whether the other one is had for that cost."""


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
        self._used = [np.zeros(size, np.bool_) for size in sizes]
        self._stops: list[_OpClass | _ReorderClass] = [_op_class(op, own, sizes) for op, own in ops]
        for stop in self._stops:
            if isinstance(stop, _OpClass):
                for number, formats in zip(stop.values, stop.formats, strict=True):
                    self._used[number][formats] = True
        for number, reorder in {
            (number, value.reorder): None for value, number in zip(problem.values, self.classes, strict=True)
        }:
            self._add_reorders(number, np.array(reorder, np.int64))
        self._around: list[list[int]] = [[] for _ in sizes]
        for place, stop in enumerate(self._stops):
            for number in set(stop.values if isinstance(stop, _OpClass) else (stop.value,)):
                self._around[number].append(place)
        self._stands = [used[:, None] & used for used in self._used]
        """Per class, [format, one that may stand for it]."""
        self._settle(range(len(self._stops)), {})

    def _add_reorders(self, number: int, reorder: NDArray[np.int64]) -> None:
        used = np.ix_(self._used[number], self._used[number])
        for costs in (reorder,) if np.array_equal(reorder, reorder.T) else (reorder, reorder.T):
            *levels, _ = np.unique(costs[used])
            near = tuple([(costs <= level).astype(np.float32) for level in levels if level])
            if near:
                self._stops.append(_ReorderClass(number, near))

    def maps(self, deadline: float | None = None) -> list[tuple[int, ...]]:
        """Per class of values, a map of its formats to few of them, in which each stands for what is mapped to it;
        after `deadline`, a time of time.monotonic(), to no fewer."""
        for number, used in enumerate(self._used):
            # The first formats are those of the problem as it was stated: they had better stay.
            for f in np.flatnonzero(used)[::-1].tolist():
                stands = self._stands[number]
                if stands[:, f].any() and stands[f].sum() > stands[f, f] and not _is_late(deadline):
                    fewer = stands.copy()
                    fewer[:, f] = False
                    self._try(number, fewer)
        self._keep_images()
        for number, stands in enumerate(self._stands):
            for f in np.flatnonzero(stands.sum(axis=1) > 1).tolist():
                for g in np.flatnonzero(self._stands[number][f]).tolist():
                    if self._stands[number][f].sum() == 1 or _is_late(deadline):
                        break
                    one = self._stands[number].copy()
                    one[f] = False
                    one[f, g] = True
                    if self._try(number, one):
                        break
        found: list[tuple[int, ...]] = []
        for used, stands in zip(self._used, self._stands, strict=True):
            targets = np.where(
                used & stands.any(axis=1), stands.argmax(axis=1), np.arange(len(used))
            ).tolist()
            found.append(tuple([g if targets[g] == g else f for f, g in enumerate(targets)]))
        return found

    def _keep_images(self) -> None:
        """Lets no format that stands for others be mapped elsewhere, unless some format is left with none then."""
        before = dict(enumerate(self._stands))
        for number, stands in before.items():
            images = np.flatnonzero(stands.any(axis=0) & stands.diagonal())
            own = self._stands[number] = stands.copy()
            own[images] = False
            own[images, images] = True
        if not self._settle(range(len(self._stops)), {}):
            self._stands = list(before.values())

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
        """Per operand and result, its class and the pairs of formats that the choices stand against."""
        serves = op.costs_no_more
        for number, pairs in zip(op.values, op.pairs, strict=True):
            serves = serves & self._stands[number].take(pairs)
        if op.choices is not None:
            fails = ~serves
            return [(number, fails.take(pairs)) for number, pairs in zip(op.values, op.choices, strict=True)]
        others = serves.astype(np.float32)
        found: list[tuple[int, _Bits]] = []
        for number, members in zip(op.values, op.members, strict=True):
            lacks = (others @ members) == 0
            found.append((number, (members.T @ lacks.astype(np.float32)) > 0))
        return found

    def _of_reorders(self, stop: _ReorderClass) -> tuple[int, _Bits]:
        """The class, and the pairs of formats that reorders stand against."""
        stands, used = self._stands[stop.value], self._used[stop.value]
        against = np.zeros(stands.shape, np.bool_)
        for near in stop.near:
            lacks = ((stands.astype(np.float32) @ near.T) == 0) & used[:, None]
            against |= (near @ lacks.astype(np.float32)) > 0
        return stop.value, against


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


def _op_class(op: OpNode, values: tuple[int, ...], sizes: Sequence[int]) -> _OpClass:
    costs = np.array([choice.cost for choice in op.choices], np.int64)
    columns = np.array([(*choice.ins, *choice.outs) for choice in op.choices], np.int64)
    columns = columns.reshape(len(costs), len(values)).T
    own_sizes = [sizes[v] for v in values]
    members = [np.eye(size, dtype=np.float32)[own] for size, own in zip(own_sizes, columns, strict=True)]
    pairs = [own[:, None] * size + own for size, own in zip(own_sizes, columns, strict=True)]
    choices: tuple[NDArray[np.int64], ...] | None = None
    if all(
        len(set(own.tolist())) == len(costs) == size for size, own in zip(own_sizes, columns, strict=True)
    ):
        places = [own.argsort() for own in columns]
        choices = tuple([place[:, None] * len(costs) + place for place in places])
    return _OpClass(values, tuple(columns), tuple(pairs), tuple(members), choices, costs <= costs[:, None])
