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
from functools import partial

from layout_ir.errors import LayoutError
from layout_ir.gc_pause import gc_paused
from layout_ir.selection.solver.alike_formats import ClassedProblem, with_alike_formats_as_one
from layout_ir.selection.solver.branch_and_bound import Component, branch_and_bound
from layout_ir.selection.solver.cost_functions import CostFunctions
from layout_ir.selection.solver.demand_sets import MOST_SETS
from layout_ir.selection.solver.dominance import ReducedProblem, without_dominated_formats
from layout_ir.selection.solver.elimination import TABLE_LIMIT, Elimination, prepare, stopping_early
from layout_ir.selection.solver.elimination_order import EliminationOrder
from layout_ir.selection.solver.equal_sinks import MergedProblem, with_equal_sinks_merged
from layout_ir.selection.solver.format_maps import without_mapped_formats
from layout_ir.selection.solver.format_sets import count_sets
from layout_ir.selection.solver.greedy import solve_greedy, solve_preferred
from layout_ir.selection.solver.mincut import Cut, bound_of, solve_by_cut
from layout_ir.selection.solver.selection_problem import FORBIDDEN, Infeasible, Problem, Solution, evaluate

NO_CHOICE = "no choice of options fits together: some value would need a forbidden reorder"

SOLVERS = ("exact", "greedy", "naive")


def solve(problem: Problem, solver: str = "exact", time_limit: float | None = None) -> Solution:
    """The choice that `solver` makes; `time_limit` is in seconds, for the exact solver.

    Raises LayoutError for an unknown solver, and Infeasible where no choice is possible.
    """
    check_solver(solver)
    if solver == "greedy":
        return solve_greedy(problem)
    if solver == "naive":
        return solve_preferred(problem)
    return solve_exact(problem, time_limit)


def check_solver(solver: object) -> None:
    """Raises LayoutError for what is the name of no solver."""
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise LayoutError(f"unknown solver {solver!r}: solvers are {', '.join(SOLVERS)}")


def solve_exact(
    problem: Problem, time_limit: float | None = None, table_limit: int = TABLE_LIMIT
) -> Solution:
    """A choice of least cost, proven; or, where `time_limit` is over before, the best found and a lower bound.

    Three steps take time in proportion to the problem, some 50 us per op, that no limit cuts short: stating the cost
    functions, finding the elimination order, and a first choice. Nor does the search end before it found some possible
    choice. `table_limit` is the most entries of a table. Raises Infeasible where no choice is possible.
    """
    deadline = None if time_limit is None else time.monotonic() + time_limit
    given = problem
    steps: list[MergedProblem | ReducedProblem | ClassedProblem] = []
    for reduce in (with_equal_sinks_merged, without_dominated_formats):
        step = reduce(problem)
        if step is not None:
            steps.append(step)
            problem = step.problem
    prepared = prepare(problem, table_limit, deadline)
    is_late = deadline is not None and time.monotonic() >= deadline
    if not is_late and is_searched(problem, prepared):
        # To search takes longer than to look for formats that nothing needs, and for such as are alike to all users.
        for reduce in (partial(without_mapped_formats, deadline=deadline), with_alike_formats_as_one):
            step = reduce(problem)
            if step is not None:
                steps.append(step)
                problem, prepared = step.problem, None
    left = None if deadline is None else max(deadline - time.monotonic(), 0)
    found = run(problem, left, table_limit, prepared=prepared).solution
    choices = found.choices
    for step in reversed(steps):
        choices = step.original(choices)
    # The trees to many formats, which may not be the cheapest, are others where classes are asked for.
    is_same = not any(isinstance(step, ClassedProblem) for step in steps)
    return replace(found, choices=choices, cost=found.cost if is_same else evaluate(given, choices))


def is_searched(problem: Problem, prepared: tuple[CostFunctions, EliminationOrder]) -> bool:
    """Whether the elimination that was prepared leaves a core to search: of two formats there is a minimum cut."""
    return bool(prepared[1].core_variables) and any(len(value.reorder) > 2 for value in problem.values)


@dataclass(frozen=True, slots=True)
class Run:
    """A solution and what it was found by, of which a certificate is made."""

    elimination: Elimination | None
    components: list[Component]
    """The components of the core; empty where elimination went to the end."""
    solution: Solution
    cut: Cut | None = None
    """The minimum cut, where one was found instead: its prices are the proof."""


def run(
    problem: Problem,
    time_limit: float | None,
    table_limit: int = TABLE_LIMIT,
    record: bool = False,
    prepared: tuple[CostFunctions, EliminationOrder] | None = None,
    known: Sequence[int] | None = None,
) -> Run:
    """`solve_exact` without leaving anything out before, with what the solution was found by; with `record` the
    messages of elimination are in it. `prepared` is what `prepare` gives, and `known` are choices that fit together,
    where such are known: the search begins with them, and none is found that costs more.

    Where a value may be demanded in more sets of formats than are told apart (`DemandSets.more`) and the solution found
    needs one of those, the problem is solved again with more sets of that value told apart.
    """
    deadline = None if time_limit is None else time.monotonic() + time_limit
    limits: dict[int, int] = {}
    best = None if known is None else Solution(tuple(known), evaluate(problem, known), None)
    with gc_paused():
        while True:
            prepared = prepared or prepare(problem, table_limit, deadline, limits)
            functions, order = stopping_early(problem, table_limit, prepared, limits)
            prepared = None
            found, beyond = _run(problem, deadline, functions, order, record, known)
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
    """Lets one more size of sets of each value in `beyond` be told apart; whether that was possible for any."""
    refined = False
    for v in beyond:
        assert found.elimination is not None
        sets = found.elimination.functions.demand_sets[v]
        sets = count_sets(len(sets.wanted), sets.most + 1)
        if sets <= MOST_SETS:
            limits[v] = sets
            refined = True
    return refined


def _run(
    problem: Problem,
    deadline: float | None,
    functions: CostFunctions,
    order: EliminationOrder,
    record: bool,
    known: Sequence[int] | None,
) -> tuple[Run, list[int]]:
    """One pass of all methods, and the values that the solution demands in a set larger than those told apart."""
    cut = solve_by_cut(problem, deadline) if order.core_variables else None
    if cut is not None:
        cost, bound = evaluate(problem, cut.choices), bound_of(problem, cut)
        # A cut through forbidden arcs is none; the search says what is wrong.
        if cost == bound < FORBIDDEN:
            return Run(None, [], Solution(cut.choices, cost, bound), cut), []
    elimination = Elimination(functions, order, record)
    if not elimination.run(deadline):
        found = _completed(problem, elimination)
        if found.cost < FORBIDDEN:
            return Run(elimination, [], found), []
        elimination.run()
    components: list[Component] = []
    if order.core_variables:
        first = functions.states_of(solve_greedy(problem).choices if known is None else known)
        components = branch_and_bound(elimination.core(), deadline, first, record=record)
    total = elimination.total + sum(part.cost for part in components)
    bound = elimination.total + sum(part.bound for part in components)
    if total >= FORBIDDEN:
        raise Infeasible(NO_CHOICE)
    states = elimination.backward({v: state for part in components for v, state in part.states.items()})
    choices = tuple(states[: len(problem.ops)])
    cost = evaluate(problem, choices)
    beyond = [
        v
        for v, own in functions.demand_sets.items()
        if own.more and states[functions.shift + v] == own.states - 1
    ]
    assert cost == total or (beyond and cost > total), f"the solver promised {total}, its choice costs {cost}"
    return Run(elimination, components, Solution(choices, cost, bound)), beyond


def _completed(problem: Problem, elimination: Elimination) -> Solution:
    """The solution of an elimination that was stopped: greedy choices for what is left, the best ones with those for
    the rest, and what elimination proved so far as the bound."""
    bound = elimination.least()
    greedy = solve_greedy(problem)
    left = elimination.functions.states_of(greedy.choices)
    choices = tuple(elimination.backward(dict(enumerate(left)))[: len(problem.ops)])
    cost = evaluate(problem, choices)
    if greedy.cost < cost:
        choices, cost = greedy.choices, greedy.cost
    return Solution(choices, cost, min(bound, cost))
