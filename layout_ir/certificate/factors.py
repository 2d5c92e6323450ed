"""The cost of a choice as a sum of factors, tables over few variables.

The variable of an op says which option it takes. A value listed under `sets` has a variable too, which says what
reorders may make of it: a set of formats. The factors are: the cost of each op; of each value without a variable, its
cost as a function of the options of the ops around it; of each value with one, its cost as a function of its maker's
option and its set. For every op that uses such a value there is a link, which is FAR above any cost where the set
lacks what the op's option needs, and 0 elsewhere. Users that two such values share may be left to one of them, the
tail of the other: then the other has no links to those, but a factor that is FAR where its set lacks a format of the
tail's set. That one's formats are listed in the same order, and it is checked that what each of those users needs of
the tail it needs of the other, by these lists. Values whose reorders cost nothing have no factor.

For every choice there is an assignment of all variables at which the factors add up to the cost of the choice: each
set is what the choice needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from layout_ir.certificate.problem import FAR, StatedProblem, at
from layout_ir.errors import LayoutError

Name = tuple[str, int, int]
"""A factor: ("op", o, 0), ("value", v, 0), ("link", v, o) or ("tail", v, 0)."""


class Factors:
    """Variables and factors of a problem. Raises LayoutError where `given`, the sets, are not sets of its values."""

    def __init__(self, problem: StatedProblem, given: list[tuple[int, int, list[int]]]):
        self.problem = problem
        self._wanted: dict[int, list[int]] = {}
        self._tail: dict[int, int] = {}
        self._sets: dict[int, list[tuple[int, ...]]] = {}
        """Per value with a variable, its sets, as places in its list of formats."""
        for v, tail, wanted in given:
            self._enter(v, tail, wanted)

    def _enter(self, v: int, tail: int, wanted: list[int]) -> None:
        """Checks that `wanted` are the formats that users of v may need and that `tail`, if any, may stand for some."""
        ops = self.problem.ops
        uses: dict[int, list[int]] = at(self.problem.uses, v)
        ins: set[int] = {c[0][k] for o, ks in uses.items() for c in ops[o]["choices"] for k in ks}
        if v in self._wanted or len(wanted) != len(ins) or set(wanted) != ins:
            raise LayoutError(f"the formats that value {v} may be needed in are not {wanted}")
        if tail != -1:
            inner = self._wanted.get(tail)
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
        self._sets[v] = [s for n in range(1, most + 1) for s in combinations(range(len(wanted)), n)]

    def size(self, x: int) -> int:
        """How many states variable x has; value v is variable len(ops) + v."""
        ops = self.problem.ops
        return len(ops[x]["choices"]) if x < len(ops) else len(self._sets[x - len(ops)])

    def names(self) -> set[Name]:
        """All factors."""
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
        """The variables of a factor, those of one state left out, and its table, the last running fastest."""
        kind, number, op = name
        problem = self.problem
        if kind == "op":
            own, node = [number], problem.ops[number]
            costs = [node["weight"] * cost for _, _, cost in node["choices"]]
        elif kind == "value" and number not in self._sets:
            own = sorted({problem.maker[number], *problem.uses[number]})
            costs = [problem.value_cost(number, chosen.__getitem__) for chosen in self._assignments(own)]
        elif kind == "value":
            own, weight = [problem.maker[number], self._variable(number)], problem.values[number]["weight"]
            wanted = self._wanted[number]
            made = [outs[problem.made[number]] for _, outs, _ in problem.ops[own[0]]["choices"]]
            sets = [frozenset(wanted[k] for k in s) for s in self._sets[number]]
            costs = [weight * problem.tree(number, f, needed) for f in made for needed in sets]
        elif kind == "link":
            own, costs = [op, self._variable(number)], self._link(number, op)
        else:
            tail = self._tail[number]
            own = [self._variable(tail), self._variable(number)]
            costs = [0 if set(i) <= set(s) else FAR for i in self._sets[tail] for s in self._sets[number]]
        return [x for x in own if self.size(x) > 1], costs

    def _variable(self, v: int) -> int:
        return len(self.problem.ops) + v

    def _link(self, v: int, op: int) -> list[int]:
        wanted, asked = self._wanted[v], self.problem.uses[v][op]
        return [
            0 if {ins[k] for k in asked} <= {wanted[k] for k in s} else FAR
            for ins, _, _ in self.problem.ops[op]["choices"]
            for s in self._sets[v]
        ]

    def _assignments(self, scope: Sequence[int]) -> list[dict[int, int]]:
        found: list[dict[int, int]] = [{}]
        for x in scope:
            found = [{**states, x: k} for states in found for k in range(self.size(x))]
        return found
