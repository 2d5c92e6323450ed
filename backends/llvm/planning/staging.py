"""Staging buffers, for runs that begin anywhere in their lines: rows of matrices whose length is no multiple of a line.

A line that is not written whole costs as much as ten that are: of blocks that write 256 bytes at a time to rows of
12004, most of the time is their two ends. So many rows of the destination are walked together from one end to the
other. Every block goes into a buffer, in which rows lie in their lines as they do in the destination; the whole lines
are streamed and begun ones wait for the next block. Measured on Zen 4, one thread, 3001 x 2999 of f32: 11 GB/s through
the caches, 25 so (blocks with ends 14); blocks of 64 x 64 21, of 64 x 256 20.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import index
from typing import NamedTuple

from layout_ir.backends.llvm.machine.machine import LANE, LINE, Machine
from layout_ir.backends.llvm.planning.parallel import finished
from layout_ir.backends.llvm.planning.tiles import in_cache, move_tile
from layout_ir.dialects.kernel.plan import Axis, Blocking, Copy, Loop, Plan, Staged, Step, Tile
from layout_ir.symbolic.symint import Size, SymInt

_LINES = 2
"""Lines of a block in each row of the destination: with more, the buffer takes L1 away from the source."""

_READ = 256
"""Bytes of a block in each row of the source: less, and lines are read twice too often."""

_BLOCK_READ, _BLOCK_WRITTEN = 2 * LINE, 8 * LINE
"""Bytes of each row of source and destination in a block of `staged_tiles`."""

_PLACE_READ = 4 * LINE
"""Bytes that `staged_copies` reads of each place. Measured on Zen 3 with 256, 512, 1024 and 2048: 13.3, 12.8, 13.9 and
12.8 GB/s."""

_COPIED_LINES = 4
"""Lines that a block of `copied_tiles` writes to each row of the destination, or one."""

_LONG = 16
"""Blocks in a row below which its ends count too much."""


def staging_size(machine: Machine) -> int:
    """Most bytes of a staging buffer."""
    return min(machine.l2 // 4, 256 << 10)


def l1_buffer_size(machine: Machine) -> int:
    """Most bytes of a staging buffer in L1: the rest is for the source."""
    return machine.l1 // 2


def stack_bytes(plan: Plan, machine: Machine) -> int:
    """Bytes of the staging buffer that the function of `plan` has on its stack, 0 for none."""
    sizes = [
        buffer_bound(step.kernel.extent, machine) for step in plan.steps if isinstance(step.kernel, Staged)
    ]
    return max(sizes) + 2 * LINE if sizes else 0


def buffer_bound(size: Size, machine: Machine) -> int:
    """Bytes of a buffer for `size`; where that is symbolic, a bound that holds for the hint."""
    if not isinstance(size, SymInt):
        return size
    return max(staging_size(machine), 1 << (size.hint - 1).bit_length())


def staged_rows(step: Step) -> list[Step] | None:
    """The transposition `step` over a buffer of several rows; None where rows are short or not read as whole lines."""
    tile = step.kernel
    if not isinstance(tile, Tile) or not all(isinstance(x, Loop) for x in step.loops):
        return None
    high, wide = _LINES * LINE // tile.width, _READ // tile.width
    if (
        not tile.square
        or tile.cols.fold
        or isinstance(tile.rows.count, SymInt)
        or isinstance(tile.cols.count, SymInt)
    ):
        return None
    if tile.rows.count < _LONG * high or tile.cols.count < wide:
        return None
    return [
        _staged(step, tile, rows, cols)
        for cols in _blocks(tile.cols.count, wide, 16)
        for rows in _blocks(tile.rows.count, high, high)
    ]


def staged_tiles(step: Step) -> list[Step] | None:
    """The transposition `step` in blocks that write some lines at a time to each row of the destination, over a buffer.

    None where rows of the destination do not lie in whole lines, or there are too few rows. For rows that are powers of
    two apart: tiles that write a line to each of 16 such rows overfill a set of L1. Measured on Zen 4, 1024 x 1024 of
    f32: 41 GB/s in tiles, 46 so; on Zen 3 with streamed lines, f32 of 16 MiB from blocks of 8 channels to planes of 64
    KiB 16 and 40, of 128 MiB 14 and 19; bytes of 16 channels to planes of 64 KiB, 8 MiB, through the caches 15 and 25.
    """
    tile = step.kernel
    if not isinstance(tile, Tile) or tile.cols.fold or tile.streaming or tile.valid:
        return None
    width, stride = tile.width, tile.cols.stride
    high, least = _BLOCK_WRITTEN // width, {axis: index(tile.block(axis)) for axis in ("rows", "cols")}
    # Columns may be few, as those of a block of channels.
    wide = max((_BLOCK_READ if tile.square else LINE) // width, least["cols"])
    wide = min(wide, index(tile.cols.count))
    if not all(isinstance(x, Loop) and x.dst % LINE == 0 for x in step.loops):
        return None
    if step.dst % LINE or stride % LINE or (tile.rows.count * width) % LINE:
        return None
    if tile.rows.count < high:
        return None
    result: list[Step] = []
    for rows in _blocks(tile.rows.count, high, max(LINE // width, least["rows"])):
        for cols in _blocks(tile.cols.count, wide, least["cols"]):
            size = rows.size * width
            row_stride = size + LINE * (1 + size // LINE % 2)  # an odd number of lines
            part = replace(
                tile,
                rows=Axis(rows.size, tile.rows.stride),
                cols=Axis(cols.size, row_stride),
                schedule=tuple(Blocking(axis, size) for axis, size in least.items()),
            )
            kernel = Staged(size, (Step((), 0, 0, part, -1),), False, index(cols.size), stride, row_stride)
            loops = [*step.loops]
            if rows.number > 1:
                loops.append(Loop(rows.number, rows.size * tile.rows.stride, size))
            if cols.number > 1:
                loops.append(Loop(cols.number, cols.size * width, cols.size * stride))
            src = step.src + rows.first * tile.rows.stride + cols.first * width
            dst = step.dst + rows.first * width + cols.first * stride
            result.append(finished(replace(step, src=src, dst=dst), tuple(loops), kernel))
    return result


def staged_copies(step: Step, machine: Machine) -> list[Step] | None:
    """The copies of parts of lines in `step` in blocks that fill an interval of the destination, over a buffer.

    None where no two loops do, or L1 has no room for an interval beside the source. Some lines of each place of the
    source are read before any of the next. Measured on Zen 3, 48 MiB of f32 from 32 blocks of 8 channels to nhwc, GB/s
    in blocks through the caches and over a buffer that is streamed 10.6 and 13.3; of what the last level has 35 and 24.
    With 64 blocks of 28 x 28 pixels, whose buffer is half of L1, 10.6 and 12.7, and 10.4 where lines are streamed one
    by one; of 32 x 32, whose lines share sets, 10.6, 10.3 and 6.3.
    """
    copy = step.kernel
    if not isinstance(copy, Copy) or copy.streaming or not all(isinstance(x, Loop) for x in step.loops):
        return None
    loops = [x for x in (*step.loops, copy.inner) if isinstance(x, Loop) and x.count > 1]
    run = index(copy.run)
    across = next((x for x in loops if x.dst == run), None)  # from part to part of a line
    along = next((x for x in loops if x.src == run), None)  # from line to line
    if run >= LINE or across is None or along is None or along.dst != index(across.count) * run:
        return None
    size = max(_PLACE_READ // run, 1)
    if along.dst % LINE or size >= along.count or size * along.dst > l1_buffer_size(machine):
        return None
    outer = [x for x in loops if x not in (across, along)]
    result: list[Step] = []
    for rows in _blocks(along.count, size, 1):
        part = Copy(run, Loop(rows.size, run, along.dst))
        inner = Step((across,), 0, 0, part, -1)
        down = Loop(rows.number, rows.size * run, rows.size * along.dst)
        at = replace(
            step, src=step.src + rows.first * run, dst=step.dst + rows.first * along.dst, prefetch=None
        )
        around = (*outer, *([down] if rows.number > 1 else []))
        result.append(finished(at, around, Staged(rows.size * along.dst, (inner,))))
    return result


def copied_tiles(step: Step, machine: Machine) -> Iterator[list[Step]]:
    """The transposition `step` in blocks whose source is first copied to a buffer, a line or more of each of its rows.

    Where rows are large powers of two apart, their lines share sets of L1: those that tiles read in parts come as often
    as they have parts, and those that tiles write by turns wait for each other. Measured on Zen 3, f32 in the last
    level, GB/s in tiles, in `staged_tiles` and so: 1024 x 512 27, 29 and 38, 512 x 1024 22, 21 and 41, but 1040 x 240,
    where no lines share sets, 70, 29 and 50.
    """
    tile = step.kernel
    if not isinstance(tile, Tile) or tile.cols.fold or tile.streaming or tile.valid:
        return
    if not all(isinstance(loop, Loop) for loop in step.loops):
        return
    width, high = tile.width, index(tile.block("rows"))
    if high * width < LINE:
        return
    line = LINE // width
    if tile.block("cols") >= line:
        # Each line is read once anyway: what can gain is that several go to each row of the destination together. Along
        # the rows of the source first: measured on Zen 3, f32, 1024 x 512, GB/s so and down them 36 and 33.
        shapes, orders = [(_COPIED_LINES * high, _COPIED_LINES * line)], (True,)
    else:
        # Two lines of each of so many rows that they fill half of L1. Measured on Zen 3, bytes in the last level, GB/s
        # with a line of 64 rows, of 256, and so: 2048 x 2048 15, 18 and 22, 1024 x 1024 20, 24 and 24.
        several = l1_buffer_size(machine) // (2 * LINE) // high * high
        shapes, orders = [(high, line), (_COPIED_LINES * high, line), (several, 2 * line)], (True, False)
    for tall, wide in shapes:
        if not 0 < tall <= tile.rows.count or wide > tile.cols.count:
            continue
        for rows_first in orders:
            yield [
                _copied(step, tile, rows, cols, machine, rows_first=rows_first)
                for rows in _blocks(tile.rows.count, tall, high)
                for cols in _blocks(tile.cols.count, wide, LANE // width)
            ]


def _copied(
    step: Step, tile: Tile, rows: _Blocks, cols: _Blocks, machine: Machine, *, rows_first: bool
) -> Step:
    """The part of `tile` in these blocks, a buffer for each; of their loops that over the rows is outside or inside."""
    width, (high, wide) = tile.width, (index(rows.size), index(cols.size))
    line = wide * width
    copy = Copy(line, Loop(high, tile.rows.stride, line))
    part = move_tile(Loop(high, line, width), Axis(wide, tile.cols.stride), width, machine)
    # Some lines to each of few rows of the destination before any to the next: such rows may share a set of L1.
    # Measured on Zen 3, blocks of four lines, GB/s by lines and so: 2048 x 2048 of bytes 12 and 16, 1024 x 1024 of bf16
    # 23 and 26; of 1024 x 512 of f32, by lines to 16 rows, so to 16 and so to 4, 30, 31 and 38.
    blocks = Blocking("cols", LANE // width), Blocking("rows", part.block("rows"))
    if blocks[1].size < high:
        part = replace(part, schedule=blocks, square=False)
    then = in_cache(Step((), 0, 0, part, -1), machine)
    kernel = Staged(high * line, (Step((), 0, 0, copy, -1),), then=(then,))
    down = Loop(rows.number, high * tile.rows.stride, high * width)
    along = Loop(cols.number, line, wide * tile.cols.stride)
    loops = [loop for loop in ((down, along) if rows_first else (along, down)) if loop.count > 1]
    src = step.src + rows.first * tile.rows.stride + cols.first * width
    dst = step.dst + rows.first * width + cols.first * tile.cols.stride
    return finished(replace(step, src=src, dst=dst, prefetch=None), (*step.loops, *loops), kernel)


class _Blocks(NamedTuple):
    """`number` blocks of `size` rows or columns, from `first` on."""

    first: Size
    size: Size
    number: Size


def _blocks(extent: Size, size: int, least: int) -> Iterator[_Blocks]:
    """`extent` in blocks of `size`, or of one down to half of it, a multiple of `least`, of which there are whole ones;
    else the last one has at least `least`.

    What is left of every iteration is a step of its own, whose lines come and go one by one. Measured on Zen 4, 120 MiB
    of f32 from blocks of 8 channels of 28 x 28 to nchw over a buffer, GB/s of 128 and 112 pixels at a time 21 and 47.
    """
    if not isinstance(extent, SymInt):
        size = next((x for x in range(size, size // 2, -least) if extent % x == 0), size)
    count, rest = divmod(extent, size)
    if 0 < rest < least:
        count, rest = count - 1, rest + size
    if count:
        yield _Blocks(0, size, count)
    if rest:
        yield _Blocks(count * size, rest, 1)


def _staged(step: Step, tile: Tile, rows: _Blocks, cols: _Blocks) -> Step:
    """The part of `tile` in these blocks: those of the rows follow each other in one buffer."""
    width, stride = tile.width, tile.cols.stride
    size, down = rows.size * width, rows.size * tile.rows.stride
    # A line for what is begun; an odd number of lines spreads the columns over the sets of the cache.
    row_stride = size + LINE + (stride - size) % LINE
    row_stride += 0 if row_stride // LINE % 2 else LINE
    # Each load prefetches what the next block has in its place.
    following = down if rows.number > 1 else 0
    block = replace(
        tile,
        rows=Axis(rows.size, tile.rows.stride),
        cols=Axis(cols.size, row_stride),
        schedule=(Blocking("rows", 16), Blocking("cols", 16)),
        prefetch_distance=following,
    )
    kernel = Staged(
        size, (Step((), 0, 0, block, -1),), True, index(cols.size), stride, row_stride, rows.number, following
    )
    loops = step.loops
    if cols.number > 1:
        loops = (*loops, Loop(cols.number, cols.size * width, cols.size * stride))
    src = step.src + rows.first * tile.rows.stride + cols.first * width
    at = replace(step, src=src, dst=step.dst + rows.first * width + cols.first * stride)
    return finished(at, loops, kernel)
