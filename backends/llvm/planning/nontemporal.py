"""Nontemporal stores, which bypass the caches, for reorders that the caches do not hold anyway.

A streamed line is not read before it is written, which is worth a third of the traffic; but only whole lines, written
at once, are cheap. Measured on Zen 4, GB/s of source and destination, one thread, 8 MiB and 70 MiB of f32:
nchw to nhwc with 64 channels 30 and 14 through the caches, 54 and 38 streamed; half lines that do not meet: 5.7.
So a step is streamed where each of its stores, or each pair of neighbours, is one aligned line. Where that is not so
but the steps together fill an interval, they write into a staging buffer of half of L1, which is then streamed:
nhwc to nchw with 256 channels of 14 x 14 moves 27 GB/s over 12 KiB at a time, 18 over 200 KiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from layout_ir.backends.llvm.machine.machine import LANE, LINE, PAGE, Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.out_of_cache import (
    bytes_written,
    copy_in_source_order,
    out_of_cache,
    prefetching,
    prefetching_conversion,
    streamed_tile,
)
from layout_ir.backends.llvm.planning.parallel import finished
from layout_ir.backends.llvm.planning.staging import l1_buffer_size, staged_rows, staging_size
from layout_ir.backends.llvm.planning.walks import crosses_lines
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
from layout_ir.symbolic.symint import Size, SymInt, hint_of

_FEW = 2
"""Sequences of each side that are few. Measured on Zen 4, 32 MiB of bf16, nChw16c with 64 channels (four sequences) to
nhwc, GB/s through the caches 39 and past them 55."""

_WIDE = 4
"""Bytes of elements whose columns a tile alone moves over a buffer, and prefetches: narrower ones take the processor
longer than their lines take memory. Measured on Zen 3, 2048 x 1024 of f32 in blocks of 24 rows, GB/s in tiles and so
8.5 and 14.7; 2048 x 2048 of bf16 13.7 and 14.1, of bytes 24.9 and 17.4."""

_ONE_PAGE = PAGE - LINE
"""Bytes of a buffer that lies within a page, in which it begins where the destination begins in its line. A store that
ends in another page takes some 95 ns where what was written is read behind it. Measured on Zen 4, f32 from blocks of 16
channels of 7 x 7 to nchw over 3136 bytes, GB/s of 6 and 100 MiB where the buffer begins at most 512 bytes behind a page
50 and 40, farther behind 24 to 27 and 22 to 25; of columns that begin with lines or their halves 56 wherever it is."""

_LEAST_STAGED = 8 * LINE
"""Bytes below which a staging buffer does not pay; its flush relies on at least one line."""


def streaming_volume(machine: Machine, threads: int = 1, *, few_streams: bool = False) -> int:
    """Bytes of source and destination from which on streaming pays, by the profile of the machine.

    More where the steps go through few sequences (`in_few_streams`), and where there are several threads: through the
    caches each is as fast as if it were alone, of the memory's bandwidth one alone takes most. Measured on Zen 4, GB/s
    of two threads for 15 MiB, through the caches and past them: nchw to nhwc 91 and 53, nChw16c to nchw 120 and 50,
    croutons 136 and 97, bytes transposed 55 and 54. On Zen 3, 16 MiB of nchw to nhwc, one thread 19 and 30, two 56 and
    41, copies 46 and 44, 93 and 46.
    """
    profile = machine.profile
    if threads > 1:
        return profile.streaming_volume_shared
    return profile.streaming_volume_few if few_streams else profile.streaming_volume


def streaming_limit(steps: Sequence[Step], pair: ElementPair, machine: Machine, threads: int) -> int:
    """Bytes of source and destination from which on `steps` had better bypass the caches.

    Tiles that convert gain earlier than copies do, for they read many rows side by side and write far apart. Measured
    on Zen 4 with an L3 of 32 MiB, nchw f32 to nhwc bf16, GB/s through the caches and streamed: 12 MiB 50 and 61, 9 MiB
    51 and 58, 6 MiB 60 and 63. Several threads that transpose narrow elements gain no later than one does. Measured on
    Zen 3, two threads, 16 MiB of nhwc to nchw, through the caches and streamed: f32 61 and 45, bf16 29 and 75, u8 23
    and 42.
    """
    if pair.conversion is None:
        narrow = any(isinstance(step.kernel, Tile) and step.kernel.width < 4 for step in steps)
        return streaming_volume(machine, 1 if narrow else threads, few_streams=in_few_streams(steps))
    limit = streaming_volume(machine, threads)
    if not any(isinstance(step.kernel, Tile) for step in steps):
        return limit
    profile = machine.profile
    return max(limit * profile.streaming_volume_converting // profile.streaming_volume, 1)


def in_few_streams(steps: Sequence[Step]) -> bool:
    """Whether the steps go through source and destination as through one sequence each, or two.

    The caches and hardware prefetching then serve up to twice the volume. Measured on Zen 4, share of the faster plain
    copy for 15 MiB, through the caches and past them: colour images interleaved 0.97 and 0.86, nChw8c to nChw16c 1.05
    and 0.78; but nChw8c to nchw 0.63 and 0.85, transposes 0.2 to 0.5 and 0.6 to 0.9.
    """
    return all(map(_in_few_streams, steps))


def _in_few_streams(step: Step) -> bool:
    kernel = step.kernel
    if isinstance(kernel, Interleave):
        return True
    if not isinstance(kernel, Copy) or not all(isinstance(x, Loop) for x in step.loops):
        return False
    loops = [*(x for x in step.loops if isinstance(x, Loop)), kernel.inner]
    for side in ([(x.count, x.src) for x in loops], [(x.count, x.dst) for x in loops]):
        # From inside out: loops that go on where the inner ones ended, until pages are walked, and those that jump.
        extent, streams = kernel.run, 1
        for count, stride in reversed(side):
            if extent >= PAGE:
                break
            if stride == extent:
                extent *= count
            else:
                streams *= count
        if streams > _FEW:
            return False
    return True


def streamed(steps: Sequence[Step], pair: ElementPair, machine: Machine) -> list[Step]:
    """`steps` with nontemporal stores where they pay."""
    if pair.conversion is not None:
        return [
            part
            for step in steps
            for part in _whole_lines(step, pair, machine) or [out_of_cache(step, pair, machine)]
        ]
    direct = [_whole_lines(step, pair, machine) or staged_rows(step) for step in steps]
    if any(parts is None for parts in direct):
        staged = _staged(steps, machine)
        if staged is not None:
            return staged
    return [
        part
        for new, old in zip(direct, steps, strict=True)
        for part in new or _staged_alone(old, machine) or [out_of_cache(old, pair, machine)]
    ]


def streamed_in_order(steps: Sequence[Step], pair: ElementPair) -> list[Step]:
    """`steps` in their orders, those of them with nontemporal stores that copy whole lines or empty a buffer."""
    return [
        replace(step, kernel=replace(step.kernel, streaming=True)) if _writes_lines(step, pair) else step
        for step in steps
    ]


def _writes_lines(step: Step, pair: ElementPair) -> bool:
    kernel = step.kernel
    if isinstance(kernel, Staged):
        return not kernel.then
    if not isinstance(kernel, Copy) or pair.dst_packed or step.dst % LINE:
        return False
    strides = [loop.dst if isinstance(loop, Loop) else 1 for loop in (*step.loops, kernel.inner)]
    return not any(stride % LINE for stride in (*strides, bytes_written(kernel, pair)))


def _whole_lines(step: Step, pair: ElementPair, machine: Machine) -> list[Step] | None:
    """`step` with nontemporal stores, what is left of lines apart; None where its stores would not be whole lines."""
    if pair.dst_packed or step.dst % LINE:
        return None
    if not all(isinstance(x, Loop) and x.dst % LINE == 0 for x in step.loops):
        return None
    kernel = step.kernel
    if isinstance(kernel, Copy):
        return _whole_line_copies(step, kernel, pair)
    if isinstance(kernel, PaddedCopy):
        whole = kernel.run == LINE and kernel.inner.dst % LINE == 0
    elif isinstance(kernel, Interleave):
        width = kernel.width if pair.conversion is None else pair.dst
        # Of each way a line, in two registers where these are shorter. Measured on Zen 3, 147 MiB of f32 from nchw to
        # nhwc with three channels, GB/s through the caches and streamed: 18 and 30.
        kernel = replace(kernel, block=max(kernel.block, LINE // width))
        whole = kernel.block * width % LINE == 0 and kernel.count % kernel.block == 0
        whole = whole and not (kernel.inverse and _conflicts(kernel, machine))
        whole = whole and not (kernel.inverse and kernel.stride % LINE)
    elif isinstance(kernel, Tile):
        return _whole_line_tile(step, kernel, pair, machine)
    else:
        return None
    return [replace(step, kernel=replace(kernel, streaming=True))] if whole else None


def _conflicts(kernel: Interleave, machine: Machine) -> bool:
    """Whether the ways, to which a line each is written by turns, share a set of L1, and that takes longer than the way
    through the caches. Measured on Zen 3, nhwc with three channels to nchw, f32, GB/s through the caches and streamed:
    planes of 224 x 224, which do, 16 MiB 41 and 25, 147 MiB 19 and 20; of 216 x 216 49 and 45, 21 and 26."""
    (way, _), _ = machine.ways
    profile = machine.profile
    return (
        kernel.ways > 2
        and hint_of(kernel.stride) % way == 0
        and profile.streamed_conflict_ns > profile.cached_ns
    )


def _whole_line_copies(step: Step, copy: Copy, pair: ElementPair) -> list[Step] | None:
    """Copies of whole lines, or whose neighbours make up whole lines; a single run may have a rest."""
    size, inner = bytes_written(copy, pair), copy.inner
    streaming = replace(copy, streaming=True)
    if size % LINE == 0:
        lines = inner.dst % LINE == 0
        return [copy_in_source_order(replace(step, kernel=streaming), pair)] if lines else None
    if pair.conversion is None and size in (LANE, 2 * LANE) and inner.dst == size:
        lines = inner.count % (LINE // size) == 0
        return [copy_in_source_order(replace(step, kernel=streaming), pair)] if lines else None
    src, dst = (1, 1) if pair.conversion is None else (pair.src, pair.dst)
    rest = copy.run % (LINE // dst)
    whole = copy.run - rest
    if not whole or inner.count > 1:
        return None
    behind = replace(
        step,
        src=step.src + whole * src,
        dst=step.dst + whole * dst,
        channel=step.channel + whole * copy.channel,
    )
    return [
        replace(step, kernel=replace(streaming, run=whole)),
        finished(behind, step.loops, replace(copy, run=rest)),
    ]


def _whole_line_tile(step: Step, tile: Tile, pair: ElementPair, machine: Machine) -> list[Step] | None:
    """A tile whose columns are whole lines, or, of a move, make up whole lines one behind the other."""
    rows, cols = tile.rows, tile.cols
    high, line = tile.block("rows"), LINE // (tile.width if pair.conversion is None else pair.dst)
    lines = high == line if pair.conversion is None else high % line == 0
    if lines and rows.count % high == 0 and not any(stride % LINE for _, stride in cols.loops):
        if pair.conversion is None:
            return [streamed_tile(step, tile, machine)]
        return [prefetching_conversion(step, replace(tile, streaming=True), pair, machine)]
    if pair.conversion is not None:
        return None
    piece = rows.count * tile.width
    if high != rows.count or piece not in (LANE, 2 * LANE):
        return None
    loops = step.loops
    if cols.fold and not isinstance(cols.count, SymInt) and cols.outer_stride % LINE == 0:
        # Blocks of columns, each as whole lines: other blocks have their turns behind it.
        loops = (*loops, Loop(cols.count // cols.fold, cols.fold * tile.width, cols.outer_stride))
        cols = Axis(cols.fold, cols.stride)
    wide = min(LANE // tile.width, cols.count)
    if cols == Axis(cols.count, piece) and wide % (LINE // piece) == 0 and cols.count % wide == 0:
        schedule = (Blocking("rows", high), Blocking("cols", wide))
        tile = replace(tile, cols=cols, schedule=schedule, streaming=True, square=False)
        return [prefetching(finished(step, loops, tile), machine)]
    return None


# Staging ------------------------------------------------------------------------------------------------------------


def _staged(steps: Sequence[Step], machine: Machine) -> list[Step] | None:
    """The steps inside the loops they have in common, over a staging buffer; None where they fill no interval."""
    if any(isinstance(step.kernel, Staged) for step in steps):
        return None
    inner = [_with_outer_loop(step) for step in steps]
    base = min(step.dst for step in inner)
    size = sum(_written(step) for step in inner)
    if any(_end(step) is None or (_end(step) or 0) > base + size for step in inner):
        return None
    largest = l1_buffer_size(machine)
    is_crossing = any(crosses_lines(step, machine.vector) for step in inner)
    most = min(_ONE_PAGE, largest) if is_crossing else largest
    outer: list[Loop] = []
    while size > most:
        common = _common_loop(inner)
        if common is None or common.dst * common.count != size:
            parts = None
            # What is no larger than it may be at most is cut only into parts within a page, or else left whole.
            if common is None and len(inner) == 1:
                bound = most if size <= largest else staging_size(machine)
                parts = _columns_staged(inner[0], outer, base, most, bound, machine)
            if parts is not None or size > largest:
                return parts
            break
        outer.append(common)
        inner = [replace(step, loops=step.loops[1:]) for step in inner]
        size = common.dst
    return _in_whole_lines(outer, inner, base, size, most, machine) if size >= _LEAST_STAGED else None


def _in_whole_lines(
    outer: Sequence[Loop], inner: Sequence[Step], base: Size, size: Size, most: int, machine: Machine
) -> list[Step]:
    """`inner` over a buffer of `size` bytes in the loops `outer`, or of so many times that it is whole lines.

    The store of a line's part is not done before the line is read, and streamed lines wait for it. Measured on Zen 4,
    f32 from blocks of 8 channels of 7 x 7 to nchw, 24 MiB, GB/s over 1568 bytes, over two times as many and through the
    caches 18, 55 and 42. Where `most` bytes are more than a page, three quarters of them are filled: what is prefetched
    meanwhile comes in time. 120 MiB of bf16 from blocks of 16 channels of 7 x 7 to blocks of 8 over 3, 6, 9, 12 and 15
    KiB 33, 40, 41, 41 and 37.
    """
    single = [_over_buffer(outer, inner, base, size, machine)]
    if isinstance(size, SymInt) or not outer:
        return single
    *around, last = outer
    times = LINE // gcd(size, LINE)
    if isinstance(last.count, SymInt) or last.count < times or times * size > l1_buffer_size(machine):
        return single
    if most > _ONE_PAGE:
        times = max(min(3 * most // 4 // size, last.count) // times, 1) * times
    if times == 1:
        return single
    number, rest = divmod(last.count, times)
    several = [replace(step, loops=(replace(last, count=times), *step.loops)) for step in inner]
    loops = [*around, Loop(number, times * last.src, times * last.dst)]
    blocks = [_over_buffer(loops, several, base, times * size, machine)]
    if rest:
        first = last.count - rest
        left = [replace(s, src=s.src + first * last.src, dst=s.dst + first * last.dst) for s in inner]
        at = base + first * last.dst
        blocks += _in_whole_lines([*around, replace(last, count=rest)], left, at, size, most, machine)
    return blocks


def _over_buffer(
    outer: Sequence[Loop], inner: Sequence[Step], base: Size, size: Size, machine: Machine
) -> Step:
    shifted = [
        replace(finished(s, s.loops, _in_source_order(s.kernel)), dst=s.dst - base, parallel=-1)
        for s in inner
    ]
    staged = Staged(size, tuple(shifted), streaming=True)
    loops = tuple(loop for loop in outer if isinstance(loop.count, SymInt) or loop.count > 1)
    return prefetching(finished(Step((), 0, base, staged), loops, staged), machine)


def _in_source_order(kernel: Kernel) -> Kernel:
    """The schedule for a destination that is in L1 anyway: read the source as it lies."""
    if not isinstance(kernel, Tile):
        return kernel
    schedule = (Blocking("rows", kernel.block("rows")), Blocking("cols", kernel.block("cols")))
    return replace(kernel, schedule=schedule)


def _staged_alone(step: Step, machine: Machine) -> list[Step] | None:
    """A tile over a staging buffer, whatever the other steps do; None where it fills no interval."""
    is_wide = isinstance(step.kernel, Tile) and step.kernel.width >= _WIDE
    return _staged([step], machine) if is_wide else None


def _with_outer_loop(step: Step) -> Step:
    """A copy or fill with its inner loop among the outer ones, so that other steps can have it in common."""
    kernel = step.kernel
    if isinstance(kernel, Copy | Fill) and kernel.inner.count > 1 and not step.loops:
        return replace(step, loops=(kernel.inner,), kernel=replace(kernel, inner=ONCE))
    return step


def _common_loop(steps: Sequence[Step]) -> Loop | None:
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


def _columns_staged(
    step: Step, outer: Sequence[Loop], base: Size, most: int, bound: int, machine: Machine
) -> list[Step] | None:
    """A tile whose columns lie one behind the other in the destination, some of them at a time in the buffer.

    These have `most` bytes, or as many more as whole lines of the source, or a register of them, need; None where that
    is beyond `bound`.
    """
    tile = step.kernel
    if not isinstance(tile, Tile) or step.loops or tile.cols.fold:
        return None
    if tile.cols.stride != tile.rows.count * tile.width:
        return None
    # Whole lines of the source, where the buffer may be as large.
    for wide in (min(LINE // tile.width, tile.cols.count), min(LANE // tile.width, tile.cols.count)):
        number = max(most // tile.cols.stride // wide, 1) * wide
        if number * tile.cols.stride <= bound:
            break
    else:
        return None
    if number >= tile.cols.count:
        return None
    parts = -(-tile.cols.count // number)
    number = -(-tile.cols.count // (parts * wide)) * wide  # of about one size
    whole, rest = divmod(tile.cols.count, number)
    result: list[Step] = []
    for first, cols, times in ((0, number, whole), (whole * number, rest, 1)):
        if not cols or not times:
            continue
        part = replace(tile, cols=replace(tile.cols, count=cols))
        if tile.block("cols") > cols:
            part = replace(
                part,
                schedule=(
                    Blocking("rows", tile.block("rows")),
                    Blocking("cols", min(cols, LANE // tile.width)),
                ),
                square=False,
            )
        loop = Loop(times, number * tile.width, number * tile.cols.stride)
        loops, size = [*outer, loop] if times > 1 else list(outer), cols * tile.cols.stride
        if times > 1 and tile.width >= _WIDE and loop.src >= LINE:
            part = replace(part, prefetch_distance=loop.src)
        at = base + first * tile.cols.stride
        inner = replace(step, kernel=part, src=step.src + first * tile.width, dst=at)
        if size < _LEAST_STAGED:
            result.append(finished(inner, tuple(loops), part))
        else:
            result.append(_over_buffer(loops, [inner], at, size, machine))
    return result


def _written(step: Step) -> Size:
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


def _end(step: Step) -> Size | None:
    """Where the bytes that the step writes end; None where a loop runs backwards or is none with constant bounds."""
    kernel, at = step.kernel, step.dst
    loops: list[AnyLoop] = list(step.loops)
    if isinstance(kernel, Tile):
        loops += [Loop(count, 0, stride) for count, stride in kernel.cols.loops]
        at += kernel.rows.count * kernel.width
    elif isinstance(kernel, Interleave):
        loops.append(Loop(kernel.ways, 0, kernel.stride if kernel.inverse else kernel.width * kernel.count))
        at += kernel.width * kernel.count
    elif isinstance(kernel, Copy | Fill | PaddedCopy | Elements):
        loops.append(kernel.inner)
        at += kernel.width if isinstance(kernel, Elements) else kernel.run
    for item in loops:
        if not isinstance(item, Loop) or item.dst < 0:
            return None
        at += (item.count - 1) * item.dst
    return at
