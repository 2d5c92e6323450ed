"""Schedules for data that L2 does not hold.

What decides there is the order in which the source is read. Measured on Zen 4, one thread, 70 MiB: memory gives 29
GB/s to one sequential read, 21 to 16 rows of 12 KiB side by side, 10 to 16 rows of 784 bytes; scattering whole lines
in the destination costs a tenth. So copies of whole lines go through the source as it lies, and transpositions read
few long rows at a time. Where rows are short, every iteration of a loop prefetches the source of the next one, evenly:
processors drop a burst of prefetches that is longer than their queue (a loop of nothing but prefetches "reads" 90 to
200 GB/s). Measured gains, GB/s: T 4160 x 4160 31 to 38, bf16 nchw to nhwc 22 to 29, u8 nhwc to nchw 22 to 31.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from layout_ir.backends.llvm.machine.machine import LANE, LINE, PAGE, Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.parallel import finished
from layout_ir.backends.llvm.planning.walks import GAP
from layout_ir.dialects.kernel.plan import (
    ONCE,
    Axis,
    Blocking,
    Copy,
    Loop,
    Staged,
    Step,
    Tile,
    iterations,
    read_volume,
)
from layout_ir.symbolic.symint import Size, SymInt, hint_of

FOLLOWED = PAGE // 2
"""Bytes of an iteration below which the processor itself has prefetched the source of the next one: it follows a
sequence to the end of a page."""


def out_of_cache(step: Step, pair: ElementPair, machine: Machine) -> Step:
    """`step` with stores through the caches, for a source and destination that L2 does not hold."""
    kernel = step.kernel
    if isinstance(kernel, Copy):
        ordered = not step.loops or bytes_written(kernel, pair) % LINE
        return step if ordered else copy_in_source_order(step, pair)
    if isinstance(kernel, Staged):
        return _prefetching_first_pass(step, kernel)
    if not isinstance(kernel, Tile):
        return step
    if pair.conversion is not None:
        return prefetching_conversion(step, kernel, pair, machine)
    high = kernel.block("rows")
    if kernel.square:
        many = kernel.schedule[-1].axis == "rows" and kernel.rows.count > LINE // kernel.width
        first = kernel.schedule[0]
        distance = machine.profile.prefetch_distance
        if first.axis == "rows":
            # 256 x 14 x 14, two threads: 97 GB/s instead of 80.
            distance = _prefetch_distance(
                kernel.rows.stride, kernel.cols.count * kernel.width, first.size, machine
            )
        return replace(step, kernel=replace(kernel, prefetch_distance=distance)) if many else step
    if kernel.width == 4 or kernel.valid:
        return step
    schedule = Blocking("cols", min(16, kernel.cols.count)), Blocking("rows", high)
    if kernel.rows.count > 4 * high:
        # Some lines of the destination at a time: bytes from nhwc to nchw 108 GB/s with two threads, not 91.
        schedule = Blocking("rows", 4 * high), *schedule
    else:
        schedule = schedule[::-1]
    step = finished(step, step.loops, replace(kernel, schedule=schedule))
    return step if kernel.cols.count * kernel.width >= PAGE else prefetching(step, machine)


def _prefetching_first_pass(step: Step, staged: Staged) -> Step:
    """`step` of two passes, whose first one prefetches what the next iteration of the loop around it reads."""
    around = step.loops[-1] if step.loops else None
    if not staged.then or not isinstance(around, Loop) or around.src <= 0:
        return step
    steps = tuple(
        replace(x, kernel=replace(x.kernel, prefetch_distance=around.src))
        if isinstance(x.kernel, Tile)
        else x
        for x in staged.steps
    )
    return replace(step, kernel=replace(staged, steps=steps))


def prefetching_conversion(step: Step, tile: Tile, pair: ElementPair, machine: Machine) -> Step:
    """`step` with prefetches in every row of its `tile`, for a source that L2 does not hold.

    There are as many rows as a line of a narrow destination has elements, more than processors follow. Measured on
    Zen 4, nchw f32 of 74 MiB to nhwc, GB/s without and with: bf16 19 and 32, i8 16 and 41; with 256 channels of 14 x 14
    bf16 9, 17 some lines ahead and 24 as many rows ahead.
    """
    if pair.src_packed:
        return step
    row = tile.cols.count * pair.src
    distance = _prefetch_distance(tile.rows.stride, row, tile.block("rows"), machine)
    return replace(step, kernel=replace(tile, prefetch_distance=distance))


def _prefetch_distance(stride: Size, row: Size, high: Size, machine: Machine) -> Size:
    """How far ahead prefetches run in `high` rows of `row` bytes that are `stride` apart and read as whole lines.

    In long rows some lines; where short rows lie one behind the other, in as many rows again.
    """
    follows = stride == row < PAGE and high * row <= machine.l2 // 8
    return high * row if follows else machine.profile.prefetch_distance


def copy_in_source_order(step: Step, pair: ElementPair) -> Step:
    """A step of copies with its loops by falling source stride; iterations that make up a line stay together."""
    kernel = step.kernel
    if not isinstance(kernel, Copy) or not all(isinstance(x, Loop) for x in step.loops):
        return step
    loops = [x for x in step.loops if isinstance(x, Loop)]
    inner, whole = kernel.inner, bytes_written(kernel, pair) % LINE == 0
    if whole and inner.count > 1:
        loops.append(inner)
        inner = ONCE
    loops.sort(key=lambda x: -abs(x.src))
    if whole and loops:
        inner = loops.pop()
    return finished(step, tuple(loops), replace(kernel, inner=inner))


def bytes_written(copy: Copy, pair: ElementPair) -> Size:
    """Bytes of a run in the destination (half bytes, where two elements share one)."""
    return copy.run if pair.conversion is None else copy.run * pair.dst


def streamed_tile(step: Step, tile: Tile, machine: Machine) -> Step:
    """`step` with the schedule of `tile`, which moves elements, for whole lines that are streamed."""
    rows, cols, width = tile.rows, tile.cols, tile.width
    high = LINE // width
    wide = min(max(LANE // width * 4, 16), cols.count) if width > 1 else min(LINE, cols.count)
    wide = max(wide // (LANE // width) * (LANE // width), min(LANE // width, cols.count))
    row = cols.count * width
    together = rows.stride == row  # rows lie one behind the other

    def scheduled(
        *schedule: Blocking, square: bool = False, part: Tile = tile, loops: tuple[Loop, ...] = ()
    ) -> Step:
        kernel = replace(part, schedule=schedule, streaming=True, square=square and tile.square)
        return finished(step, (*step.loops, *loops), kernel)

    few_rows = Blocking("rows", high), Blocking("cols", wide)
    if width == 1 and cols.count > 4 * LINE:
        schedule = Blocking("cols", 4 * LINE), Blocking("rows", high), Blocking("cols", LINE // 2)
        return prefetching(scheduled(*schedule), machine)
    if width < 4:
        return prefetching(scheduled(*few_rows), machine)
    crowded = hint_of(row) < PAGE and _crowded(rows.stride, min(hint_of(rows.count), 4 * high), machine)
    if tile.square and (rows.stride % PAGE == 0 or crowded):
        # Rows share sets of L1: every line is loaded once, for 64 rows at a time. Measured on Zen 3, f32, GB/s of lanes
        # loaded one by one and of lines: 3072 x 768, 16 rows in a set, 9 and 16; T 4096 x 512, 32 in a set, 9 and 14.
        part = replace(tile, prefetch_distance=machine.profile.prefetch_distance)
        down = Blocking("cols", wide), Blocking("rows", high)
        if rows.count > 4 * high:
            down = Blocking("rows", 4 * high), *down
        return scheduled(*down, square=True, part=part)
    if together and 4 * high * row <= PAGE:
        # All of it fits L1: a few lines of the destination at a time.
        return scheduled(
            Blocking("rows", 4 * high),
            Blocking("cols", wide if tile.square else min(LANE // width, wide)),
            few_rows[0],
            square=True,
        )
    if together and high * row <= PAGE:
        if tile.square and rows.count > 4 * high:
            # A few lines at a time for every column; each load prefetches what the next ones have in its place.
            part = replace(tile, prefetch_distance=4 * high * row)
            return scheduled(
                Blocking("rows", 4 * high), Blocking("cols", wide), few_rows[0], square=True, part=part
            )
        return scheduled(*few_rows, square=True)
    if row >= PAGE:
        if (
            together
            and cols.stride >= PAGE
            and cols.count > 64
            and not cols.fold
            and high * row <= machine.l2 // 2
        ):
            # Every line written is in another page: those rows read side by side need help.
            block = replace(tile, rows=Axis(high, rows.stride))
            loop = Loop(rows.count // high, high * rows.stride, high * width)
            schedule = Blocking("cols", wide), Blocking("rows", high)
            return prefetching(scheduled(*schedule, part=block, loops=(loop,)), machine)
        return scheduled(*few_rows, square=True)
    if rows.count > 4 * high:
        return prefetching(
            scheduled(Blocking("rows", 4 * high), Blocking("cols", wide), Blocking("rows", high)), machine
        )
    return prefetching(scheduled(*few_rows), machine)


def _crowded(stride: Size, number: int, machine: Machine) -> bool:
    """Whether so many lines overfill the sets of L1 that this stride reaches; a symbolic one is taken for its hint."""
    way, ways = machine.ways[0]
    return number * gcd(hint_of(stride), way) // way > ways


def _is_behind(volume: Size, stride: Size) -> bool:
    """Whether iterations that read `volume` bytes, `stride` apart, follow each other with no or a small gap."""
    if isinstance(volume, SymInt) or isinstance(stride, SymInt):
        return bool(stride == volume)
    return volume <= stride <= volume * (1 + GAP)


def prefetching(step: Step, machine: Machine) -> Step:
    """`step`, whose innermost loop with iterations that read one behind the other prefetches those of the next.

    L2 must hold two of them, and what one writes unless that bypasses it. Measured on Zen 3 with 512 KiB of L2, u8 nchw
    to nhwc, 196 KiB an iteration, 8 MiB: with prefetches 12 GB/s, without 31.
    """
    held = 2 if step.kernel.streaming else 3
    volume = read_volume(step.kernel)
    for depth in reversed(range(len(step.loops))):
        loop = step.loops[depth]
        if not isinstance(loop, Loop):
            return step
        if volume >= FOLLOWED and _is_behind(volume, loop.src):
            return replace(step, prefetch=depth) if held * volume <= machine.l2 else step
        volume *= iterations((loop,))
    return step
