"""The order in which variables are eliminated, found from the scopes of the tables alone.

Eliminating a variable merges all tables it occurs in into one over its neighbours, so what matters is who is whose
neighbour. Networks are chains with side branches: almost every variable can go while it has two neighbours or fewer
(the reductions R0, R1 and R2 of PBQP solvers). What is then left goes by the smallest table first, up to a factor of
two, until none is below the limit; the rest is the core.

All go in rounds, no two neighbours in one round. That makes the tree of eliminations as deep as the logarithm of the
program and lets a round be computed as one array operation.

A `Bucket` is one elimination: the cost functions and messages that it adds up. Messages over the same scope are added
up in one slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from layout_ir.selection.solver.cost_functions import Scope

ROUND_LIMIT = 1 << 14
"""Entries of the largest table that a round of R0, R1 and R2 makes."""

WRITERS = 64
"""Messages added up in one slot. Each is at most FORBIDDEN = 2^56, so that their sum stays below 2^63."""


@dataclass(slots=True)
class Bucket:
    """One elimination: the cost functions and message slots that hold its variable, and where the result goes."""

    variable: int
    rest: Scope
    """The neighbours of the variable, ascending."""
    functions: tuple[int, ...]
    slots: tuple[int, ...]
    out: int
    """The slot that the message goes to, -1 where there are no neighbours left."""
    level: int
    """More than that of every bucket whose message goes in here."""
    entries: int


@dataclass(slots=True)
class EliminationOrder:
    """Which variables go when, and what each elimination adds up.

    `buckets` are in the order found; `slots` has the scope of each slot, in which messages of one scope are added up.
    The core, which no table within the limit can eliminate, is `core_functions`, `core_slots` and `core_variables`.
    """

    buckets: list[Bucket]
    slots: list[Scope]
    consumer: list[int] = field(default_factory=list[int])
    """Per slot the bucket that takes its messages, -1 where they are left to the core."""
    core_functions: list[int] = field(default_factory=list[int])
    core_variables: list[int] = field(default_factory=list[int])

    @property
    def core_slots(self) -> list[int]:
        """The slots whose messages no bucket takes: tables of the core."""
        return [slot for slot, bucket in enumerate(self.consumer) if bucket < 0]

    @property
    def work(self) -> int:
        """Entries of the tables of all buckets, to which the time of elimination is proportional."""
        return sum(bucket.entries for bucket in self.buckets)

    def postorder(self) -> list[int]:
        """The numbers of the buckets, each behind those whose messages it takes; few messages wait at any time."""
        children: list[list[int]] = [[] for _ in self.buckets]
        roots: list[int] = []
        for number, bucket in enumerate(self.buckets):
            parent = self.consumer[bucket.out] if bucket.out >= 0 else -1
            (roots if parent < 0 else children[parent]).append(number)
        order: list[int] = []
        stack = roots[::-1]
        # Parents first and then backwards: children come before parents, subtrees stay together.
        while stack:
            number = stack.pop()
            order.append(number)
            stack += children[number]
        order.reverse()
        return order


def find_elimination_order(domains: Sequence[int], scopes: Sequence[Scope], limit: int) -> EliminationOrder:
    """An elimination order for tables of these scopes, in which no table has more than `limit` entries."""
    return _OrderSearch(domains, scopes, limit).run()


class _OrderSearch:
    def __init__(self, domains: Sequence[int], scopes: Sequence[Scope], limit: int):
        self.domains = domains
        self.limit = limit
        self.scopes = scopes
        self.order = EliminationOrder([], [])
        self.near: dict[int, set[int]] = {v: set() for v, size in enumerate(domains) if size > 1}
        self.at: dict[int, list[int]] = {v: [] for v in self.near}
        for number, scope in enumerate(scopes):
            for v in scope:
                self.at[v].append(number)
                if len(scope) > 1:
                    self.near[v].update(scope)
        for v, near in self.near.items():
            near.discard(v)
        # Items are cost functions (their number) and slots (-1 - number).
        self.used_function = bytearray(len(scopes))
        self.slot_of: dict[Scope, int] = {}
        self.writers: list[int] = []
        self.levels: list[int] = []

    def run(self) -> EliminationOrder:
        self._rounds(min(self.limit, ROUND_LIMIT), 2)
        limit = 1
        while self.near and limit < self.limit:
            # What no variable has so few entries for would change nothing.
            least = min(map(self._entries, self.near))
            limit = min(max(2 * limit, 1 << (least - 1).bit_length()), self.limit)
            self._rounds(limit)
        self.order.core_variables = sorted(self.near)
        self.order.core_functions = [
            k for k, scope in enumerate(self.scopes) if not self.used_function[k] and scope
        ]
        return self.order

    def _rounds(self, limit: int, most: int | None = None) -> None:
        """Eliminates while there are variables with tables up to `limit` entries and at most `most` neighbours."""
        current = sorted(self.near)
        blocked: dict[int, int] = {}
        number = 0
        while current:
            number += 1
            later: set[int] = set()
            for v in current:
                near = self.near.get(v)
                if near is None or (most is not None and len(near) > most):
                    continue
                if blocked.get(v) == number:
                    later.add(v)
                    continue
                entries = self._entries(v)
                if entries > limit:
                    continue
                for w in self._eliminate(v, entries):
                    blocked[w] = number
                    later.add(w)
            current = sorted(later)

    def _entries(self, v: int) -> int:
        total = self.domains[v]
        for w in self.near[v]:
            total *= self.domains[w]
            if total > self.limit:
                break
        return total

    def _eliminate(self, v: int, entries: int) -> Scope:
        near = self.near.pop(v)
        rest = tuple(sorted(near))
        functions: list[int] = []
        slots: list[int] = []
        level = 0
        order = self.order
        number = len(order.buckets)
        for item in self.at.pop(v):
            if item >= 0:
                if not self.used_function[item]:
                    self.used_function[item] = 1
                    functions.append(item)
            elif order.consumer[-1 - item] < 0:
                slot = -1 - item
                order.consumer[slot] = number
                self.slot_of.pop(order.slots[slot], None)
                slots.append(slot)
                level = max(level, self.levels[slot])
        out = -1
        if rest:
            for w in rest:
                self.near[w].discard(v)
            if len(rest) > 1:
                for w in rest:
                    own = self.near[w]
                    own |= near
                    own.discard(w)
            out = self._equality(rest, level + 1)
        order.buckets.append(Bucket(v, rest, tuple(functions), tuple(slots), out, level, entries))
        return rest

    def _equality(self, scope: Scope, level: int) -> int:
        slot = self.slot_of.get(scope, -1)
        if slot < 0 or self.writers[slot] >= WRITERS:
            slot = self.slot_of[scope] = len(self.order.slots)
            self.order.slots.append(scope)
            self.order.consumer.append(-1)
            self.writers.append(0)
            self.levels.append(0)
            for w in scope:
                self.at[w].append(-1 - slot)
        self.writers[slot] += 1
        self.levels[slot] = max(self.levels[slot], level)
        return slot
