"""The regret of a case is over the plans that the planner weighs; a cliff is the same reorder beside a power of two."""

from __future__ import annotations

import pytest

from benchmarks.regret import cliffs, plans_of, seconds
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.runtime.call import plan_reorder


def test_the_choice_of_the_planner_is_the_first():
    src, dst = (Format.of(tag).bind((512, 1024, 1, 1)) for tag in ("cdba", "ABcd8b16a"))
    plans = plans_of(src, dst, "f32")
    assert plans[0] == plan_reorder(src, dst, "f32")
    assert len(plans) == len(set(plans)) > 4


@pytest.mark.parametrize("dst_dtype", ["", "bf16", "i8"])
def test_all_plans_are_timed(dst_dtype: str):
    src, dst = (Format.of(tag).bind((64, 64)) for tag in ("ab", "ba"))
    plans = plans_of(src, dst, "f32", dst_dtype)
    assert plans[0].elements[1] == (dst_dtype or None)
    times = seconds(plans, 3)
    assert len(times) == len(plans) and min(times) > 0


@pytest.mark.parametrize("name, pairs", list(cliffs()))
def test_a_cliff_differs_in_one_extent(name: str, pairs: list[tuple[Layout, Layout, str]]):
    shapes = [src.shape for src, _, _ in pairs]
    assert "x".join(map(str, shapes[0])) in name
    totals = [sum(shape) - sum(shapes[0]) for shape in shapes]
    assert totals == [0, -16, 16]
