"""Ops without results that take one value alike, counted as one before a problem is solved.

Exporters ask for every extent of a value by a Shape of its own, and write one cast for each reader of an index: many
uses of one value that leave nothing behind but what they cost. As uses, each multiplies the sets of formats that the
value may be demanded in. But of ops that have the same choices and no results, all can as well choose what costs least
of those that any of them chooses: no format more is demanded then, and no op costs more. So one op with the sum of
their weights has the same least cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from layout_ir.selection.solver.selection_problem import FORBIDDEN, Choice, OpNode, Problem

_NOTHING = OpNode((), (), (Choice((), (), 0),))


@dataclass(frozen=True, slots=True)
class MergedProblem:
    """A problem in which some ops do nothing, and per such op the number of the one that it chooses with."""

    problem: Problem
    leaders: dict[int, int]

    def original(self, choices: Sequence[int]) -> tuple[int, ...]:
        """The choices for the problem that this was made of."""
        return tuple([choices[self.leaders.get(number, number)] for number in range(len(choices))])


def with_equal_sinks_merged(problem: Problem) -> MergedProblem | None:
    """The problem with one op for all that have no results and take the same values by the same choices; None where
    no two do."""
    first: dict[tuple[tuple[int, ...], tuple[Choice, ...]], int] = {}
    leaders: dict[int, int] = {}
    weights: dict[int, int] = {}
    for number, op in enumerate(problem.ops):
        if op.results or not op.operands:
            continue
        leader = first.setdefault((op.operands, op.choices), number)
        if leader != number:
            weight = weights.get(leader, problem.ops[leader].weight) + op.weight
            if weight * max(choice.cost for choice in op.choices) < FORBIDDEN:
                leaders[number] = leader
                weights[leader] = weight
    if not leaders:
        return None
    ops = list(problem.ops)
    for number, weight in weights.items():
        ops[number] = replace(ops[number], weight=weight)
    for number in leaders:
        ops[number] = _NOTHING
    return MergedProblem(replace(problem, ops=tuple(ops)), leaders)
