"""Other orders of a transposition whose lines are streamed, for processors that want them one behind the other.

A tile writes one line to each of its columns before it writes the next line of any. Where columns are far apart, so are
these lines; and some processors take scattered lines past the caches more slowly than lines in order (the profile says
by how much: `streamed_jump_ns`). Then a block of whole columns goes into a buffer in L1, which is streamed from end to
end. Measured on Emerald Rapids, one thread, nchw to nhwc with 64 channels of 56 x 56, GB/s of tiles and by way of a
buffer: f32 of 8 MiB 22 and 31, of 64 MiB 22 and 30, bf16 19 and 28; with 256 channels of 14 x 14 24 and 24.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from layout_ir.backends.llvm.machine.machine import LINE, Machine
from layout_ir.backends.llvm.planning.out_of_cache import FOLLOWED
from layout_ir.backends.llvm.planning.parallel import finished
from layout_ir.dialects.kernel.plan import Blocking, Loop, Staged, Step, Tile
from layout_ir.symbolic.symint import SymInt

_COLUMNS = 32
"""Columns of a block, or as many as a line of the source has where these are more. Measured with 64 rows of f32, GB/s
of 16, 32 and 64 columns: 29, 31 and 25; of bf16, 32 and 64 columns: 28 and 20."""

_BUFFER = 4
"""A buffer takes at most one such part of L1: the rest is for the source, now and of the next block."""

_PART_OF_L3 = 8
"""What is prefetched waits in L2, or where it is more in the last level, of which others have their parts: two bands of
rows take at most an eighth. Measured on Zen 3, T 256 x 32768, bands of 2 MiB: 10.9 GB/s, without 5.8."""


def streamed_orders(step: Step, machine: Machine) -> Iterator[list[Step]]:
    """Steps that move what `step` does, a tile whose lines are streamed, and write their lines in another order.

    Only for moves, and where no size is symbolic.
    """
    tile = step.kernel
    if not isinstance(tile, Tile) or not tile.streaming or tile.valid:
        return
    if isinstance(tile.cols.count, SymInt) or isinstance(tile.rows.count, SymInt):
        return
    if all(blocking.size == tile.block(blocking.axis) for blocking in tile.schedule):
        turned = finished(step, step.loops, replace(tile, schedule=tile.schedule[::-1]))
        yield [replace(turned, prefetch=step.prefetch)]
    if not tile.cols.fold and tile.cols.stride == tile.rows.count * tile.width:
        yield from _columns_over_buffer(step, tile, machine)
    if tile.rows.stride == tile.cols.count * tile.width and not tile.rows.fold:
        yield from _in_bands(step, tile, machine)


def _in_bands(step: Step, tile: Tile, machine: Machine) -> Iterator[list[Step]]:
    """Rows that lie one behind the other, as many at a time as fill two lines of every column, or one.

    Such a band is an interval of the source. While it is moved the next one is prefetched from end to end, evenly: the
    processor sees a sequence, and helps. Measured on Zen 3, 64 MiB, one thread, GB/s of bands and of prefetches in
    every row: 3136 x 64 of f32 18 and 12, 784 x 512 21 and 14, 1024 x 1024 15 and 9, 1024 x 1024 of bf16 13 and 9,
    3136 x 128 of bytes 20 and 11; of one line and of two, 2048 x 2048 of f32 10.4 and 11.2, 3136 x 128 16.9 and 19.6.
    """
    rows, width = tile.rows, tile.width
    high = LINE // width
    if rows.count <= 4 * high or rows.count % high or tile.block("rows") != high:
        return
    most = machine.l3 // _PART_OF_L3 // 2 // rows.stride
    deep = 2 * high if rows.count % (2 * high) == 0 and 2 * high <= most else high
    if not FOLLOWED <= deep * rows.stride <= most * rows.stride:
        return
    down, along = Blocking("rows", high), Blocking("cols", tile.block("cols"))
    schedule = (along, down) if deep > high else (down, along)
    band = replace(tile, rows=replace(rows, count=deep), schedule=schedule, prefetch_distance=0)
    loop = Loop(rows.count // deep, deep * rows.stride, deep * width)
    step = finished(step, (*step.loops, loop), band)
    yield [replace(step, prefetch=len(step.loops) - 1)]


def _columns_over_buffer(step: Step, tile: Tile, machine: Machine) -> Iterator[list[Step]]:
    """Blocks of columns, each an interval of the destination; each load prefetches what the next block has there."""
    wide, stride, count = max(_COLUMNS, LINE // tile.width), tile.cols.stride, tile.cols.count
    if wide * stride > machine.l1 // _BUFFER or wide > count:
        return
    steps: list[Step] = []
    for first, cols, times in ((0, wide, count // wide), (count - count % wide, count % wide, 1)):
        if not cols:
            continue
        block = min(tile.block("cols"), cols)
        part = replace(
            tile,
            cols=replace(tile.cols, count=cols),
            schedule=(Blocking("rows", tile.block("rows")), Blocking("cols", block)),
            square=tile.square and block == tile.block("cols"),
            prefetch_distance=cols * tile.width if times > 1 else 0,
            streaming=False,
        )
        kernel = Staged(cols * stride, (Step((), 0, 0, part, -1),), streaming=True)
        loop = [Loop(times, cols * tile.width, cols * stride)] if times > 1 else []
        at = replace(step, src=step.src + first * tile.width, dst=step.dst + first * stride, prefetch=None)
        steps.append(finished(at, (*step.loops, *loop), kernel))
    yield steps
