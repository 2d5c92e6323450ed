"""Whether a plan stays inside its buffers: the check of the value, whoever made it.

A plan may come from a text, and its code is run. So before it is compiled this is certain:

* Every access of every step, in all iterations of the loops around it, lies inside of the source and the destination,
  and every channel among those that there are quantization parameters for. The walk adds, loop by loop, the range of
  offsets that its iterations reach.
* Offsets, strides and runs are whole elements, and stores that bypass the caches are aligned with each other.
* What a micro-kernel holds in registers is no more than registers should hold, and a staging buffer fits the stack.
* No two iterations write one byte where that is cheap to see: they are at least a run apart, and nothing writes more
  bytes than the interval has that it writes into. A staging buffer is filled exactly once; what empties it reads no
  more than it has.

The work is linear in the text of the plan (a table is sorted): nothing runs through the iterations. What is checked has
no symbolic sizes: a plan for dynamic shapes is made here, never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from operator import index
from typing import NamedTuple

from layout_ir.dialects.kernel.plan import (
    LINE,
    AnyLoop,
    Axis,
    Copy,
    Elements,
    Fill,
    Interleave,
    Kernel,
    Level,
    Loop,
    PaddedCopy,
    Plan,
    Staged,
    Step,
    TableLoop,
    Tile,
    VariableBoundLoops,
    iterations,
)
from layout_ir.elements.element_types import bits_of
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError
from layout_ir.symbolic.symint import Size

LONGEST = 256
"""Rows, columns, ways or elements that the registers of one iteration hold at most."""

LARGEST = 1 << 20
"""Bytes of a staging buffer, which is on the stack, at most."""

DEEPEST = 64
"""Loops around a micro-kernel, levels of a dim, blockings of a tile at most: code for each is nested."""

FARTHEST = 1 << 32
"""Bytes by which prefetches run ahead at most."""

MOST_POSITIONS = 1 << 62
"""Positions that levels number at most, so that the code's arithmetic on them does not overflow."""

Node = Plan | Step | AnyLoop | Kernel
Range = tuple[Size, Size]
"""The smallest and the largest of some numbers, both reached."""

SIDES = ("source", "destination")


class PlanError(LayoutError):
    """What is wrong with a plan; `node` is the part that it is about."""

    def __init__(self, message: str, node: Node | None = None):
        super().__init__(message)
        self.node = node


def check_plan(plan: Plan) -> None:
    """Raises PlanError where `plan` does not hold what the head of this module says."""
    _check_width(plan.width, plan)
    if min(plan.src_bytes, plan.dst_bytes) < 0:
        raise PlanError(f"buffers of {plan.src_bytes} and {plan.dst_bytes} bytes: 0 is the least", plan)
    elements = _Elements.of(plan)
    if plan.conversion is not None and plan.width != min(elements.widths):
        raise PlanError(
            f"elements of {plan.conversion} need width {min(elements.widths)}, not {plan.width}", plan
        )
    src, dst = (
        (2 if packed else 1) * size
        for packed, size in zip(elements.packed, (plan.src_bytes, plan.dst_bytes), strict=True)
    )
    _check_steps(plan.steps, elements, _Buffers(src, dst), plan)


# What is checked against ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Elements:
    """The elements of a plan; numbers are half bytes on a side that is packed."""

    width: int
    widths: tuple[int, int]
    """How far apart neighbours are in source and destination."""
    packed: tuple[bool, bool]
    """Whether two elements share a byte, in source and destination."""
    conversion: Conversion | None

    @classmethod
    def of(cls, plan: Plan) -> _Elements:
        conversion = plan.conversion
        if conversion is None:
            return cls(plan.width, (plan.width, plan.width), (False, False), None)
        src, dst = bits_of(conversion.src), bits_of(conversion.dst)
        return cls(plan.width, (max(src // 8, 1), max(dst // 8, 1)), (src < 8, dst < 8), conversion)

    @property
    def of_destination(self) -> _Elements:
        """Those of the destination, moved, as from a staging buffer."""
        return _Elements(self.widths[1], (self.widths[1], self.widths[1]), (False, False), None)

    @property
    def once(self) -> bool:
        """Whether no element may be converted twice: it is added to, or is half a byte."""
        return any(self.packed) or (self.conversion is not None and self.conversion.beta is not None)

    @property
    def channels(self) -> int:
        """How many channels there are, 0 where the plan has none."""
        return 0 if self.conversion is None or self.conversion.dim is None else self.conversion.channels


@dataclass(frozen=True, slots=True)
class _Buffers:
    """The bytes that steps may use, and from which offsets of the source on they read."""

    src: Size
    dst: Size
    origins: tuple[Range, Range] = ((0, 0), (0, 0))
    """Offsets in the source, and channels, at which a staging buffer is filled."""
    staged: bool = False
    """Whether the source or the destination is a staging buffer."""
    targets: Range = (0, 0)
    """Offsets in the destination at which a staging buffer is emptied."""


class _Access(NamedTuple):
    """Bytes on one side: `run` together, in all iterations of `loops` (count, stride)."""

    run: Size
    loops: tuple[tuple[Size, Size], ...] = ()

    @property
    def range(self) -> Range:
        """The first byte and the one behind the last, from where the access begins."""
        low, high = _sum(linear_range(count, stride) for count, stride in self.loops)
        return low, high + self.run

    @property
    def volume(self) -> Size:
        return self.run * prod(count for count, _ in self.loops)


class _Writes(NamedTuple):
    """Bytes of the destination that some steps write."""

    range: Range
    volume: Size
    run: Size = 1
    """Bytes that one of two iterations is further at least: the steps themselves are checked apart."""
    loops: tuple[tuple[Size, Size], ...] = ()


def _accesses(kernel: Kernel, elements: _Elements) -> tuple[_Access | None, _Access | _Writes]:
    """What `kernel` reads (None: nothing, or what the steps of its staging buffer read) and what it writes."""
    moves = elements.conversion is None
    match kernel:
        case Copy():
            src, dst = (1, 1) if moves else elements.widths
            inner = kernel.inner
            return (
                _Access(kernel.run * src, ((inner.count, inner.src),)),
                _Access(kernel.run * dst, ((inner.count, inner.dst),)),
            )
        case Elements():
            inner = kernel.inner
            return (
                _Access(kernel.width, ((inner.count, inner.src),)),
                _Access(kernel.width, ((inner.count, inner.dst),)),
            )
        case Fill():
            return None, _Access(kernel.run, ((kernel.inner.count, kernel.inner.dst),))
        case PaddedCopy():
            inner = kernel.inner
            return (
                _Access(kernel.valid, ((inner.count, inner.src),)),
                _Access(kernel.run, ((inner.count, inner.dst),)),
            )
        case Tile():
            src, dst = (kernel.width, kernel.width) if moves else elements.widths
            rows, cols = kernel.rows, kernel.cols
            return (
                _Access(cols.count * src, ((kernel.valid or rows.count, rows.stride),)),
                _Access(rows.count * dst, cols.loops),
            )
        case Interleave():
            src, dst = (kernel.width, kernel.width) if moves else elements.widths
            apart, together = kernel.count, kernel.ways * kernel.count
            loops = ((kernel.ways, kernel.stride),)
            if kernel.inverse:
                return _Access(together * src), _Access(apart * dst, loops)
            return _Access(apart * src, loops), _Access(together * dst)
        case Staged() if kernel.then:
            return None, _writes_of_all(kernel.then, elements.of_destination)
        case Staged():
            loops = ((kernel.rows, kernel.dst_stride), (kernel.iterations, kernel.size))
            return None, _Access(kernel.size, loops)


def _writes_of_all(steps: Sequence[Step], elements: _Elements) -> _Writes:
    """What `steps` write together."""
    writes = [(step, _accesses(step.kernel, elements)[1]) for step in steps]
    ranges = [
        _sum(((step.dst, step.dst), *(_range(loop, "dst") for loop in step.loops), access.range))
        for step, access in writes
    ]
    volume = sum(iterations(step.loops) * access.volume for step, access in writes)
    return _Writes((min(low for low, _ in ranges), max(high for _, high in ranges)), volume)


# Ranges --------------------------------------------------------------------------------------------------------------


def linear_range(count: Size, stride: Size) -> Range:
    """The offsets of `count` iterations, `stride` apart."""
    last = (count - 1) * stride
    return min(0, last), max(0, last)


def positions_range(levels: Sequence[Level], start: Size, stop: Size, side: str) -> Range:
    """The offsets of positions [start, stop), not empty, on one side: "src", "dst" or "channel"."""
    if not levels:
        return 0, 0
    *lower, top = levels
    first, last = start // top.unit, -(-stop // top.unit)
    ranges: list[Range] = []
    inner: Range | None = None
    numbers: Sequence[int] = range(first, last)
    if isinstance(top.loop, Loop) or side == "channel":
        # Between the first and the last whole iteration nothing is further out.
        numbers = sorted({*numbers[:2], *numbers[-2:]})
    for k in numbers:
        begin, end = max(start - k * top.unit, 0), min(stop - k * top.unit, top.unit)
        whole = (begin, end) == (0, top.unit)
        if not whole or inner is None:
            found = positions_range(lower, begin, end, side)
            inner = found if whole else inner
        else:
            found = inner
        offset = _offset(top.loop, k, side)
        ranges.append((found[0] + offset, found[1] + offset))
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _offset(loop: Loop | TableLoop, k: int, side: str) -> Size:
    if side == "channel":
        return k * loop.channel
    moves: Size | tuple[Size, ...] = loop.src if side == "src" else loop.dst
    return moves[k] if isinstance(moves, tuple) else k * moves


def _range(loop: AnyLoop, side: str) -> Range:
    """The offsets of all iterations of `loop` on one side."""
    if isinstance(loop, VariableBoundLoops):
        return positions_range(loop.levels, loop.start, loop.stop, side)
    if side == "channel":
        return linear_range(loop.count, loop.channel)
    if isinstance(loop, TableLoop):
        entries = loop.src if side == "src" else loop.dst
        return min(entries), max(entries)
    return linear_range(loop.count, loop.src if side == "src" else loop.dst)


def _sum(ranges: Iterable[Range]) -> Range:
    low = high = 0
    for below, above in ranges:
        low, high = low + below, high + above
    return low, high


def _moves(loop: AnyLoop) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
    """Every offset or stride of a loop, in the source and in the destination."""
    if isinstance(loop, Loop):
        return (loop.src,), (loop.dst,)
    if isinstance(loop, TableLoop):
        return loop.src, loop.dst
    sides = [_moves(level.loop) for level in loop.levels]
    return tuple(x for src, _ in sides for x in src), tuple(x for _, dst in sides for x in dst)


def _gap(loop: AnyLoop) -> Size | None:
    """The least distance of two iterations in the destination; None where it is not cheap to say, or there is one."""
    if isinstance(loop, Loop):
        return abs(loop.dst) if loop.count > 1 else None
    if isinstance(loop, TableLoop):
        return min((b - a for a, b in pairwise(sorted(loop.dst))), default=None)
    return None


# Steps ---------------------------------------------------------------------------------------------------------------


def _check_steps(steps: Sequence[Step], elements: _Elements, buffers: _Buffers, node: Plan | Staged) -> None:
    """Checks every step, and that together they write no more than there is; of a staging buffer, all of it."""
    written = 0
    for step in steps:
        _check_step(step, elements, buffers)
        written += iterations(step.loops) * _accesses(step.kernel, elements)[1].volume
    filled = node.rows * node.size if isinstance(node, Staged) else buffers.dst
    if written > filled or (buffers.staged and written != filled):
        raise PlanError(f"the steps write {written} bytes, the destination has {filled}", node)


def _check_step(step: Step, elements: _Elements, buffers: _Buffers) -> None:
    kernel = step.kernel
    if len(step.loops) > DEEPEST:
        raise PlanError(f"{len(step.loops)} loops are nested: {DEEPEST} are the most", step)
    for loop in step.loops:
        _check_loop(loop, elements)
    _check_marks(step, buffers)
    _check_whole([step.src, step.dst], elements, step)
    _check_kernel(step, elements, buffers)
    reads, writes = _accesses(kernel, elements)
    for access in (reads, writes):
        if not isinstance(access, _Access):
            continue
        numbers = access.run, *(stride for _, stride in access.loops)
        for number in numbers:
            if number % elements.width:
                raise PlanError(
                    f"a micro-kernel moves {number} bytes, which is no multiple of the element's {elements.width}",
                    kernel,
                )
    src, dst, channel = (
        _sum(_range(loop, side) for loop in step.loops) for side in ("src", "dst", "channel")
    )
    origins = (
        _sum((buffers.origins[0], (step.src, step.src), src)),
        _sum((buffers.origins[1], (step.channel, step.channel), channel)),
    )
    if reads is not None:
        _check_inside(_sum((origins[0], reads.range)), buffers.src, 0, kernel)
    low, high = _sum((buffers.targets, (step.dst, step.dst), dst, writes.range))
    _check_inside((low, high), buffers.dst, 1, kernel)
    written = iterations(step.loops) * writes.volume
    if written > high - low - (buffers.targets[1] - buffers.targets[0]):
        raise PlanError(
            f"writes {written} bytes into the {high - low} of [{low}, {high}): some twice", kernel
        )
    gaps = [abs(stride) if count > 1 else None for count, stride in writes.loops]
    for gap in (*gaps, *map(_gap, step.loops)):
        if gap is not None and gap < writes.run:
            raise PlanError(
                f"iterations {gap} bytes apart write runs of {writes.run}: some bytes twice", kernel
            )
    _check_channels(kernel, origins[1], elements)
    if kernel.streaming:
        _check_streaming(step, elements)
    if isinstance(kernel, Staged):
        turns = linear_range(kernel.iterations, kernel.src_stride)
        inner = _Buffers(buffers.src, kernel.extent, (_sum((origins[0], turns)), origins[1]), staged=True)
        _check_steps(kernel.steps, elements, inner, kernel)
        for part in kernel.then:
            out = _Buffers(kernel.size, buffers.dst, targets=_sum(((step.dst, step.dst), dst)), staged=True)
            _check_step(part, elements.of_destination, out)


def _check_loop(loop: AnyLoop, elements: _Elements) -> None:
    match loop:
        case Loop():
            _check_positive(loop, count=loop.count)
            if loop.valid:
                raise PlanError(f"'{loop}' carries pads: only the rows of a tile do", loop)
        case TableLoop():
            _check_positive(loop, count=loop.count)
            if len(loop.src) != len(loop.dst):
                raise PlanError(
                    f"a table of {len(loop.src)} offsets of the source and {len(loop.dst)} others", loop
                )
        case VariableBoundLoops():
            _check_positive(loop, positions=loop.count)
            if loop.start < 0:
                raise PlanError(f"positions begin at {loop.start}, which is less than 0", loop)
            _check_levels(loop)
    for moves in _moves(loop):
        _check_whole(moves, elements, loop)


def _check_levels(loop: VariableBoundLoops) -> None:
    """Raises PlanError where the levels do not number the positions below `stop`."""
    if not 0 < len(loop.levels) <= DEEPEST:
        raise PlanError(
            f"positions have 1 to {DEEPEST} levels that number them, not {len(loop.levels)}", loop
        )
    unit = 1
    for level in loop.levels:
        _check_positive(loop, count=level.loop.count)
        if level.unit != unit:
            raise PlanError(
                f"a level of unit {level.unit} follows levels that count {unit}: they must be equal", loop
            )
        unit *= level.loop.count
    if loop.stop > unit:
        raise PlanError(f"the levels number {unit} positions, the loop ends at {loop.stop}", loop)
    if unit > MOST_POSITIONS:
        raise PlanError(f"the levels number {unit} positions: 2^62 are the most", loop)


def _check_marks(step: Step, buffers: _Buffers) -> None:
    """Raises PlanError where a loop that cannot is shared by threads, or prefetches."""
    count = len(step.loops)
    if not -1 <= step.parallel <= count or not 0 <= (step.prefetch or 0) < max(count, 1):
        raise PlanError(
            f"loops {step.parallel} and {step.prefetch} are marked, there are {count} and the kernel's", step
        )
    if buffers.staged and step.parallel >= 0:
        raise PlanError("no loop inside of a staging buffer is shared by threads", step)
    parallel = step.loops[step.parallel] if 0 <= step.parallel < count else None
    if isinstance(parallel, VariableBoundLoops):
        raise PlanError("only a loop with constant bounds is shared by threads", parallel)
    if step.prefetch is not None:
        loop = step.loops[step.prefetch] if count else None
        if not isinstance(loop, Loop):
            raise PlanError("only a loop with a constant stride prefetches", loop or step)


def _check_inside(touched: Range, size: Size, side: int, kernel: Kernel) -> None:
    low, high = touched
    if not 0 <= low <= high <= size:
        verb = ("reads", "writes")[side]
        raise PlanError(f"{verb} bytes [{low}, {high}) of a {SIDES[side]} of {size}", kernel)


def _check_channels(kernel: Kernel, around: Range, elements: _Elements) -> None:
    """Raises PlanError where the elements of `kernel` have other channels than there are."""
    own: list[Range] = []
    match kernel:
        case Copy():
            own = [
                linear_range(kernel.run, kernel.channel),
                linear_range(kernel.inner.count, kernel.inner.channel),
            ]
        case Tile():
            own = [linear_range(axis.count, axis.channel) for axis in (kernel.rows, kernel.cols)]
        case Interleave():
            own = [linear_range(kernel.ways, kernel.channel)]
        case _:
            pass
    low, high = _sum((around, *own))
    if not 0 <= low <= high < max(elements.channels, 1):
        raise PlanError(f"uses channels {low} to {high}, there are {elements.channels}", kernel)


# Micro-kernels -------------------------------------------------------------------------------------------------------


def _check_kernel(step: Step, elements: _Elements, buffers: _Buffers) -> None:
    """Raises PlanError where the numbers of the micro-kernel do not fit together, or the plan cannot have it."""
    kernel = step.kernel
    if elements.conversion is not None:
        if not isinstance(kernel, Copy | Tile | Interleave | Fill) and not (
            isinstance(kernel, Staged) and kernel.then
        ):
            raise PlanError("moves elements, but the plan converts them", kernel)
        if kernel.streaming and elements.packed[1]:
            raise PlanError("halves of bytes are not streamed", kernel)
    if not isinstance(kernel, Copy | Staged):
        _check_width(kernel.width, kernel)
        if kernel.width % elements.width:
            raise PlanError(
                f"elements of {kernel.width} bytes are no whole elements of {elements.width}", kernel
            )
        wanted = elements.widths[1] if isinstance(kernel, Fill) else elements.width
        if elements.conversion is not None and kernel.width != wanted:
            raise PlanError(f"the elements have width {wanted}, not {kernel.width}", kernel)
    if isinstance(kernel, Copy | Elements | Fill | PaddedCopy):
        _check_positive(kernel, count=kernel.inner.count)
        if kernel.inner.valid:
            raise PlanError(f"'{kernel.inner}' carries pads: only the rows of a tile do", kernel)
    match kernel:
        case Copy():
            _check_positive(kernel, run=kernel.run)
        case Elements():
            pass
        case Fill():
            _check_positive(kernel, run=kernel.run)
            _check_pads(kernel, kernel.value, kernel.width, run=kernel.run)
            if elements.packed[1] and kernel.value >= 16:
                raise PlanError(f"{kernel.value} are no bits of a pad of half a byte", kernel)
        case PaddedCopy():
            if not 0 < kernel.valid < kernel.run:
                raise PlanError(f"{kernel.valid} bytes are valid of a run of {kernel.run}", kernel)
            _check_pads(kernel, kernel.value, kernel.width, run=kernel.run, valid=kernel.valid)
            _check_registers(kernel, "elements", kernel.run // kernel.width)
        case Tile():
            _check_tile(step, kernel, elements)
        case Interleave():
            _check_interleave(kernel, elements)
        case Staged():
            _check_staged(kernel, buffers, elements)
            _check_whole([kernel.src_stride], elements, kernel)


def _check_pads(kernel: Kernel, value: int, width: int, **sizes: Size) -> None:
    """Raises PlanError where one of the named sizes is no whole number of pads, or `value` no pad of `width` bytes."""
    for name, size in sizes.items():
        if size % width:
            raise PlanError(f"{name} is {size}, no multiple of the pad's {width} bytes", kernel)
    if not 0 <= value < 1 << 8 * width:
        raise PlanError(f"{value} are no bits of a pad of {width} bytes", kernel)


def _check_tile(step: Step, tile: Tile, elements: _Elements) -> None:
    rows, cols = tile.rows, tile.cols
    _check_positive(tile, rows=rows.count, cols=cols.count)
    if not 0 <= tile.prefetch_distance <= FARTHEST:
        raise PlanError(f"prefetches run 0 to {FARTHEST} bytes ahead, not {tile.prefetch_distance}", tile)
    if rows.fold:
        raise PlanError("rows are not folded, only columns", tile)
    if cols.fold < 0 or (cols.fold and cols.count % cols.fold):
        raise PlanError(f"{cols.count} columns are no whole folds of {cols.fold}", tile)
    if not 0 <= tile.valid < rows.count:
        raise PlanError(f"{tile.valid} rows are valid of {rows.count}", tile)
    _check_pads(tile, tile.pad, tile.width)
    high, wide = (_check_schedule(tile, name, axis) for name, axis in (("rows", rows), ("cols", cols)))
    if tile.valid and high != rows.count:
        raise PlanError(f"rows that are pads need a tile of all {rows.count} rows, not of {high}", tile)
    if elements.conversion is not None and (cols.fold or tile.valid or tile.square):
        raise PlanError("where elements convert, tiles have no folds, no pads and are not square", tile)
    if tile.square:
        least, most = 16 // tile.width, LINE // tile.width
        if high != wide or index(high).bit_count() != 1 or not least <= high <= most:
            raise PlanError(
                f"a square tile has a power of two of rows and columns, {least} to {most}: not {high} x {wide}",
                tile,
            )
        if tile.valid:
            raise PlanError("a square tile has no rows that are pads", tile)
    if elements.once:
        _check_once(step, tile, elements)


def _check_schedule(tile: Tile, name: str, axis: Axis) -> Size:
    """Rows or columns of the tile itself, the last block of the axis. Raises PlanError where there is none."""
    sizes = [blocking.size for blocking in tile.schedule if blocking.axis == name]
    if len(tile.schedule) > DEEPEST:
        raise PlanError(f"a schedule of {len(tile.schedule)} loops: {DEEPEST} are the most", tile)
    if not sizes or not 0 < sizes[-1] <= axis.count:
        shown = sizes[-1] if sizes else "no"
        raise PlanError(f"the last block of {name} is the tile, of 1 to {axis.count}, not {shown}", tile)
    if min(sizes) < 1:
        raise PlanError(f"blocks of {min(sizes)} {name}, at least 1 is needed", tile)
    _check_registers(tile, name, sizes[-1])
    return sizes[-1]


def _check_once(step: Step, tile: Tile, elements: _Elements) -> None:
    """Raises PlanError where a tile would be moved back over another, or begin or end inside a byte."""
    counts = {"rows": tile.rows.count, "cols": tile.cols.count}
    sizes = [*((blocking.axis, blocking.size) for blocking in tile.schedule), *counts.items()]
    for axis, size in sizes:
        if size % tile.block(axis):
            raise PlanError(
                f"{size} {axis} are no whole tiles of {tile.block(axis)}, and no element may be converted twice",
                tile,
            )
    strides = tile.rows.stride, tile.cols.stride
    for side, axis in enumerate(("cols", "rows")):
        if not elements.packed[side]:
            continue
        if tile.block(axis) % 2:
            raise PlanError(f"a tile of {tile.block(axis)} {axis} is no whole number of bytes", tile)
        begins = (step.src, step.dst)[side]
        _check_aligned(step, side, 2, (begins, strides[side]), "tiles of halves of bytes are")


def _check_interleave(kernel: Interleave, elements: _Elements) -> None:
    _check_positive(kernel, ways=kernel.ways, count=kernel.count)
    if not 0 < kernel.block <= kernel.count:
        raise PlanError(f"a block of {kernel.block} elements does not fit ways of {kernel.count}", kernel)
    _check_registers(kernel, "ways", kernel.ways)
    _check_registers(kernel, "elements of a way", kernel.block)
    if elements.once:
        raise PlanError(
            "ways are interleaved where elements may be converted twice: not with beta or 4 bits", kernel
        )


def _check_staged(kernel: Staged, buffers: _Buffers, elements: _Elements) -> None:
    if buffers.staged:
        raise PlanError("there is one staging buffer: it is not filled from another", kernel)
    _check_positive(kernel, rows=kernel.rows, iterations=kernel.iterations)
    size, stride = kernel.size, kernel.row_stride
    if size < LINE:
        raise PlanError(f"a staging buffer of {size} bytes is less than a line of {LINE}", kernel)
    if kernel.then and (stride or kernel.streaming or any(elements.packed)):
        raise PlanError(
            "a staging buffer whose elements other steps move has one row, is not streamed, and holds whole bytes",
            kernel,
        )
    if not stride and (kernel.rows > 1 or kernel.iterations > 1):
        raise PlanError("rows of a staging buffer need a row stride", kernel)
    if stride and (stride < size or (stride - kernel.dst_stride) % LINE):
        raise PlanError(
            f"rows of {size} bytes, {kernel.dst_stride} apart, have row stride {stride} in the buffer: "
            f"at least their size is needed, and the same rest by {LINE}",
            kernel,
        )
    if kernel.iterations > 1:
        if size % LINE:
            raise PlanError(f"rows are continued by whole lines of {LINE}, not by {size} bytes", kernel)
        if stride < size + LINE:
            raise PlanError(
                f"rows that are continued have row stride {stride}: {size} and a line of {LINE} are needed",
                kernel,
            )
    if kernel.extent > LARGEST:
        raise PlanError(
            f"a staging buffer of {kernel.extent} bytes on the stack: {LARGEST} are the most", kernel
        )


# Stores that bypass the caches ---------------------------------------------------------------------------------------


def _check_streaming(step: Step, elements: _Elements) -> None:
    """Raises PlanError where the stores of the micro-kernel past the caches would not be aligned."""
    found = _stores(step.kernel, elements)
    if found is None:
        return
    size, distances = found
    if index(size).bit_count() != 1:
        raise PlanError(
            f"streams {size} bytes at a time: a power of two, or runs of whole lines, are needed", step.kernel
        )
    _check_aligned(step, 1, min(size, LINE), distances, f"streams {size} bytes at a time,")


def _stores(kernel: Kernel, elements: _Elements) -> tuple[Size, tuple[Size, ...]] | None:
    """Bytes of a store that may bypass the caches, and how far apart the stores are; None where none does."""
    dst = None if elements.conversion is None else elements.widths[1]
    match kernel:
        case Copy():
            size = kernel.run * (dst or 1)
            return (LINE if size % LINE == 0 else size, (kernel.inner.dst,)) if size >= 16 else None
        case PaddedCopy():
            return (kernel.run, (kernel.inner.dst,)) if kernel.run >= 16 else None
        case Tile():
            # One for every column, from where its rows begin: the schedule says where that is.
            width, fold = dst or kernel.width, (kernel.cols.outer_stride,) if kernel.cols.fold else ()
            blocks = [blocking.size * width for blocking in kernel.schedule if blocking.axis == "rows"]
            return blocks[-1], (kernel.rows.count * width, *blocks, kernel.cols.stride, *fold)
        case Interleave():
            width, stride = dst or kernel.width, kernel.stride if kernel.inverse else 0
            return kernel.block * width, (kernel.count * width, stride)
        case Elements() | Fill() | Staged():
            return None


def _check_aligned(step: Step, side: int, size: Size, own: Sequence[Size], what: str) -> None:
    """Raises PlanError where `step` does not get from one place of `side` to the next by multiples of `size`.

    `own` are the distances of its micro-kernel. Where the first place is does not matter for stores, the call asks for
    that.
    """
    for distance in (*own, *(move for loop in step.loops for move in _moves(loop)[side])):
        if distance % size:
            raise PlanError(
                f"{what} {distance} apart in the {SIDES[side]}: multiples of {size} are needed", step.kernel
            )


# Numbers -------------------------------------------------------------------------------------------------------------


def _check_positive(node: Node, **numbers: Size) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise PlanError(f"{name} is {value}, at least 1 is needed", node)


def _check_width(width: int, node: Node) -> None:
    if width not in (1, 2, 4, 8):
        raise PlanError(f"elements have 1, 2, 4 or 8 bytes, not {width}", node)


def _check_whole(numbers: Sequence[Size], elements: _Elements, node: Node) -> None:
    for number in numbers:
        if number % elements.width:
            raise PlanError(f"{number} bytes are no multiple of the element's {elements.width}", node)


def _check_registers(node: Node, what: str, count: Size) -> None:
    if count > LONGEST:
        raise PlanError(f"{count} {what} are moved at once: {LONGEST} are the most", node)
