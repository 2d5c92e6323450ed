"""Which uses of values make a problem impossible, none too many: what an error can name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    Choice,
    Infeasible,
    OpNode,
    Problem,
    ValueNode,
)
from layout_ir.selection.solver.solve import solve_exact

SHOWN = 6
"""Uses, and formats of one, that a message lists at most."""


class Use(NamedTuple):
    """An operand of an op, by number, and the number of the value that it is."""

    op: int
    operand: int
    value: int


def conflicting_uses(problem: Problem) -> list[Use]:
    """Uses of values that no choice of options serves together, in program order; any of them less, and some choice
    does. None where only costs, being too high to be added up, make `problem` impossible.

    The problem is solved without costs for parts of its uses, in halves: as often as there are uses in the conflict,
    times the logarithm of how many there are in all (Junker's QuickXplain).
    """
    uses = [
        Use(number, k, value)
        for number, op in enumerate(problem.ops)
        for k, value in enumerate(op.operands)
        if any(cost >= FORBIDDEN for row in problem.values[value].reorder for cost in row)
    ]
    if _has_choice(problem, uses):
        return []
    return sorted(_least(problem, [], [], uses))


def conflict_text(
    problem: Problem,
    uses: Sequence[Use],
    *,
    op: Callable[[int], str],
    value: Callable[[int], str],
    fmt: Callable[[int, int], str],
) -> str:
    """A sentence on why `problem` has no choice, with both sides of each of `uses`, which are those in conflict.

    `op` and `value` give names for numbers, `fmt(v, f)` that of format f of value v.
    """
    if not uses:
        return "no choice of options costs less than 2^56: count in a larger unit"
    makers = problem.producers()
    sides: list[str] = []
    for use in uses[:SHOWN]:
        maker, result = makers[use.value]
        made = {choice.outs[result] for choice in problem.ops[maker].choices}
        taken = {choice.ins[use.operand] for choice in problem.ops[use.op].choices}
        made_in, taken_in = (
            _listed([fmt(use.value, f) for f in sorted(formats)]) for formats in (made, taken)
        )
        sides.append(
            f"{op(maker)} makes {value(use.value)} in {made_in}, and {op(use.op)} takes it in {taken_in}"
        )
    if len(uses) > SHOWN:
        sides.append(f"{len(uses) - SHOWN} more uses")
    what = "no reorder leads from the one to the other" if len(uses) == 1 else "all of this cannot be"
    return (
        f"no choice of options fits together: {'; '.join(sides)}; {what}: "
        f"allow a reorder, or give an op another option"
    )


def _listed(names: Sequence[str]) -> str:
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return " or ".join([*names[:SHOWN], *more])


def _least(problem: Problem, fixed: Sequence[Use], added: Sequence[Use], uses: Sequence[Use]) -> list[Use]:
    """The fewest of `uses` that conflict together with `fixed`, of which `added` are new; `fixed` and `uses` do."""
    if added and not _has_choice(problem, fixed):
        return []
    if len(uses) == 1:
        return list(uses)
    half = len(uses) // 2
    first, second = uses[:half], uses[half:]
    of_second = _least(problem, [*fixed, *first], first, second)
    return [*_least(problem, [*fixed, *of_second], of_second, first), *of_second]


def _has_choice(problem: Problem, uses: Collection[Use]) -> bool:
    """Whether some choice of options serves all of `uses`, at whatever cost; other operands may be in any format."""
    kept: dict[int, list[Use]] = {}
    for use in uses:
        kept.setdefault(use.op, []).append(use)
    ops: list[OpNode] = []
    for number, op in enumerate(problem.ops):
        own = kept.get(number, [])
        choices = {(tuple([c.ins[use.operand] for use in own]), c.outs): None for c in op.choices}
        ops.append(
            OpNode(tuple([u.value for u in own]), op.results, tuple(Choice(*key, 0) for key in choices))
        )
    values = [
        ValueNode(tuple([tuple([FORBIDDEN * (cost >= FORBIDDEN) for cost in row]) for row in value.reorder]))
        for value in problem.values
    ]
    try:
        solve_exact(Problem(tuple(ops), tuple(values)))
    except Infeasible:
        return False
    return True
