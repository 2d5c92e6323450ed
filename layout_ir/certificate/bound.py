"""A lower bound of the sum of all cost functions.

Every cost function (an entry of `factors`) belongs to exactly one cluster, a set of variables that contains its own. A
message is a table of any integers over variables that two clusters share; it is taken from one and added to the other.
Whatever the messages are, the clusters still add up to the cost functions, at every assignment; so

    cost of any choice  >=  sum over clusters of the least entry of (its functions + messages in - messages out).

Variable elimination gives messages for which this is an equality: one cluster per eliminated variable, whose message
is the least cost over that variable. Tables of a core that cannot be eliminated are clusters of their own; costs
are shifted between them and the clusters of their single variables, which is duality of the linear relaxation.

**Search.** `proofs` bound a part of the clusters by cases. A node adds messages to its ancestors'; `drop` lists
(variable, state) one after the other, each bounded with that state alone and then left out; `then` goes on with what
is left, `split` names a variable and has a node per state left, and a node with neither is bounded by the sum of
minima. Each assignment falls into a dropped state or into a leaf, so the least of these bounds holds for all.

All cost functions are multiplied by `scale`, and the sum is divided by it and rounded up, costs being integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from layout_ir.certificate.stated_cost_functions import StatedCostFunctions
from layout_ir.certificate.stated_problem import index
from layout_ir.certificate.tables import Live, Table, Tables
from layout_ir.errors import LayoutError

Message = tuple[int, int, list[int], list[int]]
"""From a cluster, to a cluster, over these variables, this table."""


class Clusters:
    """The tables of all clusters, messages included. Raises LayoutError where a cost function is in none or in two."""

    def __init__(
        self, functions: StatedCostFunctions, scale: int, given: list[dict[str, Any]], messages: list[Message]
    ):
        if scale < 1:
            raise LayoutError(f"scale is {scale}, at least 1 is needed")
        self._size = functions.size
        self._budget = functions.problem.budget
        self._tables = Tables(functions.size, self._budget)
        self._scale = scale
        self._scopes: list[list[int]] = []
        self._parts: list[list[Table]] = []
        """Per cluster, the tables that add up to it."""
        missing = functions.names()
        for cluster in given:
            scope: list[int] = cluster["scope"]
            if len(set(scope)) != len(scope) or any(x < 0 for x in scope):
                raise LayoutError(f"{scope} is not a set of variables")
            self._scopes.append(scope)
            self._parts.append([])
            for kind, number, op in cluster["factors"]:
                if (kind, number, op) not in missing:
                    raise LayoutError(f"factor {kind} {number} {op} does not exist, or is in two clusters")
                missing.remove((kind, number, op))
                own, costs = functions.table((kind, number, op))
                entries = costs if scale == 1 else [scale * cost for cost in costs]
                self._parts[-1].append(self._part(len(self._parts) - 1, own, entries))
        if missing:
            raise LayoutError(f"factor {' '.join(map(str, min(missing)))} is in no cluster")
        for source, target, own, entries in messages:
            for c in (source, target):
                if not 0 <= c < len(self._parts):
                    raise LayoutError(f"cluster {c} does not exist")
            self._parts[source].append(self._part(source, own, entries).negated)
            self._parts[target].append(self._part(target, own, entries))

    def bound(self, proofs: list[dict[str, Any]]) -> int:
        """The bound of the sum of all cost functions: by cases where a proof says so, else by the least entries."""
        bound = 0
        proven: set[int] = set()
        for proof in proofs:
            own: list[int] = proof["clusters"]
            if proven & {index(self._scopes, c) for c in own} or len(set(own)) != len(own):
                raise LayoutError("a cluster is in two proofs")
            proven.update(own)
            live: Live = {x: range(self._size(x)) for c in own for x in self._scopes[c]}
            tables = {c: self._tables.sum(self._parts[c], self._scopes[c]) for c in own}
            bound += self._prove(proof["root"], tables, live)
        bound += sum(self._tables.least(parts) for c, parts in enumerate(self._parts) if c not in proven)
        return -(-bound // self._scale)

    def _part(self, c: int, own: Sequence[int], entries: list[int]) -> Table:
        """A table over variables that cluster c has."""
        if not set(own) <= set(self._scopes[c]) or len(set(own)) != len(own):
            raise LayoutError(
                f"a table over variables {list(own)} does not belong in a cluster over {self._scopes[c]}"
            )
        if len(entries) != self._tables.count(own, "a message"):
            raise LayoutError(f"a table over variables {list(own)} has {len(entries)} entries")
        return Table(tuple(own), entries)

    def _moved(self, tables: Mapping[int, Table], messages: list[Message], live: Live) -> dict[int, Table]:
        """Tables over the live states, with messages, which are over all states, among them."""
        moved, over = dict(tables), self._tables_over(live)
        for source, target, own, entries in messages:
            for c in (source, target):
                if c not in moved:
                    raise LayoutError(f"cluster {c} is not part of this proof")
            part, _ = self._part(source, own, entries), self._part(target, own, entries)
            if any(len(live[x]) < self._size(x) for x in own):
                places = self._tables.places(own, own, live)
                part = Table(part.scope, [entries[place] for place in places])
            moved[source] = over.plus(moved[source], part.negated)
            moved[target] = over.plus(moved[target], part)
        return moved

    def _tables_over(self, live: Live) -> Tables:
        return Tables(lambda x: len(live[x]), self._budget)

    def _prove(self, node: Any, given: Mapping[int, Table], given_live: Live) -> int:
        """The bound of the sum of tables, which are over the live states."""
        self._budget.spend(len(given) + len(given_live), "a step of a proof")
        live = dict(given_live)
        tables, over = self._moved(given, node["messages"], live), self._tables_over(live)
        for c in tables:
            over.count(tables[c].scope, "the least entry")
        least = {c: min(table.entries) for c, table in tables.items()}
        total = sum(least.values())
        worst: list[int] = []
        for x, dropped in groupby(node.get("drop", ()), lambda pair: pair[0]):
            self._budget.spend(len(tables), "a state dropped in a proof")
            around = [c for c in tables if x in self._scopes[c]]
            rest = total - sum(least[c] for c in around)
            by_state = [dict(zip(live[x], over.least_by_state(tables[c], x), strict=True)) for c in around]
            left = list(live[x])
            for _, k in dropped:
                if k not in left:
                    raise LayoutError(f"state {k} of variable {x} is not there to be dropped")
                self._budget.spend(len(around) * len(left), "a state dropped in a proof")
                worst.append(rest + sum(own[k] for own in by_state))
                left.remove(k)
            if not left:
                return min(worst)
            kept = [place for place, state in enumerate(live[x]) if state in left]
            for c, own in zip(around, by_state, strict=True):
                tables[c] = over.keeping(tables[c], x, kept)
                least[c] = min(own[state] for state in left)
            live[x] = left
            total = rest + sum(least[c] for c in around)
        if "split" in node:
            x = node["split"]
            if len(node["cases"]) != len(live[x]):
                raise LayoutError(
                    f"a split over variable {x} has {len(node['cases'])} cases for {len(live[x])} states"
                )
            bounds: list[int] = []
            for place, (state, case) in enumerate(zip(live[x], node["cases"], strict=True)):
                own = {c: over.keeping(t, x, [place]) if x in t.scope else t for c, t in tables.items()}
                bounds.append(self._prove(case, own, {**live, x: [state]}))
            total = min(bounds)
        elif "then" in node:
            total = self._prove(node["then"], tables, live)
        return min([total, *worst])
