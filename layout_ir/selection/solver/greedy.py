"""Greedy selection, op by op: the decision rule of most systems, for comparison.

In program order each op takes the option that is cheapest for it alone, counting the reorders of its operands from
the formats they were produced in. Later ops and reorders shared between uses are not considered.
"""

from __future__ import annotations

from layout_ir.selection.solver.selection_problem import OpNode, Problem, Solution, evaluate, tree_cost


def solve_greedy(problem: Problem) -> Solution:
    """The choice made op by op, without a bound. Deterministic: of options that cost the same, the first is taken."""
    produced: dict[int, int] = {}
    choices: list[int] = []
    for op in problem.ops:

        def price(number: int, op: OpNode = op) -> tuple[int, int]:
            choice = op.choices[number]
            moved = sum(
                problem.values[value].weight
                * tree_cost(problem.values[value].reorder, produced[value], [wanted])
                for value, wanted in zip(op.operands, choice.ins, strict=True)
                if value in produced  # what a loop yields is not known when the loop is entered
            )
            return op.weight * choice.cost + moved, number

        best = min(range(len(op.choices)), key=price)
        choices.append(best)
        for value, made in zip(op.results, op.choices[best].outs, strict=True):
            produced[value] = made
    return Solution(tuple(choices), evaluate(problem, choices), None)


def solve_preferred(problem: Problem) -> Solution:
    """The naive program: every op takes its cheapest option, whatever reorders that takes; no bound."""
    choices = tuple(min(range(len(op.choices)), key=lambda k: (op.choices[k].cost, k)) for op in problem.ops)
    return Solution(choices, evaluate(problem, choices), None)
