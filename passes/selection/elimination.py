"""Exact selection by variable elimination.

The problem is pairwise over ops and values: an op's choice fits a value's state (produced format, set of needed
formats) or it does not, and costs are unary. Eliminating a variable means adding up the tables it occurs in,
keeping the least entry over its states and remembering which; what is left is a smaller problem with the same
optimum. Networks are chains with short side branches, so the tables stay small when the variable that makes the
smallest table goes first. Values of one use have few states, and ops of one choice none to decide.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.passes.selection.problem import FORBIDDEN, Problem, Solution, evaluate, tree_cost

Table = NDArray[np.int64]
State = tuple[int, frozenset[int]]

TABLE_LIMIT = 1 << 23
"""Entries of the largest table: 64 MiB of integers. Real networks stay below a few thousand."""


class TooWide(Exception):
    """Elimination would need a table of more than TABLE_LIMIT entries."""


class Infeasible(Exception):
    """No choice is possible; `ops` are the numbers of ops that cannot agree."""


def value_states(problem: Problem) -> list[list[State]]:
    """Per value, the states it can be in: a produced format, and a set of formats its uses may need together."""
    result: list[list[State]] = []
    for producer, uses in zip(problem.producers(), problem.uses(), strict=True):
        op, position = producer
        made = sorted({choice.outs[position] for choice in problem.ops[op].choices})
        wanted = sorted({choice.ins[k] for user, k in uses for choice in problem.ops[user].choices})
        sets = [
            frozenset(c)
            for size in range(1, min(len(wanted), len(uses)) + 1)
            for c in combinations(wanted, size)
        ]
        result.append([(f, s) for f in made for s in sets or [frozenset[int]()]])
    return result


class _Elimination:
    """Tables over numbered variables, and the order in which the variables go."""

    def __init__(self, domains: Sequence[int]):
        self.domains = list(domains)
        self.tables: dict[int, tuple[tuple[int, ...], Table]] = {}
        self.at: list[set[int]] = [set() for _ in domains]
        self.next = 0

    def add(self, scope: tuple[int, ...], table: Table) -> None:
        """Adds a table whose axes are the variables of `scope`, ascending."""
        self.tables[self.next] = (scope, table)
        for variable in scope:
            self.at[variable].add(self.next)
        self.next += 1

    def scope_of(self, variable: int) -> tuple[int, ...]:
        return tuple(sorted({v for number in self.at[variable] for v in self.tables[number][0]}))

    def width(self, variable: int) -> int:
        return prod(self.domains[v] for v in self.scope_of(variable))

    def solve(self) -> tuple[list[int], int]:
        """The state of every variable at a least total, and the total."""
        heap = [(self.width(v), v) for v in range(len(self.domains))]
        heapq.heapify(heap)
        done = [False] * len(self.domains)
        trail: list[tuple[int, tuple[int, ...], NDArray[Any]]] = []
        total = 0
        while heap:
            width, variable = heapq.heappop(heap)
            if done[variable]:
                continue
            current = self.width(variable)
            if current > width:
                heapq.heappush(heap, (current, variable))
                continue
            if current > TABLE_LIMIT:
                raise TooWide(f"elimination needs a table of {current} entries, the limit is {TABLE_LIMIT}")
            done[variable] = True
            rest, message, best = self._eliminate(variable)
            trail.append((variable, rest, best))
            if rest:
                self.add(rest, message)
                for neighbour in rest:
                    heapq.heappush(heap, (self.width(neighbour), neighbour))
            else:
                total += int(message)
        states = [0] * len(self.domains)
        for variable, rest, best in reversed(trail):
            states[variable] = int(best[tuple(states[v] for v in rest)])
        return states, total

    def _eliminate(self, variable: int) -> tuple[tuple[int, ...], Table, NDArray[Any]]:
        scope = self.scope_of(variable) or (variable,)
        table = np.zeros([self.domains[v] for v in scope], np.int64)
        for number in list(self.at[variable]):
            own, part = self.tables.pop(number)
            for v in own:
                self.at[v].discard(number)
            table = table + part.reshape([self.domains[v] if v in own else 1 for v in scope])
        axis = scope.index(variable)
        best = np.argmin(table, axis=axis)
        # Forbidden entries must not grow until they overflow.
        message = np.minimum(np.min(table, axis=axis), FORBIDDEN)
        return tuple(v for v in scope if v != variable), message, best


def solve_exact(problem: Problem) -> Solution:
    """A choice of least cost, proven. Raises TooWide or Infeasible."""
    states = value_states(problem)
    domains = [len(op.choices) for op in problem.ops] + [len(s) for s in states]
    elimination = _Elimination(domains)
    for number, op in enumerate(problem.ops):
        elimination.add((number,), np.array([op.weight * c.cost for c in op.choices], np.int64))
    shift = len(problem.ops)
    for number, (value, own) in enumerate(zip(problem.values, states, strict=True)):
        costs = [
            min(value.weight * tree_cost(value.reorder, made, needed), FORBIDDEN) for made, needed in own
        ]
        elimination.add((shift + number,), np.array(costs, np.int64))
    for number, op in enumerate(problem.ops):
        for position, value in enumerate(op.results):
            fits = [[made == choice.outs[position] for made, _ in states[value]] for choice in op.choices]
            elimination.add((number, shift + value), _penalty(fits))
        for position, value in enumerate(op.operands):
            fits = [[choice.ins[position] in needed for _, needed in states[value]] for choice in op.choices]
            elimination.add((number, shift + value), _penalty(fits))
    chosen, total = elimination.solve()
    if total >= FORBIDDEN:
        raise Infeasible("no choice of options fits together: some value would need a forbidden reorder")
    choices = tuple(chosen[: len(problem.ops)])
    cost = evaluate(problem, choices)
    assert cost == total, f"elimination promised {total}, its choice costs {cost}"
    return Solution(choices, cost, cost)


def _penalty(fits: list[list[bool]]) -> Table:
    return np.where(np.array(fits, bool), 0, FORBIDDEN).astype(np.int64)
