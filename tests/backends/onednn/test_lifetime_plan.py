"""Buffers that live at once lie apart, and the size is stated beside what no plan can do without."""

from __future__ import annotations

import random

import pytest

from layout_ir.backends.onednn.lifetime_plan import Lifetime, plan_arena
from layout_ir.elements.cache_line import LINE


def aligned(size: int) -> int:
    return -(-size // LINE) * LINE


@pytest.mark.parametrize("seed", range(40))
def test_buffers_that_live_at_once_lie_apart(seed: int):
    draw = random.Random(seed)
    lifetimes: list[Lifetime] = []
    for _ in range(draw.randint(1, 40)):
        first = draw.randint(0, 30)
        lifetimes.append(Lifetime(draw.randint(1, 5000), first, first + draw.randint(0, 8)))
    plan = plan_arena(lifetimes)
    for k, one in enumerate(lifetimes):
        assert plan.offsets[k] % LINE == 0
        assert plan.offsets[k] + one.size <= plan.size
        for j, other in enumerate(lifetimes[:k]):
            if one.first <= other.last and other.first <= one.last:
                apart = plan.offsets[k] >= plan.offsets[j] + other.size or (
                    plan.offsets[j] >= plan.offsets[k] + one.size
                )
                assert apart, (one, other)
    at_once = (
        sum(aligned(own.size) for own in lifetimes if own.first <= step <= own.last) for step in range(40)
    )
    assert plan.lower_bound == max(at_once) <= plan.size


def test_a_chain_takes_two_buffers_in_turns():
    plan = plan_arena([Lifetime(640, k, k + 1) for k in range(10)])
    assert plan.size == plan.lower_bound == 1280


def test_negative_buffers_that_all_live_share_nothing():
    plan = plan_arena([Lifetime(64, 0, 9) for _ in range(10)])
    assert sorted(plan.offsets) == [64 * k for k in range(10)]


def test_no_buffers_need_no_arena():
    plan = plan_arena([])
    assert (plan.offsets, plan.size, plan.lower_bound) == ((), 0, 0)
