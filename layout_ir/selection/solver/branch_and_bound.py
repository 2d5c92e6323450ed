"""Branch and bound over the core: the few entangled variables that elimination leaves.

Every node of the search raises its bound by cost shifts between tables, drops states that cannot be part of anything
cheaper than the best assignment known, and branches on the variable whose best two states differ most. Connected
components of the core are searched apart. The search is a proof as it goes: `ProofNode` keeps the cost shifts, the
states dropped under them, and the branches; a checker adds up the minima again. Where the deadline ends the search,
what was not searched keeps the bound it had, and so does the whole.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from layout_ir.selection.solver.cost_functions import Scope, Table
from layout_ir.selection.solver.lower_bounds import INFINITE, SCALE, ReweightedTables
from layout_ir.selection.solver.selection_problem import FORBIDDEN
from layout_ir.selection.solver.table_elimination import least_sum

ROOT_SWEEPS = 200
"""Sweeps at the root at most; STALL that gain nothing end them."""

NODE_SWEEPS = 3
STALL = 4

OFFERING = 8
"""Sweeps after which their tables are rounded to an assignment: one that costs no more than the bound ends them."""

PERTURBATIONS = 100
"""Attempts to improve the first assignment from random neighbours. A better one prunes more than they cost."""


@dataclass(slots=True)
class ProofNode:
    """A step of the proof, over the states that its ancestors left possible."""

    shifts: dict[tuple[int, int], Table] = field(default_factory=dict[tuple[int, int], Table])
    """Per (table by its number in the component, axis), the cost shift from the table to the variable, per state."""
    dropped: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Pairs (variable, state), in order: no assignment with that state is cheaper than the best one known."""
    split: int | None = None
    cases: list[ProofNode] = field(default_factory=list["ProofNode"])
    """One per state of `split` that is still possible, ascending."""
    then: ProofNode | None = None


@dataclass(frozen=True, slots=True)
class Component:
    """A connected component of the core: its tables by number, its best assignment, that one's cost, a lower bound of
    every assignment, and the proof of the bound."""

    tables: tuple[int, ...]
    states: dict[int, int]
    cost: int
    bound: int
    proof: ProofNode


def branch_and_bound(
    tables: Sequence[tuple[Scope, Table]],
    deadline: float | None,
    known: Sequence[int] | None = None,
    *,
    record: bool = True,
) -> list[Component]:
    """The assignment of least sum of `tables`, per connected component; the best found where `deadline`, a time of
    time.monotonic(), ends the search, which is not before one is possible. `known` has the states of all variables in
    an assignment that may be possible, with which the search begins. Without `record` the proofs are not kept: what is
    left of a component may then be eliminated, once the states that are left are few."""
    return [_Search(tables, numbers, deadline, record).run(known) for numbers in _components(tables)]


def _components(tables: Sequence[tuple[Scope, Table]]) -> list[tuple[int, ...]]:
    leader: dict[int, int] = {}

    def find(v: int) -> int:
        while leader.setdefault(v, v) != v:
            leader[v] = v = leader[leader[v]]
        return v

    for scope, _ in tables:
        for v in scope:
            leader[find(v)] = find(scope[0])
    parts: dict[int, list[int]] = {}
    for number, (scope, _) in enumerate(tables):
        parts.setdefault(find(scope[0]), []).append(number)
    return [tuple(part) for part in parts.values()]


class _Search:
    def __init__(
        self,
        tables: Sequence[tuple[Scope, Table]],
        numbers: tuple[int, ...],
        deadline: float | None,
        record: bool,
    ):
        self.record = record
        self.numbers = numbers
        self.tables = [tables[k] for k in numbers]
        self.deadline = deadline
        self.best: dict[int, int] = {}
        self.cost = FORBIDDEN
        self.branches = 0
        """How often the search branched so far."""
        self.open: list[int] = []
        """Scaled bounds of what was not searched."""
        self.start = start = ReweightedTables.of(self.tables, record=record)
        self.at = start.at
        self.variables = list(start.at)
        self.forward = start.sweep_order(self.variables)
        self.backward = start.sweep_order(self.variables[::-1])

    def run(self, known: Sequence[int] | None) -> Component:
        """The best assignment; `known` is one to begin with."""
        if known is not None:
            self._take({v: known[v] for v in self.variables})
        root = ProofNode()
        # The last pushed is searched first: depth first, the cheapest state before the others.
        stack = [(self.start, root, ROOT_SWEEPS)]
        while stack:
            now, node, sweeps = stack.pop()
            if self._is_beaten(now.bound()):
                continue
            if self._is_late():
                # Rounded to an assignment is the first alone: thousands may be open, and each takes as long as a sweep.
                if not self.open:
                    self._offer(now)
                self.open.append(now.bound())
                continue
            # Trades need states that are possible in every table.
            if self._drop_impossible(now, node):
                if any(not len(states) for states in now.states.values()):
                    continue
                node.then = node = ProofNode()
            # Blocks that have few values in common come apart where those have a state: sweeps would be in vain.
            if sweeps <= NODE_SWEEPS and self._is_eliminated(now):
                continue
            left = self._raise_bound(now, sweeps)
            node.shifts = now.shifts
            self._offer(now)
            if sweeps > NODE_SWEEPS >= left and not self._is_beaten(now.bound()):
                self._perturb(now.bound())
            if self._is_beaten(now.bound()) or all(len(states) == 1 for states in now.states.values()):
                # Of an assignment that is complete, the bound is the cost.
                continue
            if self._drop(now, node) or left > NODE_SWEEPS:
                if all(len(states) for states in now.states.values()) and not self._is_eliminated(now):
                    node.then = ProofNode()
                    stack.append((now, node.then, max(left, NODE_SWEEPS)))
                continue
            self._branch(now, node, stack)
        bound = min([self.cost, *(-(-low // SCALE) for low in self.open)])
        return Component(self.numbers, self.best, self.cost, bound, root)

    def _is_late(self) -> bool:
        return self.cost < FORBIDDEN and self.deadline is not None and time.monotonic() >= self.deadline

    def _is_beaten(self, bound: int) -> bool:
        return bound >= INFINITE // 2 or -(-bound // SCALE) >= self.cost

    def _raise_bound(self, now: ReweightedTables, sweeps: int) -> int:
        """Raises the bound in so many sweeps at most; returns how many there may still be.

        After OFFERING of them it is time to drop states: the tables that are left are smaller, and go on faster.
        """
        now.shifts = {}
        best, idle = now.bound(), 0
        for _ in range(min(sweeps, OFFERING)):
            now.sweep(self.forward)
            now.sweep(self.backward)
            bound = now.bound()
            idle = 0 if bound > best else idle + 1
            best = bound
            if idle >= STALL or self._is_beaten(bound):
                return 0
            if self.deadline is not None and time.monotonic() >= self.deadline:
                return 0
        return sweeps - OFFERING

    def _offer(self, now: ReweightedTables) -> None:
        """Rounds the tables as shifted to assignments, improves those one variable at a time, and keeps the best."""
        for order in (self.variables, self.variables[::-1]):
            self._take(now.round(order))

    def _take(self, states: dict[int, int]) -> None:
        """Improves an assignment, and keeps it where it is the best."""
        cost = self._descend(states)
        if cost < self.cost:
            self.cost, self.best = cost, states

    def _perturb(self, bound: int) -> None:
        """Local search around the best assignment: sets a variable and its neighbours at random and descends."""
        draw = random.Random(0)
        sizes = {v: size for scope, t in self.tables for v, size in zip(scope, t.shape, strict=True)}
        for _ in range(PERTURBATIONS):
            if self.cost >= FORBIDDEN or self._is_beaten(bound) or self._is_late():
                return
            states = dict(self.best)
            for number, _ in self.at[draw.choice(self.variables)]:
                for w in self.tables[number][0]:
                    states[w] = draw.randrange(sizes[w])
            self._take(states)

    def _descend(self, states: dict[int, int]) -> int:
        """Improves `states` in place, one variable at a time, until none can be; returns their cost."""
        changed = True
        rounds = 0
        while changed and rounds < 16:
            changed = False
            rounds += 1
            for v in self.variables:
                total = np.zeros(1, np.int64)
                for number, _ in self.at[v]:
                    scope, table = self.tables[number]
                    row = table[tuple(slice(None) if w == v else states[w] for w in scope)]
                    total = np.minimum(total + row, FORBIDDEN)  # of which 128 are no number any more
                least = int(total.argmin())
                if total[least] < total[states[v]]:
                    states[v] = least
                    changed = True
        cost = 0
        for scope, table in self.tables:
            cost += int(table[tuple(states[w] for w in scope)])
        return min(cost, FORBIDDEN)

    def _is_eliminated(self, now: ReweightedTables) -> bool:
        """Whether the best assignment of the states that are left was found by elimination; it is kept if it is the
        best of all. The more often the search branched, the longer that may take."""
        if self.record:
            return False
        tables = [*zip(now.scopes, now.tables, strict=True), *(((v,), own) for v, own in now.own.items())]
        sizes = {v: len(states) for v, states in now.states.items()}
        found = least_sum(tables, sizes, 1 + self.branches)
        if found is None:
            return False
        if found.cost < INFINITE // 2:
            self._take({v: int(now.states[v][place]) for v, place in found.places.items()})
        return True

    def _drop_impossible(self, now: ReweightedTables, node: ProofNode) -> bool:
        """Drops states that some table forbids, until every state left is allowed by every table; whether any was."""
        waiting = list(self.variables)
        while waiting:
            v = waiting.pop()
            bad = now.least(v) >= INFINITE // 2
            if bad.any():
                self._drop_states(now, node, v, bad)
                if bad.all():
                    break
                waiting += [w for number, _ in now.at[v] for w in now.scopes[number] if w != v]
        return bool(node.dropped)

    def _drop(self, now: ReweightedTables, node: ProofNode) -> bool:
        """Drops the states with which no assignment is cheaper than the best one known; whether any was dropped."""
        bound = now.bound()
        for v in self.variables:
            if len(now.states[v]) > 1:
                bad = -(-(bound + now.least(v)) // SCALE) >= self.cost
                if bad.any():
                    before = now.bound_around(v)
                    self._drop_states(now, node, v, bad)
                    if bad.all():
                        break
                    bound += now.bound_around(v) - before
        return bool(node.dropped)

    def _drop_states(self, now: ReweightedTables, node: ProofNode, v: int, bad: NDArray[np.bool_]) -> None:
        node.dropped += [(v, state) for state in now.states[v][bad].tolist()]
        now.keep(v, np.flatnonzero(~bad))

    def _branch(
        self,
        now: ReweightedTables,
        node: ProofNode,
        stack: list[tuple[ReweightedTables, ProofNode, int]],
    ) -> None:
        self.branches += 1
        gaps: dict[int, tuple[int, int]] = {}
        costs: dict[int, Table] = {}
        for v in self.variables:
            if len(now.states[v]) > 1:
                costs[v] = now.least(v)
                ordered = np.sort(costs[v])
                gaps[v] = (int(ordered[1] - ordered[0]), len(now.at[v]))
        v = max(gaps, key=lambda w: (gaps[w], -w))
        node.split = v
        children: list[tuple[int, int, ReweightedTables, ProofNode]] = []
        for position in range(len(now.states[v])):
            child = now.copy()
            child.keep(v, np.array([position]))
            case = ProofNode()
            node.cases.append(case)
            children.append((int(costs[v][position]), position, child, case))
        for _, _, child, case in sorted(children, key=lambda c: c[:2], reverse=True):
            stack.append((child, case, NODE_SWEEPS))
