"""Layout propagation over nodes of three kinds, at least cost and with a proof.

Where every node is of one of these kinds, a compiler can propagate layouts from node to node and keep the best few
partial choices (a beam). Stated as a selection problem, the same nodes have an optimum, or none at all.

    python examples/three_kinds.py
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from layout_ir.selection import NamedProblem, Option


@dataclass(frozen=True)
class Node:
    """A node with its operands and results, and what they may be in: a subclass says it."""

    name: str
    operands: Sequence[str]
    results: Sequence[str]
    formats: Sequence[Hashable]


class Alike(Node):
    """All operands and results in one format, any of `formats`: elementwise ops; without operands, a free input."""

    def options(self) -> list[Option]:
        return [Option((f,) * len(self.operands), (f,) * len(self.results)) for f in self.formats]


class Fixed(Node):
    """Each operand and result in its own format, `formats` in order: matrix products; inputs and outputs."""

    def options(self) -> list[Option]:
        count = len(self.operands)
        return [Option(tuple(self.formats[:count]), tuple(self.formats[count:]))]


class AnyIn(Node):
    """Operands in whatever format they come, every result in its own: kernels that gather what they read."""

    def options(self) -> list[Option]:
        return [Option((None,) * len(self.operands), tuple(self.formats))]


def stated(
    nodes: Iterable[Alike | Fixed | AnyIn], reorder_cost: Callable[[Any, Any, Any], float | None]
) -> NamedProblem:
    """The problem of these nodes; `solve()` gives the formats, the reorders and the proof."""
    problem = NamedProblem(reorder_cost)
    for node in nodes:
        problem.add_op(node.name, node.operands, node.results, node.options())
    return problem


def main() -> None:
    """Two products of an attention, an addition between them and a gather, with sticks along rows or columns."""
    nodes = [
        Fixed("load q", [], ["q"], ["rows"]),
        Fixed("load k", [], ["k"], ["rows"]),
        Alike("bias", [], ["b"], ["rows", "columns"]),
        Fixed("q @ k", ["q", "k"], ["s"], ["rows", "columns", "rows"]),
        Alike("add", ["s", "b"], ["p"], ["rows", "columns"]),
        AnyIn("mask", ["p"], ["m"], ["columns"]),
        Fixed("store", ["m"], [], ["columns"]),
    ]
    solution = stated(nodes, lambda value, source, target: 64).solve(certificate=True)
    print(f"cost {solution.cost}, proven: {solution.is_optimal}")
    for reason in solution.reasons():
        print(reason)


if __name__ == "__main__":
    main()
