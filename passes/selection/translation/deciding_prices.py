"""Which prices decide: those that, moved inside their intervals, could change the choice.

Measuring everything that an op could run as takes long, and most of it cannot matter. So the problem is solved
optimistically: what is measured counts as measured, what is not at the low end of its interval. The choice found rests
on some prices that nobody measured; these are measured, and it is solved again. Once it rests on measured prices alone,
nothing that is left can make another choice cheaper, as long as the intervals hold. The choice by the middle of all
prices is measured on the way, so that what comes out was measured even where time ends it.

Each round measures a price or is the last, so it ends; most networks take four to eight rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from layout_ir.passes.selection.costs.measured_costs import End
from layout_ir.passes.selection.costs.price_keys import PriceKey
from layout_ir.passes.selection.costs.price_table import Price
from layout_ir.passes.selection.translation.priced_selection import PricedSelection, Question, Questions
from layout_ir.passes.selection.translation.program_solution import solve_program
from layout_ir.selection.solver.solve import solve

Answers = Callable[[Sequence[tuple[PriceKey, Question]]], Iterator[tuple[PriceKey, Price | None]]]
"""Measures: gives the prices of questions as they come, None for what cannot be measured."""

Progress = Callable[[int, int], None]
"""Is told how many questions of how many are answered."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What was measured, and whether nothing is left that decides."""

    measured: int
    failed: int
    """Questions that could not be answered: what they are about keeps its other costs."""
    rounds: int
    is_settled: bool

    def then(self, more: Settled) -> Settled:
        """This and what was measured behind it."""
        return Settled(
            self.measured + more.measured,
            max(self.failed, more.failed),
            self.rounds + more.rounds,
            more.is_settled,
        )


def settle(
    priced: PricedSelection,
    answers: Answers,
    seconds: float,
    *,
    everything: bool = False,
    clock: Callable[[], float] = monotonic,
    progress: Progress = lambda done, of: None,
) -> Settled:
    """Measures the prices that decide, into those of the costs, until none is left or the seconds are over.

    With `everything`, all prices of the problem besides, those that decide first. Raises LayoutError where the problem
    has no choice.
    """
    end = clock() + seconds
    prices = priced.costs.prices
    failed: set[PriceKey] = set()
    measured = rounds = 0
    solve_program(priced.selection)  # says what is wrong, where no choice is possible
    while True:
        wanted = {key: q for key, q in _deciding(priced).items() if key not in prices and key not in failed}
        is_settled = not wanted
        if not wanted and everything:
            wanted = {k: q for k, q in priced.questions.items() if k not in prices and k not in failed}
        if not wanted:
            return Settled(measured, len(failed), rounds, True)
        rounds += 1
        for done, (key, price) in enumerate(answers(list(wanted.items()))):
            if price is None:
                failed.add(key)
            else:
                prices[key] = price
                measured += 1
            progress(measured, measured + len(wanted) - done - 1)
            if clock() >= end:
                return Settled(measured, len(failed), rounds, is_settled or not _left(priced, failed))


def _left(priced: PricedSelection, failed: set[PriceKey]) -> bool:
    return any(key not in priced.costs.prices and key not in failed for key in _deciding(priced))


def _deciding(priced: PricedSelection) -> Questions:
    """The questions on which the choices rest that cost least by optimistic prices, and by the middle of all prices."""
    found: Questions = {}
    for end in (End.MIDDLE, End.OPTIMISTIC):
        found |= priced.questions_of(solve(priced.problem_at(end)).choices, end)
    return found
