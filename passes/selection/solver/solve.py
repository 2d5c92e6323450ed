"""One entry for all solvers.

    exact    elimination; where that leaves a core, a minimum cut if there are two formats, and else search in
             the core: optimal, or at the time limit the best found with a proven gap. The limit covers all of it:
             what elimination has not come to is bounded by the least entries of what is left.
    greedy   every op for itself, in program order
    naive    every op its cheapest option, whatever the reorders cost

The last two exist for comparison and prove nothing (`bound` is None).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from layout_ir.errors import LayoutError
from layout_ir.passes.gc_pause import no_collection
from layout_ir.passes.selection.solver.branch_and_bound import Part, solve_core
from layout_ir.passes.selection.solver.demand_sets import MOST_SETS, count_sets
from layout_ir.passes.selection.solver.elimination import TABLE_LIMIT, Elimination, Infeasible, prepare
from layout_ir.passes.selection.solver.greedy import solve_greedy, solve_preferred
from layout_ir.passes.selection.solver.mincut import Cut, bound_of, solve_by_cut
from layout_ir.passes.selection.solver.selection_problem import FORBIDDEN, Problem, Solution, evaluate

NO_CHOICE = "no choice of options fits together: some value would need a forbidden reorder"

SOLVERS = ("exact", "greedy", "naive")


def solve(problem: Problem, solver: str = "exact", time_limit: float | None = None) -> Solution:
    """The choice that `solver` makes; `time_limit` is in seconds, for the exact solver.

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
    """A choice of least cost, proven; or, where `time_limit` is over before, the best found and a lower bound.

    Stating the tables, finding the order, and a first choice take time in proportion to the problem, some 50 us per
    op, which no limit cuts short; nor is any kept before some choice is found that is possible at all. `table_limit`
    bounds the entries of the largest table. Raises Infeasible.
    """
    return run(problem, time_limit, table_limit).solution


@dataclass(frozen=True, slots=True)
class Run:
    """A solution and what it was found with, from which a certificate is made."""

    elimination: Elimination | None
    parts: list[Part]
    """The core, in independent parts; empty where elimination went to the end."""
    solution: Solution
    cut: Cut | None = None
    """Where a minimum cut was found instead: its prices are the proof."""


def run(
    problem: Problem, time_limit: float | None, table_limit: int = TABLE_LIMIT, record: bool = False
) -> Run:
    """`solve_exact`; with `record` the messages of elimination are kept.

    Where a value may be needed in more sets of formats than are told apart at first (`demand_sets.Needs.more`), and
    what is found needs one of those, more are told apart.
    """
    deadline = None if time_limit is None else time.monotonic() + time_limit
    limits: dict[int, int] = {}
    best: Solution | None = None
    with no_collection():
        while True:
            found, beyond = _run(problem, deadline, table_limit, record, limits)
            if best is None or found.solution.cost < best.cost:
                best = found.solution
            late = deadline is not None and time.monotonic() >= deadline
            if best.cost == found.solution.bound or late or not _refined(found, beyond, limits):
                break
        if best.cost >= FORBIDDEN:
            best = solve_greedy(problem)
            if best.cost >= FORBIDDEN:
                raise Infeasible("no choice of options was found that fits together")
        return replace(found, solution=Solution(best.choices, best.cost, found.solution.bound))


def _refined(found: Run, beyond: Sequence[int], limits: dict[int, int]) -> bool:
    """Raises the number of sets of the values `beyond`, that have the state for all larger ones; whether any can be."""
    refined = False
    for v in beyond:
        assert found.elimination is not None
        needs = found.elimination.factors.needs[v]
        sets = count_sets(len(needs.wanted), needs.most + 1)
        if sets <= MOST_SETS:
            limits[v] = sets
            refined = True
    return refined


def _run(
    problem: Problem, deadline: float | None, table_limit: int, record: bool, limits: dict[int, int]
) -> tuple[Run, list[int]]:
    """What was found, and the values that have the state for all sets of more formats than are told apart."""
    factors, plan = prepare(problem, table_limit, deadline, limits)
    cut = solve_by_cut(problem, deadline) if plan.core_variables else None
    if cut is not None:
        cost, bound = evaluate(problem, cut.choices), bound_of(problem, cut)
        # A cut through forbidden arcs is none; the search says what is wrong.
        if cost == bound < FORBIDDEN:
            return Run(None, [], Solution(cut.choices, cost, bound), cut), []
    elimination = Elimination(factors, plan, record)
    if not elimination.run(deadline):
        found = _completed(problem, elimination)
        if found.cost < FORBIDDEN:
            return Run(elimination, [], found), []
        elimination.run()
    parts = solve_core(elimination.core(), deadline) if plan.core_variables else []
    total = elimination.total + sum(part.cost for part in parts)
    bound = elimination.total + sum(part.bound for part in parts)
    if total >= FORBIDDEN:
        raise Infeasible(NO_CHOICE)
    states = elimination.backward({v: state for part in parts for v, state in part.states.items()})
    choices = tuple(states[: len(problem.ops)])
    cost = evaluate(problem, choices)
    beyond = [
        v for v, own in factors.needs.items() if own.more and states[factors.shift + v] == own.states - 1
    ]
    assert cost == total or (beyond and cost > total), f"the solver promised {total}, its choice costs {cost}"
    return Run(elimination, parts, Solution(choices, cost, bound)), beyond


def _completed(problem: Problem, elimination: Elimination) -> Solution:
    """The choice of an elimination that was stopped: greedy for what is left, and for the rest the best with that."""
    bound = elimination.least()
    greedy = solve_greedy(problem)
    left = elimination.factors.states_of(greedy.choices)
    choices = tuple(elimination.backward(dict(enumerate(left)))[: len(problem.ops)])
    cost = evaluate(problem, choices)
    if greedy.cost < cost:
        choices, cost = greedy.choices, greedy.cost
    return Solution(choices, cost, min(bound, cost))
