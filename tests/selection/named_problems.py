"""Random problems of names, and the optimum of one as an integer program stated from its own words."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from layout_ir.selection import NamedProblem, Option
from tests.passes.selection.ilp import Stated, least_cost

OpWords = tuple[str, Sequence[str], Sequence[str], list[Option], int]
"""Name, operands, results, options and weight of an op."""

ReorderWords = tuple[Hashable, Hashable, Hashable]
"""A value, the format it is in and the one it is to be in."""


@dataclass
class Words:
    """What a problem of names was stated with: its ops, and what each reorder costs, None where there is none."""

    ops: list[OpWords] = field(default_factory=list[OpWords])
    weights: dict[str, int] = field(default_factory=dict[str, int])
    costs: dict[ReorderWords, int | None] = field(default_factory=dict[ReorderWords, int | None])
    asked: list[ReorderWords] = field(default_factory=list[ReorderWords])

    def cost(self, value: Hashable, source: Hashable, target: Hashable) -> int | None:
        """What a reorder costs; whoever asks is noted."""
        self.asked.append((value, source, target))
        return self.costs[value, source, target]

    def problem(self) -> NamedProblem:
        """The problem of these words."""
        problem = NamedProblem(self.cost)
        for value, weight in self.weights.items():
            problem.add_value(value, weight=weight)
        for name, operands, results, options, weight in self.ops:
            problem.add_op(name, operands, results, options, weight=weight)
        return problem

    def least_cost(self) -> int | None:
        """The optimum by the integer program; None where no choice is possible."""
        nodes = [
            (operands, results, [(o.ins, o.outs, weight * int(o.cost or 0)) for o in options])
            for _, operands, results, options, weight in self.ops
        ]
        states: dict[Hashable, list[Hashable]] = {}
        for _, operands, results, options, _ in self.ops:
            for k, value in enumerate((*operands, *results)):
                own = states.setdefault(value, [])
                own += [f for f in dict.fromkeys((*o.ins, *o.outs)[k] for o in options) if f not in own]

        def reorder(value: Hashable, source: Hashable, target: Hashable) -> int | None:
            cost = self.costs[value, source, target] if source != target else 0
            return None if cost is None else cost * self.weights[str(value)]

        return least_cost(Stated(nodes, states, reorder))  # pyright: ignore[reportArgumentType]


def random_words(rng: random.Random, ops: int, formats: int, possible: float = 0.8) -> Words:
    """A graph of ops with fan-out and ops of two operands, whose reorders are `possible` with that probability."""
    names = "abcdefgh"[:formats]
    words = Words()

    def make(op: str, operands: Sequence[str], options: int) -> None:
        value = f"v{len(words.weights)}"
        words.weights[value] = rng.randint(0, 3)
        for f in names:
            for g in names:
                if f != g:
                    words.costs[value, f, g] = rng.randint(0, 20) if rng.random() < possible else None
        own = [
            Option(tuple(rng.choice(names) for _ in operands), (rng.choice(names),), rng.randint(0, 15))
            for _ in range(options)
        ]
        words.ops.append((op, operands, (value,), own, rng.randint(0, 3)))

    make("source", (), rng.randint(1, formats))
    for k in range(ops):
        made = list(words.weights)
        make(f"op{k}", [rng.choice(made) for _ in range(rng.randint(1, 2))], rng.randint(1, 3))
    last = list(words.weights)[-1]
    words.ops.append(("sink", (last,), (), [Option((names[0],), (), 0)], 1))
    return words
