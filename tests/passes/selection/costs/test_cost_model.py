"""The built-in costs."""

from __future__ import annotations

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.costs.cost_model import (
    BUILT_IN,
    CostModel,
    Rates,
    reorder_bytes,
    reorder_ns,
)

NCHW, BLOCKED, LAST = (Format.from_tag(tag) for tag in ("nchw", "nChw8c", "nhwc"))
SHAPE = (1, 60, 7, 5)


def test_a_reorder_is_paid_by_the_bytes_of_both_sides_pads_included() -> None:
    a, b = NCHW.bind(SHAPE), BLOCKED.bind(SHAPE)
    assert reorder_bytes(a, b, "f32") == 4 * (60 + 64) * 7 * 5
    assert reorder_bytes(a, b, "f16") == 2 * (60 + 64) * 7 * 5
    assert reorder_ns(a, b, "f32") == 1000 + 4 * (60 + 64) * 7 * 5 // 20


def test_the_same_bytes_under_another_name_cost_nothing() -> None:
    shape = (1, 64, 1, 1)
    assert reorder_ns(NCHW.bind(shape), BLOCKED.bind(shape), "f32") == 0
    assert reorder_ns(NCHW.bind(shape), LAST.bind(shape), "f32") == 0


def test_negative_pads_are_a_difference() -> None:
    shape = (1, 60, 1, 1)
    assert reorder_ns(NCHW.bind(shape), BLOCKED.bind(shape), "f32") > 0


def test_rates_are_what_streaming_and_products_take() -> None:
    assert BUILT_IN.stream(2000) == 1100
    assert BUILT_IN.product(8000) == 100
    slow = Rates(bytes_per_ns=0.5, call_ns=7, operations_per_ns=3)
    assert (slow.stream(100), slow.product(10)) == (207, 3)
    a, b = NCHW.bind(SHAPE), BLOCKED.bind(SHAPE)
    assert CostModel(slow).reorder(a, b, "f32") == slow.stream(reorder_bytes(a, b, "f32"))
    assert CostModel(slow).reorder(a, a, "f32") == 0
    assert CostModel(slow).fill(b, "f32") == slow.stream(4 * 4 * 35)


def test_whole_numbers_stay_whole_where_a_float_has_no_room() -> None:
    assert Rates(bytes_per_ns=1, call_ns=0).stream((1 << 60) + 1) == (1 << 60) + 1
