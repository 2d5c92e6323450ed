"""Random small selection problems, and their optimum by trying everything."""

from __future__ import annotations

import itertools
import random

from layout_ir.passes.selection.problem import Choice, Matrix, OpNode, Problem, ValueNode, evaluate


def random_matrix(rng: random.Random, formats: int) -> Matrix:
    """Reorder costs without any order between them: chains through a third format may well be cheaper."""
    return tuple(tuple(0 if i == j else rng.randint(1, 20) for j in range(formats)) for i in range(formats))


def random_problem(rng: random.Random, ops: int, formats: int) -> Problem:
    """A program of `ops` ops with fan-out, ops of two operands (the same one twice included) and weights."""
    values: list[ValueNode] = []
    nodes: list[OpNode] = []

    def make() -> int:
        values.append(ValueNode(random_matrix(rng, formats), rng.randint(1, 3)))
        return len(values) - 1

    nodes.append(OpNode((), (make(),), tuple(Choice((), (k,), 0) for k in range(rng.randint(1, formats)))))
    for _ in range(ops):
        ins = tuple(rng.randrange(len(values)) for _ in range(rng.randint(1, 2)))
        out = make()
        choices = {
            (tuple(rng.randrange(formats) for _ in ins), (rng.randrange(formats),))
            for _ in range(rng.randint(1, 3))
        }
        ways = tuple(Choice(a, b, rng.randint(0, 15)) for a, b in sorted(choices))
        nodes.append(OpNode(ins, (out,), ways, rng.randint(1, 3)))
    nodes.append(OpNode((len(values) - 1,), (), (Choice((0,), (), 0),)))
    return Problem(tuple(nodes), tuple(values))


def brute_force(problem: Problem) -> int:
    """The least cost over all choices."""
    ways = [range(len(op.choices)) for op in problem.ops]
    return min(evaluate(problem, choice) for choice in itertools.product(*ways))
