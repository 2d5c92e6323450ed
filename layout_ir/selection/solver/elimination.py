"""Exact selection by variable elimination.

Eliminating a variable means adding up the tables it occurs in, keeping the least entry over its states and
remembering which; what is left is a smaller problem with the same optimum. `elimination_order` finds the order.
Here the numbers follow, many eliminations of one shape at a time: the buckets are taken in an order that keeps few
messages waiting, cut into segments of bounded size, and within a segment those of one level and shape are one array
operation. Time and memory grow with the entries of the tables, not with their number.

Networks repeat their blocks, and what is added up for one block is what is added up for the next. A bucket whose cost
functions and messages are those of another has the same message: it is computed once for all of them. What is left are
often tables of a few dozen entries, each of a shape of its own: these are added up as lists (`small_tables`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from layout_ir.selection.solver.cost_functions import CHUNK, DIRECT, CostFunctions, Scope, Table
from layout_ir.selection.solver.elimination_order import EliminationOrder, find_elimination_order
from layout_ir.selection.solver.selection_problem import FORBIDDEN, Problem
from layout_ir.selection.solver.small_tables import MOST_ENTRIES, added, least, limited, spread

Item = TypeVar("Item")

TABLE_LIMIT = 1 << 23
"""Entries of the largest table: 64 MiB of integers. Real networks stay below a few thousand."""

SEGMENT = 1 << 23
"""Entries of the tables of one segment."""

IN_CACHE = 1 << 16
"""Entries of a table that is added up as a whole: half a mebibyte."""

COLUMNS = 64
"""Columns of a table, per state, up to which NumPy's argmin is quicker than going over them state by state.

It takes 40 ns for each column, and three operations on all columns take 3 us for each state."""

CORE_LIMIT = 1 << 14
"""Entries of the largest table where elimination leaves a core."""

ENTRIES_PER_BUCKET = 1 << 12
"""Entries of tables that are filled in the time that finding the order takes per elimination."""

WIDE = 1 << 19
"""Entries of the tables that values may have where variables of their own would make elimination dearer."""

MOST_LISTS = 6
"""Small buckets of one shape up to which each is added up as a list; more are one array operation."""

_Message = tuple[Table, int] | list[int]
"""The message of a bucket: a row of a table, or its entries with the last variable fastest."""


class _Entries(NamedTuple):
    """The message of a bucket and the best states for it, the last variable fastest."""

    low: list[int]
    best: list[int]


class _BestOfBatch(NamedTuple):
    """The variables of a batch, their neighbours, the best states, and the row of these for each variable."""

    variables: NDArray[Any]
    rest: NDArray[Any]
    best: NDArray[Any]
    rows: NDArray[Any]


class _BestOfBucket(NamedTuple):
    """The variable of a bucket, its neighbours, and the best states, the last neighbour's fastest."""

    variable: int
    rest: Scope
    best: list[int]


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
        self._waiting: dict[int, list[_Message]] = {}
        """Per slot its messages."""
        self._trail: list[_BestOfBatch | _BestOfBucket] = []
        """What `backward` goes by, in the order of eliminations."""
        self._shapes: dict[tuple[object, ...], int] = {}
        """Numbers of the shapes of buckets and of all that they add up."""
        self._contents: dict[tuple[object, ...], int] = {}
        """Numbers of what buckets add up; one number where it is the same."""
        self._content_of: dict[int, int] = {}
        """By bucket, that number."""
        self._known: dict[int, tuple[Table, NDArray[Any]] | _Entries] = {}
        """By such a number the message and the best states, while there is room."""
        self._room = SEGMENT
        self._filled: dict[tuple[object, ...], Table] = {}
        """Tables of cost functions, by what fills them, while there is room."""
        self._room_for_filled = CHUNK
        self._listed: dict[tuple[object, ...], Sequence[int]] = {}
        """Likewise, small tables as lists."""
        self._writers: dict[int, list[int]] = {}
        """Per slot, what its messages were made of."""
        self.done = bytearray(len(order.buckets))
        """Which buckets have been eliminated."""
        for number, function in enumerate(functions.functions):
            if not function.scope:
                self.total += self._entries(number)[0]

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
        groups: dict[tuple[int, int], list[int]] = {}
        for number in numbers:
            groups.setdefault((self.order.buckets[number].level, self._shape(number)), []).append(number)
        for group in sorted(groups, key=lambda key: key[0]):
            first = self.order.buckets[groups[group][0]]
            shape = tuple([self.functions.domains[v] for v in (first.variable, *first.rest)])
            alike: dict[int, list[int]] = {}
            for number in groups[group]:
                alike.setdefault(self._content(number, group[1]), []).append(number)
            again = [
                (self._known[content], alike.pop(content)) for content in [*alike] if content in self._known
            ]
            for known, own in again:
                self._drop(own)
                if isinstance(known, _Entries):
                    self._send_entries(own, known)
                else:
                    self._send(own, [0] * len(own), *known)
            for part in _chunks(list(alike.items()), max(1, CHUNK // prod(shape))):
                if deadline is not None and time.monotonic() >= deadline:
                    return False
                if len(part) <= MOST_LISTS and len(part) * prod(shape) <= MOST_ENTRIES:
                    for content, own in part:
                        self._bucket(content, own, shape)
                else:
                    self._batch(part, shape)
        return True

    def _content(self, number: int, shape: int) -> int:
        """The number of what a bucket of this shape adds up, which the messages in its slots are part of."""
        found = self._content_of.get(number)
        if found is None:
            bucket, content = self.order.buckets[number], self.functions.content
            slots = [tuple(sorted(self._writers.pop(slot))) for slot in bucket.slots]
            key = (shape, *map(content, bucket.functions), *slots)
            found = self._content_of[number] = self._contents.setdefault(key, len(self._contents))
            if bucket.out >= 0:
                self._writers.setdefault(bucket.out, []).append(found)
        return found

    def _shape(self, number: int) -> int:
        """The number of the shape of a bucket, and of all that it adds up."""
        bucket = self.order.buckets[number]
        domains, functions, slots = self.functions.domains, self.functions.functions, self.order.slots
        axis = {bucket.variable: 0}
        for w in bucket.rest:
            axis[w] = len(axis)
        key = (
            bucket.out < 0,
            len(bucket.functions),
            *[domains[v] for v in axis],
            *[(functions[k].shape, *[axis[v] for v in functions[k].scope]) for k in bucket.functions],
            *[tuple([axis[v] for v in slots[slot]]) for slot in bucket.slots],
        )
        return self._shapes.setdefault(key, len(self._shapes))

    def _bucket(self, content: int, own: list[int], shape: tuple[int, ...]) -> None:
        """Eliminates buckets that add up the same small tables, as lists."""
        first = self.order.buckets[own[0]]
        axis = {v: k for k, v in enumerate((first.variable, *first.rest))}
        tables = [(self.functions.functions[k].scope, self._entries(k)) for k in first.functions]
        tables += [(self.order.slots[slot], self._read_entries(slot)) for slot in first.slots]
        parts = [spread(entries, tuple([axis[v] for v in scope]), shape) for scope, entries in tables]
        self._drop(own[1:])
        low, best = least(added(parts), shape[0])
        entries = _Entries(limited(low), best)
        if len(low) <= self._room:
            self._room -= len(low)
            self._known[content] = entries
        self._send_entries(own, entries)

    def _batch(self, alike: list[tuple[int, list[int]]], shape: tuple[int, ...]) -> None:
        """Eliminates buckets of one signature, given by what they add up; those of one list add up the same."""
        firsts = [self.order.buckets[own[0]] for _, own in alike]
        n = len(firsts)
        scope = (firsts[0].variable, *firsts[0].rest)
        parts: list[Table] = []
        for k, number in enumerate(firsts[0].functions):
            part = self._tables([bucket.functions[k] for bucket in firsts])
            parts.append(_spread(part, self.functions.functions[number].scope, scope, shape))
        for k, slot in enumerate(firsts[0].slots):
            part = self._read([bucket.slots[k] for bucket in firsts])
            parts.append(_spread(part, self.order.slots[slot], scope, shape))
        for _, own in alike:
            self._drop(own[1:])
        if n * prod(shape) <= IN_CACHE:
            low, best = _least(_added(parts, (n, *shape)))
        else:
            # State by state, so that what is added up stays in the cache.
            states = ([part[:, s % part.shape[1]] for part in parts] for s in range(shape[0]))
            low, best = _least_column((_added(own, (n, *shape[1:])) for own in states), shape[0])
        # Forbidden entries must not grow until they overflow.
        np.minimum(low, FORBIDDEN, out=low)
        for row, (content, _) in enumerate(alike):
            if low[row].size <= self._room:
                self._room -= low[row].size
                self._known[content] = low[row : row + 1], best[row : row + 1]
        numbers = [number for _, own in alike for number in own]
        self._send(numbers, [row for row, (_, own) in enumerate(alike) for _ in own], low, best)

    def _tables(self, numbers: list[int]) -> Table:
        """The tables of cost functions of one signature, stacked; they are not to be written to."""
        functions = self.functions
        key = (functions.functions[numbers[0]].shape, *map(functions.content, numbers))
        found = self._filled.get(key)
        if found is None:
            found = functions.tables(numbers)
            if found.size <= self._room_for_filled:
                self._room_for_filled -= found.size
                self._filled[key] = found
        return found

    def _entries(self, number: int) -> Sequence[int]:
        """The table of a cost function as a list."""
        key = self.functions.functions[number].shape, *self.functions.content(number)
        found = self._listed.get(key)
        if found is None:
            found = self.functions.entries(number)
            if len(found) <= self._room_for_filled:
                self._room_for_filled -= len(found)
                self._listed[key] = found
        return found

    def _send_entries(self, numbers: list[int], entries: _Entries) -> None:
        """Ends the elimination of buckets that have the same message, and the same best states for it."""
        low, best = entries
        for number in numbers:
            bucket = self.order.buckets[number]
            self._trail.append(_BestOfBucket(bucket.variable, bucket.rest, best))
            if self._record:
                self.messages[number] = self._table(low, bucket.rest)
            if bucket.out < 0:
                self.total += low[0]
            else:
                self._waiting.setdefault(bucket.out, []).append(low)
            self.done[number] = 1

    def _send(self, numbers: list[int], rows: list[int], low: Table, best: NDArray[Any]) -> None:
        """Ends the elimination of buckets whose messages, and the best states for them, are these rows of tables."""
        buckets = [self.order.buckets[k] for k in numbers]
        variables, rest = [b.variable for b in buckets], [b.rest for b in buckets]
        trail = _BestOfBatch(np.array(variables), np.array(rest, np.int64), best, np.array(rows))
        self._trail.append(trail)
        if self._record:
            self.messages.update(zip(numbers, low[rows], strict=True))
        if buckets[0].out < 0:
            self.total += _sum(low[rows])
        else:
            for bucket, row in zip(buckets, rows, strict=True):
                self._waiting.setdefault(bucket.out, []).append((low, row))
        for number in numbers:
            self.done[number] = 1

    def _read(self, slots: list[int]) -> Table:
        """The sums of the messages in slots, stacked; these are free then."""
        sums = [self._sum(slot, self._waiting.pop(slot)) for slot in slots]
        return sums[0][None] if len(sums) == 1 else np.stack(sums)

    def _sum(self, slot: int, messages: list[_Message]) -> Table:
        """The sum of the messages in a slot; FORBIDDEN at most."""
        scope = self.order.slots[slot]
        first, *others = [self._table(message, scope) for message in messages]
        if not others:
            return first
        total = first.copy()
        for number, table in enumerate(others, 2):
            total += table
            if number % 64 == 0:
                np.minimum(total, FORBIDDEN, out=total)
        return np.minimum(total, FORBIDDEN, out=total)

    def _read_entries(self, slot: int) -> list[int]:
        """The sum of the messages in a slot as a list; the slot is free then."""
        messages = [
            message if isinstance(message, list) else message[0][message[1]].ravel().tolist()
            for message in self._waiting.pop(slot)
        ]
        return limited(added(messages)) if len(messages) > 1 else messages[0]

    def _table(self, message: _Message, scope: Scope) -> Table:
        """A message over these variables as an array."""
        if isinstance(message, list):
            return np.array(message, np.int64).reshape([self.functions.domains[v] for v in scope])
        table, row = message
        return table[row]

    def _drop(self, numbers: list[int]) -> None:
        """Frees the slots of buckets whose messages are known."""
        for number in numbers:
            for slot in self.order.buckets[number].slots:
                del self._waiting[slot]

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
        for slot, messages in self._waiting.items():
            total += int(self._sum(slot, messages).min())
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
        for step in reversed(self._trail):
            if isinstance(step, _BestOfBatch):
                rest = step.rest
                index = (step.rows, *(states[rest[:, k]] for k in range(rest.shape[1])))
                states[step.variables] = step.best[index]
            else:
                place = 0
                for v in step.rest:
                    place = place * self.functions.domains[v] + states.item(v)
                states[step.variable] = step.best[place]
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
    direct = min(limit, WIDE)
    if functions.next_direct is not None and functions.next_direct <= direct and dear and not late:
        wide = CostFunctions(problem, direct, limits=limits)
        other = find_elimination_order(wide.domains, [f.scope for f in wide.functions], limit)
        if (len(other.core_variables), other.work) < (len(order.core_variables), order.work):
            functions, order = wide, other
    return functions, order


def stopping_early(
    problem: Problem,
    limit: int,
    prepared: tuple[CostFunctions, EliminationOrder],
    limits: Mapping[int, int] | None = None,
) -> tuple[CostFunctions, EliminationOrder]:
    """What was `prepared` for tables of up to `limit` entries, or, where that leaves a core, for smaller ones.

    The search goes over the tables of the core again and again.
    """
    if not prepared[1].core_variables or limit <= CORE_LIMIT:
        return prepared
    functions = CostFunctions(problem, CORE_LIMIT, limits=limits)
    return functions, find_elimination_order(
        functions.domains, [f.scope for f in functions.functions], CORE_LIMIT
    )


def _spread(part: Table, own: Scope, scope: Scope, shape: tuple[int, ...]) -> Table:
    """Stacked tables over `own` with their axes where `scope` has them, 1 where they have none."""
    place = [scope.index(v) for v in own]
    sizes = [1] * len(shape)
    for k in place:
        sizes[k] = shape[k]
    order = sorted(place)
    if place != order:
        part = part.transpose(0, *[place.index(k) + 1 for k in order])
    return part.reshape(len(part), *sizes)


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


def _chunks(numbers: list[Item], size: int) -> Iterator[list[Item]]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]
