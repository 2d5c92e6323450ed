"""One entry for all solvers.

    exact    elimination, and search in the core that it leaves; optimal, or the time limit and a proven gap
    greedy   every op for itself, in program order
    naive    every op its cheapest option, whatever the reorders cost

The last two exist for comparison and prove nothing (`bound` is None).
"""

from __future__ import annotations

from layout_ir.errors import LayoutError
from layout_ir.passes.selection.elimination import TABLE_LIMIT, Elimination, Infeasible, prepare
from layout_ir.passes.selection.greedy import solve_greedy, solve_preferred
from layout_ir.passes.selection.problem import FORBIDDEN, Problem, Solution, evaluate

SOLVERS = ("exact", "greedy", "naive")


def solve(problem: Problem, solver: str = "exact", time_limit: float | None = None) -> Solution:
    """The choice that `solver` makes; `time_limit` is in seconds and ends the exact search of a wide core.

    Raises LayoutError for an unknown solver, and Infeasible where no choice is possible.
    """
    if solver == "greedy":
        return solve_greedy(problem)
    if solver == "naive":
        return solve_preferred(problem)
    if solver != "exact":
        raise LayoutError(f"unknown solver '{solver}': solvers are {', '.join(SOLVERS)}")
    return solve_exact(problem, time_limit)


def solve_exact(
    problem: Problem, time_limit: float | None = None, table_limit: int = TABLE_LIMIT
) -> Solution:
    """A choice of least cost, proven; or, where `time_limit` ends the search, the best found and a lower bound.

    Elimination alone takes what time it takes, which grows with the entries of its tables; `table_limit` bounds
    the largest. Raises Infeasible.
    """
    import gc

    gc.disable()
    factors, plan = prepare(problem, table_limit)
    elimination = Elimination(factors, plan)
    total = elimination.total
    states = elimination.backward({})
    if total >= FORBIDDEN:
        raise Infeasible("no choice of options fits together: some value would need a forbidden reorder")
    choices = tuple(states[: len(problem.ops)])
    cost = evaluate(problem, choices)
    assert cost == total, f"elimination promised {total}, its choice costs {cost}"
    return Solution(choices, cost, cost)
