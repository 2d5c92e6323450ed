"""Index-set splitting: the positions of a dim, cut at the borders of its blocks into domains with constant loop bounds.

[0, 50) with units (1, 4, 32) is one block of 32, four of 4 and two single positions: three domains with constant
bounds on every loop, where one nest would need a guard. At most two domains per level and one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import NamedTuple

from layout_ir.dialects.kernel.plan import AnyLoop, Level, Loop, TableLoop, VariableBoundLoops
from layout_ir.symbolic.symint import Size


class IndexSet(NamedTuple):
    """The positions [start, stop) of a dim.

    `levels` run fine to coarse, each unit is the product of the counts below.
    """

    levels: Sequence[Level]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Domain:
    """The iterations of all of `loops`, from `src` and `dst` bytes and channel `channel` on."""

    src: Size
    dst: Size
    loops: tuple[AnyLoop, ...]
    channel: Size = 0

    def at_iteration(self, level: Level, k: int) -> Domain:
        """This domain, inside iteration `k` of the next coarser level."""
        loop = level.loop
        src, dst = (loop.src[k], loop.dst[k]) if isinstance(loop, TableLoop) else (k * loop.src, k * loop.dst)
        return Domain(self.src + src, self.dst + dst, self.loops, self.channel + k * loop.channel)

    def shifted(self, src: Size, dst: Size, channel: Size = 0) -> Domain:
        """This domain, so many bytes and channels further."""
        return Domain(self.src + src, self.dst + dst, self.loops, self.channel + channel)


def single_position(levels: Sequence[Level], position: int) -> Domain:
    """The domain of one position."""
    domain = Domain(0, 0, ())
    for level in reversed(levels):
        k, position = divmod(position, level.unit)
        domain = domain.at_iteration(level, k)
    return domain


def split(positions: IndexSet) -> list[Domain]:
    """Domains with constant loop bounds that make up the positions."""
    levels, start, stop = positions
    if start >= stop:
        return []
    if not levels:
        return [Domain(0, 0, ())]
    *lower, top = levels
    first, head = divmod(start, top.unit)
    last, tail = divmod(stop, top.unit)
    if not first < last:  # an order, since equal symbolic sizes count as different
        return [domain.at_iteration(top, first) for domain in split(IndexSet(lower, head, tail))]
    result: list[Domain] = []
    if head:
        result += [domain.at_iteration(top, first) for domain in split(IndexSet(lower, head, top.unit))]
        first += 1
    if last > first:
        for domain in split(IndexSet(lower, 0, top.unit)):
            begun = domain.at_iteration(top, first)
            result.append(replace(begun, loops=(*begun.loops, *_iterations(top, first, last))))
    if tail:
        result += [domain.at_iteration(top, last) for domain in split(IndexSet(lower, 0, tail))]
    return result


def not_split(positions: IndexSet) -> list[Domain]:
    """The positions, if there are any, as one domain, in which the bounds of inner loops vary with the outer ones."""
    levels, start, stop = positions
    return [Domain(0, 0, (VariableBoundLoops(tuple(levels), start, stop),))] if start < stop else []


def _iterations(level: Level, first: int, last: int) -> tuple[Loop | TableLoop, ...]:
    """Iterations [first, last) of a level, relative to the first; a table of even steps becomes a loop."""
    if isinstance(level.loop, Loop):
        return () if last - first == 1 else (replace(level.loop, count=last - first),)
    first, last = index(first), index(last)  # which entries there are: a guard where sizes are symbolic
    count = last - first
    if count == 1:
        return ()
    src = [x - level.loop.src[first] for x in level.loop.src[first:last]]
    dst = [x - level.loop.dst[first] for x in level.loop.dst[first:last]]
    if all(s == k * src[1] and d == k * dst[1] for k, (s, d) in enumerate(zip(src, dst, strict=True))):
        return (Loop(count, src[1], dst[1], channel=level.loop.channel),)
    return (TableLoop(tuple(src), tuple(dst), level.loop.channel),)
