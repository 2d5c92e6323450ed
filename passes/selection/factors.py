"""A selection problem as a sum of small tables over variables.

The variables are the ops, a state being the number of a choice. The cost of an op is a table over itself. The cost of
a value is a table over the ops that make and use it: its entry is the cheapest tree of reorders from the format made
to the formats asked for. Tables over many ops would be large, so a value whose table would have more than `direct`
entries gets a variable of its own, whose states are the pairs (format made, set of formats needed); its cost is then
a table over that variable, and one table per op around it says which states fit a choice (0 or FORBIDDEN).

    op o           (o,)             weight * cost
    value v        (makers, users)  weight * tree(made, {needed})         few entries
    value v        (v,)             weight * tree(state)                  many entries, with
    link v, o      (v, o)           0 where the state fits the choice     per op around it

Ops of one choice are not variables: they only fix formats. Nothing is tabled before it is needed, and then in bulk:
factors of one `signature` have tables of one shape that the same array operations fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from layout_ir.passes.selection.problem import FORBIDDEN, Choice, Problem

Table = NDArray[np.int64]
Scope = tuple[int, ...]
Kind = Literal["op", "value", "link"]

DIRECT = 1 << 12
"""Entries above which a value gets a variable. Three ops of six options take 216, a hub of many uses far more."""

CHUNK = 1 << 19
"""Entries tabled at once: 4 MiB, which stays in the cache."""

_Formats = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Port:
    """Where an op touches a value: the axis of the op in the table (-1: one choice only), its format per choice."""

    axis: int
    formats: _Formats


@dataclass(frozen=True, slots=True)
class _Value:
    """How the table of a value is filled: ports that make it, ports that use it, by numbers within `wanted`."""

    number: int
    made: _Port
    used: tuple[_Port, ...]
    wanted: _Formats


@dataclass(frozen=True, slots=True)
class Factor:
    kind: Kind
    number: int
    """The op or value; of a link, the value."""
    scope: Scope
    """Ascending, ops of one choice left out."""
    signature: tuple[Any, ...]
    detail: Any = None


class Factors:
    """All factors of `problem`; variable k is op k, or value k - len(ops) if that has states of its own.

    `domains` has the number of states of each variable and 1 for what is none.
    """

    def __init__(self, problem: Problem, direct: int = DIRECT):
        self.problem = problem
        self.shift = len(problem.ops)
        self.domains = [len(op.choices) for op in problem.ops] + [1] * len(problem.values)
        self.factors: list[Factor] = []
        self.has_states: list[int] = []
        """Numbers of the values that are variables."""
        for number, op in enumerate(problem.ops):
            scope = (number,) if len(op.choices) > 1 else ()
            self.factors.append(Factor("op", number, scope, ("op", len(op.choices))))
        ports = [_ports(op.choices) for op in problem.ops]
        local: dict[tuple[_Formats, ...], tuple[_Formats, tuple[_Formats, ...]]] = {}
        for number, (maker, uses) in enumerate(zip(problem.producers(), problem.uses(), strict=True)):
            if not uses:
                continue
            made = ports[maker[0]][1][maker[1]]
            asked = tuple([ports[user][0][k] for user, k in uses])
            found = local.get(asked)
            if found is None:
                found = local[asked] = _local(asked)
            self._add_value(number, maker[0], made, [user for user, _ in uses], found, direct)

    def _add_value(
        self,
        number: int,
        maker: int,
        made: _Formats,
        users: list[int],
        asked: tuple[_Formats, tuple[_Formats, ...]],
        direct: int,
    ) -> None:
        wanted, used = asked
        domains = self.domains
        around = sorted({maker, *users})
        scope = tuple([op for op in around if domains[op] > 1])
        formats = len(self.problem.values[number].reorder)
        size = prod([domains[op] for op in scope])
        count = len(set(made)) * _sets(len(wanted), len(users))
        # Where the states are no fewer than the entries, a variable could only make it worse.
        if size <= direct or count * max(domains[op] for op in scope) >= size:
            axis = {op: k for k, op in enumerate(scope)}
            out = _Port(axis.get(maker, -1), made)
            ins = tuple([_Port(axis.get(user, -1), own) for user, own in zip(users, used, strict=True)])
            sizes = tuple([domains[op] for op in scope])
            signature = ("value", formats, len(wanted), sizes, out.axis, tuple([p.axis for p in ins]))
            self.factors.append(Factor("value", number, scope, signature, _Value(number, out, ins, wanted)))
            return
        variable = self.shift + number
        outs = sorted(set(made))
        sets = value_sets(wanted, len(users))
        domains[variable] = len(outs) * len(sets)
        self.has_states.append(number)
        states = [(f, s) for f in outs for s in sets]
        own = _Value(number, _Port(0, tuple(f for f, _ in states)), (), wanted)
        alone: Scope = (variable,) if len(states) > 1 else ()
        masks = np.array([sum(1 << wanted.index(f) for f in s) for _, s in states])
        self.factors.append(
            Factor("value", number, alone, ("states", formats, len(users), number), (own, masks))
        )
        for op in around:
            table = np.zeros((domains[op], len(states)), bool)
            if op == maker:
                table |= np.array([[f != m for f, _ in states] for m in made])
            for user, formats_of in zip(users, used, strict=True):
                if user == op:
                    table |= np.array([[wanted[k] not in s for _, s in states] for k in formats_of])
            own_scope = (op, *alone) if domains[op] > 1 else alone
            table = table.reshape([domains[v] for v in own_scope])
            self.factors.append(Factor("link", number, own_scope, ("link", number, op), (op, table)))

    def tables(self, numbers: Sequence[int]) -> Table:
        """The tables of factors of one signature, stacked; axes in the order of the scope."""
        first = self.factors[numbers[0]]
        if first.signature[0] == "op":
            ops = [self.problem.ops[self.factors[k].number] for k in numbers]
            costs = np.array([[c.cost for c in op.choices] for op in ops], np.int64)
            costs = _weighted(costs, np.array([op.weight for op in ops], np.int64))
            return costs if first.scope else costs.reshape(len(ops))
        if first.signature[0] == "value":
            return self._value_tables([self.factors[k].detail for k in numbers], first.signature)
        stacked: list[Table] = []
        for k in numbers:
            own = self.factors[k]
            if own.kind == "link":
                stacked.append(np.where(own.detail[1], FORBIDDEN, 0).astype(np.int64))
            else:
                value, masks = own.detail
                trees = self._trees([value], own.signature[2])[0, masks, np.array(value.made.formats)]
                stacked.append(trees if own.scope else trees.reshape(()))
        return np.stack(stacked)

    def _value_tables(self, details: list[_Value], signature: tuple[Any, ...]) -> Table:
        sizes: tuple[int, ...] = signature[3]
        trees = self._trees(details, len(details[0].used))
        n = len(details)

        def spread(ports: list[_Port]) -> NDArray[np.int64]:
            shape = [1] * len(sizes)
            if ports[0].axis >= 0:
                shape[ports[0].axis] = sizes[ports[0].axis]
            return np.array([p.formats for p in ports], np.int64).reshape(n, *shape)

        made = spread([d.made for d in details])
        mask = np.zeros([n] + [1] * len(sizes), np.int64)
        for k in range(len(details[0].used)):
            mask = mask | (1 << spread([d.used[k] for d in details]))
        index = np.arange(n).reshape([n] + [1] * len(sizes))
        return np.ascontiguousarray(np.broadcast_to(trees[index, mask, made], (n, *sizes)))

    def _trees(self, details: list[_Value], uses: int) -> Table:
        """[value, set of wanted formats as bits, format made] -> weight * cost of the tree."""
        nodes = [self.problem.values[d.number] for d in details]
        reorder = np.array([node.reorder for node in nodes], np.int64)
        wanted = np.array([d.wanted for d in details], np.int64)
        trees = steiner(reorder, wanted, uses)
        return _weighted(trees, np.array([node.weight for node in nodes], np.int64))


def steiner(reorder: Table, wanted: NDArray[np.int64], most: int) -> Table:
    """[n, set of wanted formats as bits, root] -> cost of the cheapest tree, for n matrices at once.

    Sets of more than `most` formats are left 0. A tree goes from its root to some format in the cheapest way and
    splits there.
    """
    n, formats = reorder.shape[:2]
    distance = np.minimum(reorder, FORBIDDEN)
    for middle in range(formats):
        np.minimum(distance, distance[:, :, middle, None] + distance[:, None, middle, :], out=distance)
    count = wanted.shape[1]
    trees = np.zeros((n, 1 << count, formats), np.int64)
    rows = np.arange(n, dtype=np.int64)
    for k in range(count):
        trees[:, 1 << k, :] = distance[rows, :, wanted[:, k]]
    for mask in range(1, 1 << count):
        if not 2 <= mask.bit_count() <= most:
            continue
        low = mask & -mask
        rest = part = mask ^ low
        best = None
        while part:
            part = (part - 1) & rest
            split = trees[:, low | part] + trees[:, rest ^ part]
            best = split if best is None else np.minimum(best, split, out=best)
        assert best is not None
        np.minimum((distance + best[:, None, :]).min(axis=2), FORBIDDEN, out=trees[:, mask])
    return trees


def value_sets(wanted: Sequence[int], uses: int) -> list[tuple[int, ...]]:
    """The sets of formats that `uses` uses may need together, small ones first."""
    return [s for size in range(1, min(len(wanted), uses) + 1) for s in combinations(wanted, size)]


def _sets(wanted: int, uses: int) -> int:
    total, term = 0, 1
    for size in range(1, min(wanted, uses) + 1):
        term = term * (wanted - size + 1) // size
        total += term
    return total


def _weighted(costs: Table, weights: Table) -> Table:
    weights = weights.reshape([-1] + [1] * (costs.ndim - 1))
    return np.where(
        costs > FORBIDDEN // np.maximum(weights, 1), np.where(weights > 0, FORBIDDEN, 0), costs * weights
    )


def _ports(choices: tuple[Choice, ...]) -> tuple[tuple[_Formats, ...], tuple[_Formats, ...]]:
    """Per operand and per result, its format in every choice."""
    return tuple(zip(*[c.ins for c in choices], strict=True)), tuple(
        zip(*[c.outs for c in choices], strict=True)
    )


def _local(asked: tuple[_Formats, ...]) -> tuple[_Formats, tuple[_Formats, ...]]:
    wanted = tuple(sorted({f for own in asked for f in own}))
    place = {f: k for k, f in enumerate(wanted)}
    return wanted, tuple(tuple(place[f] for f in own) for own in asked)
