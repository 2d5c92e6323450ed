"""Programs with prices that are made up, in place of a clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from layout_ir.passes.selection.costs.measured_costs import MeasuredCosts
from layout_ir.passes.selection.costs.price_keys import PriceKey
from layout_ir.passes.selection.costs.price_table import Price, PriceSource
from layout_ir.passes.selection.options.targets import find_target
from layout_ir.passes.selection.translation.from_ir import build
from layout_ir.passes.selection.translation.priced_selection import PricedSelection, Question
from tests.programs import parse

SOURCE = PriceSource("an-abacus", "beads 1.0", 1)
EXAMPLES = Path(__file__).parents[4] / "examples"


def priced(
    name: str = "residual", target: str = "blocked8", costs: MeasuredCosts | None = None
) -> PricedSelection:
    """The problem of an example, under costs without a price unless others are given."""
    costs = costs or MeasuredCosts({}, SOURCE)
    module = parse((EXAMPLES / f"{name}.mlir").read_text(encoding="utf-8"))
    return PricedSelection(build(module, find_target(target), costs), costs)


class Truth:
    """What everything takes: a number per key within the intervals of the built-in costs, and what was asked."""

    def __init__(self, problem: PricedSelection, seed: int):
        self.problem = problem
        self.random = Random(seed)
        self.prices = {key: self._drawn(key) for key in problem.questions}
        self.asked: list[PriceKey] = []

    def _drawn(self, key: PriceKey) -> Price:
        price = self.problem.price(key)
        ns = round(price.low * (price.high / max(price.low, 1)) ** self.random.random())
        ns = max(price.low, min(ns, price.high))
        return Price(ns, ns, ns)

    def answers(
        self, questions: Sequence[tuple[PriceKey, Question]]
    ) -> Iterator[tuple[PriceKey, Price | None]]:
        for key, _ in questions:
            self.asked.append(key)
            yield key, self.prices[key]


class Clock:
    """A clock that goes on by a second whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now
