"""Exact selection by variable elimination.

Eliminating a variable means adding up the tables it occurs in, keeping the least entry over its states and
remembering which; what is left is a smaller problem with the same optimum. `elimination_order` finds the order.
Here the numbers follow, many eliminations of one shape at a time: the buckets are taken in an order that keeps few
messages waiting, cut into segments of bounded size, and within a segment those of one level and shape are one array
operation. Time and memory grow with the entries of the tables, not with their number.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.selection.solver.cost_functions import CHUNK, DIRECT, CostFunctions, Scope, Table
from layout_ir.selection.solver.elimination_order import EliminationOrder, find_elimination_order
from layout_ir.selection.solver.selection_problem import FORBIDDEN, Problem

TABLE_LIMIT = 1 << 23
"""Entries of the largest table: 64 MiB of integers. Real networks stay below a few thousand."""

SEGMENT = 1 << 23
"""Entries of the tables of one segment."""

IN_CACHE = 1 << 16
"""Entries of a table that is added up as a whole: half a mebibyte."""

COLUMNS = 64
"""Columns of a table, per state, up to which NumPy's argmin is quicker than going over them state by state.

It takes 40 ns for each column, and three operations on all columns take 3 us for each state."""

CORE_LIMIT = 1 << 12
"""Entries of the largest table where elimination leaves a core."""

ENTRIES_PER_BUCKET = 1 << 12
"""Entries of tables that are filled in the time that finding the order takes per elimination."""

WIDE = 1 << 19
"""Entries of the tables that values may have where variables of their own would make elimination dearer."""


class _Pool:
    """Messages of one shape: rows of a growing array, used again when they are free."""

    def __init__(self, shape: tuple[int, ...]):
        self.data: Table = np.zeros((16, *shape), np.int64)
        self.free = list(range(15, -1, -1))

    def take(self) -> int:
        if not self.free:
            size = len(self.data)
            self.data = np.concatenate([self.data, np.zeros_like(self.data)])
            self.free = list(range(2 * size - 1, size - 1, -1))
        return self.free.pop()


class Elimination:
    """Variable elimination in a given order.

    `total` is the sum of the tables without variables that came of it so far; what else is left is the core.
    """

    def __init__(self, functions: CostFunctions, order: EliminationOrder, record: bool = False):
        self.functions = functions
        self.order = order
        self.total = 0
        self.messages: dict[int, Table] = {}
        """With `record`, the message of every bucket."""
        self._record = record
        self._pools: dict[tuple[int, ...], _Pool] = {}
        self._rows: dict[int, int] = {}
        self._trail: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self.done = bytearray(len(order.buckets))
        """Which buckets have been eliminated."""
        constants: dict[tuple[Any, ...], list[int]] = {}
        for number, function in enumerate(functions.functions):
            if not function.scope:
                constants.setdefault(function.signature, []).append(number)
        for numbers in constants.values():
            for part in _chunks(numbers, 1 << 12):
                self.total += _sum(functions.tables(part))

    def run(self, deadline: float | None = None) -> bool:
        """Eliminates until all is done or `deadline`, a time of time.monotonic(), has come; returns whether all is."""
        segment: list[int] = []
        size = 0
        for number in self.order.postorder():
            if self.done[number]:
                continue
            segment.append(number)
            size += self.order.buckets[number].entries
            if size >= SEGMENT:
                if not self._segment(segment, deadline):
                    return False
                segment, size = [], 0
        return self._segment(segment, deadline)

    def _segment(self, numbers: list[int], deadline: float | None) -> bool:
        groups: dict[tuple[Any, ...], list[int]] = {}
        for number in numbers:
            groups.setdefault(self._signature(number), []).append(number)
        for signature in sorted(groups, key=lambda s: s[0]):
            shape: tuple[int, ...] = signature[1]
            for part in _chunks(groups[signature], max(1, CHUNK // prod(shape))):
                if deadline is not None and time.monotonic() >= deadline:
                    return False
                self._batch(part, shape)
                for number in part:
                    self.done[number] = 1
        return True

    def _signature(self, number: int) -> tuple[Any, ...]:
        bucket = self.order.buckets[number]
        domains = self.functions.domains
        axis = {bucket.variable: 0}
        for w in bucket.rest:
            axis[w] = len(axis)
        shape = tuple([domains[v] for v in axis])
        parts: list[Any] = []
        for k in bucket.functions:
            function = self.functions.functions[k]
            parts.append((function.signature, tuple([axis[v] for v in function.scope])))
        for slot in bucket.slots:
            parts.append(tuple([axis[v] for v in self.order.slots[slot]]))
        return bucket.level, shape, bucket.out < 0, tuple(parts)

    def _batch(self, numbers: list[int], shape: tuple[int, ...]) -> None:
        buckets = [self.order.buckets[k] for k in numbers]
        n = len(buckets)
        scope = (buckets[0].variable, *buckets[0].rest)
        parts: list[Table] = []
        for k, number in enumerate(buckets[0].functions):
            part = self.functions.tables([bucket.functions[k] for bucket in buckets])
            parts.append(_spread(part, self.functions.functions[number].scope, scope, shape))
        for k, slot in enumerate(buckets[0].slots):
            part = self._read([bucket.slots[k] for bucket in buckets])
            parts.append(_spread(part, self.order.slots[slot], scope, shape))
        if n * prod(shape) <= IN_CACHE:
            low, best = _least(_added(parts, (n, *shape)))
        else:
            # State by state, so that what is added up stays in the cache.
            states = ([part[:, s % part.shape[1]] for part in parts] for s in range(shape[0]))
            low, best = _least_column((_added(own, (n, *shape[1:])) for own in states), shape[0])
        # Forbidden entries must not grow until they overflow.
        np.minimum(low, FORBIDDEN, out=low)
        self._trail.append(
            (np.array([b.variable for b in buckets]), np.array([b.rest for b in buckets], np.int64), best)
        )
        if self._record:
            for number, own in zip(numbers, low, strict=True):
                self.messages[number] = own
        if buckets[0].out < 0:
            self.total += _sum(low)
        else:
            self._write([b.out for b in buckets], low)

    def _read(self, slots: list[int]) -> Table:
        pool = self._pools[self._shape(slots[0])]
        rows = [self._rows.pop(slot) for slot in slots]
        result = np.minimum(pool.data[rows], FORBIDDEN)
        pool.data[rows] = 0
        pool.free += rows
        return result

    def _write(self, slots: list[int], messages: Table) -> None:
        shape = messages.shape[1:]
        pool = self._pools.get(shape)
        if pool is None:
            pool = self._pools[shape] = _Pool(shape)
        rows: list[int] = []
        for slot in slots:
            row = self._rows.get(slot)
            if row is None:
                row = self._rows[slot] = pool.take()
            rows.append(row)
        if len(set(slots)) == len(slots):
            pool.data[rows] += messages
        else:
            np.add.at(pool.data, rows, messages)

    def _shape(self, slot: int) -> tuple[int, ...]:
        return tuple([self.functions.domains[v] for v in self.order.slots[slot]])

    @property
    def left_functions(self) -> list[int]:
        """The numbers of the cost functions that are in no message yet: those of the core, and of what is not done."""
        left = [bucket for bucket, done in zip(self.order.buckets, self.done, strict=True) if not done]
        return [*self.order.core_functions, *(k for bucket in left for k in bucket.functions)]

    @property
    def left_slots(self) -> list[int]:
        """The numbers of the slots whose messages no bucket has taken yet, those of the core first."""
        left = [bucket for bucket, done in zip(self.order.buckets, self.done, strict=True) if not done]
        return [*self.order.core_slots, *(slot for bucket in left for slot in bucket.slots)]

    def least(self) -> int:
        """A lower bound of every choice, from what is done: `total` and the minima of all ops and messages left."""
        total = self.total
        for slot, row in self._rows.items():
            total += int(self._pools[self._shape(slot)].data[row].min())
        for k in self.left_functions:
            function = self.functions.functions[k]
            if function.kind == "op":
                op = self.functions.problem.ops[function.number]
                total += op.weight * min(choice.cost for choice in op.choices)
        return total

    def core(self) -> list[tuple[Scope, Table]]:
        """The tables of the core: those of its cost functions, then the messages in its slots. Frees the slots."""
        functions = self.functions
        left = [(functions.functions[k].scope, functions.tables([k])[0]) for k in self.order.core_functions]
        left += [(self.order.slots[slot], self._read([slot])[0]) for slot in self.order.core_slots]
        return left

    def backward(self, core: dict[int, int]) -> list[int]:
        """The best state of every variable, given the states of those that are left."""
        states = np.zeros(len(self.functions.domains), np.int64)
        for v, state in core.items():
            states[v] = state
        for variables, rest, best in reversed(self._trail):
            index = (np.arange(len(variables)), *(states[rest[:, k]] for k in range(rest.shape[1])))
            states[variables] = best[index]
        return states.tolist()


def prepare(
    problem: Problem,
    limit: int,
    deadline: float | None = None,
    limits: Mapping[int, int] | None = None,
) -> tuple[CostFunctions, EliminationOrder]:
    """Cost functions of `problem` and an elimination order for them, whose tables have up to `limit` entries.

    Values of many uses get larger tables where that makes elimination cheaper; after `deadline`, a time of
    time.monotonic(), this is not tried. `limits` is that of `CostFunctions`.
    """
    functions = CostFunctions(problem, min(limit, DIRECT), limits=limits)
    order = find_elimination_order(functions.domains, [f.scope for f in functions.functions], limit)
    dear = order.core_variables or order.work > ENTRIES_PER_BUCKET * len(order.buckets)
    late = deadline is not None and time.monotonic() >= deadline
    if functions.demand_sets and limit > DIRECT and dear and not late:
        wide = CostFunctions(problem, min(limit, WIDE), limits=limits)
        other = find_elimination_order(wide.domains, [f.scope for f in wide.functions], limit)
        if (len(other.core_variables), other.work) < (len(order.core_variables), order.work):
            functions, order = wide, other
    if order.core_variables and limit > CORE_LIMIT:
        # What cannot go to the end should stop early: the search goes over the tables of the core again and again.
        functions = CostFunctions(problem, CORE_LIMIT, limits=limits)
        order = find_elimination_order(functions.domains, [f.scope for f in functions.functions], CORE_LIMIT)
    return functions, order


def _spread(part: Table, own: Scope, scope: Scope, shape: tuple[int, ...]) -> Table:
    """Stacked tables over `own` with their axes where `scope` has them, 1 where they have none."""
    place = [scope.index(v) for v in own]
    order = sorted(range(len(own)), key=lambda k: place[k])
    sizes = [1] * len(shape)
    for k in place:
        sizes[k] = shape[k]
    return part.transpose(0, *(k + 1 for k in order)).reshape(len(part), *sizes)


def _added(parts: list[Table], shape: tuple[int, ...]) -> Table:
    """The sum of tables of this shape, or broadcast to it; FORBIDDEN is kept below overflow."""
    # Small ones first: only the last addition is about as many entries as the sum has.
    first, *others = sorted(parts, key=_size)
    total = first
    for number, part in enumerate(others, 2):
        total = total + part
        if number % 64 == 0:
            np.minimum(total, FORBIDDEN, out=total)
    return total if total.shape == shape else np.broadcast_to(total, shape)


def _size(table: Table) -> int:
    return table.size


def _least(table: Table) -> tuple[Table, NDArray[Any]]:
    """Least entry over the first axis behind the stack, and where it is: the first of equals."""
    states = table.shape[1]
    if table.size < COLUMNS * states * states:
        return table.min(axis=1), table.argmin(axis=1).astype(_kind(states))
    return _least_column((table[:, state] for state in range(states)), states)


def _least_column(columns: Iterator[Table], states: int) -> tuple[Table, NDArray[Any]]:
    """Least entries of the columns of all states, and in which they are: the first of equals."""
    low = next(columns).copy()
    best = np.zeros(low.shape, _kind(states))
    is_less = np.empty(low.shape, np.bool_)
    for state, column in enumerate(columns, 1):
        np.less(column, low, out=is_less)
        np.copyto(best, state, where=is_less)
        np.minimum(low, column, out=low)
    return low, best


def _kind(states: int) -> type[np.integer[Any]]:
    return np.int8 if states <= 127 else np.int32


def _sum(values: Table) -> int:
    return sum(values.tolist()) if values.size and int(values.max()) >= FORBIDDEN else int(values.sum())


def _chunks(numbers: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]
