"""A selection problem as a sum of cost functions: small tables over few variables (a weighted constraint network).

The variables are the ops, a state being the number of a choice. The cost of an op is a table over itself. The cost of
a value is a table over the ops that make and use it: its entry is the cheapest tree of reorders from the format made
to the formats asked for. Tables over many ops would be large, so a value whose table would have more than `direct`
entries gets a variable of its own, whose states are the sets of formats that reorders may make of it. Its cost is
then a table over its maker and that variable, and one table per use says which sets have what a choice asks for. More
formats than are asked for cost no less, so "have" is enough for the least cost, "are" is not needed. Where there
would be too many sets, those of many formats are one state, whose cost is a lower bound of theirs
(`demand_sets.DemandSets.more`).

    kind           variables        entry
    op o           (o,)             weight * cost
    value v        (maker, users)   weight * tree(made, {asked for})      few entries
    value v        (maker, v)       weight * tree(made, set)              many entries, with
    link v, o      (o, v)           0 where the set has what the choice asks for, else FORBIDDEN
    tail v         (w, v)           0 where the set of v has all that the set of w has, else FORBIDDEN

The last is for values whose users are shared, as in dense blocks, where each layer uses all before it: if the last
uses of v are all the uses of w, and ask for the same formats of both, then they are linked to w alone and w to v.
Otherwise all users of a block would be neighbours of each other, and tables grow as formats ** layers.

Values that cost nothing whatever is chosen (constants, say) have no table, and ops of one choice are not variables:
they only fix formats. Nothing is tabled before it is needed, and then in bulk: cost functions of one `signature` have
tables of one shape that the same array operations fill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import comb, prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layout_ir.selection.solver.demand_sets import DemandSets, find_demand_sets
from layout_ir.selection.solver.format_sets import NARROW, count_sets, members_of, set_numbers
from layout_ir.selection.solver.reorder_trees import distances, steiner
from layout_ir.selection.solver.selection_problem import FORBIDDEN, Choice, Matrix, Problem, tree_cost
from layout_ir.selection.solver.small_tables import combined, spread

Table = NDArray[np.int64]
Scope = tuple[int, ...]
Kind = Literal["op", "value", "link", "tail"]

DIRECT = 1 << 12
"""Entries of its table above which a value gets a variable. Three ops of six options take 216; a value of many uses
takes more by a factor per use."""

FEW = 4
"""Up to so many formats that are asked for, the trees to them are found one by one: mostly, few of them are needed."""

TREES = 1 << 22
"""Trees of one value (sets times formats) above which it gets a variable."""

CHUNK = 1 << 19
"""Entries of the tables filled by one array operation: 4 MiB, which stays in the cache."""

_Formats = tuple[int, ...]
_Columns = tuple[tuple[_Formats, ...], tuple[_Formats, ...]]


class _Value(NamedTuple):
    """What fills the table of a value over ops: the formats that it is made in and asked for in, per choice of each op.

    `used` has the places in `wanted` of the formats asked for. The axes of the ops in the table are in the signature.
    """

    number: int
    made: _Formats
    used: tuple[_Formats, ...]
    wanted: _Formats


class _ValueWithSets(NamedTuple):
    """What fills the table of a value with a variable: the formats that it is made in, per choice, and its sets."""

    number: int
    made: _Formats
    sets: DemandSets


class CostFunction(NamedTuple):
    """One table of the sum, not yet filled: its variables and what fills it."""

    kind: Kind
    number: int
    """The op or value; of a link or tail, the value."""
    scope: Scope
    """Ascending, ops of one choice left out."""
    signature: tuple[Any, ...]
    op: int = 0
    """Of a link, the op."""
    formats: _Value | _ValueWithSets | None = None
    """Of a value, what fills its table."""
    shape: int = 0
    """The number of the signature: to compare numbers is quicker."""


class CostFunctions:
    """All cost functions of `problem`; variable k is op k, or value k - len(ops) if that has sets of its own.

    `domains` has the number of states of each variable and 1 for what is none. Values whose table would have more
    than `direct` entries get sets, with `tails` where uses are shared. `limits` has the number of sets that are told
    apart, by value, where it is not demand_sets.SETS.
    """

    def __init__(
        self,
        problem: Problem,
        direct: int = DIRECT,
        *,
        tails: bool = True,
        limits: Mapping[int, int] | None = None,
    ):
        self.problem = problem
        self.limits = limits or {}
        self.shift = len(problem.ops)
        self.domains = [len(op.choices) for op in problem.ops] + [1] * len(problem.values)
        self.functions: list[CostFunction] = []
        self.demand_sets: dict[int, DemandSets] = {}
        """The values that have sets."""
        self.next_direct: int | None = None
        """The least `direct` with which fewer values have sets of their own accord; None where none does."""
        self._trees_of: dict[tuple[int, int, _Formats, int, _Formats], Table] = {}
        """By reorders, weight, formats wanted, how many at once, and those made, the trees of a value, while there is
        room."""
        self._chains_of: dict[tuple[int, int], Sequence[Sequence[int]]] = {}
        """By reorders and weight, what `_chains` gives."""
        self._direct: dict[int, bool] = {}
        """By reorders, what `_is_direct` gives."""
        numbers: dict[Matrix, int] = {}
        numbered = {id(value.reorder): value.reorder for value in problem.values}
        self._matrix_of = {
            own: numbers.setdefault(reorder, len(numbers)) for own, reorder in numbered.items()
        }
        """By identity of the reorders of a value, the number of those that are equal to them."""
        self._room = TREES
        # Few signatures, many cost functions: equal ones are kept once.
        self._signatures: dict[tuple[Any, ...], tuple[tuple[Any, ...], int]] = {}
        """Each with its number."""
        for number, op in enumerate(problem.ops):
            scope = (number,) if len(op.choices) > 1 else ()
            self._add("op", number, scope, ("op", len(op.choices)))
        self._columns: list[_Columns] = []
        known: dict[int, _Columns] = {}
        for op in problem.ops:
            columns = known.get(id(op.choices))
            if columns is None:
                columns = known[id(op.choices)] = _columns(op.choices)
            self._columns.append(columns)
        self._add_values(direct, tails)

    def _add(
        self,
        kind: Kind,
        number: int,
        scope: Scope,
        signature: tuple[Any, ...],
        *,
        op: int = 0,
        formats: _Value | _ValueWithSets | None = None,
    ) -> None:
        known = self._signatures.get(signature)
        if known is None:
            known = self._signatures[signature] = signature, len(self._signatures)
        self.functions.append(CostFunction(kind, number, scope, known[0], op, formats, known[1]))

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
        columns = self._columns
        return tuple([columns[user][0][k] for user, k in uses])

    def _made(self, maker: tuple[int, int]) -> _Formats:
        return self._columns[maker[0]][1][maker[1]]

    def _add_direct(
        self,
        number: int,
        maker: tuple[int, int],
        uses: list[tuple[int, int]],
        asked: tuple[_Formats, tuple[_Formats, ...]],
        direct: int,
    ) -> bool:
        """Adds the cost of a value as a table over ops and returns True, unless that table would be large."""
        wanted, used = asked
        domains = self.domains
        around = sorted({maker[0], *[user for user, _ in uses]})
        scope = tuple([op for op in around if domains[op] > 1])
        sizes = tuple([domains[op] for op in scope])
        size = prod(sizes)
        formats = len(self.problem.values[number].reorder)
        sets = count_sets(len(wanted), len(uses))
        has_many_trees = len(wanted) > NARROW and sets * formats > TREES
        # Where the sets are no fewer than the entries, a variable could only make it worse.
        is_large = size > direct and sets * max(sizes) < size
        if has_many_trees or is_large or (len(wanted) > NARROW and size > max(direct, DIRECT)):
            if not has_many_trees:
                self.next_direct = min(size, self.next_direct or size)
            return False
        axis = {op: k for k, op in enumerate(scope)}
        axes = tuple([axis.get(user, -1) for user, _ in uses])
        signature = ("value", formats, len(wanted), sizes, axis.get(maker[0], -1), axes)
        self._add("value", number, scope, signature, formats=_Value(number, self._made(maker), used, wanted))
        return True

    def _add_wide(
        self, wide: list[int], makers: list[tuple[int, int]], users: list[list[tuple[int, int]]], tails: bool
    ) -> None:
        """Adds the costs of the values that get a variable: `wide`, and those that are tails of such."""
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
        self.demand_sets = find_demand_sets(wide, asked, tails=tails, limits=self.limits)
        own = set(self.demand_sets) - set(wide)
        if own:
            self.functions = [f for f in self.functions if f.kind != "value" or f.number not in own]
        for number, sets in self.demand_sets.items():
            self.domains[self.shift + number] = sets.states
        for number, sets in self.demand_sets.items():
            self._add_sets(number, sets, makers[number])

    def _add_sets(self, number: int, sets: DemandSets, maker: tuple[int, int]) -> None:
        shift, domains = self.shift, self.domains
        variable = shift + number
        alone: Scope = (variable,) if domains[variable] > 1 else ()
        made = self._made(maker)
        scope = (maker[0], *alone) if domains[maker[0]] > 1 else alone
        sizes = tuple([domains[v] for v in scope])
        formats = len(self.problem.values[number].reorder)
        signature = ("wide", formats, len(sets.wanted), sets.most, sets.more, sizes)
        self._add("value", number, scope, signature, formats=_ValueWithSets(number, made, sets))
        for op, columns in sets.direct:
            own = (op, *alone) if domains[op] > 1 else alone
            signature = ("link", columns, len(sets.wanted), sets.most, sets.more)
            self._add("link", number, own, signature, op=op)
        if sets.tail is not None:
            tail = shift + sets.tail
            inner = self.demand_sets[sets.tail]
            first = (tail, variable) if tail < variable else (variable, tail)
            sizes = (len(inner.wanted), inner.most, len(sets.wanted), sets.most)
            scope = tuple([v for v in first if domains[v] > 1])
            self._add("tail", number, scope, ("tail", sizes, tail < variable))

    def states_of(self, choices: Sequence[int]) -> list[int]:
        """The state of every variable where op o takes choices[o]: each set has the formats asked for and no others."""
        states = [*choices, *([0] * len(self.problem.values))]
        users = self.problem.uses() if self.demand_sets else []
        for number, sets in self.demand_sets.items():
            place = {f: k for k, f in enumerate(sets.wanted)}
            asked = {place[self.problem.ops[user].choices[choices[user]].ins[k]] for user, k in users[number]}
            states[self.shift + number] = sets.state(frozenset(asked))
        return states

    def content(self, number: int) -> tuple[object, ...]:
        """What the table of a cost function follows from, besides its signature: equal for equal tables, and mostly
        different for others."""
        function = self.functions[number]
        if function.kind == "op":
            op = self.problem.ops[function.number]
            return id(op.choices), op.weight
        formats = function.formats
        if formats is None:
            return ()
        value = self.problem.values[function.number]
        costs = self._matrix_of[id(value.reorder)], value.weight
        # One object stands for all equal columns of ops that share their choices.
        if isinstance(formats, _Value):
            return *costs, id(formats.made), id(formats.used)
        return *costs, id(formats.made), formats.sets.wanted

    def tables(self, numbers: Sequence[int]) -> Table:
        """The tables of cost functions of one signature, stacked: [function, one axis per variable of the scope]."""
        first = self.functions[numbers[0]]
        kind = first.signature[0]
        if kind == "op":
            ops = [self.problem.ops[self.functions[k].number] for k in numbers]
            costs = np.array([[c.cost for c in op.choices] for op in ops], np.int64)
            costs = _weighted(costs, [op.weight for op in ops])
            return costs if first.scope else costs.reshape(len(ops))
        if kind == "value":
            values = [f for k in numbers if isinstance(f := self.functions[k].formats, _Value)]
            return self._value_tables(values, first.signature)
        if kind == "wide":
            wide = [f for k in numbers if isinstance(f := self.functions[k].formats, _ValueWithSets)]
            return self._wide_value_tables(wide, first.signature)
        own = _unfit(first.signature).reshape([self.domains[v] for v in first.scope])
        return np.broadcast_to(own, (len(numbers), *own.shape))

    def entries(self, number: int) -> Sequence[int]:
        """The table of one cost function, its entries with the last variable fastest: what `tables` has as an array, in
        less time where they are few."""
        function = self.functions[number]
        if function.kind == "op":
            op = self.problem.ops[function.number]
            return [min(op.weight * choice.cost, FORBIDDEN) for choice in op.choices]
        value = function.formats
        if isinstance(value, _Value):
            if _is_of_chains(function.signature):
                return self._entries_of_one_use(value, function.signature)
            if len(value.wanted) <= FEW or self._is_direct(value.number):
                return self._entries_of_uses(value, function.signature)
        return self.tables([number]).ravel().tolist()

    def _entries_of_one_use(self, value: _Value, signature: tuple[Any, ...]) -> Sequence[int]:
        chains = self._chains(value.number)
        rows = [chains[f] for f in value.made]
        asked = [value.wanted[place] for place in value.used[0]]
        if signature[4] < signature[5][0]:
            return [row[f] for row in rows for f in asked]
        return [row[f] for f in asked for row in rows]

    def _entries_of_uses(self, value: _Value, signature: tuple[Any, ...]) -> Sequence[int]:
        sizes: tuple[int, ...] = signature[3]
        groups: list[list[int]] = [[0] * size for size in sizes]
        always = 0
        for axis, places in zip(signature[5], value.used, strict=True):
            if axis < 0:
                always |= 1 << places[0]
            else:
                groups[axis] = [bits | 1 << place for bits, place in zip(groups[axis], places, strict=True)]
        asked = combined([[always], *groups])
        axis: int = signature[4]
        made = value.made * len(asked) if axis < 0 else spread(value.made, (axis,), sizes)
        costs = {pair: self._tree(value, *pair) for pair in {*zip(made, asked, strict=True)}}
        return [costs[pair] for pair in zip(made, asked, strict=True)]

    def _tree(self, value: _Value, made: int, asked: int) -> int:
        """Weight * cost of the tree from format `made` to those of `wanted` whose bits are in `asked`."""
        node = self.problem.values[value.number]
        needed = [f for k, f in enumerate(value.wanted) if asked >> k & 1]
        if self._is_direct(value.number):
            cost = sum([node.reorder[made][f] for f in needed])
        else:
            cost = tree_cost(node.reorder, made, needed)
        return min(node.weight * cost, FORBIDDEN)

    def _value_tables(self, values: list[_Value], signature: tuple[Any, ...]) -> Table:
        sizes: tuple[int, ...] = signature[3]
        axes: tuple[int, ...] = signature[5]
        if _is_of_chains(signature):
            return self._tables_of_one_use(values, sizes, is_maker_first=signature[4] < axes[0])
        n = len(values)
        count = len(values[0].wanted)
        step = max(1, TREES // (count_sets(count, len(axes)) * signature[1]))
        if n > step:
            parts = [values[k : k + step] for k in range(0, n, step)]
            return np.concatenate([self._value_tables(part, signature) for part in parts])
        rows, trees = self._trees([(d.number, d.wanted) for d in values], len(axes), [d.made for d in values])

        def spread(formats: list[_Formats], axis: int) -> NDArray[np.int64]:
            shape = [1] * len(sizes)
            if axis >= 0:
                shape[axis] = sizes[axis]
            return np.array(formats, np.int64).reshape(n, *shape)

        made = spread([d.made for d in values], signature[4])
        used = [spread([d.used[k] for d in values], axis) for k, axis in enumerate(axes)]
        found = trees[rows.reshape([n] + [1] * len(sizes)), set_numbers(used, count), made]
        return np.ascontiguousarray(np.broadcast_to(found, (n, *sizes)))

    def _tables_of_one_use(
        self, values: list[_Value], sizes: tuple[int, ...], *, is_maker_first: bool
    ) -> Table:
        """The tables of values that are used once: most are, and their trees are chains of reorders."""
        tables: list[Table] = []
        for value in values:
            asked = np.array([value.wanted[place] for place in value.used[0]])
            costs = np.array(self._chains(value.number))[np.array(value.made)[:, None], asked]
            tables.append(costs if is_maker_first else costs.T)
        return np.array(tables).reshape(len(values), *sizes)

    def _chains(self, number: int) -> Sequence[Sequence[int]]:
        """[from, to] -> weight * cost of the cheapest chain of reorders of a value."""
        value = self.problem.values[number]
        key = self._matrix_of[id(value.reorder)], value.weight
        found = self._chains_of.get(key)
        if found is None:
            if value.weight == 1 and self._is_direct(number):
                found = value.reorder
            else:
                (chains,) = _weighted(distances(np.array([value.reorder], np.int64)), [value.weight])
                found = chains.tolist()
            self._chains_of[key] = found
        return found

    def _is_direct(self, number: int) -> bool:
        """Whether reorders of a value cost the same wherever they start: all in a tree may start at its root."""
        reorder = self.problem.values[number].reorder
        key = self._matrix_of[id(reorder)]
        if key not in self._direct:
            self._direct[key] = all(
                len({cost for source, cost in enumerate(costs) if source != target}) <= 1
                for target, costs in enumerate(zip(*reorder, strict=True))
            )
        return self._direct[key]

    def _wide_value_tables(self, values: list[_ValueWithSets], signature: tuple[Any, ...]) -> Table:
        n, most, more = len(values), signature[3], signature[4]
        step = max(1, TREES // (values[0].sets.states * signature[1]))
        if n > step:
            parts = [values[k : k + step] for k in range(0, n, step)]
            return np.concatenate([self._wide_value_tables(part, signature) for part in parts])
        rows, trees = self._trees([(v.number, v.sets.wanted) for v in values], most, [v.made for v in values])
        trees = trees[rows]
        if more:
            trees = np.concatenate([trees, self._beyond(values, trees, most)], axis=1)
        made = np.array([v.made for v in values], np.int64)
        tables = np.moveaxis(trees, 1, 2)[np.arange(n)[:, None], made]
        return tables.reshape(n, *signature[5])

    def _beyond(self, values: list[_ValueWithSets], trees: Table, most: int) -> Table:
        """[value, 1, format made] -> a lower bound of the cost of sets of more than `most` formats.

        Besides the format made such a set has at least `most` others, and costs no less than they do.
        """
        largest = members_of(len(values[0].sets.wanted), most)[-comb(len(values[0].sets.wanted), most) :]
        costs = trees[:, -len(largest) :].copy()
        for k, value in enumerate(values):
            for place, fmt in enumerate(value.sets.wanted):
                costs[k, largest[:, place], fmt] = FORBIDDEN
        return costs.min(axis=1, keepdims=True)

    def _trees(
        self, wanted_of: list[tuple[int, _Formats]], most: int, made_in: list[_Formats]
    ) -> tuple[NDArray[np.int64], Table]:
        """The row of each value in a table, which values that are alike share, and that table: [row, set of wanted
        formats in the order of `sets_of`, format made] -> weight * cost of the tree.

        `made_in` has the formats that the values are made in; the trees from others are not those of least cost."""
        values, matrix_of = self.problem.values, self._matrix_of
        roots = tuple(sorted(set[int]().union(*made_in)))
        row: dict[tuple[int, int, _Formats, int, _Formats], int] = {}
        example: list[int] = []
        rows: list[int] = []
        for v, formats in wanted_of:
            value = values[v]
            key = matrix_of[id(value.reorder)], value.weight, formats, most, roots
            place = row.setdefault(key, len(row))
            if place == len(example):
                example.append(v)
            rows.append(place)
        found = self._trees_of
        new = [key for key in row if key not in found]
        if new:
            reorder = np.array([values[example[row[key]]].reorder for key in new], np.int64)
            wanted = np.array([key[2] for key in new], np.int64)
            trees = _weighted(steiner(reorder, wanted, most, roots), [key[1] for key in new])
            found = {**found, **dict(zip(new, trees, strict=True))}
            if trees.size <= self._room:
                self._room -= trees.size
                self._trees_of = found
        tables = [found[key] for key in row]
        return np.array(rows), tables[0][None] if len(tables) == 1 else np.stack(tables)


def _is_of_chains(signature: tuple[Any, ...]) -> bool:
    """Whether a value is used once, and by another op than makes it: its trees are chains, a row of them for each way
    to make it."""
    axes = signature[5]
    return len(axes) == 1 and (axes[0] != signature[4] or axes[0] < 0)


@lru_cache(maxsize=1 << 8)
def _unfit(signature: tuple[Any, ...]) -> Table:
    """The table of a link or tail: FORBIDDEN where a set lacks a format that it must have, else 0."""
    if signature[0] == "link":
        _, columns, wanted, most, more = signature
        members = members_of(wanted, most)
        if more:
            members = np.concatenate([members, np.ones((1, wanted), np.bool_)])
        lacks = np.zeros((len(columns[0]), len(members)), np.bool_)
        for formats in columns:
            lacks |= ~members.T[list(formats)]
    else:
        inner, outer = (members_of(*signature[1][k : k + 2]) for k in (0, 2))
        lacks = inner.astype(np.int32) @ (~outer[:, : inner.shape[1]]).T.astype(np.int32) > 0
        lacks = lacks if signature[2] else lacks.T
    return np.where(lacks, FORBIDDEN, 0).astype(np.int64)


def is_free(reorder: Matrix, weight: int) -> bool:
    """Whether a value costs nothing, whatever formats it is made in and asked for."""
    return not weight or not any(map(any, reorder))


def _weighted(costs: Table, by: Sequence[int]) -> Table:
    """The stacked tables, each times its weight, FORBIDDEN at most."""
    if all(weight == 1 for weight in by):
        return np.minimum(costs, FORBIDDEN)
    weights = np.array(by, np.int64).reshape([-1] + [1] * (costs.ndim - 1))
    return np.where(
        costs > FORBIDDEN // np.maximum(weights, 1), np.where(weights > 0, FORBIDDEN, 0), costs * weights
    )


def _columns(choices: tuple[Choice, ...]) -> tuple[tuple[_Formats, ...], tuple[_Formats, ...]]:
    """Per operand, and per result, its format in every choice."""
    return tuple(zip(*[c.ins for c in choices], strict=True)), tuple(
        zip(*[c.outs for c in choices], strict=True)
    )


def _local(asked: tuple[_Formats, ...]) -> tuple[_Formats, tuple[_Formats, ...]]:
    wanted = tuple(sorted({f for own in asked for f in own}))
    place = {f: k for k, f in enumerate(wanted)}
    return wanted, tuple(tuple(place[f] for f in own) for own in asked)
