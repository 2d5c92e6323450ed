"""Whose prices a choice is the cheapest by, and whether that depends on the noise in them.

Prices have intervals, so what a choice costs has one. Whether another choice could really be the cheaper one is asked
at the prices that are worst for the choice: what it rests on at the high ends, all else at the low ends. Where no
choice costs less even then, none does anywhere inside the intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from layout_ir.errors import LayoutError
from layout_ir.passes.selection.costs.measured_costs import BUILT_IN_FACTOR, End, MeasuredCosts, Origin
from layout_ir.passes.selection.costs.price_table import PriceSource
from layout_ir.passes.selection.problem.selection import Selection
from layout_ir.passes.selection.translation.priced_selection import PricedSelection
from layout_ir.selection.solver.selection_problem import evaluate
from layout_ir.selection.solver.solve import solve

_SECONDS = 5.0
"""For so long the worst prices are searched at most; the bound found until then holds as well."""


@dataclass(frozen=True, slots=True)
class PriceStatement:
    """What is said of the prices of a choice. Costs in nanoseconds."""

    of_source: PriceSource
    measured: int
    fitted: int
    built_in: int
    """How many prices of the problem come from where."""
    low: int
    high: int
    """What the choice costs with all its prices at the low, and at the high ends of their intervals."""
    other: int
    """What any choice costs at least where the prices of this one are at their high ends and all others at the low."""

    @property
    def margin(self) -> int:
        """The most by which another choice may be the cheaper one at prices inside the intervals; 0 where none can."""
        return max(self.high - self.other, 0)

    def to_json(self) -> dict[str, Any]:
        """The entry `prices` of a report, and of the origin of a certificate."""
        return {
            "machine": self.of_source.machine,
            "runtime": self.of_source.runtime,
            "threads": self.of_source.threads,
            "measured": self.measured,
            "fitted": self.fitted,
            "built_in": self.built_in,
            "low": self.low,
            "high": self.high,
            "another_may_cost_less_by": self.margin,
        }

    def lines(self) -> list[str]:
        """What a report says: whose prices, and one sentence on the noise."""
        within = f" (taken to be right within a factor of {BUILT_IN_FACTOR})" if self.built_in else ""
        said = f"of its prices {self.measured} are measured, {self.fitted} fitted, {self.built_in} built in{within}"
        between = f"by their intervals the choice costs {_time(self.low)} to {_time(self.high)}"
        if not self.margin:
            return [said, f"{between}, and at no prices inside them does another choice cost less"]
        share = self.margin / max(self.high, 1)
        noise = (
            f"{between}; the optimum depends on differences inside the noise: at other prices inside them another "
            f"choice may cost up to {_time(self.margin)} ({share:.1%}) less"
        )
        return [said, noise]


def _time(ns: int) -> str:
    return f"{ns / 1e3:.3f} us" if ns < 1e6 else f"{ns / 1e6:.3f} ms"


def price_statement(
    selection: Selection, costs: MeasuredCosts, choices: Sequence[int] | None = None
) -> PriceStatement:
    """The statement on `choices`, or on the cheapest choice, of a problem stated under `costs`.

    Raises LayoutError where the problem has no choice.
    """
    priced = PricedSelection(selection, costs)
    if choices is None:
        choices = solve(selection.problem, time_limit=_SECONDS).choices
    low, high = (evaluate(priced.problem_at(end), choices) for end in (End.LOW, End.HIGH))
    worst = solve(priced.problem_at(End.LOW, choices), time_limit=_SECONDS)
    if worst.bound is None:
        raise LayoutError("the solver gave no bound")
    counts = priced.origins()
    return PriceStatement(
        costs.of_source,
        measured=counts[Origin.MEASURED],
        fitted=counts[Origin.FITTED],
        built_in=counts[Origin.BUILT_IN],
        low=low,
        high=high,
        other=worst.bound,
    )
