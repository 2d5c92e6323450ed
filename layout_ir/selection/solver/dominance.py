"""Formats that no choice needs because others serve as well, left out before a problem is solved.

A Gather of one part of a value takes it in any order of dims that leaves the rest in the order of its result: wherever
the dim that it takes a part of lies. The maker of the value makes few of these orders. Of the others, which come about
by a reorder anyway, one for each order of the result is enough.

Let phi map formats of a value to formats of it, those in which it is made to themselves, such that

    1. every user has, for each choice with format f, the same choice with phi(f) instead, at no more cost;
    2. no reorder from phi(f) to phi(g) costs more than the one from f to g.

Then phi takes each choice for the problem, with all reorders of that value, to one that costs no more and has only
formats that phi leaves as they are. So the others can be left out: the least cost stays what it was. Here phi takes
formats that are asked for alike, those for which the users have the same choices otherwise, to one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from layout_ir.selection.solver.selection_problem import Choice, Matrix, OpNode, Problem


@dataclass(frozen=True, slots=True)
class ReducedProblem:
    """A problem with fewer choices, and the number of each choice of an op in the problem that it was made of."""

    problem: Problem
    kept: tuple[tuple[int, ...] | None, ...]
    """Per op; None where all choices are there."""

    def original(self, choices: Sequence[int]) -> tuple[int, ...]:
        """The choices for the problem that this was made of."""
        return tuple([c if own is None else own[c] for c, own in zip(choices, self.kept, strict=True)])


class _Use(NamedTuple):
    """What an op asks of one operand: by format, what its choices are otherwise, with their costs."""

    others: dict[int, dict[object, int]]
    kinds: dict[int, int]
    """By format a number: the same where the choices are otherwise the same."""


def without_dominated_formats(problem: Problem) -> ReducedProblem | None:
    """The problem without the formats that others serve for; None where there are none."""
    dropped = _Search(problem).dropped()
    if not dropped:
        return None
    known: dict[
        tuple[int, tuple[frozenset[int] | None, ...]], tuple[tuple[Choice, ...], tuple[int, ...]]
    ] = {}
    ops: list[OpNode] = []
    kept: list[tuple[int, ...] | None] = []
    for op in problem.ops:
        out = tuple([dropped.get(v) for v in op.operands])
        if not any(out):
            ops.append(op)
            kept.append(None)
            continue
        key = id(op.choices), out
        if key not in known:
            numbers = tuple([n for n, choice in enumerate(op.choices) if not _has_any(choice, out)])
            known[key] = tuple([op.choices[n] for n in numbers]), numbers
        choices, numbers = known[key]
        ops.append(OpNode(op.operands, op.results, choices, op.weight))
        kept.append(numbers)
    return ReducedProblem(Problem(tuple(ops), problem.values), tuple(kept))


def _has_any(choice: Choice, dropped: Sequence[frozenset[int] | None]) -> bool:
    return any(out is not None and f in out for f, out in zip(choice.ins, dropped, strict=True))


class _Search:
    """Looks for formats to leave out; values, and ops, that are alike are looked at once."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self._uses: dict[tuple[int, int], _Use] = {}
        self._made: dict[tuple[int, int], frozenset[int]] = {}
        self._found: dict[tuple[object, ...], frozenset[int] | None] = {}

    def dropped(self) -> dict[int, frozenset[int]]:
        """By value, the formats that are left out."""
        problem = self.problem
        makers = problem.producers()
        found: dict[int, frozenset[int]] = {}
        for value, uses in enumerate(problem.uses()):
            matrix = problem.values[value].reorder
            maker, result = makers[value]
            if len(matrix) < 3 or not uses:
                continue
            users = {user for user, _ in uses}
            if len(users) < len(uses) or maker in users:
                continue  # phi would have to change several formats of one choice
            asked = sorted({(id(problem.ops[user].choices), k) for user, k in uses})
            key = id(matrix), id(problem.ops[maker].choices), result, *asked
            if key not in self._found:
                self._found[key] = self._dominated(matrix, self._made_by(maker, result), uses)
            dropped = self._found[key]
            if dropped:
                found[value] = dropped
        return found

    def _made_by(self, op: int, result: int) -> frozenset[int]:
        choices = self.problem.ops[op].choices
        key = id(choices), result
        if key not in self._made:
            self._made[key] = frozenset([choice.outs[result] for choice in choices])
        return self._made[key]

    def _use(self, op: int, operand: int) -> _Use:
        choices = self.problem.ops[op].choices
        key = id(choices), operand
        found = self._uses.get(key)
        if found is None:
            others: dict[int, dict[object, int]] = {}
            for choice in choices:
                own = others.setdefault(choice.ins[operand], {})
                rest = choice.ins[:operand], choice.ins[operand + 1 :], choice.outs
                own[rest] = min(choice.cost, own.get(rest, choice.cost))
            numbers: dict[frozenset[object], int] = {}
            kinds = {f: numbers.setdefault(frozenset(own), len(numbers)) for f, own in others.items()}
            found = self._uses[key] = _Use(others, kinds)
        return found

    def _dominated(
        self, matrix: Matrix, made: frozenset[int], given: Sequence[tuple[int, int]]
    ) -> frozenset[int] | None:
        uses = list({id(use): use for use in [self._use(*each) for each in given]}.values())
        asked = sorted({f for use in uses for f in use.kinds})
        groups: dict[tuple[int | None, ...], list[int]] = {}
        for f in asked:
            groups.setdefault(tuple([use.kinds.get(f) for use in uses]), []).append(f)
        several = [group for group in groups.values() if len(group) > 1 and not made.issuperset(group)]
        if not several:
            return None
        reorder = np.array(matrix, np.int64)
        for prefers_made in (True, False):
            phi = np.arange(len(matrix))
            for group in several:
                best = min(group, key=lambda f: (_costs(uses, f), prefers_made and f not in made, f))
                for f in group:
                    if f not in made and _serves(uses, best, f):
                        phi[f] = best
            if (reorder[np.ix_(phi, phi)] <= reorder).all():
                return frozenset(np.flatnonzero(phi != np.arange(len(phi))).tolist())
        return None


def _costs(uses: Sequence[_Use], fmt: int) -> int:
    """What all choices with a format cost together: no more than for those that it serves for."""
    return sum(sum(use.others.get(fmt, _NONE).values()) for use in uses)


def _serves(uses: Sequence[_Use], best: int, fmt: int) -> bool:
    """Whether each choice with a format costs no less than the same with `best`."""
    for use in uses:
        own = use.others.get(best, _NONE)
        if any(own[rest] > cost for rest, cost in use.others.get(fmt, _NONE).items()):
            return False
    return True


_NONE: Mapping[object, int] = {}
