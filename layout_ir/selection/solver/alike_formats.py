"""Formats that all uses of a value take alike, asked for as one before a problem is solved.

Networks that are unrolled over time take a step of one value by a Gather per step. Each takes it in any order of dims
and gives the rest in one of few: wherever the dim lies that a step is taken of, the result is the same. A value that 64
ops take in 24 orders may be demanded in far more sets of orders than can be told apart, but in few sets of classes of
orders that are alike to all users. `dominance` leaves out what others of a class serve for, but only where reorders
from and to those cost no more.

Let f and g be alike where every user has, for each choice with f, the same choice with g, at the same cost. Then a user
may as well ask for the class of f: a format that no op makes, into which each of its members is reordered for nothing,
and which nothing is reordered from. A tree of reorders that reaches a class comes from a member, so it is one of the
problem as it was, with that member for the class; and the other way round. So the least cost stays what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layout_ir.selection.solver.demand_sets import ALONE
from layout_ir.selection.solver.format_sets import count_sets
from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    Choice,
    Matrix,
    OpNode,
    Problem,
    ValueNode,
    demands,
    tree_edges,
)

FormatClasses = tuple[int, ...]
"""Per format of a value, the one that users ask for in its place: itself, or that of its class, which is behind all
others."""


@dataclass(frozen=True, slots=True)
class ClassedProblem:
    """A problem in which users ask for classes of formats of some values, and the problem that it was made of."""

    problem: Problem
    before: Problem
    classes: dict[int, FormatClasses]
    """By value."""

    def original(self, choices: Sequence[int]) -> tuple[int, ...]:
        """The choices for the problem that this was made of."""
        members = {v: self._members(v, *own) for v, own in enumerate(demands(self.problem, choices))}
        found = list(choices)
        for number, (op, before) in enumerate(zip(self.problem.ops, self.before.ops, strict=True)):
            if op is not before:
                choice = op.choices[choices[number]]
                ins = [members[v].get(f, f) for v, f in zip(op.operands, choice.ins, strict=True)]
                same = Choice(tuple(ins), choice.outs, choice.cost)
                found[number] = before.choices.index(same)
        return tuple(found)

    def _members(self, value: int, made: int, needed: frozenset[int]) -> dict[int, int]:
        """By class that is asked for, the member that it is reached by."""
        formats = self.classes.get(value)
        if formats is None:
            return {}
        edges = tree_edges(self.problem.values[value].reorder, made, needed)
        return {target: source for source, target in edges if target >= len(formats)}


def with_alike_formats_as_one(problem: Problem, limit: int = ALONE) -> ClassedProblem | None:
    """The problem in which users ask for classes of the formats of values that may be demanded in more than
    `limit` sets of formats; None where there are no such classes."""
    classes = _Search(problem, limit).classes()
    if not classes:
        return None
    values = list(problem.values)
    matrices: dict[tuple[int, FormatClasses], Matrix] = {}
    for v, own in classes.items():
        key = id(values[v].reorder), own
        if key not in matrices:
            matrices[key] = _with_classes(values[v].reorder, own)
        values[v] = ValueNode(matrices[key], values[v].weight)
    known: dict[tuple[object, ...], tuple[Choice, ...]] = {}
    ops: list[OpNode] = []
    for op in problem.ops:
        own = tuple([classes.get(v) for v in op.operands])
        if any(own):
            key = id(op.choices), own
            if key not in known:
                known[key] = tuple({_asking(choice, own): None for choice in op.choices})
            op = OpNode(op.operands, op.results, known[key], op.weight)
        ops.append(op)
    return ClassedProblem(Problem(tuple(ops), tuple(values)), problem, classes)


def _with_classes(reorder: Matrix, classes: FormatClasses) -> Matrix:
    """The costs of reorders with those into classes, which are behind all formats."""
    count = len(reorder)
    more = range(count, max(classes) + 1)
    into = [tuple([0 if own == c else FORBIDDEN for c in more]) for own in classes]
    leaves = [tuple([FORBIDDEN * (f != c) for f in range(count + len(more))]) for c in more]
    return (*[(*row, *own) for row, own in zip(reorder, into, strict=True)], *leaves)


def _asking(choice: Choice, classes: Sequence[FormatClasses | None]) -> Choice:
    """The choice with the classes of the formats of these operands."""
    ins = [f if own is None else own[f] for f, own in zip(choice.ins, classes, strict=True)]
    return Choice(tuple(ins), choice.outs, choice.cost)


class _Search:
    """Looks for formats that are alike; values, and ops, that are alike are looked at once."""

    def __init__(self, problem: Problem, limit: int):
        self.problem = problem
        self.limit = limit
        self._known_uses: dict[tuple[int, int], dict[int, int]] = {}
        self._found: dict[tuple[object, ...], FormatClasses | None] = {}

    def classes(self) -> dict[int, FormatClasses]:
        """By value, the classes of its formats, where some class has more than one."""
        found: dict[int, FormatClasses] = {}
        for value, uses in enumerate(self.problem.uses()):
            formats = len(self.problem.values[value].reorder)
            users = {user for user, _ in uses}
            # What an op asks for twice is no use by itself.
            if len(users) < len(uses) or count_sets(formats, len(uses)) <= self.limit:
                continue
            key = formats, *sorted({(id(self.problem.ops[user].choices), k) for user, k in uses})
            if key not in self._found:
                self._found[key] = self._alike(formats, [self._use(*use) for use in uses])
            classes = self._found[key]
            if classes is not None:
                found[value] = classes
        return found

    def _use(self, op: int, operand: int) -> dict[int, int]:
        """By format that an op asks for, a number: the same where its choices are otherwise the same."""
        choices = self.problem.ops[op].choices
        key = id(choices), operand
        found = self._known_uses.get(key)
        if found is None:
            others: dict[int, set[object]] = {}
            for choice in choices:
                rest = choice.ins[:operand], choice.ins[operand + 1 :], choice.outs, choice.cost
                others.setdefault(choice.ins[operand], set()).add(rest)
            numbers: dict[frozenset[object], int] = {}
            found = {f: numbers.setdefault(frozenset(own), len(numbers)) for f, own in others.items()}
            self._known_uses[key] = found
        return found

    def _alike(self, formats: int, uses: Sequence[dict[int, int]]) -> FormatClasses | None:
        different = list({id(use): use for use in uses}.values())
        asked = sorted(set[int]().union(*different))
        # The sets that are demanded are of what is asked for.
        if count_sets(len(asked), len(uses)) <= self.limit:
            return None
        groups: dict[tuple[int | None, ...], list[int]] = {}
        for f in asked:
            groups.setdefault(tuple([use.get(f) for use in different]), []).append(f)
        classes = list(range(formats))
        behind = formats
        for group in groups.values():
            if len(group) > 1:
                for f in group:
                    classes[f] = behind
                behind += 1
        return tuple(classes) if behind > formats else None
