"""The cost of a choice as a sum of cost functions (`factors` in certificates): tables over few variables.

The variable of an op says which option it takes. A value listed under `sets` has a variable too, which says what
reorders may make of it: a set of formats. The functions are: the cost of each op; of each value without a variable, its
cost as a function of the options of the ops around it; of each value with one, its cost as a function of its maker's
option and its set. For every op that uses such a value there is a link, which is INFINITE where the set lacks what the
op's option needs, and 0 elsewhere. No choice has a set that lacks what it needs, so a lower bound is one whatever
number INFINITE is. Users that two such values share may be left to one of them, the tail of the other: then the other
has no links to those, but a function that is INFINITE where its set lacks a format of the tail's set. That one's
formats are listed in the same order, and it is checked that what each of those users needs of the tail it needs of the
other, by these lists. Values whose reorders cost nothing have no function.

For every choice there is an assignment of all variables at which the functions add up to the cost of the choice: each
set is what the choice needs.

A list under `sets` may end with a number, how many formats the sets have at most. Larger ones are then one last state
of the variable, which lacks nothing and costs what the cheapest set of so many formats costs that has not the format
made. A larger set holds such a set and costs no less, so that for every choice the functions add up to no more than its
cost, and a lower bound of them is one of it. Such a value has no tail and is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, compress
from math import comb, prod
from typing import Any

from layout_ir.certificate.stated_problem import INFINITE, StatedProblem, at
from layout_ir.errors import LayoutError

Name = tuple[str, int, int]
"""A cost function: ("op", o, 0), ("value", v, 0), ("link", v, o) or ("tail", v, 0)."""


class StatedCostFunctions:
    """Variables and cost functions of a problem. Raises LayoutError where `given`, the sets, are not sets of its
    values."""

    def __init__(self, problem: StatedProblem, given: list[list[Any]]):
        self.problem = problem
        self._wanted: dict[int, list[int]] = {}
        self._tail: dict[int, int] = {}
        self._sets: dict[int, list[tuple[int, ...]]] = {}
        """Per value with a variable, its sets, as places in its list of formats."""
        self._known_tables: dict[
            tuple[int, int, tuple[int, ...], tuple[tuple[int, ...], ...]], list[int]
        ] = {}
        """The tables of values without a variable: networks repeat their blocks."""
        self._most: dict[int, int] = {}
        """Per value whose sets end with a state for all larger ones, how many formats the others have at most."""
        for v, tail, wanted, *most in given:
            self._enter(v, tail, wanted, *most)

    def _enter(self, v: int, tail: int, wanted: list[int], limit: int | None = None) -> None:
        """Checks that `wanted` are the formats that users of v may need and that `tail`, if any, may stand for some."""
        ops = self.problem.ops
        uses: dict[int, list[int]] = at(self.problem.uses, v)
        ins: set[int] = {c[0][k] for o, ks in uses.items() for c in ops[o]["choices"] for k in ks}
        if v in self._wanted or len(wanted) != len(ins) or set(wanted) != ins:
            raise LayoutError(f"the formats that value {v} may be needed in are not {wanted}")
        if tail != -1:
            inner = self._wanted.get(tail)
            if limit is not None or tail in self._most:
                raise LayoutError(f"value {v} has tail {tail}, and one of them a state for larger sets")
            if inner is None or len(inner) > len(wanted):
                raise LayoutError(f"value {tail} stands in no list before value {v}, whose tail it is")
            place = dict(zip(inner, wanted, strict=False))
            for o, ks in self.problem.uses[tail].items():
                for needed, _, _ in ops[o]["choices"]:
                    if not {place[needed[k]] for k in ks} <= {needed[k] for k in uses.get(o, [])}:
                        raise LayoutError(f"op {o} does not need of value {v} what it needs of {tail}")
            self._tail[v] = tail
        self._wanted[v] = wanted
        most = min(len(wanted), sum(len(ks) for ks in uses.values()))
        if limit is not None:
            if not 0 < limit < most:
                raise LayoutError(
                    f"value {v} is needed in up to {most} formats at once, and {limit} are the limit"
                )
            self._most[v] = most = limit
        count = sum(comb(len(wanted), n) for n in range(1, most + 1))
        self.problem.budget.spend(count, f"the sets of value {v}, up to {most} of {len(wanted)} formats,")
        self._sets[v] = [s for n in range(1, most + 1) for s in combinations(range(len(wanted)), n)]

    def size(self, x: int) -> int:
        """How many states variable x has; value v is variable len(ops) + v."""
        ops = self.problem.ops
        return len(ops[x]["choices"]) if x < len(ops) else self._states(x - len(ops))

    def _states(self, v: int) -> int:
        return len(self._sets[v]) + (v in self._most)

    def names(self) -> set[Name]:
        """All cost functions."""
        found: set[Name] = {("op", o, 0) for o in range(len(self.problem.ops))}
        for v, uses in enumerate(self.problem.uses):
            if uses and not self.problem.is_free(v):
                found.add(("value", v, 0))
            if v in self._sets:
                found |= {("link", v, o) for o in self._linked(v)}
            if v in self._tail:
                found.add(("tail", v, 0))
        return found

    def _linked(self, v: int) -> list[int]:
        """The ops that have a link to v: those that use it, unless its tail stands for them."""
        inner = self.problem.uses[self._tail[v]] if v in self._tail else {}
        return [o for o in self.problem.uses[v] if o not in inner]

    def table(self, name: Name) -> tuple[list[int], list[int]]:
        """The variables of a cost function, those of one state left out, and its table, the last running fastest."""
        kind, number, op = name
        problem = self.problem
        if kind == "op":
            own, node = [number], problem.ops[number]
            costs = [node["weight"] * cost for _, _, cost in node["choices"]]
        elif kind == "value" and number not in self._sets:
            own = sorted({problem.maker[number], *problem.uses[number]})
            entries = prod(self.size(x) for x in own)
            steps = 8 * entries * (len(own) + len(problem.uses[number]))
            problem.budget.spend(steps, f"the table of value {number}, {entries} entries,")
            costs = self._value_costs(number, own)
        elif kind == "value":
            own = [problem.maker[number], self._variable(number)]
            wanted = self._wanted[number]
            made: list[int] = [outs[problem.made[number]] for _, outs, _ in problem.ops[own[0]]["choices"]]
            entries = len(made) * self._states(number)
            problem.budget.spend(entries, f"the table of value {number}, {entries} entries,")
            sets = [sum(1 << wanted[k] for k in s) for s in self._sets[number]]
            all_trees = [problem.trees(number, s) for s in sets]
            costs = list[int]()
            for f in made:
                trees = [tree[f] for tree in all_trees]
                if number in self._most:
                    most = self._most[number]
                    large = [s.bit_count() == most and not s >> f & 1 for s in sets]
                    trees.append(min(compress(trees, large)))
                costs += trees
        elif kind == "link":
            own, costs = [op, self._variable(number)], self._link(number, op)
        else:
            tail = self._tail[number]
            entries = self._states(tail) * self._states(number)
            problem.budget.spend(entries, f"the table of value {number} and its tail, {entries} entries,")
            own = [self._variable(tail), self._variable(number)]
            costs = [
                0 if set(i) <= set(s) else INFINITE for i in self._sets[tail] for s in self._sets[number]
            ]
        return [x for x in own if self.size(x) > 1], costs

    def _variable(self, v: int) -> int:
        return len(self.problem.ops) + v

    def _link(self, v: int, op: int) -> list[int]:
        wanted, asked = self._wanted[v], at(self.problem.uses, v).get(op, [])
        choices = self.problem.ops[op]["choices"]
        entries = len(choices) * self._states(v)
        self.problem.budget.spend(entries, f"the table of value {v} and op {op}, {entries} entries,")
        sets = [frozenset(wanted[k] for k in s) for s in self._sets[v]]
        lacks_nothing = [0] * (v in self._most)
        table: list[int] = []
        for ins, _, _ in choices:
            needed = {ins[k] for k in asked}
            table += [0 if needed <= s else INFINITE for s in sets]
            table += lacks_nothing
        return table

    def _value_costs(self, v: int, scope: Sequence[int]) -> list[int]:
        """The cost of value v, which has no variable, for every assignment of its maker and its users."""
        problem = self.problem
        maker = problem.maker[v]
        made = tuple(outs[problem.made[v]] for _, outs, _ in problem.ops[maker]["choices"])
        needed: list[tuple[int, ...]] = []
        for x in scope:
            uses = problem.uses[v].get(x, [])
            needed.append(tuple(sum({1 << ins[k] for k in uses}) for ins, _, _ in problem.ops[x]["choices"]))
        key = (problem.costs_like(v), scope.index(maker), made, tuple(needed))
        known = self._known_tables.get(key)
        if known is None:
            known = self._known_tables[key] = self._tabulated(*key)
        return known

    def _tabulated(
        self, v: int, maker: int, made: tuple[int, ...], needed: tuple[tuple[int, ...], ...]
    ) -> list[int]:
        """The cost of value v for every assignment of some ops, of which the one at place `maker` makes it in formats
        `made`, one per option, and each needs the formats that its numbers in `needed` have as bits."""
        roots, formats = [0], [0]
        for place, own in enumerate(needed):
            formats = [some | more for some in formats for more in own]
            roots = [*made] * len(roots) if place == maker else [f for f in roots for _ in own]
        trees = {wanted: self.problem.trees(v, wanted) for wanted in set(formats)}
        return [trees[wanted][f] for f, wanted in zip(roots, formats, strict=True)]
