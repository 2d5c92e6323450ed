"""Costs that were measured: what an op or a reorder took in the runtime that will run it.

A price comes from a table (`price_table`); what the table lacks from a model that was fitted to it (`price_model`); and
what that cannot say from the built-in costs. Each has an interval: that of the measurement, the error of the fit, and
for built-in costs a factor either way. `at` gives the same costs at the ends of the intervals: that is how it is told
whether a choice depends on the noise, and which prices are worth measuring.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from layout_ir.algebra.layout import Layout
from layout_ir.diagnostics import name_of_op
from layout_ir.dialects.layout.ops import can_cast
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.costs.cost_model import COST_LIMIT, CostModel
from layout_ir.passes.selection.costs.moved_share import moved_share
from layout_ir.passes.selection.costs.price_keys import PriceKey, op_key, reorder_key
from layout_ir.passes.selection.costs.price_table import Price, PriceSource
from layout_ir.selection.solver.selection_problem import FORBIDDEN

if TYPE_CHECKING:
    from layout_ir.passes.selection.costs.price_model import PriceModel

BUILT_IN_FACTOR = 5
"""The factor by which a built-in cost may be wrong, either way, until it is measured."""


class Origin(Enum):
    """Where a price comes from."""

    MEASURED = "measured"
    FITTED = "fitted"
    BUILT_IN = "built in"


class End(Enum):
    """The number of an interval that counts."""

    LOW = "low"
    MIDDLE = "middle"
    HIGH = "high"
    OPTIMISTIC = "optimistic"
    """The low end of what is not measured, the middle of what is."""


class MeasuredCosts(CostModel):
    """Prices of one source, by key; what they lack from `model`, and then as built in."""

    tells_constants = True
    tells_offsets = False

    def __init__(
        self,
        prices: dict[PriceKey, Price],
        of: PriceSource,
        model: PriceModel | None = None,
        *,
        end: End = End.MIDDLE,
        base: CostModel | None = None,
    ):
        """`prices` may grow while this is in use; `base` has the costs of what has no price."""
        super().__init__((base or CostModel()).rates)
        self.prices = prices
        self.of_source = of
        self.speaks_of = f"prices of {of}"
        self.model = model
        self.end = end
        self.base = base or CostModel(self.rates)

    def at(self, end: End) -> MeasuredCosts:
        """The same prices at an end of their intervals."""
        found = MeasuredCosts(self.prices, self.of_source, self.model, end=end, base=self.base)
        found.source = self.source
        return found

    def price(self, key: PriceKey | None, otherwise: int) -> tuple[Price, Origin]:
        """The price of `key`, and where it comes from; `otherwise` is the built-in cost."""
        found = None if key is None else self.prices.get(key)
        if found is not None:
            return found, Origin.MEASURED
        found = None if key is None or self.model is None else self.model.price(key)
        if found is not None:
            return found, Origin.FITTED
        least, most = otherwise // BUILT_IN_FACTOR, min(otherwise * BUILT_IN_FACTOR, COST_LIMIT - 1)
        return Price(least, otherwise, most), Origin.BUILT_IN

    def _cost(self, key: PriceKey | None, otherwise: int) -> int:
        if key is None:
            return otherwise
        return self.at_end(key, otherwise, self.end)

    def at_end(self, key: PriceKey, otherwise: int, end: End) -> int:
        """The price of `key` at an end of its interval; `otherwise` is the built-in cost."""
        price, origin = self.price(key, otherwise)
        match end:
            case End.LOW:
                return price.low
            case End.MIDDLE:
                return price.ns
            case End.HIGH:
                return price.high
            case End.OPTIMISTIC:
                return price.ns if origin is Origin.MEASURED else price.low

    def for_op(self, op: Operation, option: LayoutOption, shapes: Sequence[tuple[int, ...]]) -> int:
        """The price of running `op` as `option`, in nanoseconds; of concats and slices, for what they move."""
        share = moved_share(op, option)
        if not share:
            return 0
        return int(share * self._cost(op_key(op, option), self.base.op(name_of_op(op), option, shapes)))

    def op(self, name: str, option: LayoutOption, shapes: Sequence[tuple[int, ...]]) -> int:
        """What the base says, for who does not say which op it is."""
        return self.base.op(name, option, shapes)

    def reorder(self, source: Layout, destination: Layout, dtype: str) -> int:
        """The price of a reorder, in nanoseconds; 0 where a cast does it."""
        if can_cast(source, destination):
            return 0
        otherwise = self.base.reorder(source, destination, dtype)
        if otherwise >= FORBIDDEN:
            return otherwise
        return self._cost(reorder_key(source, destination, dtype), otherwise)

    def fill(self, layout: Layout, dtype: str) -> int:
        """The price of writing the pads of a tensor."""
        return self._cost(reorder_key(layout, layout, dtype), self.base.fill(layout, dtype))


def costs_of(prices: dict[PriceKey, Price], of: PriceSource, path: str) -> MeasuredCosts:
    """The costs by prices that were read from `path`, with a model fitted to them."""
    from layout_ir.passes.selection.costs.price_model import fitted_model  # brings NumPy

    found = MeasuredCosts(prices, of, fitted_model(prices))
    found.source = path
    return found
