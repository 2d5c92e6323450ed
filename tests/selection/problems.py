"""Random small selection problems, and their optimum by trying everything."""

from __future__ import annotations

import itertools
import random
from typing import Any

from layout_ir.selection.solver.selection_problem import (
    Choice,
    Matrix,
    OpNode,
    Problem,
    ValueNode,
    evaluate,
)


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


def cyclic_problem(rng: random.Random, ops: int, formats: int) -> Problem:
    """Ops that use any values, later ones and their own included, as what a loop carries does; two results each."""
    values = tuple(ValueNode(random_matrix(rng, formats), rng.randint(1, 100)) for _ in range(2 * ops))
    nodes: list[OpNode] = []
    for number in range(ops):
        ins = tuple(rng.randrange(len(values)) for _ in range(rng.randint(0, 3)))
        ways = tuple(
            Choice(
                tuple(rng.randrange(formats) for _ in ins),
                (rng.randrange(formats), rng.randrange(formats)),
                k,
            )
            for k in (rng.randint(0, 50) for _ in range(rng.randint(1, 4)))
        )
        nodes.append(OpNode(ins, (2 * number, 2 * number + 1), ways, rng.randint(0, 100)))
    return Problem(tuple(nodes), values)


def brute_force(problem: Problem) -> int:
    """The least cost over all choices."""
    ways = [range(len(op.choices)) for op in problem.ops]
    return min(evaluate(problem, choice) for choice in itertools.product(*ways))


def tangled_problem(rng: random.Random, ops: int, formats: int) -> Problem:
    """A program whose ops of two operands draw them from anywhere above: nothing to eliminate cheaply."""
    values = [ValueNode(random_matrix(rng, formats))]
    nodes = [OpNode((), (0,), tuple(Choice((), (f,), rng.randint(0, 9)) for f in range(formats)))]
    for number in range(1, ops):
        ins = (rng.randrange(number), rng.randrange(number))
        values.append(ValueNode(random_matrix(rng, formats)))
        agree = tuple(Choice((f, f), (f,), rng.randint(0, 15)) for f in range(formats))
        mixed = tuple(
            Choice((rng.randrange(formats), rng.randrange(formats)), (f,), rng.randint(0, 15))
            for f in range(formats)
        )
        nodes.append(OpNode(ins, (number,), agree if number % 2 else mixed))
    return Problem(tuple(nodes), tuple(values))


def dense_problem(rng: random.Random, layers: int, formats: int) -> Problem:
    """A dense block: every layer joins all before it. Formats of a value are named as it likes, not as others do."""
    values = [ValueNode(random_matrix(rng, formats), rng.randint(1, 2)) for _ in range(2 * layers + 1)]
    names = [rng.sample(range(formats), formats) for _ in values]
    nodes = [OpNode((), (0,), tuple(Choice((), (f,), rng.randint(0, 9)) for f in range(formats)))]
    parts = [0]
    for layer in range(layers):
        joined, made = 2 * layer + 1, 2 * layer + 2
        agree = tuple(
            Choice(tuple(names[p][f] for p in parts), (names[joined][f],), rng.randint(0, 15))
            for f in range(formats)
        )
        nodes.append(OpNode(tuple(parts), (joined,), agree))
        pairs = {(rng.randrange(formats), rng.randrange(formats)) for _ in range(3)}
        kernel = tuple(Choice((f,), (g,), rng.randint(0, 15)) for f, g in sorted(pairs))
        nodes.append(OpNode((joined,), (made,), kernel))
        parts.append(made)
    nodes.append(OpNode((parts[-1],), (), (Choice((0,), (), 0),)))
    return Problem(tuple(nodes), tuple(values))


def hub_problem(rng: random.Random, uses: int, formats: int) -> Problem:
    """One value and very many uses."""
    make = OpNode((), (0,), tuple(Choice((), (f,), rng.randint(0, 40)) for f in range(formats)))
    use = [
        OpNode((0,), (), tuple(Choice((f,), (), rng.randint(0, 9)) for f in range(formats)))
        for _ in range(uses)
    ]
    return Problem((make, *use), (ValueNode(random_matrix(rng, formats), 2),))


def two_format_problem(rng: random.Random, ops: int) -> Problem:
    """A tangle of ops that agree, of convolutions that would rather keep a format, and of ones that want one.

    Half of the values name their two formats the other way round.
    """
    matrices = [random_matrix(rng, 2) for _ in range(ops)]
    values = [ValueNode(m, rng.randint(1, 3)) for m in matrices]
    swap = [rng.randrange(2) for _ in range(ops)]

    def node(ins: tuple[int, ...], out: int, ways: dict[tuple[int, ...], int]) -> OpNode:
        names = [*ins, out]
        renamed = [tuple(bit ^ swap[v] for bit, v in zip(bits, names, strict=True)) for bits in ways]
        choices = tuple(Choice(n[:-1], n[-1:], cost) for n, cost in zip(renamed, ways.values(), strict=True))
        return OpNode(ins, (out,), choices, rng.randint(1, 2))

    nodes = [node((), 0, {(0,): 0, (1,): rng.randint(0, 9)})]
    for out in range(1, ops):
        kind = rng.randrange(3)
        ins = tuple(rng.randrange(out) for _ in range(2 if kind == 0 else 1))
        if kind == 0:
            ways = {(f, f, f): rng.randint(0, 15) for f in (0, 1)}
        elif kind == 1:
            a, b = rng.randint(5, 15), rng.randint(5, 15)
            ways = {(0, 0): a, (1, 1): b, (0, 1): max(a, b) + rng.randint(0, 9), (1, 0): max(a, b)}
        else:
            ways = {(rng.randrange(2), rng.randrange(2)): rng.randint(0, 9)}
        nodes.append(node(ins, out, ways))
    return Problem(tuple(nodes), tuple(values))


def problem_of(certificate: dict[str, Any]) -> Problem:
    """The problem that a certificate is about, read without the checker."""
    ops = tuple(
        OpNode(
            tuple(op["operands"]),
            tuple(op["results"]),
            tuple(Choice(tuple(ins), tuple(outs), cost) for ins, outs, cost in op["choices"]),
            op["weight"],
        )
        for op in certificate["problem"]["ops"]
    )
    values = tuple(
        ValueNode(tuple(map(tuple, value["reorder"])), value["weight"])
        for value in certificate["problem"]["values"]
    )
    return Problem(ops, values)


def uniform_matrix(formats: int, cost: int = 5) -> Matrix:
    """Reorders that all cost the same."""
    return tuple(tuple(cost * (f != g) for g in range(formats)) for f in range(formats))


def agreeing_op(operands: tuple[int, ...], result: int, formats: int, own: int = 0) -> OpNode:
    """An op that takes and makes all in one format, best in its own."""
    choices = tuple(Choice((f,) * len(operands), (f,), int(f != own)) for f in range(formats))
    return OpNode(operands, (result,), choices)


def tied_problem(rng: random.Random) -> Problem:
    """Ops that agree between some that do not, in a program of one or two classes of reorders."""
    formats = rng.randint(3, 4)
    classes = [rng.randrange(2) for _ in range(formats)]
    near = tuple(
        tuple(0 if f == g else 1 if classes[f] == classes[g] else 6 for g in range(formats))
        for f in range(formats)
    )
    ops = [OpNode((), (0,), tuple(Choice((), (f,), 0) for f in rng.sample(range(formats), 2)))]
    for number in range(1, 5):
        operands = tuple(rng.randrange(number) for _ in range(rng.randint(1, 2)))
        if rng.random() < 0.7:
            ops.append(agreeing_op(operands, number, formats, rng.randrange(2)))
        else:
            taken = [rng.sample(range(formats), len(operands)) for _ in range(2)]
            ways = tuple(Choice(tuple(ins), (rng.randrange(formats),), rng.randint(0, 2)) for ins in taken)
            ops.append(OpNode(operands, (number,), ways))
    ops.append(OpNode((4,), (), (Choice((rng.randrange(formats),), (), 0),)))
    values = [ValueNode(rng.choice([near, uniform_matrix(formats)]), rng.randint(1, 2)) for _ in range(5)]
    return Problem(tuple(ops), tuple(values))
