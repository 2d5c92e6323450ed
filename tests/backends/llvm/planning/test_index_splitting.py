"""Domains hold every position once, wherever an interval begins and ends in its blocks."""

from __future__ import annotations

from itertools import product

import pytest

from layout_ir.backends.llvm.planning.index_splitting import (
    Domain,
    IndexSet,
    not_split,
    single_position,
    split,
)
from layout_ir.dialects.kernel.plan import Level, Loop, TableLoop, VariableBoundLoops
from layout_ir.symbolic.symint import Size

LEVELS = (
    Level(1, Loop(4, 8, 1, channel=1)),
    Level(4, TableLoop((0, 100, 500), (0, 7, 30), channel=4)),
    Level(12, Loop(5, 1000, 2000, channel=12)),
)


def _place(position: int) -> tuple[Size, Size, Size]:
    """Where a position is in source and destination, and its channel, by the definition of levels."""
    src = dst = channel = 0
    units = [level.unit for level in LEVELS[1:]] + [1 << 30]
    for level, above in zip(LEVELS, units, strict=True):
        k = position % above // level.unit
        loop = level.loop
        src += loop.src[k] if isinstance(loop, TableLoop) else k * loop.src
        dst += loop.dst[k] if isinstance(loop, TableLoop) else k * loop.dst
        channel += k * loop.channel
    return src, dst, channel


def _places(domain: Domain) -> list[tuple[Size, Size, Size]]:
    """What the iterations of all loops of a domain reach."""
    steps: list[list[tuple[Size, Size, Size]]] = []
    for loop in domain.loops:
        assert not isinstance(loop, VariableBoundLoops)
        src, dst = (
            side if isinstance(side, tuple) else tuple(k * side for k in range(loop.count))
            for side in (loop.src, loop.dst)
        )
        steps.append([(s, d, k * loop.channel) for k, (s, d) in enumerate(zip(src, dst, strict=True))])
    origin = (domain.src, domain.dst, domain.channel)
    return [
        (sum(x[0] for x in chosen), sum(x[1] for x in chosen), sum(x[2] for x in chosen))
        for chosen in product([origin], *steps)
    ]


@pytest.mark.parametrize("start", range(0, 60, 7))
def test_domains_reach_every_position_once(start: int):
    for stop in range(start, 61):
        domains = split(IndexSet(LEVELS, start, stop))
        found = [place for domain in domains for place in _places(domain)]
        assert sorted(found) == sorted(map(_place, range(start, stop)))
        assert len(domains) <= 2 * len(LEVELS) + 1


def test_a_single_position_is_where_the_levels_say():
    for position in range(60):
        domain = single_position(LEVELS, position)
        assert (domain.src, domain.dst, domain.channel) == _place(position)


def test_even_steps_of_a_table_are_a_loop():
    even = (Level(1, TableLoop((0, 3, 6, 7), (0, 4, 8, 9))),)
    assert split(IndexSet(even, 0, 3)) == [Domain(0, 0, (Loop(3, 3, 4),))]


def test_negative_uneven_steps_stay_a_table():
    uneven = (Level(1, TableLoop((0, 3, 6, 7), (0, 4, 8, 9))),)
    assert split(IndexSet(uneven, 1, 4)) == [Domain(3, 4, (TableLoop((0, 3, 4), (0, 4, 5)),))]


def test_negative_no_position_is_no_domain():
    assert split(IndexSet(LEVELS, 5, 5)) == not_split(IndexSet(LEVELS, 5, 5)) == []
    assert len(not_split(IndexSet(LEVELS, 5, 6))) == 1
