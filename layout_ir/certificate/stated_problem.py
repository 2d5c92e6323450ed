"""What a choice costs.

Op o costs its weight times the cost of the option it takes. Value v costs its weight times the cheapest set of
reorders that leads from the format its maker gives it to all formats its users want.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from layout_ir.errors import LayoutError

INFINITE = 1 << 100
"""More than any number of a certificate; a sum may be more."""

STEPS = 1 << 27
"""Steps that checking may take at least: some twenty seconds."""

STEPS_PER_NUMBER = 256
"""Steps more for each number that the certificate has."""


class Budget:
    """The steps that checking may take, in proportion to the certificate, which anyone may have written.

    A few numbers can ask for tables of any size.
    """

    def __init__(self, numbers: float):
        """`numbers` is how many the certificate has."""
        self._left = STEPS + STEPS_PER_NUMBER * numbers

    def spend(self, steps: int, what: str) -> None:
        """Raises LayoutError where `what` would take more steps than are left; to be called before they are taken."""
        if steps > self._left:
            raise LayoutError(f"too large to check: {what} would take {steps} steps, {self._left} are left")
        self._left -= steps


class StatedProblem:
    """The problem that a certificate is about. Raises LayoutError where it is none.

    `budget` bounds the work that its costs take, and whatever else is worked out from it.
    """

    def __init__(self, given: dict[str, Any], budget: Budget | None = None):
        self.budget = budget or Budget(0)
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
        for kind, nodes in (("op", self.ops), ("value", self.values)):
            for number, node in enumerate(nodes):
                if node["weight"] < 0:
                    raise LayoutError(f"{kind} {number} has weight {node['weight']}, at least 0 is needed")
        for v, reorder in enumerate(self._reorders):
            if any(len(row) != len(reorder) for row in reorder):
                raise LayoutError(f"the reorder costs of value {v} are not a square")
        for op in self.ops:
            touched: list[int] = [*op["operands"], *op["results"]]
            for ins, outs, _ in op["choices"]:
                formats: list[int] = [*ins, *outs]
                for f, value in zip(formats, touched, strict=True):
                    index(self._reorders[value], f)
        trees = {reorder: _Trees(reorder, self.budget) for reorder in dict.fromkeys(self._reorders)}
        self._trees = [trees[reorder] for reorder in self._reorders]
        first: dict[tuple[tuple[tuple[int, ...], ...], int], int] = {}
        self._alike = [
            first.setdefault((self._reorders[v], value["weight"]), v) for v, value in enumerate(self.values)
        ]

    def with_options(self, options: Sequence[list[Any]]) -> StatedProblem:
        """The problem in which each op has these of its options alone."""
        found = copy(self)
        found.ops = [{**op, "choices": own} for op, own in zip(self.ops, options, strict=True)]
        return found

    def cost(self, choices: Sequence[int]) -> int:
        """The cost of taking option choices[o] of each op o."""
        if len(choices) != len(self.ops):
            raise LayoutError(f"{len(choices)} choices for {len(self.ops)} ops")
        total = sum(op["weight"] * at(op["choices"], k)[2] for op, k in zip(self.ops, choices, strict=True))
        return total + sum(self.value_cost(v, choices.__getitem__) for v in range(len(self.values)))

    def value_cost(self, v: int, chosen: Callable[[int], int]) -> int:
        """The cost of value v where op o takes option chosen(o)."""
        maker = self.maker[v]
        made: int = self.ops[maker]["choices"][chosen(maker)][1][self.made[v]]
        needed = 0
        for o, operands in self.uses[v].items():
            ins = self.ops[o]["choices"][chosen(o)][0]
            for k in operands:
                needed |= 1 << ins[k]
        return self.trees(v, needed)[made]

    def trees(self, v: int, needed: int) -> list[int]:
        """Per format of value v, what the cheapest reorders cost that make from it each format f whose bit f is set in
        `needed`."""
        weight: int = self.values[v]["weight"]
        return [weight * cost for cost in self._trees[v].costs(needed)]

    def costs_like(self, v: int) -> int:
        """The first value whose reorders cost what those of value v do."""
        return self._alike[v]

    def is_free(self, v: int) -> bool:
        """Whether no choice makes value v cost anything."""
        return not self.values[v]["weight"] or not any(map(any, self._reorders[v]))


class _Trees:
    """The cheapest trees of reorders between the formats of a value: each leads to some format and splits there.

    Sets of formats are numbers whose bit f is format f.
    """

    def __init__(self, reorder: tuple[tuple[int, ...], ...], budget: Budget):
        self._budget = budget
        formats = range(len(reorder))
        budget.spend(len(reorder) ** 3 // 2, f"reorders between {len(reorder)} formats")
        if any(reorder[f][f] != 0 or min(reorder[f]) < 0 for f in formats):
            raise LayoutError("a reorder cost is negative, or not 0 from a format to itself")
        shortest = [list(row) for row in reorder]
        largest = [max(row) for row in shortest]
        for m in formats:
            onward = shortest[m]
            least = min(onward[:m] + onward[m + 1 :], default=0)
            for f, row in enumerate(shortest):
                first = row[m]
                if first + least < largest[f]:
                    shortest[f] = [min(a, first + b) for a, b in zip(row, onward, strict=True)]
                    largest[f] = max(shortest[f])
        self._shortest = shortest
        self._costs: dict[int, list[int]] = {1 << f: [row[f] for row in shortest] for f in formats}
        self._costs[0] = [0] * len(shortest)

    def costs(self, wanted: int) -> list[int]:
        """Per format, what it costs to make the set `wanted` from it."""
        known = self._costs.get(wanted)
        if known is not None:
            return known
        count = wanted.bit_count()
        steps = (len(self._shortest) ** 2 + (len(self._shortest) << (count - 1))) // 8
        self._budget.spend(steps, f"reorders to {count} of {len(self._shortest)} formats")
        first = wanted & -wanted
        others = part = wanted ^ first
        # One tree for `part`, one for the rest, which has the first format. No sum of costs is too large to count.
        split = [a + b for a, b in zip(self.costs(part), self.costs(first), strict=True)]
        while part := (part - 1) & others:
            pairs = zip(self.costs(part), self.costs(wanted ^ part), split, strict=True)
            split = [min(a + b, least) for a, b, least in pairs]
        # Where a tree costs most that splits at once, none gains by going there first.
        most = max(split)
        cheap = [(m, cost) for m, cost in enumerate(split) if cost < most]
        rows = zip(self._shortest, split, strict=True)
        best = [min([at_once, *[row[m] + cost for m, cost in cheap]]) for row, at_once in rows]
        self._costs[wanted] = best
        return best


def index(items: Sequence[Any], k: int) -> int:
    """`k`, which must be a place in `items`: of a number below 0 Python would count from the end."""
    if not 0 <= k < len(items):
        raise LayoutError(f"number {k} is not below {len(items)}")
    return k


def at(items: Sequence[Any], k: int) -> Any:
    """The item at place `k`, which must be one."""
    return items[index(items, k)]
