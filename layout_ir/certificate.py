"""Checking that a selection of layouts is the cheapest there is, without trusting what found it.

A certificate carries the problem (options of every op, reorder costs of every value), the choice made, and numbers
that prove a lower bound of *every* choice. Checking needs no solver: integers are added up and compared.

**What a choice costs.** Op o costs its weight times the cost of the option it takes. Value v costs its weight times
the cheapest set of reorders that leads from the format its maker gives it to all formats its users want.

**Factors.** That sum is split into factors over variables. The variable of an op says which option it takes. A value
listed under `sets` has a variable too, which says what reorders may make of it: a set of formats. The factors are: the
cost of each op; of each value without a variable, its cost as a function of the options of the ops around it; of each
value with one, its cost as a function of its maker's option and its set. For every op that uses such a value there is
a link, which is FAR above any cost where the set lacks what the op's option needs, and 0 elsewhere. Users that two
such values share may be left to one of them, the tail of the other: then the other has no links to those, but a
factor that is FAR where its set lacks a format of the tail's set. That one's formats are listed in the same order, and
it is checked that what each of those users needs of the tail it needs of the other, by these lists. Values whose
reorders cost nothing have no factor. For every choice there is an assignment of all variables at which the factors
add up to the cost of the choice: each set is what the choice needs.

**The bound.** Every factor belongs to exactly one cluster, a set of variables that contains the factor's. A message
is a table of any integers over variables that two clusters share; it is taken from one and added to the other.
Whatever the messages are, the clusters still add up to the factors, at every assignment; so

    cost of any choice  >=  sum over clusters of the least entry of (its factors + messages in - messages out).

Variable elimination gives messages for which this is an equality: one cluster per eliminated variable, whose message
is the least cost over that variable. Tables of a core that cannot be eliminated are clusters of their own; each
trades with the clusters of its single variables, which is duality of the linear relaxation.

**Search.** `proofs` bound a part of the clusters by cases. A node adds messages to its ancestors'; `drop` lists
(variable, state) one after the other, each bounded with that state alone and then left out; `then` goes on with what
is left, `split` names a variable and has a node per state left, and a node with neither is bounded by the sum of
minima. Each assignment falls into a dropped state or into a leaf, so the least of these bounds holds for all.

All factors are multiplied by `scale`, and the sum is divided by it and rounded up, costs being integers.

`seal` is a digest of everything else: it tells an altered certificate from one that is merely of another problem.
It proves nothing, and nothing above relies on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

from layout_ir.errors import LayoutError

ATTRIBUTE = "layout.certificate"
"""The attribute in which a module carries its certificate, as text."""

FORMAT = "layout-ir selection certificate 2"

FAR = 1 << 100

_Live = Mapping[int, Sequence[int]]
_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was recomputed: the cost of the choice, and the bound of all choices."""

    cost: int
    bound: int

    @property
    def is_optimal(self) -> bool:
        return self.cost == self.bound


def seal(certificate: Mapping[str, Any]) -> str:
    """The digest of a certificate, its own entry `seal` left out."""
    rest = {key: value for key, value in certificate.items() if key != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def recompute(certificate: Any) -> Verdict:
    """The cost of the choice and the bound that the messages prove, whatever the certificate states.

    Raises LayoutError where it is malformed.
    """
    try:
        return _Checker(certificate).run()
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, LayoutError):
            raise
        raise LayoutError(f"malformed certificate: {type(error).__name__}: {error}") from error


def verify(certificate: Any) -> Verdict:
    """Recomputes cost and bound. Raises LayoutError where the certificate is malformed or states other numbers."""
    verdict = recompute(certificate)
    for name, found in (("cost", verdict.cost), ("bound", verdict.bound)):
        if certificate[name] != found:
            raise LayoutError(f"the certificate states {name} {certificate[name]}, its numbers give {found}")
    if certificate["seal"] != seal(certificate):
        raise LayoutError(
            f"the certificate was altered: its seal is {certificate['seal']}, its content has {seal(certificate)}"
        )
    return verdict


class _Checker:
    def __init__(self, certificate: Any):
        if not isinstance(certificate, dict) or cast(_Json, certificate).get("format") != FORMAT:
            raise LayoutError(f"not a certificate: 'format' is not '{FORMAT}'")
        self.given = cast(_Json, certificate)
        for key, value in self.given.items():
            if key not in ("format", "seal"):
                _only_integers(value)
        self.ops: list[_Json] = self.given["problem"]["ops"]
        self.values: list[_Json] = self.given["problem"]["values"]
        self.scale: int = self.given["scale"]
        if self.scale < 1:
            raise LayoutError(f"scale is {self.scale}, at least 1 is needed")
        self.scopes: list[list[int]] = []
        self.tables: dict[int, list[int]] = {}
        self.maker: list[int] = [-1] * len(self.values)
        # Per value and op: the numbers of its operands and results that are this value.
        self.uses: list[dict[int, list[int]]] = [{} for _ in self.values]
        for o, op in enumerate(self.ops):
            for value in op["results"]:
                if _at(self.maker, value) != -1:
                    raise LayoutError(f"value {value} is made twice, by op {self.maker[value]} and by op {o}")
                self.maker[value] = o
            for k, value in enumerate(op["operands"]):
                _at(self.uses, value).setdefault(o, []).append(k)
            for ins, outs, _ in op["choices"]:
                if len(ins) != len(op["operands"]) or len(outs) != len(op["results"]):
                    raise LayoutError(f"op {o} has an option that is not of its operands and results")
        if -1 in self.maker:
            raise LayoutError(f"value {self.maker.index(-1)} has no maker")
        self.made: list[int] = [self.ops[o]["results"].index(v) for v, o in enumerate(self.maker)]
        self.trees: dict[Any, int] = {}
        self.distances: dict[Any, list[list[int]]] = {}
        self.keys: list[tuple[tuple[int, ...], ...]] = [
            tuple(tuple(row) for row in value["reorder"]) for value in self.values
        ]
        for v, key in enumerate(self.keys):
            if any(len(row) != len(key) for row in key):
                raise LayoutError(f"the reorder costs of value {v} are not a square")
        for op in self.ops:
            touched: list[int] = [*op["operands"], *op["results"]]
            for ins, outs, _ in op["choices"]:
                formats: list[int] = [*ins, *outs]
                for f, value in zip(formats, touched, strict=True):
                    _index(self.keys[value], f)
        self.wanted: dict[int, list[int]] = {}
        self.tail: dict[int, int] = {}
        self.sets: dict[int, list[tuple[int, ...]]] = {}
        """Per value with a variable, its sets, as places in its list of formats."""
        for v, tail, wanted in self.given["sets"]:
            self._enter_sets(v, tail, wanted)

    def run(self) -> Verdict:
        cost = self._cost(self.given["choices"])
        self._clusters()
        bound = 0
        proven: set[int] = set()
        for proof in self.given["proofs"]:
            own: list[int] = proof["clusters"]
            if proven & {_index(self.scopes, c) for c in own} or len(set(own)) != len(own):
                raise LayoutError("a cluster is in two proofs")
            proven.update(own)
            live: dict[int, Sequence[int]] = {x: range(self._size(x)) for c in own for x in self.scopes[c]}
            bound += self._prove(proof["root"], {c: self.tables[c] for c in own}, live)
        bound += sum(min(table) for c, table in self.tables.items() if c not in proven)
        return Verdict(cost, -(-bound // self.scale))

    def _cost(self, choices: list[int]) -> int:
        if len(choices) != len(self.ops):
            raise LayoutError(f"{len(choices)} choices for {len(self.ops)} ops")
        total = sum(op["weight"] * _at(op["choices"], k)[2] for op, k in zip(self.ops, choices, strict=True))
        for v in range(len(self.values)):
            total += self._value(v, choices.__getitem__)
        return total

    def _value(self, v: int, chosen: Any) -> int:
        """The cost of value v where op o takes option chosen(o)."""
        maker = self.maker[v]
        made = self.ops[maker]["choices"][chosen(maker)][1][self.made[v]]
        needed = {
            self.ops[o]["choices"][chosen(o)][0][k] for o, operands in self.uses[v].items() for k in operands
        }
        return self.values[v]["weight"] * self._tree(v, made, frozenset(needed))

    def _tree(self, v: int, root: int, needed: frozenset[int]) -> int:
        """The cheapest reorders that make all `needed` formats from `root`: they meet at one format, and split."""
        needed -= {root}
        if not needed:
            return 0
        key = self.keys[v], root, needed
        if key not in self.trees:
            near = self._distance(self.keys[v])
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
                            near[root][m] + self._tree(v, m, left) + self._tree(v, m, needed - left)
                            for m in formats
                            if m not in needed
                        ),
                        FAR,
                    )
            for m in needed if others else ():
                best = min(best, near[root][m] + self._tree(v, m, needed - {m}))
            self.trees[key] = best
        return self.trees[key]

    def _distance(self, reorder: Any) -> list[list[int]]:
        if reorder not in self.distances:
            near = [list(row) for row in reorder]
            for m in range(len(near)):
                for f in range(len(near)):
                    for g in range(len(near)):
                        near[f][g] = min(near[f][g], near[f][m] + near[m][g])
            if any(near[f][f] != 0 or min(near[f]) < 0 for f in range(len(near))):
                raise LayoutError("a reorder cost is negative, or not 0 from a format to itself")
            self.distances[reorder] = near
        return self.distances[reorder]

    def _is_free(self, v: int) -> bool:
        return not self.values[v]["weight"] or not any(map(any, self.keys[v]))

    def _enter_sets(self, v: int, tail: int, wanted: list[int]) -> None:
        """Checks that `wanted` are the formats that users of v may need and that `tail`, if any, may stand for some."""
        uses: dict[int, list[int]] = _at(self.uses, v)
        ins: set[int] = {c[0][k] for o, ks in uses.items() for c in self.ops[o]["choices"] for k in ks}
        if v in self.wanted or len(wanted) != len(ins) or set(wanted) != ins:
            raise LayoutError(f"the formats that value {v} may be needed in are not {wanted}")
        if tail != -1:
            inner = self.wanted.get(tail)
            if inner is None or len(inner) > len(wanted):
                raise LayoutError(f"value {tail} stands in no list before value {v}, whose tail it is")
            place = dict(zip(inner, wanted, strict=False))
            for o, ks in self.uses[tail].items():
                for needed, _, _ in self.ops[o]["choices"]:
                    if not {place[needed[k]] for k in ks} <= {needed[k] for k in uses.get(o, [])}:
                        raise LayoutError(f"op {o} does not need of value {v} what it needs of {tail}")
            self.tail[v] = tail
        self.wanted[v] = wanted
        most = min(len(wanted), sum(len(ks) for ks in uses.values()))
        self.sets[v] = [s for n in range(1, most + 1) for s in combinations(range(len(wanted)), n)]

    def _linked(self, v: int) -> list[int]:
        """The ops that have a link to v: those that use it, unless its tail stands for them."""
        inner = self.uses[self.tail[v]] if v in self.tail else {}
        return [o for o in self.uses[v] if o not in inner]

    def _size(self, x: int) -> int:
        """How many states variable x has; value v is variable len(ops) + v."""
        return len(self.ops[x]["choices"]) if x < len(self.ops) else len(self.sets[x - len(self.ops)])

    def _clusters(self) -> None:
        missing: set[tuple[str, int, int]] = {("op", o, 0) for o in range(len(self.ops))}
        for v, uses in enumerate(self.uses):
            if uses and not self._is_free(v):
                missing.add(("value", v, 0))
            if v in self.sets:
                missing |= {("link", v, o) for o in self._linked(v)}
            if v in self.tail:
                missing.add(("tail", v, 0))
        for cluster in self.given["clusters"]:
            scope: list[int] = cluster["scope"]
            if len(set(scope)) != len(scope) or any(x < 0 for x in scope):
                raise LayoutError(f"{scope} is not a set of variables")
            table = [0] * _product(self._size(x) for x in scope)
            for kind, number, op in cluster["factors"]:
                if (kind, number, op) not in missing:
                    raise LayoutError(f"factor {kind} {number} {op} does not exist, or is in two clusters")
                missing.remove((kind, number, op))
                own, costs = self._factor(kind, number, op)
                table = self._plus(scope, table, own, [self.scale * cost for cost in costs])
            self.tables[len(self.scopes)] = table
            self.scopes.append(scope)
        if missing:
            raise LayoutError(f"factor {' '.join(map(str, min(missing)))} is in no cluster")
        self._move(self.tables, self.given["messages"])

    def _factor(self, kind: str, number: int, op: int) -> tuple[list[int], list[int]]:
        """The variables of a factor, those of one state left out, and its table, the last running fastest."""
        if kind == "op":
            own, node = [number], self.ops[number]
            costs = [node["weight"] * cost for _, _, cost in node["choices"]]
        elif kind == "value" and number not in self.sets:
            own = sorted({self.maker[number], *self.uses[number]})
            costs = [self._value(number, at.__getitem__) for at in self._assignments(own)]
        elif kind == "value":
            own, weight = [self.maker[number], len(self.ops) + number], self.values[number]["weight"]
            wanted = self.wanted[number]
            made = [outs[self.made[number]] for _, outs, _ in self.ops[own[0]]["choices"]]
            sets = [frozenset(wanted[k] for k in s) for s in self.sets[number]]
            costs = [weight * self._tree(number, f, needed) for f in made for needed in sets]
        elif kind == "link":
            own, costs = [op, len(self.ops) + number], self._link(number, op)
        else:
            tail = self.tail[number]
            own = [len(self.ops) + tail, len(self.ops) + number]
            costs = [0 if set(i) <= set(s) else FAR for i in self.sets[tail] for s in self.sets[number]]
        return [x for x in own if self._size(x) > 1], costs

    def _link(self, v: int, op: int) -> list[int]:
        wanted, asked = self.wanted[v], self.uses[v][op]
        return [
            0 if {ins[k] for k in asked} <= {wanted[k] for k in s} else FAR
            for ins, _, _ in self.ops[op]["choices"]
            for s in self.sets[v]
        ]

    def _assignments(self, scope: Sequence[int]) -> list[dict[int, int]]:
        found: list[dict[int, int]] = [{}]
        for x in scope:
            found = [{**at, x: k} for at in found for k in range(self._size(x))]
        return found

    def _places(self, scope: Sequence[int], own: Sequence[int], live: _Live | None = None) -> list[int]:
        """For every assignment of `scope`, of live states only, the place of its part in a table over `own`."""
        step: dict[int, int] = {}
        stride = 1
        for x in reversed(own):
            step[x], stride = stride, stride * self._size(x)
        if not step.keys() <= set(scope):
            raise LayoutError(
                f"a table over variables {list(own)} does not belong in a cluster over {list(scope)}"
            )
        places = [0]
        for x in scope:
            states = range(self._size(x)) if live is None else live[x]
            places = [place + step.get(x, 0) * k for place in places for k in states]
        return places

    def _plus(self, scope: list[int], table: list[int], own: list[int], part: list[int]) -> list[int]:
        if len(part) != _product(self._size(x) for x in own):
            raise LayoutError(f"a table over variables {own} has {len(part)} entries")
        return [a + part[k] for a, k in zip(table, self._places(scope, own), strict=True)]

    def _move(
        self, tables: dict[int, list[int]], messages: list[tuple[int, int, list[int], list[int]]]
    ) -> None:
        for source, target, scope, part in messages:
            for c, sign in ((source, -1), (target, 1)):
                if c not in tables:
                    raise LayoutError(f"cluster {c} does not exist, or is not part of this proof")
                tables[c] = self._plus(self.scopes[c], tables[c], scope, [sign * k for k in part])

    def _least(self, c: int, tables: dict[int, list[int]], live: _Live) -> int:
        scope = self.scopes[c]
        if all(len(live[x]) == self._size(x) for x in scope):
            return min(tables[c])
        return min((tables[c][k] for k in self._places(scope, scope, live)), default=FAR)

    def _prove(self, node: Any, tables: dict[int, list[int]], live: dict[int, Sequence[int]]) -> int:
        """The bound of the sum of `tables` over the live states."""
        tables, live = dict(tables), dict(live)
        self._move(tables, node["messages"])
        least = {c: self._least(c, tables, live) for c in tables}
        total = sum(least.values())
        worst: list[int] = []
        for x, k in node.get("drop", ()):
            if k not in live[x]:
                raise LayoutError(f"state {k} of variable {x} is not there to be dropped")
            around = [c for c in tables if x in self.scopes[c]]
            rest = total - sum(least[c] for c in around)
            worst.append(rest + sum(self._least(c, tables, {**live, x: [k]}) for c in around))
            live[x] = [state for state in live[x] if state != k]
            least.update((c, self._least(c, tables, live)) for c in around)
            total = rest + sum(least[c] for c in around)
        if "split" in node:
            x = node["split"]
            if len(node["cases"]) != len(live[x]):
                raise LayoutError(
                    f"a split over variable {x} has {len(node['cases'])} cases for {len(live[x])} states"
                )
            cases = zip(live[x], node["cases"], strict=True)
            total = min(self._prove(case, tables, {**live, x: [k]}) for k, case in cases)
        elif "then" in node:
            total = self._prove(node["then"], tables, live)
        return min([total, *worst])


def _product(sizes: Iterable[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def _index(items: Sequence[Any], k: int) -> int:
    if not 0 <= k < len(items):
        raise LayoutError(f"number {k} is not below {len(items)}")
    return k


def _at(items: Any, k: int) -> Any:
    return items[_index(items, k)]


def _only_integers(node: Any) -> None:
    """Numbers are integers and nothing else: no fractions, no true and false."""
    if isinstance(node, dict):
        for child in cast(_Json, node).values():
            _only_integers(child)
    elif isinstance(node, list):
        for child in cast(list[Any], node):
            _only_integers(child)
    elif type(node) is not int and node not in ("op", "value", "link", "tail"):
        raise LayoutError(f"{node!r} is not an integer")
