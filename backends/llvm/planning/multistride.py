"""Multi-strided access: four parts of a sequence by turns, for data that no cache holds.

A processor fetches ahead of each sequence that it follows, but no more than some lines, and not beyond the page. Where
memory could give more than that, a step that reads its source from one end to the other is cut into parts, of which
every iteration moves a piece:

    copy 16777216          for 131064 src 128 dst 64
                             for 4 src 16776192 dst 8388096
                               copy 32

Where the parts begin matters to what is written: stores past the caches to places 4096 bytes apart, or to the line
behind that, wait for each other (5 to 20 GB/s); a few lines further they do not. What is left over is a step by itself.
Measured on Zen 3, one thread, 80 MiB, GB/s of source and destination in order and in four parts: copies past the caches
33 and 40, f32 to bf16 22 and 38, f32 to i8 21 and 35, bf16 to f32 32 and 34, nChw16c to nchw 24 and 37; from the last
level, through the caches, 20 MiB of bf16 to f32 36 and 55, 6 MiB 62 and 66. Two parts gain half of that, eight no more.
Processors differ in what they follow, so the profile says what is gained in memory. What the last level holds is left
in order. Measured on Zen 4, f32 to bf16 past the caches, 20 MiB 82 and 73, 64 MiB 48 and 58; through them, copies of 6
and 64 MiB, 90 and 83, 42 and 39.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import index
from typing import NamedTuple

from layout_ir.backends.llvm.machine.machine import LINE, PAGE, Machine
from layout_ir.backends.llvm.machine.profile import MachineProfile
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.parallel import finished
from layout_ir.dialects.kernel.plan import Blocking, Copy, Interleave, Kernel, Loop, Step, Tile

_PARTS = 4

_LEAST = 4 * PAGE
"""Bytes of the source that a part has at least, so that few of its lines are the first of a page."""

_AHEAD = 2 * PAGE
"""Bytes ahead that a source is prefetched which stays in order. Measured on Zen 3, 147 MiB of f32 from blocks of 16
channels to planes, GB/s without and 1, 2, 4 and 8 KiB ahead: 15, 17, 19, 21 and 22."""

_NEAR = 3 * LINE
"""Bytes by which the places of two parts differ in a way of L1 at least."""

_GAIN = 1.05
"""How much faster it must be."""


class _Pieces(NamedTuple):
    """A kernel as pieces that follow each other in the source."""

    loop: Loop
    """The loop over the whole pieces."""
    kernel: Callable[[int], Kernel]
    """The kernel for so many elements of a run or of each way, or rows of a tile."""
    size: int
    """Elements, or rows, of a piece."""
    total: int
    """Elements, or rows, of all pieces and of what is left behind them."""
    places: Sequence[int] = (0,)
    """Where in the destination a piece is written to."""


def multistrided(step: Step, pair: ElementPair, machine: Machine) -> list[Step]:
    """Steps that do what `step` does, whose sizes are all known, in parts by turns where the profile says that this
    gains; `step` itself elsewhere."""
    if _gain(step.kernel, pair, machine.profile) <= _GAIN:
        return [step]
    pieces = _pieces(step.kernel, pair)
    return [step] if pieces is None else _in_parts(step, pieces, machine)


def gain_by_parts(step: Step, pair: ElementPair, machine: Machine) -> float:
    """How many times as fast as `step` the steps are that move a tile in parts by turns; 1 for one that stays whole."""
    parts = multistrided(step, pair, machine) if isinstance(step.kernel, Tile) else [step]
    is_cut = len(parts[0].loops) > len(step.loops)
    return _gain(step.kernel, pair, machine.profile) if is_cut else 1.0


def _gain(kernel: Kernel, pair: ElementPair, profile: MachineProfile) -> float:
    match kernel:
        case Copy(streaming=False):
            return profile.multistride_cached_gain
        case Copy():
            narrowing = pair.conversion is not None and pair.src > pair.dst
            return profile.multistride_narrowing_gain if narrowing else profile.multistride_copy_gain
        case Tile() | Interleave():
            return profile.multistride_tile_gain
        case _:
            return 1.0


def _pieces(kernel: Kernel, pair: ElementPair) -> _Pieces | None:
    """The pieces of `kernel`; None where it does not read its source from one end to the other."""
    if isinstance(kernel, Copy):
        if pair.packed or kernel.inner.count > 1:
            return None
        src, dst = (1, 1) if pair.conversion is None else (pair.src, pair.dst)
        # Whole lines of both sides.
        size, run = LINE // min(src, dst), index(kernel.run)
        loop = Loop(run // size, size * src, size * dst, channel=size * kernel.channel)
        return _Pieces(loop, partial(_of_run, kernel), size, run)
    if pair.conversion is not None or not kernel.streaming:
        return None
    if isinstance(kernel, Interleave):
        size, count, run = kernel.block, index(kernel.count), kernel.block * kernel.width
        if not kernel.inverse or count % size:
            return None  # several sequences are read already
        loop = Loop(count // size, kernel.ways * run, run)
        places = [way * index(kernel.stride) for way in range(kernel.ways)]
        return _Pieces(loop, partial(_of_count, kernel), size, count, places)
    if not isinstance(kernel, Tile):
        return None
    rows, cols, high = kernel.rows, kernel.cols, index(kernel.block("rows"))
    if kernel.valid or cols.fold or rows.stride != cols.count * kernel.width:
        return None
    if 4 * high * index(rows.stride) > PAGE or rows.count % high:
        return None  # so many columns that what is written to them decides
    loop = Loop(index(rows.count) // high, high * rows.stride, high * kernel.width)
    places = [index(cols.offset(k)) for k in range(index(cols.count))]
    return _Pieces(loop, partial(_of_rows, kernel), high, index(rows.count), places)


def _of_run(copy: Copy, number: int) -> Copy:
    return replace(copy, run=number)


def _of_count(interleave: Interleave, number: int) -> Interleave:
    return replace(interleave, count=number)


def _of_rows(tile: Tile, number: int) -> Tile:
    part = replace(tile, rows=replace(tile.rows, count=number), prefetch_distance=0)
    if number > tile.block("rows"):
        return part
    return replace(part, schedule=(Blocking("cols", tile.block("cols")), Blocking("rows", number)))


def _in_parts(step: Step, pieces: _Pieces, machine: Machine) -> list[Step]:
    """`step` with its pieces in parts; or, of a transposition with few, the iterations of a loop around it that goes on
    in the source where the one before ended. A tile whose places share sets is left in order, with prefetches."""
    (way, _), _ = machine.ways
    kernel, volume = step.kernel, index(pieces.loop.src)
    for depth, loop in reversed(list(enumerate((*step.loops, pieces.loop)))):
        if not isinstance(loop, Loop) or loop.src != volume:
            break
        count = _iterations_of_a_part(loop, pieces.places, way)
        if count:
            return _cut(step, depth, count, pieces)
        if isinstance(kernel, Copy):
            break
        volume *= index(loop.count)
    if isinstance(kernel, Tile) and volume >= 4 * _AHEAD:
        return [replace(step, kernel=replace(kernel, prefetch_distance=_AHEAD))]
    return [step]


def _iterations_of_a_part(loop: Loop, places: Sequence[int], way: int) -> int:
    """A quarter of the iterations, or a little less, so that of what is written by turns two lines at most share a set
    of L1; 0 where that would be too few, or where places of one part share a set.

    Four times as many streams lose there what the parts gain. Measured on Zen 3, GB/s in order and in parts: three
    planes of 224 x 224 from nhwc, which begin in one set, 20 and 17, of 216 x 216 26 and 33; eight of 112 x 112, in
    four sets, 42 and 26.
    """
    quarter, written = index(loop.count) // _PARTS, index(loop.dst)

    def sharing(numbers: Sequence[int], part: int) -> int:
        sets = Counter((place + number * part) % way // LINE for place in places for number in numbers)
        return max(sets.values())

    def are_apart(part: int) -> bool:
        distances = (number * part % way for number in range(1, _PARTS))
        return all(_NEAR <= x <= way - _NEAR for x in distances) and sharing(range(_PARTS), part) <= 2

    if sharing(range(1), 0) > 1:
        return 0
    most = range(quarter, quarter - quarter // 8 - 1, -1)
    return next((count for count in most if count * loop.src >= _LEAST and are_apart(count * written)), 0)


def _cut(step: Step, depth: int, count: int, pieces: _Pieces) -> list[Step]:
    """`step` with the loop of that depth, which is that of the pieces behind all others, in parts of `count`."""
    loops = *step.loops, pieces.loop
    whole = loops[depth]
    assert isinstance(whole, Loop)
    moved = _PARTS * count
    part = Loop(_PARTS, count * whole.src, count * whole.dst, channel=count * whole.channel)
    inside = *loops[:depth], replace(whole, count=count), *loops[depth + 1 :], part
    steps = [finished(replace(step, prefetch=None), inside, pieces.kernel(pieces.size))]
    behind = replace(
        step,
        src=step.src + moved * whole.src,
        dst=step.dst + moved * whole.dst,
        channel=step.channel + moved * whole.channel,
    )
    if depth == len(step.loops):
        left = pieces.total - moved * pieces.size
        if left:
            steps.append(finished(behind, step.loops, pieces.kernel(left)))
    elif moved < whole.count:
        rest = *step.loops[:depth], replace(whole, count=whole.count - moved), *step.loops[depth + 1 :]
        steps.append(finished(behind, rest, step.kernel))
    return steps
