"""A dim's positions as boxes: intervals that are not whole blocks, cut at the borders of the blocks.

[0, 50) with units (1, 4, 32) is one block of 32, four of 4 and two single positions: three boxes with constant
bounds on every loop, where one nest would need a guard. At most two boxes per digit and one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import index

from layout_ir.dialects.kernel.plan import Level, Loop, TableLoop, VariableBoundLoops
from layout_ir.symbolic.symint import Size


@dataclass(frozen=True, slots=True)
class Box:
    """Full loops from `src` and `dst` bytes and channel `channel` on."""

    src: Size
    dst: Size
    items: tuple[Loop | TableLoop | VariableBoundLoops, ...]
    channel: Size = 0

    def moved(self, level: Level, digit: int) -> Box:
        """This box, inside round `digit` of the next coarser level."""
        s, d, c = _offset(level, digit)
        return Box(self.src + s, self.dst + d, self.items, self.channel + c)


def _offset(level: Level, digit: int) -> tuple[Size, Size, Size]:
    move = level.loop
    if isinstance(move, TableLoop):
        return move.src[digit], move.dst[digit], digit * move.channel
    return digit * move.src, digit * move.dst, digit * move.channel


def corner_of(levels: Sequence[Level], position: int) -> Box:
    """The box of a single position."""
    box = Box(0, 0, ())
    for level in reversed(levels):
        digit, position = divmod(position, level.unit)
        box = box.moved(level, digit)
    return box


def cut(levels: Sequence[Level], start: int, stop: int) -> list[Box]:
    """The boxes of positions [start, stop); `levels` run fine to coarse, each unit the product of the counts below."""
    if start >= stop:
        return []
    if not levels:
        return [Box(0, 0, ())]
    *lower, top = levels
    first, head = divmod(start, top.unit)
    last, tail = divmod(stop, top.unit)
    if not first < last:  # an order, since equal open numbers count as different
        return [box.moved(top, first) for box in cut(lower, head, tail)]
    result: list[Box] = []
    if head:
        result += [box.moved(top, first) for box in cut(lower, head, top.unit)]
        first += 1
    if last > first:
        for box in cut(lower, 0, top.unit):
            moved = box.moved(top, first)
            result.append(replace(moved, items=(*moved.items, *_part(top, first, last))))
    if tail:
        result += [box.moved(top, last) for box in cut(lower, 0, tail)]
    return result


def ragged(levels: Sequence[Level], start: int, stop: int) -> list[Box]:
    """The same positions as one box with loops whose bounds vary."""
    return [Box(0, 0, (VariableBoundLoops(tuple(levels), start, stop),))] if start < stop else []


def _part(level: Level, first: int, last: int) -> tuple[Loop | TableLoop, ...]:
    """Rounds [first, last) of a level, relative to the first; a table in even steps becomes a loop."""
    if isinstance(level.loop, Loop):
        return () if last - first == 1 else (replace(level.loop, count=last - first),)
    first, last = index(first), index(last)  # which entries there are: a condition where the numbers are open
    count = last - first
    if count == 1:
        return ()
    src = [x - level.loop.src[first] for x in level.loop.src[first:last]]
    dst = [x - level.loop.dst[first] for x in level.loop.dst[first:last]]
    if all(s == k * src[1] and d == k * dst[1] for k, (s, d) in enumerate(zip(src, dst, strict=True))):
        return (Loop(count, src[1], dst[1], channel=level.loop.channel),)
    return (TableLoop(tuple(src), tuple(dst), level.loop.channel),)
