"""A price comes from the table, else from the model, else from the built-in costs; each has an interval."""

from __future__ import annotations

import pytest

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.costs.cost_model import CostModel, proven_for
from layout_ir.passes.selection.costs.measured_costs import BUILT_IN_FACTOR, End, MeasuredCosts, Origin
from layout_ir.passes.selection.costs.price_keys import PriceKey, reorder_key
from layout_ir.passes.selection.costs.price_model import GroupModel, PriceModel, group_of
from layout_ir.passes.selection.costs.price_table import Price, PriceSource

SOURCE = PriceSource("an-abacus", "beads 1.0", 2)
SHAPE = (1, 16, 8, 8)
PLAIN, BLOCKED = (Format.of(tag).bind(SHAPE) for tag in ("nchw", "nChw8c"))


def _key() -> PriceKey:
    key = reorder_key(PLAIN, BLOCKED, "f32")
    assert key is not None
    return key


def test_a_measured_price_goes_before_all_others() -> None:
    costs = MeasuredCosts({_key(): Price(5, 7, 11)}, SOURCE)
    found = [
        costs.at(end).reorder(PLAIN, BLOCKED, "f32")
        for end in (End.LOW, End.MIDDLE, End.HIGH, End.OPTIMISTIC)
    ]
    assert found == [5, 7, 11, 7]
    assert costs.price(_key(), 1000)[1] is Origin.MEASURED


def test_without_a_price_the_model_is_asked_and_then_the_built_in_cost_holds() -> None:
    fit = GroupModel(call=10, per_byte=0.0, per_operation=0.0, factor=2.0, median=1.1, count=8)
    fitted = MeasuredCosts({}, SOURCE, PriceModel({group_of(_key()): fit}))
    assert fitted.price(_key(), 1000) == (Price(5, 10, 20), Origin.FITTED)
    assert fitted.at(End.OPTIMISTIC).reorder(PLAIN, BLOCKED, "f32") == 5
    built_in = CostModel().reorder(BLOCKED, PLAIN, "f32")
    assert fitted.reorder(BLOCKED, PLAIN, "f32") == built_in
    assert fitted.at(End.LOW).reorder(BLOCKED, PLAIN, "f32") == built_in // BUILT_IN_FACTOR
    assert fitted.at(End.HIGH).reorder(BLOCKED, PLAIN, "f32") == built_in * BUILT_IN_FACTOR


def test_filling_pads_is_the_reorder_of_a_layout_to_itself() -> None:
    padded = Format.of("nChw8c").bind((1, 3, 8, 8))
    key = reorder_key(padded, padded, "f32")
    assert key is not None
    assert MeasuredCosts({key: Price(3, 3, 3)}, SOURCE).fill(padded, "f32") == 3


def test_what_moves_nothing_costs_nothing_whatever_the_table_says() -> None:
    key = reorder_key(PLAIN, PLAIN, "f32")
    assert key is not None
    assert MeasuredCosts({key: Price(3, 3, 3)}, SOURCE).reorder(PLAIN, PLAIN, "f32") == 0


def test_an_optimum_is_proven_for_the_prices_of_a_runtime_on_a_machine() -> None:
    said = proven_for(MeasuredCosts({}, SOURCE), "onednn")
    assert said == "prices of beads 1.0 on an-abacus, 2 threads, target onednn"


@pytest.mark.parametrize("end", list(End))
def test_the_ends_of_an_interval_rise(end: End) -> None:
    costs = MeasuredCosts({}, SOURCE)
    low, cost, high = (costs.at(e).reorder(PLAIN, BLOCKED, "f32") for e in (End.LOW, end, End.HIGH))
    assert low <= cost <= high


def test_where_in_its_buffer_a_tensor_begins_changes_no_price() -> None:
    costs = MeasuredCosts({_key(): Price(5, 7, 11)}, SOURCE)
    shifted = Format.parse("(n, c, h, w) : [n, c, h, w], offset = 40").bind(SHAPE)
    assert costs.reorder(shifted, BLOCKED, "f32") == 7
    assert costs.reorder(BLOCKED, shifted, "f32") == costs.reorder(BLOCKED, PLAIN, "f32")


def test_negative_windows_of_one_buffer_are_not_the_same_memory() -> None:
    costs = MeasuredCosts({}, SOURCE)
    text = "(n, c, h, w) : [n, c, h*64, w*4], offset = "
    first, second = (Format.parse(text + str(offset)).bind(SHAPE) for offset in (0, 1))
    assert costs.reorder(first, first, "f32") == 0
    assert costs.reorder(first, second, "f32") > 0
    key = reorder_key(first, second, "f32")
    assert key is not None and key.ins != key.outs
