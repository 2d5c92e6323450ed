"""Streaming into runs that begin anywhere in their lines: rows of matrices whose length is no multiple of a line.

A line that is not written whole costs as much as ten that are: of blocks that write 256 bytes at a time to rows of
12004, most of the time is their two ends. So a strip of many rows of the destination is walked from one end to the
other. Every block goes into a buffer, in which rows lie in their lines as they do in the destination; the whole lines
are streamed and begun ones wait for the next block. Measured on Zen 4, one thread, 3001 x 2999 of f32: 11 GB/s through
the caches, 25 so (blocks with ends 14); blocks of 64 x 64 21, of 64 x 256 20.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from layout_ir.backends.llvm.machine.machine import LINE, Machine
from layout_ir.backends.llvm.planning.schedule import finished
from layout_ir.backends.llvm.symbolic.symint import SymInt, is_symbolic
from layout_ir.dialects.kernel.plan import Axis, Blocking, Loop, Plan, Staged, Step, Tile

_LINES = 2
"""Lines of a block in each row of the destination: more make the buffer larger than the first level likes."""

_READ = 256
"""Bytes of a block in each row of the source: less, and lines are read twice too often."""

_LONG = 16
"""Blocks in a row below which its ends count too much."""


def staging_size(machine: Machine) -> int:
    """Most bytes of a staging buffer."""
    return min(machine.l2 // 4, 256 << 10)


def stack_bytes(plan: Plan, machine: Machine) -> int:
    """Bytes of the staging buffer that the function of `plan` has on its stack, 0 for none."""
    sizes = [
        buffer_bound(step.kernel.extent, machine) for step in plan.steps if isinstance(step.kernel, Staged)
    ]
    return max(sizes) + 2 * LINE if sizes else 0


def buffer_bound(size: int, machine: Machine) -> int:
    """Bytes of a buffer for `size`; where that is symbolic, a bound that holds for the hint."""
    if not isinstance(size, SymInt):
        return size
    return max(staging_size(machine), 1 << (size.value - 1).bit_length())


def strips(step: Step) -> list[Step] | None:
    """The transposition `step` as strips, or None where rows are short or not read as whole lines."""
    tile = step.kernel
    if not isinstance(tile, Tile) or not all(isinstance(x, Loop) for x in step.loops):
        return None
    high, wide = _LINES * LINE // tile.width, _READ // tile.width
    if not tile.square or tile.cols.fold or is_symbolic(tile.rows.count) or is_symbolic(tile.cols.count):
        return None
    if tile.rows.count < _LONG * high or tile.cols.count < wide:
        return None
    return [
        _strip(step, tile, row, rows, along, col, cols, times)
        for col, cols, times in _parts(tile.cols.count, wide, 16)
        for row, rows, along in _parts(tile.rows.count, high, high)
    ]


def _parts(count: int, block: int, least: int) -> Iterator[tuple[int, int, int]]:
    """Blocks of `count`: where they begin, their size, how many; the last has at least `least`."""
    number, rest = divmod(count, block)
    if 0 < rest < least:
        number, rest = number - 1, rest + block
    if number:
        yield 0, block, number
    if rest:
        yield number * block, rest, 1


def _strip(step: Step, tile: Tile, row: int, rows: int, along: int, col: int, cols: int, times: int) -> Step:
    """`times` strips of `cols` columns of `tile`, each in `along` blocks of `rows`, from `row` and `col` on."""
    width, stride = tile.width, tile.cols.stride
    size, down = rows * width, rows * tile.rows.stride
    # A line for what is begun; an odd number of lines spreads the columns over the sets of the cache.
    pitch = size + LINE + (stride - size) % LINE
    pitch += 0 if pitch // LINE % 2 else LINE
    cuts = Blocking("rows", 16), Blocking("cols", 16)
    # Each load asks for what the next block has in its place.
    reach = down if along > 1 else 0
    block = replace(
        tile,
        rows=Axis(rows, tile.rows.stride),
        cols=Axis(cols, pitch),
        schedule=cuts,
        prefetch_distance=reach,
    )
    inner = replace(finished((), 0, 0, block), parallel=-1)
    kernel = Staged(size, (inner,), True, cols, stride, pitch, along, reach)
    loops = (*step.loops, Loop(times, cols * width, cols * stride)) if times > 1 else step.loops
    src = step.src + row * tile.rows.stride + col * width
    return finished(loops, src, step.dst + row * width + col * stride, kernel)
