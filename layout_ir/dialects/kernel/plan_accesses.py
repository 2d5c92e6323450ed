"""Which bytes a plan reads and writes: the range of every access, over all iterations of the loops around it.

Ranges add up: that of an access is the sum of where it begins, of what each loop around it reaches, and of what the
micro-kernel itself moves. Nothing runs through the iterations: the range of a loop follows from its count and stride,
or from the entries of its table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import NamedTuple

from layout_ir.dialects.kernel.plan import (
    AnyLoop,
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
from layout_ir.symbolic.symint import Size

Range = tuple[Size, Size]
"""The smallest and the largest of some numbers, both reached."""


@dataclass(frozen=True, slots=True)
class PlanElements:
    """The elements of a plan; numbers are half bytes on a side that is packed."""

    width: int
    widths: tuple[int, int]
    """How far apart neighbours are in source and destination."""
    packed: tuple[bool, bool]
    """Whether two elements share a byte, in source and destination."""
    conversion: Conversion | None

    @classmethod
    def of(cls, plan: Plan) -> PlanElements:
        """The elements that `plan` moves or converts."""
        conversion = plan.conversion
        if conversion is None:
            return cls(plan.width, (plan.width, plan.width), (False, False), None)
        src, dst = bits_of(conversion.src), bits_of(conversion.dst)
        return cls(plan.width, (max(src // 8, 1), max(dst // 8, 1)), (src < 8, dst < 8), conversion)

    @property
    def of_destination(self) -> PlanElements:
        """The elements of the destination, moved without conversion, as from a staging buffer."""
        return PlanElements(self.widths[1], (self.widths[1], self.widths[1]), (False, False), None)

    @property
    def once(self) -> bool:
        """Whether no element may be converted twice: it is added to, or is half a byte."""
        return any(self.packed) or (self.conversion is not None and self.conversion.beta is not None)

    @property
    def channels(self) -> int:
        """How many channels there are, 0 where the plan has none."""
        return 0 if self.conversion is None or self.conversion.dim is None else self.conversion.channels


class Access(NamedTuple):
    """Bytes on one side: `run` together, in all iterations of `loops` (count, stride)."""

    run: Size
    loops: tuple[tuple[Size, Size], ...] = ()

    @property
    def range(self) -> Range:
        """The first byte and the one behind the last, from where the access begins."""
        low, high = range_sum(linear_range(count, stride) for count, stride in self.loops)
        return low, high + self.run

    @property
    def volume(self) -> Size:
        """How many bytes all iterations access, those twice that two of them do."""
        return self.run * prod(count for count, _ in self.loops)


class Writes(NamedTuple):
    """Bytes of the destination that some steps write."""

    range: Range
    volume: Size
    run: Size = 1
    """Bytes that one of two iterations is further at least: the steps themselves are checked apart."""
    loops: tuple[tuple[Size, Size], ...] = ()


def accesses(kernel: Kernel, elements: PlanElements) -> tuple[Access | None, Access | Writes]:
    """What `kernel` reads (None: nothing, or what the steps of its staging buffer read) and what it writes."""
    moves = elements.conversion is None
    match kernel:
        case Copy():
            src, dst = (1, 1) if moves else elements.widths
            inner = kernel.inner
            return (
                Access(kernel.run * src, ((inner.count, inner.src),)),
                Access(kernel.run * dst, ((inner.count, inner.dst),)),
            )
        case Elements():
            inner = kernel.inner
            return (
                Access(kernel.width, ((inner.count, inner.src),)),
                Access(kernel.width, ((inner.count, inner.dst),)),
            )
        case Fill():
            return None, Access(kernel.run, ((kernel.inner.count, kernel.inner.dst),))
        case PaddedCopy():
            inner = kernel.inner
            return (
                Access(kernel.valid, ((inner.count, inner.src),)),
                Access(kernel.run, ((inner.count, inner.dst),)),
            )
        case Tile():
            src, dst = (kernel.width, kernel.width) if moves else elements.widths
            rows, cols = kernel.rows, kernel.cols
            return (
                Access(cols.count * src, ((kernel.valid or rows.count, rows.stride),)),
                Access(rows.count * dst, cols.loops),
            )
        case Interleave():
            src, dst = (kernel.width, kernel.width) if moves else elements.widths
            apart, together = kernel.count, kernel.ways * kernel.count
            loops = ((kernel.ways, kernel.stride),)
            if kernel.inverse:
                return Access(together * src), Access(apart * dst, loops)
            return Access(apart * src, loops), Access(together * dst)
        case Staged() if kernel.then:
            return None, writes_of_all(kernel.then, elements.of_destination)
        case Staged():
            loops = ((kernel.rows, kernel.dst_stride), (kernel.iterations, kernel.size))
            return None, Access(kernel.size, loops)


def writes_of_all(steps: Sequence[Step], elements: PlanElements) -> Writes:
    """What `steps` write together."""
    writes = [(step, accesses(step.kernel, elements)[1]) for step in steps]
    ranges = [
        range_sum(((step.dst, step.dst), *(loop_range(loop, "dst") for loop in step.loops), access.range))
        for step, access in writes
    ]
    volume = sum(iterations(step.loops) * access.volume for step, access in writes)
    return Writes((min(low for low, _ in ranges), max(high for _, high in ranges)), volume)


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


def loop_range(loop: AnyLoop, side: str) -> Range:
    """The offsets of all iterations of `loop` on one side."""
    if isinstance(loop, VariableBoundLoops):
        return positions_range(loop.levels, loop.start, loop.stop, side)
    if side == "channel":
        return linear_range(loop.count, loop.channel)
    if isinstance(loop, TableLoop):
        entries = loop.src if side == "src" else loop.dst
        return min(entries), max(entries)
    return linear_range(loop.count, loop.src if side == "src" else loop.dst)


def range_sum(ranges: Iterable[Range]) -> Range:
    """The range of sums of one number from each range."""
    low = high = 0
    for below, above in ranges:
        low, high = low + below, high + above
    return low, high


def loop_moves(loop: AnyLoop) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
    """Every offset or stride of a loop, in the source and in the destination."""
    if isinstance(loop, Loop):
        return (loop.src,), (loop.dst,)
    if isinstance(loop, TableLoop):
        return loop.src, loop.dst
    sides = [loop_moves(level.loop) for level in loop.levels]
    return tuple(x for src, _ in sides for x in src), tuple(x for _, dst in sides for x in dst)


def least_gap(loop: AnyLoop) -> Size | None:
    """The least distance of two iterations in the destination; None where it is not cheap to say, or there is one."""
    if isinstance(loop, Loop):
        return abs(loop.dst) if loop.count > 1 else None
    if isinstance(loop, TableLoop):
        return min((b - a for a, b in pairwise(sorted(loop.dst))), default=None)
    return None
