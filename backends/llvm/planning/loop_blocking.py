"""Other orders of one step for data that L2 does not hold: loops cut into blocks, so that pieces become longer.

Two loops that follow source and destination want to be the inner one. Cut into blocks, both are: of each side a few
lines are moved together. That matters most where strides are powers of two, whose lines share few sets of the caches.
Measured on Zen 4, one thread, f32, copies of 64 bytes between rows of 4 KiB and blocks of 32 KiB (cdba to ABcd8b16a,
1024 x 512): along the destination 41 GB/s, along the source 21, in blocks of 8 lines by 4 78. Where a tile of a
transposition writes parts of lines, its columns are cut, so that lines are complete while L1 has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import index

from layout_ir.backends.llvm.machine.machine import LANE, LINE, Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.parallel import finished
from layout_ir.backends.llvm.planning.walks import lines_held
from layout_ir.dialects.kernel.plan import ONCE, Blocking, Copy, Loop, Step, Tile
from layout_ir.symbolic.symint import SymInt

_READ = 4 * LINE
"""Bytes of a block that are read one behind the other."""

_WRITTEN = (8 * LINE, 16 * LINE, 64 * LINE)
"""Bytes of a block that are written one behind the other: several sizes are tried."""


_BAND = 8 * LINE
"""Bytes of a column that are written before the next few columns have their turn. Measured on Zen 4, f32 of nhwc to
nchw, 64 x 64 with 64 channels, GB/s of 2, 4, 6 and 8 lines, and of 10: 51, 50, 59 and 68, 50."""

_ROWS, _ROW_BYTES = 16, 2048
"""Rows that processors follow, and bytes of each that a block of a conversion reads. Measured on Zen 3, f32 nchw to
nhwc s8, 64 channels of 56 x 56, 42 MiB: 64 rows at a time, streamed, 6.1 GB/s; 16 rows at a time with 256, 512, 1024
and 2048 bytes of each 7.3, 8.5, 8.2 and 9.4."""


def other_orders(step: Step, pair: ElementPair) -> Iterator[list[Step]]:
    """Steps, each list of which does what `step` does, whose sizes are all known, in another order."""
    if not all(isinstance(loop, Loop) for loop in step.loops):
        return
    if isinstance(step.kernel, Copy):
        yield from _orders_of_copies(step, step.kernel, pair)
    elif isinstance(step.kernel, Tile):
        yield from _orders_of_tiles(step, step.kernel, pair)


# Copies --------------------------------------------------------------------------------------------------------------


def _orders_of_copies(step: Step, copy: Copy, pair: ElementPair) -> Iterator[list[Step]]:
    loops = [loop for loop in (*step.loops, copy.inner) if isinstance(loop, Loop) and loop.count > 1]
    src, dst = (1, 1) if pair.conversion is None else (pair.src, pair.dst)
    run = index(copy.run)
    if len(loops) < 2 or run * dst < LANE or pair.packed:
        return
    along_src = min(loops, key=lambda x: abs(x.src))
    along_dst = min(loops, key=lambda x: abs(x.dst))
    outer = sorted((x for x in loops if x not in (along_src, along_dst)), key=lambda x: -abs(x.dst))
    if along_src == along_dst:
        return
    yield [_nest(step, copy, [*outer, along_src, along_dst])]
    yield [_nest(step, copy, [*outer, along_dst, along_src])]
    read = max(_READ // (run * src), 1)
    for size in _WRITTEN:
        written = max(size // (run * dst), 1)
        if written >= along_dst.count and read >= along_src.count:
            continue
        for turned in (True, False):
            yield [
                _blocked(at, copy, outer, (a, read), (b, written), turned=turned)
                for shift_a, a in _whole_and_rest(along_src, read)
                for shift_b, b in _whole_and_rest(along_dst, written)
                for at in [_moved(_moved(step, along_src, shift_a), along_dst, shift_b)]
            ]


def _blocked(
    step: Step, copy: Copy, outer: list[Loop], source: tuple[Loop, int], destination: tuple[Loop, int], *,
    turned: bool,
) -> Step:  # fmt: skip
    """The nest with a block of both loops inside; of the blocks, those along the destination first, or `turned`."""
    (a_out, a_in), (b_out, b_in) = _cut(*source), _cut(*destination)
    blocks = [b_out, a_out] if turned else [a_out, b_out]
    return _nest(step, copy, [*outer, *blocks, b_in, a_in])


def _nest(step: Step, copy: Copy, loops: list[Loop]) -> Step:
    loops = [loop for loop in loops if loop.count > 1]
    inner = loops.pop() if loops else ONCE
    return finished(step, tuple(loops), replace(copy, inner=inner))


def _cut(loop: Loop, size: int) -> tuple[Loop, Loop]:
    """`loop`, whose count `size` divides or is below it, as a loop over blocks and one inside of a block."""
    size = min(size, index(loop.count))
    outer = replace(
        loop, count=loop.count // size, src=size * loop.src, dst=size * loop.dst, channel=size * loop.channel
    )
    return outer, replace(loop, count=size)


def _whole_and_rest(loop: Loop, size: int) -> list[tuple[int, Loop]]:
    """(first iteration, loop) of the whole blocks of `size` iterations, and of the rest."""
    count = index(loop.count)
    whole = count - count % size
    parts = [(0, whole), (whole, count - whole)]
    return [(first, replace(loop, count=number)) for first, number in parts if number]


def _moved(step: Step, loop: Loop, iterations: int) -> Step:
    """`step` from that iteration of `loop` on."""
    return replace(
        step,
        src=step.src + iterations * loop.src,
        dst=step.dst + iterations * loop.dst,
        channel=step.channel + iterations * loop.channel,
    )


# Tiles ---------------------------------------------------------------------------------------------------------------


def _orders_of_tiles(step: Step, tile: Tile, pair: ElementPair) -> Iterator[list[Step]]:
    """The loops as they go through the source, so that the processor follows its rows; and the columns in blocks, a
    loop over which stands before the loops that go on inside of a line."""
    rows, cols = tile.rows, tile.cols
    if tile.streaming:
        return
    high, wide = (Blocking(axis, tile.block(axis)) for axis in ("rows", "cols"))
    for schedule in ((high, wide), (wide, high)):
        if schedule != tile.schedule:
            yield [
                replace(finished(step, step.loops, replace(tile, schedule=schedule)), prefetch=step.prefetch)
            ]
    if pair.conversion is not None and not pair.exactly_once and high.size > _ROWS and high.size % _ROWS == 0:
        # Lines become whole block by block, in the first cache, while few rows of the source are read at a time.
        block = Blocking("cols", max(_ROW_BYTES // pair.src, wide.size))
        if block.size < cols.count:
            part = replace(tile, schedule=(block, Blocking("rows", _ROWS), wide))
            yield [finished(replace(step, prefetch=None), step.loops, part)]
    loops = [loop for loop in step.loops if isinstance(loop, Loop)]
    in_source_order = sorted(loops, key=lambda loop: -abs(loop.src))
    if in_source_order != loops:
        yield [finished(step, tuple(in_source_order), tile)]
    if cols.fold or cols.channel or rows.channel or tile.block("cols") >= cols.count:
        return
    inside = [
        k for k, loop in enumerate(step.loops) if isinstance(loop, Loop) and abs(loop.dst) < cols.stride
    ]
    if not inside:
        return
    width = tile.width if pair.conversion is None else pair.src
    for wide in sorted({max(least, index(tile.block("cols"))) for least in (1, LANE, LINE)}):
        if wide >= cols.count:
            continue
        steps: list[Step] = []
        count = index(cols.count)
        for first, size, times in ((0, wide, count // wide), (count - count % wide, count % wide, 1)):
            if not size or not times:
                continue
            schedule = (Blocking("rows", tile.block("rows")), Blocking("cols", min(tile.block("cols"), size)))
            square = tile.square and schedule[1].size == tile.block("cols")
            part = replace(tile, cols=replace(cols, count=size), schedule=schedule, square=square)
            at = replace(step, src=step.src + first * width, dst=step.dst + first * cols.stride)
            loop = Loop(times, size * width, size * cols.stride)
            loops = (*step.loops[: inside[0]], *([loop] if times > 1 else []), *step.loops[inside[0] :])
            steps.append(finished(at, loops, part))
        yield steps


def bands_of_rows(step: Step, machine: Machine) -> Iterator[list[Step]]:
    """Rows that lie one behind the other, as many at a time as fill some lines of a column; and of these a few columns
    at a time, to which L1 has a place each where their strides are powers of two.

    A tile that loads whole lines writes to as many columns by turns as a line has elements, more than a set has ways.
    Measured on Zen 4, f32 of nhwc to nchw, GB/s over a buffer and so: 64 x 64 with 32 channels 59 and 74, 48 56 and 77,
    64 56 and 68, 80 57 and 77; 128 channels, of whose lines L1 holds 64 beside each other, 56 and 40.
    """
    tile = step.kernel
    if not isinstance(tile, Tile) or tile.streaming or tile.valid or tile.cols.fold or tile.rows.fold:
        return
    rows, cols, wide = tile.rows, tile.cols, LANE // tile.width
    if isinstance(rows.count, SymInt) or isinstance(cols.count, SymInt):
        return
    if rows.stride != cols.count * tile.width or cols.count < 2 * wide:
        return
    line = LINE // tile.width  # columns that a tile of whole lines writes by turns
    if lines_held(index(cols.stride), machine.ways[0]) >= 2 * line:
        return
    schedule = Blocking("cols", wide), Blocking("rows", tile.block("rows"))
    tile = replace(tile, square=False, prefetch_distance=0, schedule=schedule)
    deep = _BAND // tile.width
    if rows.count < 2 * deep or 2 * deep * rows.stride > machine.l2:
        return
    count, rest = divmod(rows.count, deep)
    if 0 < rest < tile.block("rows"):
        count, rest = count - 1, rest + deep
    loops = (*step.loops, Loop(count, deep * rows.stride, _BAND))
    band = finished(step, loops, replace(tile, rows=replace(rows, count=deep)))
    steps = [replace(band, prefetch=len(step.loops))]
    if rest:
        first = count * deep
        at = replace(
            step, src=step.src + first * rows.stride, dst=step.dst + first * tile.width, prefetch=None
        )
        steps.append(finished(at, step.loops, replace(tile, rows=replace(rows, count=rest))))
    yield steps
