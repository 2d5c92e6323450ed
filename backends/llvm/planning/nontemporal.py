"""Stores that bypass the caches, for reorders that the caches do not hold anyway.

A streamed line is not read before it is written, which is worth a third of the traffic; but only whole lines, written
at once, are cheap. Measured on Zen 4, GB/s of source and destination, one thread, 8 MiB and 70 MiB of f32:
nchw to nhwc with 64 channels 30 and 14 through the caches, 54 and 38 streamed; half lines that do not meet: 5.7.
So a step is streamed where each of its stores, or each pair of neighbours, is one aligned line. Where that is not so
but the steps together fill an interval, they write into a buffer of half the first level, and the buffer is streamed:
nhwc to nchw with 256 channels of 14 x 14 moves 27 GB/s over 12 KiB at a time, 18 over 200 KiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layout_ir.backends.llvm.machine.machine import LANE, LINE, Machine
from layout_ir.backends.llvm.planning.out_of_cache import asking_ahead, copy_in_source_order, tile_from_far
from layout_ir.backends.llvm.planning.schedule import finished
from layout_ir.backends.llvm.planning.staging import staging_size, strips
from layout_ir.dialects.kernel.plan import (
    ONCE,
    AnyLoop,
    Axis,
    Blocking,
    Copy,
    Elements,
    Fill,
    Interleave,
    Kernel,
    Loop,
    PaddedCopy,
    Staged,
    Step,
    Tile,
)

_PAGE = 4096

_FEW = 4
"""Sequences that are read or written side by side without loss."""

_LEAST = 8 * LINE
"""Bytes below which a buffer is not worth its detour; the flush relies on at least one line."""


def streaming_volume(machine: Machine, threads: int = 1, *, few_streams: bool = False) -> int:
    """Bytes of source and destination from which on streaming pays: less than half of the last level is ours.

    Twice as many where the steps go through few sequences (`in_few_streams`), and where threads share them: through the
    caches each is as fast as if it were alone, of the bandwidth of the memory one thread alone takes most. Measured on
    Zen 4, GB/s of two threads for 15 MiB, through the caches and past them: nchw to nhwc 91 and 53, nChw16c to nchw 120
    and 50, croutons 136 and 97, bytes transposed 55 and 54.
    """
    alone = max(4 * machine.l2, 3 * machine.l3 // 8)
    return 2 * alone if few_streams or threads > 1 else alone


def in_few_streams(steps: Sequence[Step]) -> bool:
    """Whether the steps go through source and destination as through at most four sequences each.

    The caches and what reads ahead for them then serve up to twice the volume. Measured on Zen 4, share of the faster
    plain copy for 15 MiB, through the caches and past them: colour images woven 0.97 and 0.86, nChw8c to nChw16c 1.05
    and 0.78; but nChw8c to nchw 0.63 and 0.85, transposes 0.2 to 0.5 and 0.6 to 0.9.
    """
    return all(_in_few_streams(step) for step in steps)


def _in_few_streams(step: Step) -> bool:
    kernel = step.kernel
    if isinstance(kernel, Interleave):
        return True
    if not isinstance(kernel, Copy) or not all(isinstance(x, Loop) for x in step.loops):
        return False
    loops = [*(x for x in step.loops if isinstance(x, Loop)), kernel.inner]
    for side in ([(x.count, x.src) for x in loops], [(x.count, x.dst) for x in loops]):
        # From inside out: what goes on where it ended, until pages are walked, and what jumps.
        extent, streams = kernel.run, 1
        for count, stride in reversed(side):
            if extent >= _PAGE:
                break
            if stride == extent:
                extent *= count
            else:
                streams *= count
        if streams > _FEW:
            return False
    return True


def streamed(steps: Sequence[Step], machine: Machine) -> list[Step]:
    """`steps` with streaming stores where they pay."""
    direct = [_parts(step, machine) for step in steps]
    if any(parts is None for parts in direct):
        staged = _staged(steps, machine)
        if staged is not None:
            return staged
    return [part for new, old in zip(direct, steps, strict=True) for part in new or [old]]


def _parts(step: Step, machine: Machine) -> list[Step] | None:
    """`step` with whole lines that are streamed, maybe in parts; None where its stores would not be such."""
    direct = _direct(step, machine)
    return strips(step) if direct is None else [direct]


def _direct(step: Step, machine: Machine) -> Step | None:
    """`step` with streaming stores, or None where they would not be whole lines."""
    if step.dst % LINE or not all(isinstance(x, Loop) and x.dst % LINE == 0 for x in step.loops):
        return None
    kernel = step.kernel
    if isinstance(kernel, Copy):
        if not _lines(kernel.run, kernel.inner):
            return None
        return copy_in_source_order(replace(step, kernel=replace(kernel, streaming=True)))
    if isinstance(kernel, PaddedCopy):
        return replace(step, kernel=replace(kernel, streaming=True)) if kernel.run == LINE else None
    if isinstance(kernel, Interleave):
        whole = kernel.block * kernel.width == LINE and kernel.count % kernel.block == 0
        whole = whole and not (kernel.inverse and kernel.stride % LINE)
        return replace(step, kernel=replace(kernel, streaming=True)) if whole else None
    if isinstance(kernel, Tile):
        return _direct_tile(step, kernel, machine)
    return None


def _lines(run: int, inner: Loop) -> bool:
    if run % LINE == 0:
        return inner.dst % LINE == 0
    return run in (16, 32) and inner.dst == run and inner.count % (LINE // run) == 0


def _direct_tile(step: Step, tile: Tile, machine: Machine) -> Step | None:
    rows, cols, width = tile.rows, tile.cols, tile.width
    high = _last(tile, "rows")
    line = LINE // width
    if high == line and rows.count % line == 0 and not any(stride % LINE for _, stride in cols.loops):
        return tile_from_far(step, tile, machine)
    piece = rows.count * width
    if high == rows.count and piece in (16, 32) and cols == Axis(cols.count, piece):
        wide = min(LANE // width, cols.count)
        if wide % (LINE // piece) == 0 and cols.count % wide == 0:
            cuts = (Blocking("rows", high), Blocking("cols", wide))
            tile = replace(tile, schedule=cuts, streaming=True, square=False)
            return asking_ahead(finished(step.loops, step.src, step.dst, tile), machine)
    return None


def _last(tile: Tile, axis: str) -> int:
    return [cut.size for cut in tile.schedule if cut.axis == axis][-1]


# Staging ------------------------------------------------------------------------------------------------------------


def _staged(steps: Sequence[Step], machine: Machine) -> list[Step] | None:
    """The steps inside the loops they share, over a buffer; None where they do not fill an interval together."""
    most = machine.l1 // 2  # the rest is for the source
    inner = [_opened(step) for step in steps]
    base = min(step.dst for step in inner)
    size = sum(_written(step) for step in inner)
    if any(_end(step) is None or (_end(step) or 0) > base + size for step in inner):
        return None
    outer: list[Loop] = []
    while size > most:
        shared = _shared(inner)
        if shared is None:
            return _split(inner[0], outer, base, machine) if len(inner) == 1 else None
        if shared.dst * shared.count != size:
            return None
        outer.append(shared)
        inner = [replace(step, loops=step.loops[1:]) for step in inner]
        size = shared.dst
    return [_over_buffer(outer, inner, base, size, machine)] if size >= _LEAST else None


def _over_buffer(
    outer: Sequence[Loop], inner: Sequence[Step], base: int, size: int, machine: Machine
) -> Step:
    shifted = [
        replace(finished(s.loops, s.src, s.dst - base, _sequential(s.kernel)), parallel=-1) for s in inner
    ]
    step = finished(tuple(outer), 0, base, Staged(size, tuple(shifted), streaming=True))
    return asking_ahead(step, machine)


def _sequential(kernel: Kernel) -> Kernel:
    """The schedule for a destination that is in the first level anyway: read the source as it lies."""
    if not isinstance(kernel, Tile):
        return kernel
    cuts = (Blocking("rows", _last(kernel, "rows")), Blocking("cols", _last(kernel, "cols")))
    return replace(kernel, schedule=cuts)


def _opened(step: Step) -> Step:
    """A copy or fill with its inner loop among the others, so that it can be shared."""
    kernel = step.kernel
    if isinstance(kernel, Copy | Fill) and kernel.inner.count > 1 and not step.loops:
        return replace(step, loops=(kernel.inner,), kernel=replace(kernel, inner=ONCE))
    return step


def _shared(steps: Sequence[Step]) -> Loop | None:
    """The outermost loop of all steps, if it is one."""
    heads: list[AnyLoop | None] = [step.loops[0] if step.loops else None for step in steps]
    moving = [head for head, step in zip(heads, steps, strict=True) if not isinstance(step.kernel, Fill)]
    first = moving[0] if moving else heads[0]
    if not isinstance(first, Loop) or any(head != first for head in moving):
        return None
    same = all(
        isinstance(head, Loop) and (head.count, head.dst) == (first.count, first.dst) for head in heads
    )
    return first if same else None


def _split(step: Step, outer: Sequence[Loop], base: int, machine: Machine) -> list[Step] | None:
    """A tile whose columns lie one behind the other in the destination, some of them at a time."""
    tile = step.kernel
    if not isinstance(tile, Tile) or step.loops or tile.cols.fold:
        return None
    if tile.cols.stride != tile.rows.count * tile.width:
        return None
    # Whole lines of the source, where the buffer may be as large.
    for wide in (min(LINE // tile.width, tile.cols.count), min(LANE // tile.width, tile.cols.count)):
        number = max(machine.l1 // 2 // tile.cols.stride // wide, 1) * wide
        if number * tile.cols.stride <= staging_size(machine):
            break
    else:
        return None
    if number >= tile.cols.count:
        return None
    whole, rest = divmod(tile.cols.count, number)
    result: list[Step] = []
    for first, cols, rounds in ((0, number, whole), (whole * number, rest, 1)):
        if not cols or not rounds:
            continue
        part = replace(tile, cols=replace(tile.cols, count=cols))
        if _last(tile, "cols") > cols:
            part = replace(
                part,
                schedule=(
                    Blocking("rows", _last(tile, "rows")),
                    Blocking("cols", min(cols, LANE // tile.width)),
                ),
                square=False,
            )
        loop = Loop(rounds, number * tile.width, number * tile.cols.stride)
        at = base + first * tile.cols.stride
        inner = replace(step, kernel=part, src=step.src + first * tile.width, dst=at)
        loops, size = [*outer, loop] if rounds > 1 else list(outer), cols * tile.cols.stride
        if size < _LEAST:
            result.append(finished(tuple(loops), inner.src, inner.dst, part))
        else:
            result.append(_over_buffer(loops, [inner], at, size, machine))
    return result


def _written(step: Step) -> int:
    """Bytes that the step writes."""
    kernel, total = step.kernel, 1
    for item in step.loops:
        total *= item.count if isinstance(item, Loop) else 0
    if isinstance(kernel, Tile):
        return total * kernel.rows.count * kernel.cols.count * kernel.width
    if isinstance(kernel, Interleave):
        return total * kernel.width * kernel.ways * kernel.count
    if isinstance(kernel, Elements):
        return total * kernel.width * kernel.inner.count
    return total * kernel.run * kernel.inner.count if isinstance(kernel, Copy | Fill | PaddedCopy) else 0


def _end(step: Step) -> int | None:
    """Where the bytes that the step writes end; None where a loop runs backwards or is none with constant bounds."""
    kernel, at = step.kernel, step.dst
    loops: list[AnyLoop] = list(step.loops)
    if isinstance(kernel, Tile):
        loops += [Loop(count, 0, stride) for count, stride in kernel.cols.loops]
        at += kernel.rows.count * kernel.width
    elif isinstance(kernel, Interleave):
        loops.append(Loop(kernel.ways, 0, kernel.stride if kernel.inverse else kernel.width * kernel.count))
        at += kernel.width * kernel.count
    elif isinstance(kernel, Copy | Fill | Elements):
        loops.append(kernel.inner)
        at += kernel.width if isinstance(kernel, Elements) else kernel.run
    for item in loops:
        if not isinstance(item, Loop) or item.dst < 0:
            return None
        at += (item.count - 1) * item.dst
    return at
