"""A selection problem as a sum of small tables over variables.

The variables are the ops, a state being the number of a choice. The cost of an op is a table over itself. The cost of
a value is a table over the ops that make and use it: its entry is the cheapest tree of reorders from the format made
to the formats asked for. Tables over many ops would be large, so a value whose table would have more than `direct`
entries gets a variable of its own, whose states are the sets of formats that reorders may make of it. Its cost is
then a table over its maker and that variable, and one table per use says which sets have what a choice asks for. More
formats than are asked for cost no less, so "have" is enough for the least cost, "are" is not needed.

    op o           (o,)             weight * cost
    value v        (maker, users)   weight * tree(made, {asked for})      few entries
    value v        (maker, v)       weight * tree(made, set)              many entries, with
    link v, o      (o, v)           0 where the set has what the choice asks for, else FORBIDDEN
    tail v         (w, v)           0 where the set of v has all that the set of w has, else FORBIDDEN

The last is for values whose users are shared, as in dense blocks, where each layer uses all before it: if the last
uses of v are all the uses of w, and ask for the same formats of both, then they are linked to w alone and w to v.
Otherwise all users of a block would be neighbours of each other, and tables grow as formats ** layers.

Values that cost nothing whatever is chosen (constants, say) have no table, and ops of one choice are not variables:
they only fix formats. Nothing is tabled before it is needed, and then in bulk: factors of one `signature` have tables
of one shape that the same array operations fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from layout_ir.passes.selection.problem import FORBIDDEN, Choice, Matrix, Problem
from layout_ir.passes.selection.sharing import Needs, count_sets, nested, sets_of

Table = NDArray[np.int64]
Scope = tuple[int, ...]
Kind = Literal["op", "value", "link", "tail"]

DIRECT = 1 << 12
"""Entries above which a value gets a variable. Three ops of six options take 216, a hub of many uses far more."""

CHUNK = 1 << 19
"""Entries tabled at once: 4 MiB, which stays in the cache."""

_Formats = tuple[int, ...]
_Ports = tuple[tuple[_Formats, ...], tuple[_Formats, ...]]


@dataclass(frozen=True, slots=True)
class _Value:
    """How the table of a value is filled: the formats it is made in and asked for in, per choice of each op.

    Those asked for are numbers within `wanted`. The axes that the ops have in the table are in the signature.
    """

    number: int
    made: _Formats
    used: tuple[_Formats, ...]
    wanted: _Formats


@dataclass(frozen=True, slots=True)
class Factor:
    kind: Kind
    number: int
    """The op or value; of a link or tail, the value."""
    scope: Scope
    """Ascending, ops of one choice left out."""
    signature: tuple[Any, ...]
    detail: Any = None
    """What is needed to fill the table; of a link, the op."""


class Factors:
    """All factors of `problem`; variable k is op k, or value k - len(ops) if that has sets of its own.

    `domains` has the number of states of each variable and 1 for what is none. Values whose table would have more
    than `direct` entries get sets, with `tails` where uses are shared.
    """

    def __init__(self, problem: Problem, direct: int = DIRECT, *, tails: bool = True):
        self.problem = problem
        self.shift = len(problem.ops)
        self.domains = [len(op.choices) for op in problem.ops] + [1] * len(problem.values)
        self.factors: list[Factor] = []
        self.needs: dict[int, Needs] = {}
        """The values that have sets."""
        # Few signatures, many factors: equal ones are kept once.
        self._signatures: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for number, op in enumerate(problem.ops):
            scope = (number,) if len(op.choices) > 1 else ()
            self._add("op", number, scope, ("op", len(op.choices)))
        self._ports: list[_Ports] = []
        known: dict[int, _Ports] = {}
        for op in problem.ops:
            ports = known.get(id(op.choices))
            if ports is None:
                ports = known[id(op.choices)] = _ports(op.choices)
            self._ports.append(ports)
        self._add_values(direct, tails)

    def _add(
        self, kind: Kind, number: int, scope: Scope, signature: tuple[Any, ...], detail: Any = None
    ) -> None:
        signature = self._signatures.setdefault(signature, signature)
        self.factors.append(Factor(kind, number, scope, signature, detail))

    def _add_values(self, direct: int, tails: bool) -> None:
        makers, users = self.problem.producers(), self.problem.uses()
        local: dict[tuple[_Formats, ...], tuple[_Formats, tuple[_Formats, ...]]] = {}
        wide: list[int] = []
        for number, uses in enumerate(users):
            value = self.problem.values[number]
            if not uses or is_free(value.reorder, value.weight):
                continue
            asked = self._asked(uses)
            found = local.get(asked)
            if found is None:
                found = local[asked] = _local(asked)
            if not self._add_direct(number, makers[number], uses, found, direct):
                wide.append(number)
        if wide:
            self._add_wide(wide, makers, users, tails)

    def _asked(self, uses: list[tuple[int, int]]) -> tuple[_Formats, ...]:
        ports = self._ports
        return tuple([ports[user][0][k] for user, k in uses])

    def _made(self, maker: tuple[int, int]) -> _Formats:
        return self._ports[maker[0]][1][maker[1]]

    def _add_direct(
        self,
        number: int,
        maker: tuple[int, int],
        uses: list[tuple[int, int]],
        asked: tuple[_Formats, tuple[_Formats, ...]],
        direct: int,
    ) -> bool:
        """Adds the cost of a value as a table over ops, unless that would be large."""
        wanted, used = asked
        domains = self.domains
        around = sorted({maker[0], *[user for user, _ in uses]})
        scope = tuple([op for op in around if domains[op] > 1])
        sizes = tuple([domains[op] for op in scope])
        size = prod(sizes)
        # Where the sets are no fewer than the entries, a variable could only make it worse.
        if size > direct and count_sets(len(wanted), len(uses)) * max(sizes) < size:
            return False
        axis = {op: k for k, op in enumerate(scope)}
        axes = tuple([axis.get(user, -1) for user, _ in uses])
        formats = len(self.problem.values[number].reorder)
        signature = ("value", formats, len(wanted), sizes, axis.get(maker[0], -1), axes)
        self._add("value", number, scope, signature, _Value(number, self._made(maker), used, wanted))
        return True

    def _add_wide(
        self, wide: list[int], makers: list[tuple[int, int]], users: list[list[tuple[int, int]]], tails: bool
    ) -> None:
        """Adds the costs of values that get sets: `wide`, and those whose uses are the last uses of such."""
        candidates = set(wide)
        if tails:
            values = self.problem.values
            candidates |= {
                v
                for v, uses in enumerate(users)
                if len(uses) > 1 and not is_free(values[v].reorder, values[v].weight)
            }
        asked = {
            v: [(user, own) for (user, _), own in zip(users[v], self._asked(users[v]), strict=True)]
            for v in sorted(candidates)
        }
        self.needs = nested(wide, asked, tails=tails)
        own = set(self.needs) - set(wide)
        if own:
            self.factors = [f for f in self.factors if f.kind != "value" or f.number not in own]
        for number, needs in self.needs.items():
            self.domains[self.shift + number] = len(needs.sets)
        for number, needs in self.needs.items():
            self._add_needs(number, needs, makers[number])

    def _add_needs(self, number: int, needs: Needs, maker: tuple[int, int]) -> None:
        shift, domains = self.shift, self.domains
        variable = shift + number
        alone: Scope = (variable,) if domains[variable] > 1 else ()
        made = self._made(maker)
        scope = (maker[0], *alone) if domains[maker[0]] > 1 else alone
        sizes = tuple([domains[v] for v in scope])
        formats = len(self.problem.values[number].reorder)
        signature = ("needs", formats, len(needs.wanted), needs.most, sizes)
        self._add("value", number, scope, signature, (number, made, needs))
        for op, ports in needs.direct:
            own = (op, *alone) if domains[op] > 1 else alone
            signature = ("link", ports, len(needs.wanted), needs.most)
            self._add("link", number, own, signature, op)
        if needs.tail is not None:
            tail = shift + needs.tail
            inner = self.needs[needs.tail]
            first = (tail, variable) if tail < variable else (variable, tail)
            sizes = (len(inner.wanted), inner.most, len(needs.wanted), needs.most)
            scope = tuple([v for v in first if domains[v] > 1])
            self._add("tail", number, scope, ("tail", sizes, tail < variable))

    def states_of(self, choices: Sequence[int]) -> list[int]:
        """The state of every variable where ops take these choices: sets have what is asked for, nothing else."""
        states = [*choices, *([0] * len(self.problem.values))]
        users = self.problem.uses() if self.needs else []
        for number, needs in self.needs.items():
            bit = {f: 1 << k for k, f in enumerate(needs.wanted)}
            asked = {bit[self.problem.ops[user].choices[choices[user]].ins[k]] for user, k in users[number]}
            states[self.shift + number] = needs.sets.index(sum(asked))
        return states

    def tables(self, numbers: Sequence[int]) -> Table:
        """The tables of factors of one signature, stacked; axes in the order of the scope."""
        first = self.factors[numbers[0]]
        kind = first.signature[0]
        if kind == "op":
            ops = [self.problem.ops[self.factors[k].number] for k in numbers]
            costs = np.array([[c.cost for c in op.choices] for op in ops], np.int64)
            costs = _weighted(costs, np.array([op.weight for op in ops], np.int64))
            return costs if first.scope else costs.reshape(len(ops))
        if kind == "value":
            return self._value_tables([self.factors[k].detail for k in numbers], first.signature)
        if kind == "needs":
            return self._needs_tables([self.factors[k].detail for k in numbers], first.signature)
        own = _unfit(first.signature).reshape([self.domains[v] for v in first.scope])
        return np.broadcast_to(own, (len(numbers), *own.shape))

    def _value_tables(self, details: list[_Value], signature: tuple[Any, ...]) -> Table:
        sizes: tuple[int, ...] = signature[3]
        axes: tuple[int, ...] = signature[5]
        trees = self._trees([(d.number, d.wanted) for d in details], len(axes))
        n = len(details)

        def spread(formats: list[_Formats], axis: int) -> NDArray[np.int64]:
            shape = [1] * len(sizes)
            if axis >= 0:
                shape[axis] = sizes[axis]
            return np.array(formats, np.int64).reshape(n, *shape)

        made = spread([d.made for d in details], signature[4])
        mask = np.zeros([n] + [1] * len(sizes), np.int64)
        for k, axis in enumerate(axes):
            mask = mask | (1 << spread([d.used[k] for d in details], axis))
        index = np.arange(n).reshape([n] + [1] * len(sizes))
        return np.ascontiguousarray(np.broadcast_to(trees[index, mask, made], (n, *sizes)))

    def _needs_tables(self, details: list[tuple[int, _Formats, Needs]], signature: tuple[Any, ...]) -> Table:
        n = len(details)
        trees = self._trees([(number, needs.wanted) for number, _, needs in details], signature[3])
        made = np.array([formats for _, formats, _ in details], np.int64)
        masks = np.array(details[0][2].sets, np.int64)
        tables = trees[np.arange(n)[:, None, None], masks[None, None, :], made[:, :, None]]
        return tables.reshape(n, *signature[4])

    def _trees(self, wanted_of: list[tuple[int, _Formats]], uses: int) -> Table:
        """[value, set of wanted formats as bits, format made] -> weight * cost of the tree."""
        nodes = [self.problem.values[number] for number, _ in wanted_of]
        reorder = np.array([node.reorder for node in nodes], np.int64)
        wanted = np.array([formats for _, formats in wanted_of], np.int64)
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


@lru_cache(maxsize=1 << 10)
def _unfit(signature: tuple[Any, ...]) -> Table:
    """The table of a link or tail: FORBIDDEN where a set lacks what it must have."""
    if signature[0] == "link":
        _, ports, wanted, most = signature
        masks = np.array(sets_of(wanted, most), np.int64)
        asked = np.zeros(len(ports[0]), np.int64)
        for formats in ports:
            asked |= 1 << np.array(formats, np.int64)
        lacks = asked[:, None] & ~masks[None, :] != 0
    else:
        inner, outer = (np.array(sets_of(*signature[1][k : k + 2]), np.int64) for k in (0, 2))
        lacks = inner[:, None] & ~outer[None, :] != 0
        lacks = lacks if signature[2] else lacks.T
    return np.where(lacks, FORBIDDEN, 0).astype(np.int64)


def is_free(reorder: Matrix, weight: int) -> bool:
    """Whether a value costs nothing, whatever formats it is made and needed in."""
    return not weight or not any(map(any, reorder))


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
