"""The choice for a problem of names: an option per op, the reorders that remain, and why they do."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from layout_ir.selection.numbering import Numbering, Option
from layout_ir.selection.solver.selection_problem import (
    Infeasible,
    Problem,
    Solution,
    demands,
    tree_edges,
)


@dataclass(frozen=True, slots=True)
class NamedReorder:
    """A reorder of a value that remains, between the two decisions that force it: `maker` runs in an option that makes
    the value in another format than `users` take it in. One that others start from is for their users as well."""

    value: Any
    source: Any
    target: Any
    cost: float
    """What it adds to the cost of the choice: as often as it runs."""
    maker: Any
    users: tuple[Any, ...]

    def __str__(self) -> str:
        users = " and ".join(f"op {name!r}" for name in self.users)
        verb = "takes" if len(self.users) == 1 else "take"
        return (
            f"value {self.value!r} is reordered from {self.source!r} to {self.target!r} at a cost of {self.cost}: "
            f"op {self.maker!r} makes it in the one, {users} {verb} it in the other"
        )


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a value is reordered: what the cheapest choice that never reorders it costs more, and which ops run in
    another option then. `extra` is None where no choice does without, or none was proven the cheapest in time."""

    reorders: tuple[NamedReorder, ...]
    extra: float | None
    instead: Mapping[Any, Option]
    is_forced: bool
    """Whether it is known that no choice does without."""

    def __str__(self) -> str:
        text = "; ".join(map(str, self.reorders))
        if self.is_forced:
            return f"{text}; no choice does without"
        if self.extra is None:
            return f"{text}; what doing without costs was not found in time"
        changes = ", ".join(_described(name, option) for name, option in self.instead.items())
        return f"{text}; doing without costs {self.extra} more: {changes}"


def _described(name: Hashable, option: Option) -> str:
    if option.name is not None:
        return f"op {name!r} runs as {option.name}"
    ins, outs = (" ".join(map(str, formats)) or "()" for formats in (option.ins, option.outs))
    return f"op {name!r} runs {ins} -> {outs}"


class NamedSolution:
    """What was chosen: the option of each op by name, and the format in which each value is made.

    The options are the objects that the problem was stated with, so a subclass of Option may carry more.

    `cost` is that of the choice, `bound` a proven lower bound of every choice (None: none known), `certificate` the
    proof as a dict ready for JSON, which `layout_ir.certificate` checks (None: not asked for).
    """

    def __init__(
        self,
        numbering: Numbering,
        problem: Problem,
        solution: Solution,
        certificate: dict[str, Any] | None,
        solve_without: Callable[[int, float | None], Solution],
    ):
        """`solve_without(value, time_limit)` solves the problem again, that value not being reordered."""
        self._numbering = numbering
        self._problem = problem
        self._solution = solution
        self._solve_without = solve_without
        self.certificate = certificate
        self.cost = numbering.cost(solution.cost)
        self.bound = None if solution.bound is None else numbering.cost(solution.bound)
        self.options: dict[Any, Option] = self._options(solution)
        self.formats: dict[Any, Any] = {
            value: own[made]
            for value, own, (made, _) in zip(numbering.values, numbering.formats, self._demands, strict=True)
        }

    @property
    def numbers(self) -> Solution:
        """The same choice by numbers, and its cost in units of the resolution."""
        return self._solution

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no choice costs less."""
        return self._solution.is_optimal

    def _options(self, solution: Solution) -> dict[Hashable, Option]:
        return {
            op.name: op.options[choice]
            for op, choice in zip(self._numbering.ops, solution.choices, strict=True)
        }

    @cached_property
    def reorders(self) -> tuple[NamedReorder, ...]:
        """The reorders that remain, in the order of the values, each behind the one that it starts from."""
        return tuple(reorder for v in range(len(self._numbering.values)) for reorder in self._reorders_of(v))

    @cached_property
    def _demands(self) -> list[tuple[int, frozenset[int]]]:
        return demands(self._problem, self._solution.choices)

    def reorders_of(self, value: Hashable) -> tuple[NamedReorder, ...]:
        """The reorders of one value that remain, each behind the one that it starts from."""
        return tuple(self._reorders_of(self._places[value]))

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return {value: v for v, value in enumerate(self._numbering.values)}

    def _reorders_of(self, value: int) -> Iterator[NamedReorder]:
        node, (made, taken) = self._problem.values[value], self._demands[value]
        if not taken or (len(taken) == 1 and made in taken):
            return
        edges = tree_edges(node.reorder, made, taken)
        # The formats that lie behind a reorder in the tree, its own target included.
        behind: dict[int, set[int]] = {}
        for f, g in reversed(edges):
            behind[g] = behind.get(g, set()) | {g}
            behind[f] = behind.get(f, set()) | behind[g]
        names, formats = self._numbering.ops, self._numbering.formats[value]
        maker = names[self._makers[value]].name
        for f, g in edges:
            users = [
                names[op].name
                for op, k in self._users[value]
                if self._problem.ops[op].choices[self._solution.choices[op]].ins[k] in behind[g]
            ]
            cost = self._numbering.cost(node.weight * node.reorder[f][g])
            yield NamedReorder(
                self._numbering.values[value],
                formats[f],
                formats[g],
                cost,
                maker,
                tuple(dict.fromkeys(users)),
            )

    @cached_property
    def _makers(self) -> list[int]:
        return [op for op, _ in self._problem.producers()]

    @cached_property
    def _users(self) -> list[list[tuple[int, int]]]:
        return self._problem.uses()

    def reasons(self, time_limit: float | None = None) -> Iterator[Reason]:
        """Per value that is reordered at a cost, why. For each the problem is solved once more, when one comes to it,
        in `time_limit` seconds at most."""
        for value in range(len(self._numbering.values)):
            reorders = tuple(self._reorders_of(value))
            if any(reorder.cost for reorder in reorders):
                yield self._reason(value, reorders, time_limit)

    def _reason(self, value: int, reorders: tuple[NamedReorder, ...], time_limit: float | None) -> Reason:
        try:
            other = self._solve_without(value, time_limit)
        except Infeasible:
            return Reason(reorders, None, {}, True)
        if not (other.is_optimal and self.is_optimal):
            return Reason(reorders, None, {}, False)
        options = self._options(other)
        instead = {name: option for name, option in options.items() if option is not self.options[name]}
        return Reason(reorders, self._numbering.cost(other.cost - self._solution.cost), instead, False)
