"""Ranges of accesses against counting."""

from __future__ import annotations

from itertools import product

import pytest

from layout_ir.dialects.kernel.plan import Level, Loop, TableLoop
from layout_ir.dialects.kernel.plan_accesses import linear_range, positions_range


@pytest.mark.parametrize(("count", "stride"), list(product((1, 2, 7), (-12, 0, 4))))
def test_a_linear_range_is_what_its_iterations_reach(count: int, stride: int):
    offsets = [k * stride for k in range(count)]
    assert linear_range(count, stride) == (min(offsets), max(offsets))


FINE, TABLE, COARSE = (
    Loop(4, -4, 8, channel=1),
    TableLoop((0, 64, 8), (0, 16, 200), 4),
    Loop(3, 100, -7, channel=-12),
)
LEVELS = (Level(1, FINE), Level(4, TABLE), Level(12, COARSE))


def test_the_range_of_positions_is_what_they_reach():
    def offsets(position: int) -> dict[str, int]:
        fine, middle, coarse = position % 4, position // 4 % 3, position // 12
        return {
            "src": fine * -4 + (0, 64, 8)[middle] + coarse * 100,
            "dst": fine * 8 + (0, 16, 200)[middle] + coarse * -7,
            "channel": fine + 4 * middle - 12 * coarse,
        }

    for start, stop in product(range(36), range(37)):
        if start >= stop:
            continue
        for side in ("src", "dst", "channel"):
            found = [offsets(position)[side] for position in range(start, stop)]
            assert positions_range(LEVELS, start, stop, side) == (min(found), max(found)), (start, stop)
