"""Formats left out because a map of the formats of many values at once leads away from them.

Orders of dims in which the batch lies in some other place than the first come about where dims of one element may lie
anywhere. They are handed on through a network, and nothing in it gains by them: with the batch in front everywhere,
each choice of a network is another one that costs no more. `dominance` looks at one value at a time and cannot see
that, since an op that takes and makes all in one order ties its values together.

Let phi_v, for each value v, map formats of v to formats of v, with phi_v(phi_v(f)) = phi_v(f), such that

    1. every op has, for each choice, the one with the formats that the maps of its values make of those of the choice,
       at no more cost;
    2. no reorder of v from phi_v(f) to phi_v(g) costs more than the one from f to g.

Then the maps take each choice for the problem, with all its reorders, to one that costs no more and has only formats
that they leave as they are. So the others can be left out: the least cost stays what it was.

The maps are those that `simulation` finds. Whether both conditions hold is looked up here all the same: what an op or a
reorder stands against stays as it is, and maps are made smaller until nothing does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from layout_ir.selection.solver.dominance import ReducedProblem
from layout_ir.selection.solver.selection_problem import Choice, Matrix, OpNode, Problem
from layout_ir.selection.solver.simulation import Simulation

FormatMap = tuple[int, ...]
"""Per format of a value, the one that it is mapped to."""


@dataclass(frozen=True, slots=True)
class MappedProblem(ReducedProblem):
    """A problem whose choices have formats alone that maps leave as they are, and these maps, by value."""

    maps: tuple[FormatMap, ...]

    def mapped(self, before: Problem, choices: Sequence[int]) -> list[int]:
        """Choices for the problem `before` as the maps make them for this one: those that cost least of their
        formats."""
        found: list[int] = []
        for op, mapped, choice in zip(before.ops, self.problem.ops, choices, strict=True):
            own = [self.maps[v] for v in (*op.operands, *op.results)]
            image = _image(own, op.choices[choice])
            alike = [n for n, each in enumerate(mapped.choices) if _formats(each) == image]
            found.append(min(alike, key=lambda n: mapped.choices[n].cost))
        return found


def without_mapped_formats(problem: Problem, deadline: float | None = None) -> MappedProblem | None:
    """The problem without the formats that maps lead away from; None where there are none, or it is too large to look
    for maps. After `deadline`, a time of time.monotonic(), no more are looked for."""
    simulation = Simulation(problem)
    if not simulation.is_small:
        return None
    proposed = simulation.maps(deadline)
    maps = _Maps(problem, [proposed[number] for number in simulation.classes]).found()
    known: dict[tuple[int, ...], tuple[tuple[Choice, ...], tuple[int, ...]]] = {}
    ops: list[OpNode] = []
    kept: list[tuple[int, ...] | None] = []
    for op in problem.ops:
        own = [maps[v] for v in (*op.operands, *op.results)]
        key = id(op.choices), *map(id, own)
        if key not in known:
            numbers = [n for n, choice in enumerate(op.choices) if _image(own, choice) == _formats(choice)]
            known[key] = tuple([op.choices[n] for n in numbers]), tuple(numbers)
        choices, numbers = known[key]
        whole = len(choices) == len(op.choices)
        ops.append(op if whole else OpNode(op.operands, op.results, choices, op.weight))
        kept.append(None if whole else numbers)
    if not any(kept):
        return None
    return MappedProblem(Problem(tuple(ops), problem.values), tuple(kept), tuple(maps))


def _formats(choice: Choice) -> tuple[int, ...]:
    return *choice.ins, *choice.outs


def _image(maps: Sequence[FormatMap], choice: Choice) -> tuple[int, ...]:
    return tuple([own[f] for own, f in zip(maps, _formats(choice), strict=True)])


class _Maps:
    """The maps of all values, as they are made smaller; ops and values that are alike are looked at once."""

    def __init__(self, problem: Problem, proposed: Sequence[FormatMap]):
        self.problem = problem
        self.maps = list(proposed)
        self._same: dict[FormatMap, FormatMap] = {}
        """One object for equal maps."""
        self._costs: dict[int, dict[tuple[int, ...], int]] = {}
        """By identity of choices, the cost of each by its formats."""
        self._of_ops: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        self._of_values: dict[tuple[int, int], set[int]] = {}

    def found(self) -> list[FormatMap]:
        """The maps where both conditions hold."""
        problem, maps = self.problem, self.maps
        around: list[list[int]] = [[] for _ in maps]
        for number, op in enumerate(problem.ops):
            for v in (*op.operands, *op.results):
                around[v].append(number)
        values: set[int] = set(range(len(maps)))
        ops: set[int] = set(range(len(problem.ops)))
        while ops or values:
            changed: dict[int, set[int]] = {}
            if ops:
                for number in ops:
                    op = problem.ops[number]
                    own = *op.operands, *op.results
                    for place, f in self._against_op(op, [maps[v] for v in own]):
                        changed.setdefault(own[place], set()).add(f)
                ops = set()
            else:
                # Of a value whose formats are to stay for an op's sake, the reorders are looked at when that is known.
                for v in values:
                    against = self._against_reorder(problem.values[v].reorder, maps[v])
                    if against:
                        changed[v] = against
                values = set()
            for v, formats in changed.items():
                maps[v] = self._without(maps[v], formats)
                ops.update(around[v])
                values.add(v)
        return maps

    def _without(self, own: FormatMap, formats: Iterable[int]) -> FormatMap:
        """The map that leaves these formats as they are besides."""
        targets = list(own)
        for f in formats:
            targets[f] = f
        smaller = tuple(targets)
        return self._same.setdefault(smaller, smaller)

    def _against_op(self, op: OpNode, maps: Sequence[FormatMap]) -> list[tuple[int, int]]:
        """The formats, each with its number among those of the op, of choices for which there is no other."""
        key = id(op.choices), *map(id, maps)
        found = self._of_ops.get(key)
        if found is None:
            costs = self._costs.get(id(op.choices))
            if costs is None:
                costs = self._costs[id(op.choices)] = {}
                for choice in op.choices:
                    formats = _formats(choice)
                    costs[formats] = min(choice.cost, costs.get(formats, choice.cost))
            found = self._of_ops[key] = []
            for formats, cost in costs.items():
                image = tuple([own[f] for own, f in zip(maps, formats, strict=True)])
                if image != formats and not costs.get(image, cost + 1) <= cost:
                    found += [(k, f) for k, (f, g) in enumerate(zip(formats, image, strict=True)) if f != g]
        return found

    def _against_reorder(self, reorder: Matrix, own: FormatMap) -> set[int]:
        """The formats of reorders that would cost more as they are mapped."""
        key = id(reorder), id(own)
        found = self._of_values.get(key)
        if found is None:
            costs, phi = np.array(reorder, np.int64), np.array(own, np.int64)
            more = np.argwhere(costs[np.ix_(phi, phi)] > costs)
            found = self._of_values[key] = {f for pair in more.tolist() for f in pair if own[f] != f}
        return found
