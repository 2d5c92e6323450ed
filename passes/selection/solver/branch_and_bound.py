"""What elimination leaves: branch and bound over a few entangled variables.

Every node of the search raises its bound by trades between tables, throws out states that cannot be part of
anything cheaper than the best assignment known, and branches on the variable whose best two states differ most.
Independent parts of the core are searched apart. The search is a proof as it goes: `Node` keeps the trades, what was
thrown out under them, and the branches; a checker adds up the minima again. Where the deadline ends it, what was not
searched keeps the bound it had, and so does the whole.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from layout_ir.passes.selection.solver.cost_functions import Scope, Table
from layout_ir.passes.selection.solver.lower_bounds import INFINITE, SCALE, Shifted
from layout_ir.passes.selection.solver.selection_problem import FORBIDDEN

ROOT_SWEEPS = 200
"""Sweeps at the root at most; STALL that gain nothing end them."""

NODE_SWEEPS = 3
STALL = 4

KICKS = 100
"""Attempts to improve the first assignment. A better one prunes more than they cost."""


@dataclass(slots=True)
class Node:
    """A step of the proof, over the states that its ancestors left possible."""

    trades: dict[tuple[int, int], Table] = field(default_factory=dict[tuple[int, int], Table])
    """Per table (by its number in the part) and axis, what goes from it to the variable."""
    dropped: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """(variable, state), one after the other: with it nothing is cheaper than what is known."""
    split: int | None = None
    cases: list[Node] = field(default_factory=list["Node"])
    """One per state of `split` that is still possible, ascending."""
    then: Node | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A component of the core: its tables by number, the best assignment, and what is proven about it."""

    tables: tuple[int, ...]
    states: dict[int, int]
    cost: int
    bound: int
    proof: Node


def solve_core(tables: Sequence[tuple[Scope, Table]], deadline: float | None) -> list[Part]:
    """The least sum of `tables`, part by part. `deadline` is a time of time.monotonic()."""
    return [_Search(tables, numbers, deadline).run() for numbers in _components(tables)]


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
        self, tables: Sequence[tuple[Scope, Table]], numbers: tuple[int, ...], deadline: float | None
    ):
        self.numbers = numbers
        self.tables = [tables[k] for k in numbers]
        self.deadline = deadline
        self.best: dict[int, int] = {}
        self.cost = FORBIDDEN
        self.open: list[int] = []
        """Scaled bounds of what was not searched."""
        start = Shifted.of(self.tables)
        self.at = start.at
        self.variables = list(start.at)
        self.there = start.route(self.variables)
        self.back = start.route(self.variables[::-1])

    def run(self) -> Part:
        root = Node()
        # The last pushed is searched first: depth first, the cheapest state before the others.
        stack = [(Shifted.of(self.tables), root)]
        while stack:
            now, node = stack.pop()
            if self._is_beaten(now.bound()):
                continue
            # Trades need states that are possible in every table.
            if self._drop_impossible(now, node):
                if any(not len(states) for states in now.states.values()):
                    continue
                node.then = node = Node()
            if self._is_late():
                self._offer(now)
                if not self._is_beaten(now.bound()):
                    self.open.append(now.bound())
                continue
            self._raise(now, ROOT_SWEEPS if node is root or root.then is node else NODE_SWEEPS)
            node.trades = now.trades
            self._offer(now)
            if (node is root or root.then is node) and not self._is_beaten(now.bound()):
                self._kick(now.bound())
            if self._is_beaten(now.bound()) or all(len(states) == 1 for states in now.states.values()):
                # Of an assignment that is complete, the bound is the cost.
                continue
            if self._drop(now, node):
                if all(len(states) for states in now.states.values()):
                    node.then = Node()
                    stack.append((now, node.then))
                continue
            self._branch(now, node, stack)
        bound = min([self.cost, *(-(-low // SCALE) for low in self.open)])
        return Part(self.numbers, self.best, self.cost, bound, root)

    def _is_late(self) -> bool:
        return self.cost < FORBIDDEN and self.deadline is not None and time.monotonic() >= self.deadline

    def _is_beaten(self, bound: int) -> bool:
        return bound >= INFINITE // 2 or -(-bound // SCALE) >= self.cost

    def _raise(self, now: Shifted, sweeps: int) -> None:
        now.trades = {}
        best, idle = now.bound(), 0
        for _ in range(sweeps):
            now.sweep(self.there)
            now.sweep(self.back)
            bound = now.bound()
            idle = 0 if bound > best else idle + 1
            best = bound
            if idle >= STALL or self._is_beaten(bound):
                break
            if self.deadline is not None and time.monotonic() >= self.deadline:
                break

    def _offer(self, now: Shifted) -> None:
        """Rounds the trades to assignments and improves them one variable at a time."""
        for order in (self.variables, self.variables[::-1]):
            states = now.round(order)
            cost = self._descend(states)
            if cost < self.cost:
                self.cost, self.best = cost, states

    def _kick(self, bound: int) -> None:
        """Looks around the best assignment: sets a variable and its neighbours anew and improves from there."""
        draw = random.Random(0)
        sizes = {v: size for scope, t in self.tables for v, size in zip(scope, t.shape, strict=True)}
        for _ in range(KICKS):
            if self.cost >= FORBIDDEN or self._is_beaten(bound) or self._is_late():
                return
            states = dict(self.best)
            for number, _ in self.at[draw.choice(self.variables)]:
                for w in self.tables[number][0]:
                    states[w] = draw.randrange(sizes[w])
            cost = self._descend(states)
            if cost < self.cost:
                self.cost, self.best = cost, states

    def _descend(self, states: dict[int, int]) -> int:
        changed = True
        rounds = 0
        while changed and rounds < 16:
            changed = False
            rounds += 1
            for v in self.variables:
                total = np.zeros(1, np.int64)
                for number, _ in self.at[v]:
                    scope, table = self.tables[number]
                    total = total + table[tuple(slice(None) if w == v else states[w] for w in scope)]
                least = int(total.argmin())
                if total[least] < total[states[v]]:
                    states[v] = least
                    changed = True
        cost = 0
        for scope, table in self.tables:
            cost += int(table[tuple(states[w] for w in scope)])
        return min(cost, FORBIDDEN)

    def _drop_impossible(self, now: Shifted, node: Node) -> bool:
        """Drops the states that some table forbids, until every state has a place in every table."""
        waiting = list(self.variables)
        while waiting:
            v = waiting.pop()
            bad = now.least(v) >= INFINITE // 2
            if bad.any():
                self._leave_out(now, node, v, bad)
                if bad.all():
                    break
                waiting += [w for number, _ in now.at[v] for w in now.scopes[number] if w != v]
        return bool(node.dropped)

    def _drop(self, now: Shifted, node: Node) -> bool:
        """Drops the states with which nothing is cheaper than what is known."""
        for v in self.variables:
            if len(now.states[v]) > 1:
                bad = -(-(now.bound() + now.least(v)) // SCALE) >= self.cost
                if bad.any():
                    self._leave_out(now, node, v, bad)
                    if bad.all():
                        break
        return bool(node.dropped)

    def _leave_out(self, now: Shifted, node: Node, v: int, bad: NDArray[np.bool_]) -> None:
        node.dropped += [(v, state) for state in now.states[v][bad].tolist()]
        now.keep(v, np.flatnonzero(~bad))

    def _branch(self, now: Shifted, node: Node, stack: list[tuple[Shifted, Node]]) -> None:
        gaps: dict[int, tuple[int, int]] = {}
        costs: dict[int, Table] = {}
        for v in self.variables:
            if len(now.states[v]) > 1:
                costs[v] = now.least(v)
                ordered = np.sort(costs[v])
                gaps[v] = (int(ordered[1] - ordered[0]), len(now.at[v]))
        v = max(gaps, key=lambda w: (gaps[w], -w))
        node.split = v
        children: list[tuple[int, int, Shifted, Node]] = []
        for position in range(len(now.states[v])):
            child = now.copy()
            child.keep(v, np.array([position]))
            case = Node()
            node.cases.append(case)
            children.append((int(costs[v][position]), position, child, case))
        for _, _, child, case in sorted(children, key=lambda c: c[:2], reverse=True):
            stack.append((child, case))
