"""The selection problem in plain integers.

An op node picks one of its options: a format number for each of its operands and results, at a cost. A value node
is produced in one format and is needed in a set of formats, the union over its uses; what is missing is made by
reorders, each paid once however many uses share it, and possibly by way of a format that nobody asked for. So

    cost(choice) = sum over ops of weight * option cost  +  sum over values of weight * tree(produced, needed)

where tree is the cheapest set of reorders that reaches all needed formats from the produced one (a Steiner
arborescence over the formats of the value). Every value has exactly one producer; function arguments and constants
are ops without operands, function results ops without results. Costs are integers in one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from layout_ir.errors import LayoutError

FORBIDDEN = 1 << 56
"""A cost that no choice may contain. Sums of a few of them stay below 2^63."""

TERMINALS = 11
"""Formats of one value needed at once up to which the cheapest reorders are found: it takes formats * 3**TERMINALS
steps, some ten seconds for 40 formats. Where a value has to be in more, nothing is claimed to be the least cost."""

Matrix = tuple[tuple[int, ...], ...]
Edge = tuple[int, int]


class Infeasible(LayoutError):
    """The problem has no choice that costs less than FORBIDDEN."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to run an op: format numbers of its operands and results, in order, and what it costs."""

    ins: tuple[int, ...]
    outs: tuple[int, ...]
    cost: int


@dataclass(frozen=True, slots=True)
class OpNode:
    """An op: the numbers of the values it uses and makes, and its ways to run."""

    operands: tuple[int, ...]
    results: tuple[int, ...]
    choices: tuple[Choice, ...]
    weight: int = 1


@dataclass(frozen=True, slots=True)
class ValueNode:
    """A value: `reorder[f][g]` is the cost of making format g from format f (0 on the diagonal)."""

    reorder: Matrix
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """Op nodes and value nodes; an op names its values by number."""

    ops: tuple[OpNode, ...]
    values: tuple[ValueNode, ...]

    def producers(self) -> list[tuple[int, int]]:
        """Per value, the number of its op and that of the result. Raises ValueError where one has none."""
        found: list[tuple[int, int] | None] = [None] * len(self.values)
        for number, op in enumerate(self.ops):
            for position, value in enumerate(op.results):
                found[value] = (number, position)
        missing = [value for value, producer in enumerate(found) if producer is None]
        if missing:
            raise ValueError(f"value {missing[0]} has no producer")
        return [producer for producer in found if producer is not None]

    def uses(self) -> list[list[tuple[int, int]]]:
        """Per value, the ops that use it and the number of the operand."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.values]
        for number, op in enumerate(self.ops):
            for position, value in enumerate(op.operands):
                found[value].append((number, position))
        return found


@dataclass(frozen=True, slots=True)
class Solution:
    """The choice number of each op, what it costs in all, and a proven lower bound of any choice (None: none known).

    `omitted` says what the problem leaves out of the choice that its program has.
    """

    choices: tuple[int, ...]
    cost: int
    bound: int | None
    omitted: tuple[str, ...] = ()

    @property
    def is_optimal(self) -> bool:
        """Whether the bound proves that no choice costs less."""
        return self.bound == self.cost


def keep_forbidden(problem: Problem) -> Problem:
    """`problem` where the reorders of values of weight 0 cost nothing, and those that are forbidden stay so."""
    if all(value.weight for value in problem.values):
        return problem
    values = [
        value
        if value.weight
        else ValueNode(
            tuple([tuple([FORBIDDEN * (cost >= FORBIDDEN) for cost in row]) for row in value.reorder])
        )
        for value in problem.values
    ]
    return replace(problem, values=tuple(values))


def without_reorders(problem: Problem, value: int, keeps: Callable[[int, int], bool]) -> Problem:
    """`problem` in which `value` is never reordered, but from format f to format g where `keeps(f, g)`, or for
    nothing."""
    node = problem.values[value]
    formats = range(len(node.reorder))
    matrix = tuple(
        tuple(cost if cost == 0 or keeps(f, g) else FORBIDDEN for g, cost in zip(formats, row, strict=True))
        for f, row in zip(formats, node.reorder, strict=True)
    )
    values = (*problem.values[:value], ValueNode(matrix, node.weight), *problem.values[value + 1 :])
    return replace(problem, values=values)


def demands(problem: Problem, choices: Sequence[int]) -> list[tuple[int, frozenset[int]]]:
    """Per value, the format it is produced in and the formats that its uses need."""
    produced = [-1] * len(problem.values)
    needed: list[set[int]] = [set() for _ in problem.values]
    for op, number in zip(problem.ops, choices, strict=True):
        choice = op.choices[number]
        for value, fmt in zip(op.operands, choice.ins, strict=True):
            needed[value].add(fmt)
        for value, fmt in zip(op.results, choice.outs, strict=True):
            produced[value] = fmt
    if -1 in produced:
        raise ValueError(f"value {produced.index(-1)} has no producer")
    return list(zip(produced, map(frozenset, needed), strict=True))


def evaluate(problem: Problem, choices: Sequence[int]) -> int:
    """What a choice costs: the definition that every solver is held against."""
    total = sum(op.weight * op.choices[choice].cost for op, choice in zip(problem.ops, choices, strict=True))
    for value, (produced, needed) in zip(problem.values, demands(problem, choices), strict=True):
        # Mostly, there is nothing to reorder, and the trees of a matrix take a look at all of it.
        if len(needed) > 1 or (needed and produced not in needed):
            total += value.weight * tree_cost(value.reorder, produced, needed)
    return min(total, FORBIDDEN)


def tree_cost(reorder: Matrix, root: int, needed: Iterable[int]) -> int:
    """Cost of the cheapest reorders that make all `needed` formats from `root`.

    Beyond TERMINALS formats the reorders are found one after the other and may not be the cheapest; they are those
    of `tree_edges`.
    """
    return _trees(reorder).tree(root, frozenset(needed) - {root})[0]


def tree_edges(reorder: Matrix, root: int, needed: Iterable[int]) -> tuple[Edge, ...]:
    """The reorders of that tree as (from, to), each behind the one it starts from."""
    edges = set(_trees(reorder).tree(root, frozenset(needed) - {root})[1])
    ordered: list[Edge] = []
    reached = {root}
    while edges:
        ready = sorted(edge for edge in edges if edge[0] in reached)
        ordered += [edge for edge in ready if edge[1] not in reached]
        reached |= {target for _, target in ready}
        edges -= set(ready)
    return tuple(ordered)


_Tree = tuple[int, tuple[Edge, ...]]
_NONE: _Tree = (FORBIDDEN, ())


class _Trees:
    """Least Steiner arborescences over the formats of one matrix, by splitting the needed set (Dreyfus and Wagner).

    A tree goes from its root to some format in the cheapest way, and serves two parts of the set from there.
    """

    def __init__(self, reorder: Matrix):
        self.distance, self.path = _shortest(reorder)
        self._trees: dict[tuple[int, frozenset[int]], _Tree] = {}
        self._splits: dict[tuple[int, frozenset[int]], _Tree] = {}

    def tree(self, root: int, needed: frozenset[int]) -> _Tree:
        """The tree from `root` to `needed`, which does not hold the root."""
        if not needed:
            return 0, ()
        if len(needed) == 1:
            (target,) = needed
            return self.distance[root][target], self.path[root][target]
        key = root, needed
        best = self._trees.get(key)
        if best is None:
            best = self._least(root, needed) if len(needed) <= TERMINALS else self._grown(root, needed)
            self._trees[key] = best
        return best

    def _least(self, root: int, needed: frozenset[int]) -> _Tree:
        best = _NONE
        for middle, reach in enumerate(self.distance[root]):
            if reach < best[0]:
                cost, edges = self._split(middle, needed)
                if reach + cost < best[0]:
                    best = (reach + cost, self.path[root][middle] + edges)
        return best

    def _split(self, middle: int, needed: frozenset[int]) -> _Tree:
        """Two trees from `middle`, which together serve the set."""
        if middle in needed:
            return self.tree(middle, needed - {middle})
        key = middle, needed
        best = self._splits.get(key)
        if best is None:
            best = _NONE
            # The part that holds the first target is enumerated to avoid mirror images.
            first, *others = sorted(needed)
            for mask in range((1 << len(others)) - 1):
                part = frozenset([first, *(o for k, o in enumerate(others) if mask >> k & 1)])
                left, right = self.tree(middle, part), self.tree(middle, needed - part)
                if left[0] + right[0] < best[0]:
                    best = (left[0] + right[0], left[1] + right[1])
            self._splits[key] = best
        return best

    def _grown(self, root: int, needed: frozenset[int]) -> _Tree:
        """A tree that grows by the needed format that is nearest to what it reaches, one after the other."""
        reached, left = {root}, set(needed)
        edges: dict[Edge, None] = {}
        cost = 0
        while left:
            near, start, target = min((self.distance[f][g], f, g) for f in reached for g in left)
            for edge in self.path[start][target] if near < FORBIDDEN else ((start, target),):
                if edge[1] not in reached:
                    edges[edge] = None
                    cost += self.distance[edge[0]][edge[1]]
                    reached.add(edge[1])
            left -= reached
        return (cost, tuple(edges)) if cost < FORBIDDEN else _NONE


@lru_cache(maxsize=1 << 12)
def _trees(reorder: Matrix) -> _Trees:
    return _Trees(reorder)


def _shortest(reorder: Matrix) -> tuple[Matrix, tuple[tuple[tuple[Edge, ...], ...], ...]]:
    """Costs and edges of the cheapest chain of reorders between any two formats (Floyd and Warshall)."""
    n = len(reorder)
    cost = [list(row) for row in reorder]
    path: list[list[tuple[Edge, ...]]] = [[((f, g),) if f != g else () for g in range(n)] for f in range(n)]
    for middle, onward in enumerate(cost):
        for f, row in enumerate(cost):
            first = row[middle]
            shorter = [g for g, (a, b) in enumerate(zip(row, onward, strict=True)) if first + b < a]
            for g in shorter:
                row[g] = first + onward[g]
                path[f][g] = path[f][middle] + path[middle][g]
    return tuple(tuple(row) for row in cost), tuple(tuple(row) for row in path)
