"""What a plan means: an evaluator that does, slowly and in the open, what the classes of plans say.

It moves no data but notes where every byte of the destination comes from. So it also sees what data would hide: that
a byte is written twice from different places, or is not there when a staging buffer is emptied. It knows the classes of
`layout_ir.dialects.kernel.plan` and their fields, and shares nothing with planner, verifier and emission.

Places are byte offsets, half bytes on a side whose elements have 4 bits. What a destination's place gets is

    Moved(place, channel, byte)    byte number `byte` of what is made of the element at `place` of the source
                                   (a move: the byte there; then the channel and the number are 0)
    Pad(byte)                      a byte of a pad
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product, repeat
from operator import index
from typing import NamedTuple

import numpy as np

from layout_ir.algebra.layout import Layout
from layout_ir.dialects.kernel.plan import (
    AnyLoop,
    Axis,
    Copy,
    Elements,
    Fill,
    Interleave,
    Kernel,
    Loop,
    PaddedCopy,
    Plan,
    Staged,
    Step,
    TableLoop,
    Tile,
    VariableBoundLoops,
)
from layout_ir.elements.element_types import bits_of
from layout_ir.elements.quantization import Conversion
from layout_ir.symbolic.symint import Size


class Moved(NamedTuple):
    place: Size
    channel: Size
    byte: Size


class Pad(NamedTuple):
    byte: int


class Destination(dict[int, Moved | Pad]):
    """What every place gets; `writes` counts how often one did."""

    writes = 0

    def put(self, first: Size, whats: Iterable[Moved | Pad]) -> None:
        """Notes what the places from `first` on get, one after the other."""
        for place, what in enumerate(whats, index(first)):
            before = self.setdefault(place, what)
            assert before == what, f"place {place} gets {before} and {what}"
            self.writes += 1

    def put_bytes(self, first: Size, src: Size, count: int) -> None:
        """Notes that as many places from `first` on get the bytes of the source from `src` on."""
        self.put(first, map(Moved, range(index(src), index(src) + count), repeat(0), repeat(0)))


At = tuple[Size, Size, Size]
"""Offsets in source and destination, and the channel."""


def evaluate(plan: Plan) -> Destination:
    """What every place of the destination gets that `plan` writes. Raises AssertionError where one gets two things."""
    result = Destination()
    for step in plan.steps:
        _step(plan, step, result)
    return result


def _step(plan: Plan, step: Step, result: Destination, origin: Size = 0, first_channel: Size = 0) -> None:
    for offsets in product(*(list(_iterations(loop)) for loop in step.loops)):
        src = origin + step.src + sum(x[0] for x in offsets)
        dst = step.dst + sum(x[1] for x in offsets)
        channel = first_channel + step.channel + sum(x[2] for x in offsets)
        _kernel(plan, step.kernel, (src, dst, channel), result)


def _iterations(loop: AnyLoop) -> Iterator[At]:
    if isinstance(loop, Loop):
        assert not loop.valid
        for k in range(loop.count):
            yield k * loop.src, k * loop.dst, k * loop.channel
    elif isinstance(loop, TableLoop):
        for k, (src, dst) in enumerate(zip(loop.src, loop.dst, strict=True)):
            yield src, dst, k * loop.channel
    else:
        assert isinstance(loop, VariableBoundLoops)
        for position in range(loop.start, loop.stop):
            digits = [position // level.unit for level in loop.levels]
            for k, level in enumerate(loop.levels[1:]):
                digits[k] %= level.unit // loop.levels[k].unit
            moves = [list(_iterations(level.loop))[d] for level, d in zip(loop.levels, digits, strict=True)]
            yield sum(x[0] for x in moves), sum(x[1] for x in moves), sum(x[2] for x in moves)


def _widths(plan: Plan, width: int) -> tuple[int, int]:
    """Between neighbours in source and destination."""
    if plan.conversion is None:
        return width, width
    return max(bits_of(plan.conversion.src) // 8, 1), max(bits_of(plan.conversion.dst) // 8, 1)


def _element(plan: Plan, at: At, width: int, result: Destination) -> None:
    """One element, converted if the plan converts."""
    src, dst, channel = at
    if plan.conversion is None:
        result.put_bytes(dst, src, width)
    else:
        result.put(dst, (Moved(src, channel, byte) for byte in range(_widths(plan, width)[1])))


def _pads(dst: Size, run: Size, value: int, width: int, result: Destination) -> None:
    element = [Pad(byte) for byte in value.to_bytes(width, "little")]
    result.put(dst, (element[k % width] for k in range(index(run))))


def _other_side(axis: Axis, k: Size) -> Size:
    if axis.fold:
        outer, inner = divmod(k, axis.fold)
        return outer * axis.outer_stride + inner * axis.stride
    return k * axis.stride


def _kernel(plan: Plan, kernel: Kernel, at: At, result: Destination) -> None:
    src, dst, channel = at
    if isinstance(kernel, Tile):
        s, d = _widths(plan, kernel.width)
        for row, col in product(range(kernel.rows.count), range(kernel.cols.count)):
            to = dst + row * d + _other_side(kernel.cols, col)
            if kernel.valid and row >= kernel.valid:
                _pads(to, d, kernel.pad, kernel.width, result)
                continue
            from_ = src + _other_side(kernel.rows, row) + col * s
            c = channel + row * kernel.rows.channel + col * kernel.cols.channel
            _element(plan, (from_, to, c), kernel.width, result)
    elif isinstance(kernel, Interleave):
        s, d = _widths(plan, kernel.width)
        for way, k in product(range(kernel.ways), range(kernel.count)):
            apart, together = (way * kernel.stride, k), k * kernel.ways + way
            if kernel.inverse:
                from_, to = src + together * s, dst + apart[0] + apart[1] * d
            else:
                from_, to = src + apart[0] + apart[1] * s, dst + together * d
            _element(plan, (from_, to, channel + way * kernel.channel), kernel.width, result)
    elif isinstance(kernel, Staged):
        _staged(plan, kernel, at, result)
    else:
        for s, d, c in _iterations(kernel.inner):
            here = src + s, dst + d, channel + c
            if isinstance(kernel, Copy) and plan.conversion is None:
                result.put_bytes(here[1], here[0], index(kernel.run))
            elif isinstance(kernel, Copy):
                widths = _widths(plan, 1)
                for k in range(kernel.run):
                    one = here[0] + k * widths[0], here[1] + k * widths[1], here[2] + k * kernel.channel
                    _element(plan, one, 1, result)
            elif isinstance(kernel, Elements):
                _element(plan, here, kernel.width, result)
            elif isinstance(kernel, PaddedCopy):
                assert plan.conversion is None
                result.put_bytes(here[1], here[0], index(kernel.valid))
                pads = kernel.run - kernel.valid
                _pads(here[1] + kernel.valid, pads, kernel.value, kernel.width, result)
            else:
                assert isinstance(kernel, Fill)
                _pads(here[1], kernel.run, kernel.value, kernel.width, result)


def _staged(plan: Plan, kernel: Staged, at: At, result: Destination) -> None:
    """The buffer is filled, and every row of it stored: again and again, each time a row's length further."""
    src, dst, channel = at
    for time in range(kernel.iterations):
        buffer = Destination()
        for step in kernel.steps:
            _step(plan, step, buffer, src + time * kernel.src_stride, channel)
        assert max(buffer) < kernel.extent and min(buffer) >= 0
        if kernel.then:
            moved = Destination()
            for step in kernel.then:
                _step(replace(plan, conversion=None), step, moved, 0)
            for to, what in moved.items():
                assert isinstance(what, Moved)
                result.put(dst + to, (buffer[index(what.place)],))
            return
        for row in range(kernel.rows):
            stored = (buffer[index(row * kernel.row_stride + k)] for k in range(index(kernel.size)))
            result.put(dst + row * kernel.dst_stride + time * kernel.size, stored)


def definition(src: Layout, dst: Layout, width: int, pad: bytes | None) -> Destination:
    """What a move of elements of `width` bytes is, by the addresses of the layouts; `pad` is the element of a pad."""
    result = Destination()
    for a, b in zip(src.addresses().ravel().tolist(), dst.addresses().ravel().tolist(), strict=True):
        for byte in range(width):
            result[b * width + byte] = Moved(a * width + byte, 0, 0)
    return _with_pads(result, dst, width, pad)


def definition_of_conversion(
    src: Layout, dst: Layout, conversion: Conversion, pad: bytes | None
) -> Destination:
    """The same where the elements are converted."""
    s, d = (max(bits_of(dtype) // 8, 1) for dtype in (conversion.src, conversion.dst))
    result = Destination()
    for position in np.ndindex(*src.shape):
        channel = 0 if conversion.dim is None else position[conversion.dim]
        for byte in range(d):
            result[dst.address(position) * d + byte] = Moved(src.address(position) * s, channel, byte)
    return _with_pads(result, dst, d, pad)


def _with_pads(result: Destination, dst: Layout, width: int, pad: bytes | None) -> Destination:
    if pad is not None:
        for address in dst.addresses(padded=True).ravel().tolist():
            for byte in range(width):
                result.setdefault(address * width + byte, Pad(pad[byte]))
    return result
