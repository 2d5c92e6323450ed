"""Two formats: the cheapest choice is a minimum cut, however entangled the program is.

Where every value has at most two formats in use, each operand and result is a bit. A value costs its reorders where
bits differ: with P the bit it is made in, `there` if P = 0 and some user wants 1, `back` if P = 1 and some user
wants 0. An op is a bit of its own that its operands and results follow, or a table over two bits. If those bits can
be named so that all ops follow in the same direction and equal bits are the cheaper half of every table, the cost
is a sum of arcs, `capacity if u = 1 and v = 0`, and its least value a minimum cut; two helpers per value, the
greatest and the least bit of its users, share the reorders. Other ops (three formats, odd combinations) are for the
search.

The maximum flow is the proof: what flows from an op into the arcs of a value is a price per bit that the value can
charge the op, and with these prices no node of the problem alone can do better than its part of the cut.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from layout_ir.selection.solver.format_sets import sets_of
from layout_ir.selection.solver.selection_problem import FORBIDDEN, Problem, tree_cost

SOURCE, SINK = 0, 1
"""The nodes that stand for bit 1 and bit 0."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The choice of each op, and per (op, value) the price that the value charges for each choice of the op."""

    choices: tuple[int, ...]
    prices: dict[tuple[int, int], list[int]]


def solve_by_cut(problem: Problem, deadline: float | None = None) -> Cut | None:
    """The choices of least cost, or None where the problem is not one of two formats that fit together.

    None, too, where the flow is not found until `deadline`, a time of time.monotonic().
    """
    try:
        return _Network(problem, deadline).run()
    except _NotACut:
        return None


def bound_of(problem: Problem, cut: Cut) -> int:
    """What every choice costs at least, at these prices: each op and each value does the best for itself."""
    total = 0
    around: list[dict[int, list[tuple[int, bool]]]] = [{} for _ in problem.values]
    for o, op in enumerate(problem.ops):
        charged = [cut.prices[o, v] for v in {*op.operands, *op.results} if (o, v) in cut.prices]
        total += min(op.weight * c.cost + sum(p[k] for p in charged) for k, c in enumerate(op.choices))
        for k, v in enumerate(op.operands):
            around[v].setdefault(o, []).append((k, True))
        for k, v in enumerate(op.results):
            around[v].setdefault(o, []).append((k, False))
    for v, value in enumerate(problem.values):
        ports = [(problem.ops[o].choices, own, cut.prices.get((o, v))) for o, own in around[v].items()]
        made = sorted({c.outs[k] for choices, own, _ in ports for k, use in own if not use for c in choices})
        wanted = sorted({c.ins[k] for choices, own, _ in ports for k, use in own if use for c in choices})
        least = FORBIDDEN if wanted else 0
        uses = sum(use for _, own, _ in ports for _, use in own)
        for f in made:
            for chosen in sets_of(len(wanted), uses):
                needed = [wanted[place] for place in chosen]
                cost = value.weight * tree_cost(value.reorder, f, needed)
                for choices, own, prices in ports:
                    fitting = [
                        prices[n] if prices else 0
                        for n, c in enumerate(choices)
                        if all(c.ins[k] in needed if use else c.outs[k] == f for k, use in own)
                    ]
                    cost = cost - max(fitting) if fitting else FORBIDDEN
                    if not fitting:
                        break
                least = min(least, cost)
        total += least
    return total


class _NotACut(Exception):
    """The problem is no minimum cut, or there is no time to find one."""


class _Network:
    def __init__(self, problem: Problem, deadline: float | None):
        self.problem = problem
        self.deadline = deadline
        self.heads: list[int] = []
        self.capacity: list[int] = []
        self.flow: list[int] = []
        self.arcs_at: list[list[int]] = [[], []]
        used: list[set[int]] = [set() for _ in problem.values]
        # Per op its operands and results, and their formats in every choice.
        self.values = [op.operands + op.results for op in problem.ops]
        self.vectors = [[c.ins + c.outs for c in op.choices] for op in problem.ops]
        for values, vectors in zip(self.values, self.vectors, strict=True):
            for vector in vectors:
                for value, fmt in zip(values, vector, strict=True):
                    used[value].add(fmt)
        if any(len(formats) > 2 for formats in used):
            raise _NotACut
        self.formats = [sorted(formats) for formats in used]
        self.leader = list(range(len(used)))
        self.odd = [0] * len(used)
        """Whether a value's bits are named the other way round than those of its leader."""
        self.tables = [self._table(o) for o in range(len(problem.ops))]

    def run(self) -> Cut:
        self.nodes: list[list[int]] = []
        """Per op the node of every operand and result."""
        for o, table in enumerate(self.tables):
            self.nodes.append(self._op(o, table))
        inside: list[tuple[int, int]] = []
        uses: list[list[int]] = [[] for _ in self.problem.values]
        maker = [SOURCE] * len(self.problem.values)
        for op, nodes in zip(self.problem.ops, self.nodes, strict=True):
            for value, node in zip(op.operands, nodes[: len(op.operands)], strict=True):
                uses[value].append(node)
            for value, node in zip(op.results, nodes[len(op.operands) :], strict=True):
                maker[value] = node
        for v, users in enumerate(uses):
            start = len(self.heads)
            self._value(v, maker[v], users)
            inside.append((start, len(self.heads)))
        self._push()
        side = self._reachable()
        choices = tuple(self._choice(o, side) for o in range(len(self.problem.ops)))
        return Cut(choices, self._prices(inside))

    # Naming bits

    def _find(self, v: int) -> tuple[int, int]:
        path: list[int] = []
        while self.leader[v] != v:
            path.append(v)
            v = self.leader[v]
        parity = 0
        for w in reversed(path):
            parity ^= self.odd[w]
            self.leader[w], self.odd[w] = v, parity
        return v, parity

    def _join(self, v: int, w: int, differ: int) -> None:
        (a, p), (b, q) = self._find(v), self._find(w)
        if a != b:
            self.leader[b], self.odd[b] = a, p ^ q ^ differ
        elif p ^ q != differ:
            raise _NotACut

    def _bit(self, v: int, fmt: int) -> int:
        return int(fmt != self.formats[v][0]) ^ self._find(v)[1]

    def _table(self, o: int) -> dict[tuple[int, ...], int]:
        """The costs of op o by formats, after its values have been named to suit it."""
        op, values = self.problem.ops[o], self.values[o]
        table: dict[tuple[int, ...], int] = {}
        for vector, choice in zip(self.vectors[o], op.choices, strict=True):
            cost = min(op.weight * choice.cost, FORBIDDEN)
            table[vector] = min(table.get(vector, FORBIDDEN), cost)
        if len(table) == 2:
            one, two = table
            rise = [(v, int(a > b)) for v, a, b in zip(values, one, two, strict=True) if a != b]
            for v, direction in rise[1:]:
                self._join(rise[0][0], v, direction ^ rise[0][1])
        elif len(table) > 2:
            if len(values) != 2:
                raise _NotACut
            (a, b), (c, d) = self.formats[values[0]], self.formats[values[1]]
            cost = [table.get(key, FORBIDDEN) for key in ((a, d), (b, c), (a, c), (b, d))]
            excess = cost[0] + cost[1] - cost[2] - cost[3]
            if excess:
                self._join(*values, int(excess < 0))
        return table

    # The network

    def _arc(self, u: int, v: int, capacity: int) -> None:
        """`capacity` is paid where u is 1 and v is 0."""
        if capacity > 0 and u != v:
            self.arcs_at[u].append(len(self.heads))
            self.arcs_at[v].append(len(self.heads) + 1)
            self.heads += [v, u]
            self.capacity += [capacity, 0]

    def _node(self) -> int:
        self.arcs_at.append([])
        return len(self.arcs_at) - 1

    def _unary(self, node: int, zero: int, one: int) -> None:
        self._arc(SOURCE, node, zero - min(zero, one))
        self._arc(node, SINK, one - min(zero, one))

    def _op(self, o: int, table: dict[tuple[int, ...], int]) -> list[int]:
        values = self.values[o]
        bits = {
            tuple([self._bit(v, f) for v, f in zip(values, vector, strict=True)]): cost
            for vector, cost in table.items()
        }
        if len(bits) > 2:
            first, second = self._node(), self._node()
            c00, c01, c10, c11 = (bits.get(k, FORBIDDEN) for k in ((0, 0), (0, 1), (1, 0), (1, 1)))
            self._unary(first, 0, c10 - c00)
            self._unary(second, 0, c11 - c10)
            self._arc(second, first, c01 + c10 - c00 - c11)
            return [first, second]
        low, *high = sorted(bits)
        if not high:
            return [SOURCE if bit else SINK for bit in low]
        own = self._node()
        self._unary(own, bits[low], bits[high[0]])
        return [own if a != b else SOURCE if a else SINK for a, b in zip(low, high[0], strict=True)]

    def _value(self, v: int, maker: int, users: list[int]) -> None:
        formats, value = self.formats[v], self.problem.values[v]
        if len(formats) < 2 or not users:
            return
        zero, one = formats if self._bit(v, formats[0]) == 0 else formats[::-1]
        there, back = (
            min(value.weight * tree_cost(value.reorder, a, [b]), FORBIDDEN)
            for a, b in ((zero, one), (one, zero))
        )
        users = sorted(set(users))
        greatest = least = users[0]
        if len(users) > 1:
            greatest, least = self._node(), self._node()
            for user in users:
                self._arc(user, greatest, FORBIDDEN)
                self._arc(least, user, FORBIDDEN)
        self._arc(greatest, maker, there)
        self._arc(maker, least, back)

    # The flow

    def _push(self) -> None:
        """Dinic: shortest paths by breadth first search, blocking flows by depth first search."""
        self.flow = list(self.capacity)
        while True:
            level = self._levels()
            if level[SINK] < 0:
                return
            turn = [0] * len(self.arcs_at)
            path: list[int] = []
            node = SOURCE
            while True:
                if node == SINK:
                    if self.deadline is not None and time.monotonic() >= self.deadline:
                        raise _NotACut
                    push = min(self.flow[arc] for arc in path)
                    for arc in path:
                        self.flow[arc] -= push
                        self.flow[arc ^ 1] += push
                    # Back to the first arc that is full.
                    place = next(k for k, arc in enumerate(path) if not self.flow[arc])
                    node = self.heads[path[place] ^ 1]
                    del path[place:]
                    continue
                arcs = self.arcs_at[node]
                while turn[node] < len(arcs):
                    arc = arcs[turn[node]]
                    if self.flow[arc] > 0 and level[self.heads[arc]] == level[node] + 1:
                        break
                    turn[node] += 1
                else:
                    if not path:
                        break
                    arc = path.pop()
                    node = self.heads[arc ^ 1]
                    turn[node] += 1
                    continue
                path.append(arc)
                node = self.heads[arc]

    def _levels(self) -> list[int]:
        level = [-1] * len(self.arcs_at)
        level[SOURCE] = 0
        queue = [SOURCE]
        for node in queue:
            for arc in self.arcs_at[node]:
                head = self.heads[arc]
                if self.flow[arc] > 0 and level[head] < 0:
                    level[head] = level[node] + 1
                    queue.append(head)
        return level

    def _reachable(self) -> list[int]:
        """The bit of every node on the cheapest cut."""
        return [int(level >= 0) for level in self._levels()]

    def _choice(self, o: int, side: Sequence[int]) -> int:
        wanted = [side[node] for node in self.nodes[o]]
        fitting = [
            (choice.cost, k)
            for k, (choice, vector) in enumerate(
                zip(self.problem.ops[o].choices, self.vectors[o], strict=True)
            )
            if [self._bit(v, f) for v, f in zip(self.values[o], vector, strict=True)] == wanted
        ]
        # None fits where some forbidden arc had to be cut; then everything costs too much.
        return min(fitting)[1] if fitting else 0

    def _prices(self, inside: list[tuple[int, int]]) -> dict[tuple[int, int], list[int]]:
        prices: dict[tuple[int, int], list[int]] = {}
        leaving: list[dict[int, int]] = []
        for start, end in inside:
            out: dict[int, int] = {}
            for arc in range(start, end, 2):
                moved = self.capacity[arc] - self.flow[arc]
                tail, head = self.heads[arc + 1], self.heads[arc]
                out[tail] = out.get(tail, 0) + moved
                out[head] = out.get(head, 0) - moved
            leaving.append(out)
        for o, (values, nodes) in enumerate(zip(self.values, self.nodes, strict=True)):
            if len(self.vectors[o]) == 1:
                continue
            for v in sorted(set(values)):
                own = {node: k for k, node in enumerate(nodes) if values[k] == v and node > SINK}
                prices[o, v] = [
                    sum(leaving[v].get(node, 0) * self._bit(v, vector[k]) for node, k in own.items())
                    for vector in self.vectors[o]
                ]
        return prices
