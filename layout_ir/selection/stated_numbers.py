"""Problems that a caller has stated in numbers: looked at, and then solved.

The solver takes a problem as it is; what makes them here makes them whole. One that comes from outside may name a value
or a format that is not there, and would be solved as another problem, or end in an IndexError.
"""

from __future__ import annotations

from typing import Any

from layout_ir.argument_checks import check_seconds, checked_integer
from layout_ir.errors import LayoutError
from layout_ir.selection.solver.certificate import certify as certify_whole
from layout_ir.selection.solver.elimination import TABLE_LIMIT
from layout_ir.selection.solver.selection_problem import Matrix, OpNode, Problem, Solution
from layout_ir.selection.solver.solve import check_solver
from layout_ir.selection.solver.solve import solve as solve_whole


def solve(problem: Problem, solver: str = "exact", time_limit: float | None = None) -> Solution:
    """The choice that `solver` makes; `time_limit` is in seconds, for the exact solver.

    Raises LayoutError for an unknown solver, a problem that is not whole (`check_problem`) and a time limit that is no
    number of seconds, and Infeasible where no choice is possible.
    """
    check_solver(solver)
    _check(problem, time_limit)
    return solve_whole(problem, solver, time_limit)


def certify(
    problem: Problem,
    time_limit: float | None = None,
    table_limit: int = TABLE_LIMIT,
    extra: dict[str, Any] | None = None,
) -> tuple[Solution, dict[str, Any]]:
    """Solves exactly and returns the solution with its certificate, ready for JSON.

    `extra` has entries that the certificate is to have besides: `origin`, and `omitted`, how many things the problem
    leaves out of the choice of its program. Raises LayoutError where it has one that every certificate has, and what
    `solve` raises.
    """
    _check(problem, time_limit)
    return certify_whole(problem, time_limit, table_limit, extra)


def _check(problem: Problem, time_limit: float | None) -> None:
    if time_limit is not None:
        check_seconds("time_limit", time_limit)
    check_problem(problem)


def check_problem(problem: Problem) -> None:
    """Raises LayoutError, naming the op or the value, where `problem` is not whole.

    Every value is the result of one op. An option has a format for each operand and result of its op, which is a row of
    the value's square of reorder costs. Costs and weights are integers from 0 on, and to stay in a format costs 0. The
    time goes with the choices of the ops and the entries of different squares.
    """
    if not isinstance(problem, Problem):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(f"a Problem is needed, not of type {type(problem).__name__}")
    known: dict[int, Matrix] = {}
    for number, value in enumerate(problem.values):
        where = f"value {number}"
        _check_count(value.weight, where, "weight")
        if known.get(id(value.reorder)) is not value.reorder:
            _check_matrix(value.reorder, where)
            known[id(value.reorder)] = value.reorder
    makers: dict[int, int] = {}
    widths = [len(value.reorder) for value in problem.values]
    for number, op in enumerate(problem.ops):
        where = f"op {number}"
        _check_count(op.weight, where, "weight")
        for value in (*op.operands, *op.results):
            if not 0 <= checked_integer(f"{where}: value", value) < len(widths):
                raise LayoutError(f"{where} names value {value}, the problem has {len(widths)}")
        for value in op.results:
            if value in makers:
                raise LayoutError(f"value {value} is made twice, by op {makers[value]} and by {where}")
            makers[value] = number
        _check_choices(op, where, widths)
    for value in range(len(widths)):
        if value not in makers:
            raise LayoutError(f"value {value} is the result of no op")


def _check_choices(op: OpNode, where: str, widths: list[int]) -> None:
    if not op.choices:
        raise LayoutError(f"{where} needs an option to run in: it has none")
    for number, choice in enumerate(op.choices):
        option = f"option {number} of {where}"
        _check_count(choice.cost, option, "cost")
        for what, formats, values in (
            ("operands", choice.ins, op.operands),
            ("results", choice.outs, op.results),
        ):
            if len(formats) != len(values):
                raise LayoutError(
                    f"{option} has {len(formats)} formats of {what}, and the op has {len(values)} {what}"
                )
            for fmt, value in zip(formats, values, strict=True):
                if not 0 <= checked_integer(f"{option}: format", fmt) < widths[value]:
                    raise LayoutError(
                        f"{option} names format {fmt} of value {value}, which has {widths[value]}"
                    )


def _check_matrix(reorder: Matrix, where: str) -> None:
    for fmt, row in enumerate(reorder):
        if len(row) != len(reorder):
            raise LayoutError(
                f"the reorder costs of {where} are no square: row {fmt} of {len(reorder)} has {len(row)} entries"
            )
        for cost in row:
            _check_count(cost, where, "reorder cost")
        if row[fmt]:
            raise LayoutError(f"{where} costs {row[fmt]} from format {fmt} to itself, expected 0")


def _check_count(number: object, where: str, what: str) -> None:
    if checked_integer(f"{where}: {what}", number) < 0:
        raise LayoutError(f"{where} has {what} {number}: expected a whole number from 0 on")
