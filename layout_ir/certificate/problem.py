"""What a choice costs.

Op o costs its weight times the cost of the option it takes. Value v costs its weight times the cheapest set of
reorders that leads from the format its maker gives it to all formats its users want.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from layout_ir.errors import LayoutError

FAR = 1 << 100
"""More than any cost."""


class StatedProblem:
    """The problem that a certificate is about. Raises LayoutError where it is none."""

    def __init__(self, given: dict[str, Any]):
        self.ops: list[dict[str, Any]] = given["ops"]
        self.values: list[dict[str, Any]] = given["values"]
        self.maker: list[int] = [-1] * len(self.values)
        self.uses: list[dict[int, list[int]]] = [{} for _ in self.values]
        """Per value and op: the numbers of its operands that are this value."""
        for o, op in enumerate(self.ops):
            for value in op["results"]:
                if at(self.maker, value) != -1:
                    raise LayoutError(f"value {value} is made twice, by op {self.maker[value]} and by op {o}")
                self.maker[value] = o
            for k, value in enumerate(op["operands"]):
                at(self.uses, value).setdefault(o, []).append(k)
            for ins, outs, _ in op["choices"]:
                if len(ins) != len(op["operands"]) or len(outs) != len(op["results"]):
                    raise LayoutError(f"op {o} has an option that is not of its operands and results")
        if -1 in self.maker:
            raise LayoutError(f"value {self.maker.index(-1)} has no maker")
        self.made: list[int] = [self.ops[o]["results"].index(v) for v, o in enumerate(self.maker)]
        """Per value: which result of its maker it is."""
        self._reorders: list[tuple[tuple[int, ...], ...]] = [
            tuple(tuple(row) for row in value["reorder"]) for value in self.values
        ]
        self._trees: dict[Any, int] = {}
        self._distances: dict[Any, list[list[int]]] = {}
        for v, reorder in enumerate(self._reorders):
            if any(len(row) != len(reorder) for row in reorder):
                raise LayoutError(f"the reorder costs of value {v} are not a square")
        for op in self.ops:
            touched: list[int] = [*op["operands"], *op["results"]]
            for ins, outs, _ in op["choices"]:
                formats: list[int] = [*ins, *outs]
                for f, value in zip(formats, touched, strict=True):
                    index(self._reorders[value], f)

    def cost(self, choices: Sequence[int]) -> int:
        """The cost of taking option choices[o] of each op o."""
        if len(choices) != len(self.ops):
            raise LayoutError(f"{len(choices)} choices for {len(self.ops)} ops")
        total = sum(op["weight"] * at(op["choices"], k)[2] for op, k in zip(self.ops, choices, strict=True))
        return total + sum(self.value_cost(v, choices.__getitem__) for v in range(len(self.values)))

    def value_cost(self, v: int, chosen: Callable[[int], int]) -> int:
        """The cost of value v where op o takes option chosen(o)."""
        maker = self.maker[v]
        made = self.ops[maker]["choices"][chosen(maker)][1][self.made[v]]
        needed = {
            self.ops[o]["choices"][chosen(o)][0][k] for o, operands in self.uses[v].items() for k in operands
        }
        return self.values[v]["weight"] * self.tree(v, made, frozenset(needed))

    def tree(self, v: int, root: int, needed: frozenset[int]) -> int:
        """The cheapest reorders that make all `needed` formats from `root`: they meet at one format, and split."""
        needed -= {root}
        if not needed:
            return 0
        key = self._reorders[v], root, needed
        if key not in self._trees:
            near = self._distance(self._reorders[v])
            formats = range(len(near))
            first = min(needed)
            others = sorted(needed - {first})
            best = near[root][first] if not others else FAR
            for count in range(len(others)):
                for part in combinations(others, count):
                    left = frozenset({first, *part})
                    best = min(
                        best,
                        *(
                            near[root][m] + self.tree(v, m, left) + self.tree(v, m, needed - left)
                            for m in formats
                            if m not in needed
                        ),
                        FAR,
                    )
            for m in needed if others else ():
                best = min(best, near[root][m] + self.tree(v, m, needed - {m}))
            self._trees[key] = best
        return self._trees[key]

    def _distance(self, reorder: tuple[tuple[int, ...], ...]) -> list[list[int]]:
        if reorder not in self._distances:
            near = [list(row) for row in reorder]
            for m in range(len(near)):
                for f in range(len(near)):
                    for g in range(len(near)):
                        near[f][g] = min(near[f][g], near[f][m] + near[m][g])
            if any(near[f][f] != 0 or min(near[f]) < 0 for f in range(len(near))):
                raise LayoutError("a reorder cost is negative, or not 0 from a format to itself")
            self._distances[reorder] = near
        return self._distances[reorder]

    def is_free(self, v: int) -> bool:
        """Whether no choice makes value v cost anything."""
        return not self.values[v]["weight"] or not any(map(any, self._reorders[v]))


def index(items: Sequence[Any], k: int) -> int:
    """`k`, which must be a place in `items`: of a number below 0 Python would count from the end."""
    if not 0 <= k < len(items):
        raise LayoutError(f"number {k} is not below {len(items)}")
    return k


def at(items: Sequence[Any], k: int) -> Any:
    """The item at place `k`, which must be one."""
    return items[index(items, k)]
