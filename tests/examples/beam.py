"""Propagation over nodes of three kinds by a beam: what `examples/three_kinds.py` is compared with.

    python -m tests.examples.beam --graphs 500

draws random graphs and prints how often a beam of 64 and deciding node by node are as good as the optimum, by the
number of values. It fails where one of them is better, the optimum is not proven, or an integer program finds a choice
where none was said to be possible.

The beam visits nodes in program order. A partial choice is the formats of what is still used; equal ones are merged,
the cheaper stays, and of all others the `width` cheapest. Reorders are priced as the solver prices them: every set of
formats that a value is needed in by its cheapest tree, shared by all who use it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Hashable
from dataclasses import dataclass, field

from examples.three_kinds import Alike, AnyIn, Fixed, stated
from layout_ir.errors import LayoutError
from layout_ir.selection import FORBIDDEN, Infeasible, NamedProblem
from layout_ir.selection.solver.selection_problem import tree_cost
from tests.passes.selection.ilp import Stated, least_cost

Node = Alike | Fixed | AnyIn


@dataclass
class Graph:
    """Nodes in an order in which values are made before they are used, and what reorders cost; None: there is none."""

    formats: str
    nodes: list[Node] = field(default_factory=list[Node])
    costs: dict[tuple[str, str, str], int | None] = field(
        default_factory=dict[tuple[str, str, str], int | None]
    )
    _trees: dict[tuple[str, str, frozenset[str]], int] = field(
        default_factory=dict[tuple[str, str, frozenset[str]], int], init=False
    )

    def cost(self, value: str, source: str, target: str) -> int | None:
        """What a reorder of a value costs; None where there is none."""
        return self.costs[value, source, target]

    def problem(self) -> NamedProblem:
        """The selection problem of the graph; reorders may pass any format."""
        problem = stated(self.nodes, self.cost)
        for node in self.nodes:
            for value in node.results:
                problem.add_value(value, formats=self.formats)
        return problem

    def tree(self, value: str, made: str, needed: frozenset[str]) -> int:
        """The cheapest reorders that make all `needed` formats from the one made; FORBIDDEN where there are none."""
        key = value, made, needed
        if key not in self._trees:
            self._trees[key] = self._tree(value, made, needed)
        return self._trees[key]

    def _tree(self, value: str, made: str, needed: frozenset[str]) -> int:
        matrix = tuple(
            tuple(
                0 if f == g else FORBIDDEN if (cost := self.costs[value, f, g]) is None else cost
                for g in self.formats
            )
            for f in self.formats
        )
        return tree_cost(matrix, self.formats.index(made), [self.formats.index(g) for g in needed])

    def least_cost(self) -> int | None:
        """The optimum by an integer program; None where no choice is possible."""
        nodes = [
            ([v for v, f in zip(n.operands, n.options()[0].ins, strict=True) if f is not None], n.results,
             [([f for f in o.ins if f is not None], o.outs, 0) for o in n.options()])
            for n in self.nodes
        ]  # fmt: skip
        states: dict[Hashable, list[Hashable]] = {
            value: list(self.formats) for node in self.nodes for value in node.results
        }

        def reorder(value: Hashable, source: Hashable, target: Hashable) -> int | None:
            return 0 if source == target else self.costs[str(value), str(source), str(target)]

        return least_cost(Stated(nodes, states, reorder))  # pyright: ignore[reportArgumentType]


class _Demands:
    """What single values are needed in so far: each is a number, so that partial choices compare quickly."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._known: list[tuple[str, str, frozenset[str]]] = []
        self._numbers: dict[tuple[str, str, frozenset[str]], int] = {}
        self._with: dict[tuple[int, str], tuple[int, int]] = {}

    def made(self, value: str, fmt: str) -> int:
        """A value that is made in a format, and needed by nobody yet."""
        return self._number((value, fmt, frozenset()))

    def with_format(self, demand: int, fmt: str) -> tuple[int, int]:
        """The demand with one format more, and by how much its cheapest tree costs more."""
        if (demand, fmt) not in self._with:
            value, made, needed = self._known[demand]
            more = needed | {fmt}
            cost = self._graph.tree(value, made, more) - self._graph.tree(value, made, needed)
            self._with[demand, fmt] = self._number((value, made, more)), cost
        return self._with[demand, fmt]

    def _number(self, demand: tuple[str, str, frozenset[str]]) -> int:
        if demand not in self._numbers:
            self._numbers[demand] = len(self._known)
            self._known.append(demand)
        return self._numbers[demand]


def beam(graph: Graph, width: int) -> int | None:
    """The cost of the best choice that a beam of this width keeps; None where it keeps none that is possible."""
    demands = _Demands(graph)
    last = {value: k for k, node in enumerate(graph.nodes) for value in node.operands}
    live: list[str] = []
    kept: dict[tuple[int, ...], int] = {(): 0}
    """The demand of each live value, and the cost so far."""
    for k, node in enumerate(graph.nodes):
        after: dict[tuple[int, ...], int] = {}
        values = [*live, *node.results]
        used = [at for at, value in enumerate(values) if last.get(value, -1) > k]
        options = [
            (
                [
                    (values.index(value), str(fmt))
                    for value, fmt in zip(node.operands, option.ins, strict=True)
                    if fmt is not None
                ],
                [demands.made(value, str(fmt)) for value, fmt in zip(node.results, option.outs, strict=True)],
            )
            for option in node.options()
        ]
        for before, cost in kept.items():
            for asked, made in options:
                now = [*before, *made]
                total = cost
                for at, fmt in asked:
                    now[at], more = demands.with_format(now[at], fmt)
                    total += more
                # The cheapest tree of a dead end is FORBIDDEN.
                if total < FORBIDDEN:
                    left = tuple([now[at] for at in used])
                    after[left] = min(total, after.get(left, total))
        kept = dict(sorted(after.items(), key=lambda entry: entry[1])[:width])
        live = [values[at] for at in used]
    return min(kept.values(), default=None)


def random_graph(rng: random.Random, nodes: int) -> Graph:
    """A graph of so many nodes, each with one result: inputs that are given or free, then nodes of all kinds over
    values from near and far. Half of the results that nobody uses are stored in a given format, and some reorders do
    not exist."""
    graph = Graph("abcdef"[: rng.randint(2, 6)])
    possible = rng.choice([0.7, 0.9, 1.0])
    values: list[str] = []

    def add(kind: type[Node], operands: list[str]) -> None:
        value = f"v{len(values)}"
        values.append(value)
        size = rng.randint(1, 20)
        for f in graph.formats:
            for g in graph.formats:
                if f != g:
                    exists = rng.random() < possible
                    graph.costs[value, f, g] = size * rng.randint(1, 3) if exists else None
        count = rng.randint(2, len(graph.formats)) if kind is Alike else 1
        if kind is Fixed:
            count += len(operands)
        formats = rng.sample(graph.formats, count) if kind is Alike else rng.choices(graph.formats, k=count)
        graph.nodes.append(kind(f"n{len(values) - 1}", operands, [value], formats))

    for _ in range(max(1, nodes // 4)):
        add(rng.choice([Alike, Fixed]), [])
    while len(values) < nodes:
        reach = values[-rng.choice([2, 4, 16]) :]
        count = min(rng.choice([1, 2, 2, 3]), len(reach))
        add(rng.choice([Alike, Alike, Fixed, AnyIn]), rng.sample(reach, count))
    used = {value for node in graph.nodes for value in node.operands}
    for value in values:
        if value not in used and rng.random() < 0.5:
            graph.nodes.append(Fixed(f"store {value}", [value], [], [rng.choice(graph.formats)]))
    return graph


@dataclass(frozen=True)
class Comparison:
    """The costs of one graph; None where nothing possible was found."""

    size: int
    """How many values there are."""
    optimum: int | None
    is_proven: bool
    beam: int | None
    greedy: int | None

    @property
    def best(self) -> int:
        """The optimum of a graph that has one."""
        assert self.optimum is not None
        return self.optimum

    def check(self) -> None:
        """Raises AssertionError where the optimum is none: not proven, or beaten, or not found though there is one."""
        others = [cost for cost in (self.beam, self.greedy) if cost is not None]
        assert self.is_proven, self
        assert not others or (self.optimum is not None and self.optimum <= min(others)), self


def compare(graph: Graph, width: int = 64) -> Comparison:
    """The optimum of a graph beside the beam and deciding node by node."""
    problem = graph.problem()
    size = sum(len(node.results) for node in graph.nodes)
    try:
        solution = problem.solve()
    except Infeasible:
        return Comparison(size, None, True, beam(graph, width), None)
    try:
        greedy = int(problem.solve("greedy").cost)
    except LayoutError:
        greedy = None
    return Comparison(size, int(solution.cost), solution.is_optimal, beam(graph, width), greedy)


SIZES = (6, 12, 25, 50, 100)
"""Values of the graphs, by turns."""


def drawn_graph(seed: int, number: int) -> Graph:
    """Graph number `number` of a seed."""
    return random_graph(random.Random(f"{seed} {number}"), SIZES[number % len(SIZES)])


def main() -> None:
    """Compares and prints a table."""
    parser = argparse.ArgumentParser(
        description="Compare the optimum with a beam and with deciding greedily."
    )
    parser.add_argument("--graphs", type=int, default=500, metavar="N")
    parser.add_argument("--width", type=int, default=64, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    args = parser.parse_args()
    found: dict[str, list[Comparison]] = {str(size): [] for size in SIZES}
    for number in range(args.graphs):
        graph = drawn_graph(args.seed, number)
        one = compare(graph, args.width)
        one.check()
        assert one.optimum is not None or graph.least_cost() is None, f"graph {number} is possible"
        found[str(one.size)].append(one)
    found["all"] = [one for of_size in found.values() for one in of_size]
    print("values  graphs  impossible  proven " + "".join(f" | {n:>6}:" + HEADS for n in ("beam", "greedy")))
    for name, graphs in found.items():
        possible = [one for one in graphs if one.optimum is not None]
        proven = sum(one.is_proven for one in possible)
        print(
            f"{name:>6}  {len(graphs):>6}  {len(graphs) - len(possible):>10}  {proven:>6} "
            + _counts([(one.beam, one.best) for one in possible])
            + _counts([(one.greedy, one.best) for one in possible])
        )


HEADS = " best  worse  extra  none"


def _counts(costs: list[tuple[int | None, int]]) -> str:
    """How often a cost is the best one, how often it is more, by how much in all, and how often there is none."""
    there = [(cost, best) for cost, best in costs if cost is not None]
    equal = sum(cost == best for cost, best in there)
    extra = sum(cost for cost, _ in there) / max(1, sum(best for _, best in there)) - 1
    return f" | {equal:>12}  {len(there) - equal:>5}  {extra:>5.1%}  {len(costs) - len(there):>4}"


if __name__ == "__main__":
    main()
