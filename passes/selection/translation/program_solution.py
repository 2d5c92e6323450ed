"""The choice for a program: what a solver finds for its problem, said in terms of the program.

A solution is proven the cheapest of the program only if the problem states all of its choice; and where the problem has
no solution, the error names the op to blame: for costs beyond what can be added up, or options that do not meet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.tag import name_of
from layout_ir.diagnostics import PassError, name_of_op
from layout_ir.dialects.layout import dtype_of
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.costs.cost_model import reorder_ns
from layout_ir.passes.selection.options.tensor_formats import shape_of
from layout_ir.passes.selection.problem.selection import Selection
from layout_ir.passes.selection.translation.from_ir import CUT
from layout_ir.selection.conflict import conflict_text, conflicting_uses
from layout_ir.selection.solver.selection_problem import FORBIDDEN, Infeasible, Solution
from layout_ir.selection.solver.solve import NO_CHOICE, solve

NAMED = 2000
"""Ops of a program up to which those that do not agree are looked for, by solving some dozens of parts of it."""


def solve_program(selection: Selection, solver: str = "exact", time_limit: float | None = None) -> Solution:
    """The choice that `solver` makes in `time_limit` seconds; without a bound where the problem leaves something out.

    Raises LayoutError for an unknown solver or where no choice is possible.
    """
    try:
        return _of_program(selection, solve(selection.problem, solver, time_limit))
    except Infeasible as error:
        raise _no_choice(selection) from error


def certify_program(
    selection: Selection, time_limit: float | None, origin: dict[str, Any]
) -> tuple[Solution, dict[str, Any]]:
    """The exact solution and its certificate, ready for JSON; `origin` is what that says of where it came from.

    It says too whether the time for stating the problem was over (`cut`): nobody states that problem again.

    Raises LayoutError where no choice is possible.
    """
    from layout_ir.selection.solver.certificate import certify

    omitted = len(set(selection.omissions))
    if any(omission.what == CUT for omission in selection.omissions):
        origin["cut"] = True
    extra = {"origin": origin, **({"omitted": omitted} if omitted else {})}
    try:
        solution, certificate = certify(selection.problem, time_limit, extra=extra)
    except Infeasible as error:
        raise _no_choice(selection) from error
    return _of_program(selection, solution), certificate


def _of_program(selection: Selection, solution: Solution) -> Solution:
    """`solution`, whose bound is one of the program only if the problem states all of its choice."""
    omitted = tuple(dict.fromkeys(omission.what for omission in selection.omissions))
    return replace(solution, bound=None, omitted=omitted) if omitted else solution


def _no_choice(selection: Selection) -> Exception:
    """The error for `selection`, which has no choice: PassError at the op to blame, or LayoutError if that is none."""
    for node, decision in zip(selection.problem.ops, selection.decisions, strict=True):
        least = node.weight * min(choice.cost for choice in node.choices)
        if least >= FORBIDDEN:
            often = f", which runs {node.weight} times," if node.weight > 1 else ""
            return PassError(
                f"{name_of_op(decision.point.op)}{often} costs {least} at least, and selection adds up costs "
                "below 2^56: its tensors are too large, or its options too dear",
                decision.point.op,
            )
    for value, node, formats in zip(
        selection.values, selection.problem.values, selection.formats, strict=True
    ):
        layouts = [fmt.bind(shape_of(value)) for fmt in dict.fromkeys(formats)]
        dear = [
            cost
            for source in layouts
            for destination in layouts
            if (cost := node.weight * reorder_ns(source, destination, dtype_of(value.type))) >= FORBIDDEN
        ]
        if dear:
            owner = value.owner
            op = owner if isinstance(owner, Operation) else owner.parent_op()
            return PassError(
                f"a reorder of {value.type} costs {min(dear)}, and selection adds up costs below 2^56: "
                "the tensor is too large to be reordered, and its uses agree on no layout",
                op,
            )
    if len(selection.problem.ops) > NAMED:
        return LayoutError(NO_CHOICE)
    uses = conflicting_uses(selection.problem)
    return PassError(
        conflict_text(
            selection.problem,
            uses,
            op=lambda o: name_of_op(selection.decisions[o].point.op),
            value=lambda v: _name(selection.values[v]),
            fmt=lambda v, f: name_of(selection.formats[v][f]) or str(selection.formats[v][f]),
        ),
        selection.decisions[uses[-1].op].point.op if uses else None,
    )


def _name(value: SSAValue) -> str:
    return f"a {value.type}" if value.name_hint is None else f"%{value.name_hint}"
