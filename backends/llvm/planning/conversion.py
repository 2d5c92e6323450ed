"""Plans of reorders that change the element type on the way.

The boxes are those of every reorder; what differs is that a step has two widths, that a loop may move from channel to
channel, and that an element must not be converted twice where the destination is also read (beta) or where two
elements share a byte. Then a tile or run is not moved back to end with its axis, but cut into whole ones and a rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from operator import index

from layout_ir.algebra.layout import Layout
from layout_ir.algebra.refinement import Loop as RefinedLoop
from layout_ir.algebra.refinement import Nest, refine
from layout_ir.algebra.refinement import TableLoop as RefinedTableLoop
from layout_ir.backends.llvm.machine.machine import LANE, LINE, Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.index_splitting import Box, cut
from layout_ir.backends.llvm.planning.nontemporal import streaming_volume
from layout_ir.backends.llvm.planning.out_of_cache import reach_of
from layout_ir.backends.llvm.planning.parallel import shared_by, split_of
from layout_ir.backends.llvm.planning.planner import Span, check_addresses, pad_boxes, product_boxes
from layout_ir.backends.llvm.planning.schedule import begins_at_bytes, fill_step, merged
from layout_ir.backends.llvm.symbolic.guarding import size_oblivious
from layout_ir.backends.llvm.symbolic.symint import is_remainder, is_symbolic
from layout_ir.dialects.kernel.plan import (
    ONCE,
    AnyLoop,
    Axis,
    Blocking,
    Copy,
    Interleave,
    Kernel,
    Level,
    Loop,
    Plan,
    Step,
    TableLoop,
    Tile,
)
from layout_ir.elements.quantization import Conversion
from layout_ir.elements.types import bits_of
from layout_ir.errors import LayoutError

_LEAST_TILE = 16
"""Elements below which a transposition in registers is not worth its code."""


def make_conversion_plan(
    src: Layout, dst: Layout, conversion: Conversion, pad: int, machine: Machine, threads: int = 1
) -> Plan:
    """The plan that moves and converts the elements of `src` to `dst`; pads get the bits `pad`.

    Raises LayoutError where `refine` does, where a layout has addresses below 0, or where there is no dim of channels.
    """
    nest, widths = size_oblivious(refine)(src, dst), ElementPair.of(conversion)
    check_addresses(src, dst)
    dim = conversion.dim
    if dim is not None and not 0 <= dim < src.rank:
        raise LayoutError(
            f"channels along dim {dim} of a tensor of rank {src.rank}: dims are 0 to {src.rank - 1}"
        )
    if dim is not None and src.shape[dim] != conversion.channels:
        raise LayoutError(
            f"dim {dim} has extent {src.shape[dim]}, but there are {conversion.channels} channels"
        )
    steps: list[Step] = []
    if prod(src.shape):
        spans = conversion_spans(nest, conversion)
        volume = prod(src.shape) * (widths.src + widths.dst)
        for box in product_boxes(spans, [cut(*span) for span in spans]):
            for step in _steps(moved_to_base(box, nest, conversion), conversion, machine):
                steps += _streamed(step, widths) if _streams(step, volume, machine, threads) else [step]
        if volume > machine.l2:
            steps = [_asking_ahead(step, widths, machine) for step in steps]
    if dst.pad != "undef":
        for box in pad_boxes(dst, widths.dst, None, 1):
            steps.append(fill_step(replace(box, dst=box.dst + dst.offset * widths.dst), widths.dst, pad))
    if threads > 1:
        steps = [shared_by(step, threads) for step in steps]
    return Plan(
        widths.narrower,
        bytes_of(src.extent, conversion.src),
        bytes_of(dst.extent, conversion.dst),
        tuple(steps),
        conversion,
    )


def bytes_of(extent: int, dtype: str) -> int:
    """Bytes that hold `extent` elements."""
    return -(-extent * bits_of(dtype) // 8)


def conversion_spans(nest: Nest, conversion: Conversion) -> list[Span]:
    """Per dim, its levels and the positions of elements."""
    widths = ElementPair.of(conversion)
    return [
        (tuple(_level(loop, widths, d == conversion.dim) for loop in n.loops), n.low, n.low + n.extent)
        for d, n in enumerate(nest.dims)
    ]


def moved_to_base(box: Box, nest: Nest, conversion: Conversion) -> Box:
    """A box of `conversion_spans`, from where the tensors begin in their buffers and with the first channel as 0."""
    widths, dim = ElementPair.of(conversion), conversion.dim
    return replace(
        box,
        src=box.src + nest.src_base * widths.src,
        dst=box.dst + nest.dst_base * widths.dst,
        channel=box.channel - (nest.dims[dim].low if dim is not None else 0),
    )


def _level(loop: RefinedLoop | RefinedTableLoop, widths: ElementPair, has_channels: bool) -> Level:
    channel = loop.unit if has_channels else 0
    if isinstance(loop, RefinedTableLoop):
        src, dst = (
            tuple(x * w for x in side) for side, w in ((loop.src, widths.src), (loop.dst, widths.dst))
        )
        return Level(loop.unit, TableLoop(src, dst, channel))
    return Level(loop.unit, Loop(loop.count, loop.src * widths.src, loop.dst * widths.dst, channel=channel))


# Kernels -------------------------------------------------------------------------------------------------------------


def _steps(box: Box, conversion: Conversion, machine: Machine) -> Iterator[Step]:
    """The steps that convert the elements of `box`."""
    widths = ElementPair.of(conversion)
    box, loops, rest = _turned(box)
    at = Step((), box.src, box.dst, Copy(1), channel=box.channel)
    run = next((x for x in loops if (x.src, x.dst) == (widths.src, widths.dst)), None)
    if run is not None:
        loops.remove(run)
        outer = (*rest, *loops)
        if not begins_at_bytes(at, outer, widths):
            yield _finished(at, outer, Copy(1, run))
            return
        inner = loops.pop() if loops else ONCE
        yield _finished(at, (*rest, *loops), Copy(run.count, inner, channel=run.channel))
        return
    rows = next((x for x in loops if x.dst == widths.dst), None)
    cols = next((x for x in loops if x.src == widths.src and x is not rows), None)
    if rows is not None and cols is not None and rows.count * cols.count >= _LEAST_TILE:
        others = (*rest, *(x for x in loops if x is not rows and x is not cols))
        weave = _weave(rows, cols, conversion, machine)
        if weave is not None:
            yield _finished(at, others, weave)
            return
        if begins_at_bytes(at, (*others, replace(rows, dst=0), replace(cols, src=0)), widths):
            yield from _tiles(at, others, rows, cols, conversion, machine)
            return
    if not loops:
        yield _finished(at, tuple(rest), Copy(1))
        return
    inner = rows or cols or loops[-1]
    yield _finished(at, (*rest, *(x for x in loops if x is not inner)), Copy(1, inner))


@size_oblivious
def _turned(box: Box) -> tuple[Box, list[Loop], list[AnyLoop]]:
    """Loops by falling destination stride, all of them forwards; other items; and where it then begins."""
    loops: list[Loop] = []
    rest: list[AnyLoop] = []
    for item in box.items:
        if not isinstance(item, Loop):
            rest.append(item)
            continue
        if item.dst < 0:
            last = item.count - 1
            box = replace(
                box,
                src=box.src + last * item.src,
                dst=box.dst + last * item.dst,
                channel=box.channel + last * item.channel,
            )
            item = Loop(item.count, -item.src, -item.dst, channel=-item.channel)
        loops.append(item)
    return box, merged(loops), rest


def _weave(rows: Loop, cols: Loop, conversion: Conversion, machine: Machine) -> Interleave | None:
    """Two to four strands, where the run has no gaps and the strands no channels of their own along them."""
    widths = ElementPair.of(conversion)
    if ElementPair.of(conversion).exactly_once:
        return None
    # The order of the questions matters where counts are open: the one that makes a condition comes last.
    if cols.dst == rows.count * widths.dst and not cols.channel and rows.count <= 4:
        few, many, stride, splits = rows, cols.count, rows.src, False
    elif rows.src == cols.count * widths.src and not rows.channel and cols.count <= 4:
        few, many, stride, splits = cols, rows.count, cols.dst, True
    else:
        return None
    block = max(machine.vector, 32) // min(widths.src, widths.dst)
    while block > many:
        block //= 2
    if block * min(widths.src, widths.dst) < LANE:
        return None
    ways = index(few.count)
    return Interleave(widths.narrower, ways, many, stride, splits, block, channel=few.channel)


def _tiles(
    at: Step, items: tuple[AnyLoop, ...], rows: Loop, cols: Loop, conversion: Conversion, machine: Machine
) -> Iterator[Step]:
    """One tile, or up to four where no element may be written twice."""
    if not ElementPair.of(conversion).exactly_once:
        yield _finished(at, items, _tile(rows, cols, conversion, machine))
        return
    widths = ElementPair.of(conversion)
    high, wide = _extents(rows.count, cols.count, conversion, machine)
    if widths.src_packed or widths.dst_packed:
        high, wide = (1 << extent.bit_length() - 1 for extent in (high, wide))
    for row, row_count in _parts(rows.count, high):
        for col, col_count in _parts(cols.count, wide):
            here = replace(
                at,
                src=at.src + row * rows.src + col * cols.src,
                dst=at.dst + row * rows.dst + col * cols.dst,
                channel=at.channel + row * rows.channel + col * cols.channel,
            )
            r, c = replace(rows, count=row_count), replace(cols, count=col_count)
            rests = [n for n, size in ((row_count, high), (col_count, wide)) if is_symbolic(n) and n % size]
            if rests or (widths.src_packed and col_count % 2) or (widths.dst_packed and row_count % 2):
                yield _finished(here, (*items, r), Copy(1, c))
            else:
                yield _finished(here, items, _tile(r, c, conversion, machine))


def _parts(count: int, size: int) -> list[tuple[int, int]]:
    """Where runs of whole tiles begin, and their elements: tiles of `size`, then of ever smaller powers of two.

    An open count is whole tiles, and a rest for which there is none.
    """
    if is_symbolic(count):
        whole = count // size * size
        return [(start, n) for start, n in ((0, whole), (whole, count % size)) if n]
    result: list[tuple[int, int]] = []
    at = 0
    while at < count:
        while size > count - at:
            size = 1 << (count - at).bit_length() - 1
        here = (count - at) // size * size
        result.append((at, here))
        at += here
    return result


def _extents(rows: int, cols: int, conversion: Conversion, machine: Machine) -> tuple[int, int]:
    """Rows and columns of a tile: registers of whole lanes, as few as the data needs, and a line of every source row.

    Fewer columns, those of a lane, where no element may be written twice, so that less remains for smaller tiles, and
    where 16 registers do not hold what is converted before it is transposed (f32 to bf16 with AVX2: 24 GB/s, not 41).
    """
    widths = ElementPair.of(conversion)
    late = widths.transposes_first
    per_lane = LANE // (widths.src if late else widths.dst)
    lanes = 4 if machine.vector > LANE else 1
    while lanes > 1 and not is_remainder(rows) and per_lane * lanes > rows:
        lanes //= 2
    wide = per_lane
    if (late or machine.vector == LINE) and not ElementPair.of(conversion).exactly_once:
        while 2 * wide * widths.src <= LINE and not is_remainder(cols) and 2 * wide <= cols:
            wide *= 2
    # Rests of blocks go one by one: a plan for each of them would be too many.
    high = 1 if is_remainder(rows) else index(min(per_lane * lanes, rows))
    return high, 1 if is_remainder(cols) else index(min(wide, cols))


def _tile(rows: Loop, cols: Loop, conversion: Conversion, machine: Machine) -> Tile:
    high, wide = _extents(rows.count, cols.count, conversion, machine)
    # Along few rows of the source: more are read side by side than processors follow.
    return Tile(
        ElementPair.of(conversion).narrower,
        Axis(rows.count, rows.src, channel=rows.channel),
        Axis(cols.count, cols.dst, channel=cols.channel),
        (Blocking("rows", high), Blocking("cols", wide)),
    )


def last_cut(tile: Tile, axis: str) -> int:
    """The tile's own extent along `axis`."""
    return [cut.size for cut in tile.schedule if cut.axis == axis][-1]


def _finished(at: Step, items: tuple[AnyLoop, ...], kernel: Kernel) -> Step:
    """`at` with these loops, shared by an unknown number of threads."""
    return replace(at, loops=items, kernel=kernel, parallel=split_of(items, kernel))


# Far from the processor -----------------------------------------------------------------------------------------------


def _asking_ahead(step: Step, widths: ElementPair, machine: Machine) -> Step:
    """`step` with prefetches in every row of a tile, for a source that the second-level cache does not hold.

    There are as many rows as a line of a narrow destination has elements, more than processors follow. Measured on
    Zen 4, nchw f32 of 74 MiB to nhwc, GB/s without and with: bf16 19 and 32, i8 16 and 41; with 256 channels of 14 x 14
    bf16 9, 17 some lines ahead and 24 as many rows ahead.
    """
    tile = step.kernel
    if not isinstance(tile, Tile) or widths.src_packed:
        return step
    row, high = tile.cols.count * widths.src, last_cut(tile, "rows")
    return replace(
        step, kernel=replace(tile, prefetch_distance=reach_of(tile.rows.stride, row, high, machine))
    )


# Streaming -----------------------------------------------------------------------------------------------------------


def _streams(step: Step, volume: int, machine: Machine, threads: int) -> bool:
    """Whether `volume` bytes are so many that stores had better bypass the caches.

    Tiles gain earlier than copies do, for they read many rows side by side and write far apart. Measured on Zen 4 with
    an L3 of 32 MiB, nchw f32 to nhwc bf16, GB/s through the caches and streamed: 12 MiB 50 and 61, 9 MiB 51 and 58, 6
    MiB 60 and 63.
    """
    least = streaming_volume(machine, threads)
    return machine.streams and volume > (2 * least // 3 if isinstance(step.kernel, Tile) else least)


def _streamed(step: Step, widths: ElementPair) -> list[Step]:
    """`step` with stores that bypass the caches, where all of them are whole lines."""
    line = LINE // widths.dst
    if widths.dst_packed or step.dst % LINE:
        return [step]
    if not all(isinstance(x, Loop) and x.dst % LINE == 0 for x in step.loops):
        return [step]
    kernel = step.kernel
    if isinstance(kernel, Copy):
        rest = kernel.run % line
        whole = kernel.run - rest
        if kernel.inner.dst % LINE or not whole or (rest and kernel.inner.count > 1):
            return [step]
        steps = [replace(step, kernel=replace(kernel, run=whole, streaming=True))]
        if rest:
            moved = replace(
                step,
                src=step.src + whole * widths.src,
                dst=step.dst + whole * widths.dst,
                channel=step.channel + whole * kernel.channel,
            )
            steps.append(_finished(moved, step.loops, replace(kernel, run=rest)))
        return steps
    if isinstance(kernel, Tile):
        high = last_cut(kernel, "rows")
        if high % line or kernel.rows.count % high or kernel.cols.stride % LINE:
            return [step]
        return [replace(step, kernel=replace(kernel, streaming=True))]
    assert isinstance(kernel, Interleave)
    whole = kernel.block * widths.dst % LINE == 0 and kernel.count % kernel.block == 0
    if not whole or (kernel.inverse and kernel.stride % LINE):
        return [step]
    return [replace(step, kernel=replace(kernel, streaming=True))]
