"""Schedules for data that the second-level cache does not hold.

What decides there is the order in which the source is read. Measured on Zen 4, one thread, 70 MiB: memory gives 29
GB/s to one sequential read, 21 to 16 rows of 12 KiB side by side, 10 to 16 rows of 784 bytes; scattering whole lines
in the destination costs a tenth. So copies of whole lines go through the source as it lies, and transpositions read
few long rows at a time. Where rows are short, every round of a loop asks for the source of the next one, evenly paced:
processors drop a burst of prefetches that is longer than their queue (a loop of nothing but prefetches "reads" 90 to
200 GB/s). Measured gains, GB/s: T 4160 x 4160 31 to 38, bf16 nchw to nhwc 22 to 29, u8 nhwc to nchw 22 to 31.
"""

from __future__ import annotations

from dataclasses import replace

from layout_ir.backends.llvm.machine.machine import LANE, LINE, Machine
from layout_ir.backends.llvm.planning.schedule import finished
from layout_ir.dialects.kernel.plan import (
    ONCE,
    Axis,
    Blocking,
    Copy,
    Loop,
    Step,
    Tile,
    iterations,
    read_volume,
)
from layout_ir.symbolic.symint import Size

_PAGE = 4096

_NEAR = 2048
"""Bytes of a round below which the source of the next one has been asked for by the processor itself."""


REACH = 256
"""Bytes by which prefetches run ahead in rows that are read as whole lines: 27 to 35 GB/s for 4096 x 4096."""


def from_far(step: Step, machine: Machine) -> Step:
    """`step` with stores through the caches, for a source and destination beyond the second level."""
    kernel = step.kernel
    if isinstance(kernel, Copy):
        return copy_in_source_order(step) if kernel.run % LINE == 0 else step
    if not isinstance(kernel, Tile):
        return step
    if kernel.square:
        many = kernel.schedule[-1].axis == "rows" and kernel.rows.count > LINE // kernel.width
        first = kernel.schedule[0]
        reach = REACH
        if first.axis == "rows":
            # 256 x 14 x 14, two threads: 97 GB/s instead of 80.
            reach = reach_of(kernel.rows.stride, kernel.cols.count * kernel.width, first.size, machine)
        return replace(step, kernel=replace(kernel, prefetch_distance=reach)) if many else step
    if kernel.width == 4 or kernel.valid:
        return step
    last = {cut.axis: cut.size for cut in kernel.schedule}
    cuts = Blocking("cols", min(16, kernel.cols.count)), Blocking("rows", last["rows"])
    if kernel.rows.count > 4 * last["rows"]:
        # Some lines of the destination at a time: bytes from nhwc to nchw 108 GB/s with two threads, not 91.
        cuts = Blocking("rows", 4 * last["rows"]), *cuts
    else:
        cuts = cuts[::-1]
    step = finished(step.loops, step.src, step.dst, replace(kernel, schedule=cuts))
    return step if kernel.cols.count * kernel.width >= _PAGE else asking_ahead(step, machine)


def reach_of(stride: Size, row: Size, high: Size, machine: Machine) -> Size:
    """How far ahead prefetches run in `high` rows of `row` bytes that are `stride` apart and read as whole lines.

    In long rows some lines; where short rows lie one behind the other, in as many rows again.
    """
    follows = stride == row < _PAGE and high * row <= machine.l2 // 8
    return high * row if follows else REACH


def copy_in_source_order(step: Step) -> Step:
    """A copy with its loops ordered by falling source stride; rounds that make up a line together stay together."""
    kernel = step.kernel
    if not isinstance(kernel, Copy) or not all(isinstance(x, Loop) for x in step.loops):
        return step
    loops = [x for x in step.loops if isinstance(x, Loop)]
    inner = kernel.inner
    if kernel.run % LINE == 0 and inner.count > 1:
        loops.append(inner)
        inner = ONCE
    loops.sort(key=lambda x: -abs(x.src))
    if kernel.run % LINE == 0 and loops:
        inner = loops.pop()
    return finished(tuple(loops), step.src, step.dst, replace(kernel, inner=inner))


def tile_from_far(step: Step, tile: Tile, machine: Machine) -> Step:
    """`step` with the schedule of `tile` for whole lines that are streamed."""
    rows, cols, width = tile.rows, tile.cols, tile.width
    high = LINE // width
    wide = min(max(LANE // width * 4, 16), cols.count) if width > 1 else min(LINE, cols.count)
    wide = max(wide // (LANE // width) * (LANE // width), min(LANE // width, cols.count))
    row = cols.count * width
    together = rows.stride == row  # rows lie one behind the other

    def scheduled(
        *cuts: Blocking, square: bool = False, part: Tile = tile, loops: tuple[Loop, ...] = ()
    ) -> Step:
        kernel = replace(part, schedule=cuts, streaming=True, square=square and tile.square)
        return finished((*step.loops, *loops), step.src, step.dst, kernel)

    few_rows = Blocking("rows", high), Blocking("cols", wide)
    if width == 1 and cols.count > 4 * LINE:
        cuts = Blocking("cols", 4 * LINE), Blocking("rows", high), Blocking("cols", LINE // 2)
        return asking_ahead(scheduled(*cuts), machine)
    if width < 4:
        return asking_ahead(scheduled(*few_rows), machine)
    if tile.square and rows.stride % _PAGE == 0:
        # Rows share a set of the first level: every line is loaded once, for 64 rows at a time.
        part = replace(tile, prefetch_distance=REACH)
        down = Blocking("cols", wide), Blocking("rows", high)
        if rows.count > 4 * high:
            down = Blocking("rows", 4 * high), *down
        return scheduled(*down, square=True, part=part)
    if together and 4 * high * row <= _PAGE:
        # Everything is near: a few lines of the destination at a time.
        return scheduled(
            Blocking("rows", 4 * high),
            Blocking("cols", wide if tile.square else LANE // width),
            few_rows[0],
            square=True,
        )
    if together and high * row <= _PAGE:
        if tile.square and rows.count > 4 * high:
            # A few lines at a time for every column; each load asks for what the next ones have in its place.
            part = replace(tile, prefetch_distance=4 * high * row)
            return scheduled(
                Blocking("rows", 4 * high), Blocking("cols", wide), few_rows[0], square=True, part=part
            )
        return scheduled(*few_rows, square=True)
    if row >= _PAGE:
        if (
            together
            and cols.stride >= _PAGE
            and cols.count > 64
            and not cols.fold
            and high * row <= machine.l2 // 2
        ):
            # Every line written is in another page: those rows read side by side need help.
            block = replace(tile, rows=Axis(high, rows.stride))
            loop = Loop(rows.count // high, high * rows.stride, high * width)
            cuts = Blocking("cols", wide), Blocking("rows", high)
            return asking_ahead(scheduled(*cuts, part=block, loops=(loop,)), machine)
        return scheduled(*few_rows, square=True)
    if rows.count > 4 * high:
        return asking_ahead(
            scheduled(Blocking("rows", 4 * high), Blocking("cols", wide), Blocking("rows", high)), machine
        )
    return asking_ahead(scheduled(*few_rows), machine)


def asking_ahead(step: Step, machine: Machine) -> Step:
    """`step`, where the innermost loop whose rounds read one behind the other asks for the source of the next."""
    volume = read_volume(step.kernel)
    for depth in reversed(range(len(step.loops))):
        loop = step.loops[depth]
        if not isinstance(loop, Loop):
            return step
        if loop.src == volume >= _NEAR:
            return replace(step, prefetch=depth) if volume <= machine.l2 // 2 else step
        volume *= iterations((loop,))
    return step
