"""The largest number, or the mean, of each window over row-major tensors of floats, as machine code.

Lanes are neighbouring results. Of the places that their windows meet along the last dim, a few vectors, the largest (or
the sum) along all other dims of the windows is taken first, and that of each window then, by shuffles. Places outside
of the tensor are not read: of other dims they are left out, of the last one they are masked, in the few tiles that meet
any. A NaN is handed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.emission.iteration import partition
from layout_ir.backends.llvm.emission.kernels.lanes import literal
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, shuffle, spread
from layout_ir.backends.llvm.loops.float_functions import FLOAT_TYPES, FloatFunctions
from layout_ir.backends.llvm.loops.loop_calls import argument_row, loop_code, loop_function
from layout_ir.backends.llvm.loops.masked_lanes import masked_load, masked_store
from layout_ir.backends.llvm.loops.vector_numpy import Vector, VectorNumPy
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.dialects.nn.tensor_types import Shape
from layout_ir.errors import LayoutError

_SHARED = 1 << 18
"""Elements of all windows from which on threads share a call: some ten microseconds."""


@dataclass(frozen=True, slots=True)
class RowWindows:
    """Windows over a source (planes, *spatial), with pads before each dim, and as many results as `results` says.

    `counts` are the elements that the windows of a mean count, per dim and result: in all dims, their product. None is
    the largest.
    """

    source: Shape
    kernel: Shape
    strides: Shape
    dilations: Shape
    before: Shape
    results: Shape
    counts: tuple[Shape, ...] | None = None

    def span(self, count: int) -> int:
        """Places along the last dim that so many neighbouring windows cover."""
        return (count - 1) * self.strides[-1] + (self.kernel[-1] - 1) * self.dilations[-1] + 1

    def lanes(self, machine: Machine, width: int) -> int:
        """Results of elements of `width` bytes that are computed at once: those whose places half of the registers
        hold. 0 where not even one is, and where there are none."""
        if min(*self.source, *self.results) < 1:
            return 0
        whole = machine.vector // width
        places = (16 if machine.vector > 32 else 8) * whole
        return next((n for n in range(min(whole, self.results[-1]), 0, -1) if self.span(n) <= places), 0)


class RowPooling:
    """The code for windows over a source of the element type f32 or f64: a call has the source and the result."""

    has_indices = False

    def __init__(self, windows: RowWindows, dtype: str, *, threads: int = 1) -> None:
        """Raises LayoutError where `has_row_code` says that there is none."""
        if not has_row_code(windows, dtype):
            raise LayoutError(f"no code for windows of {windows.kernel} over rows of {windows.source}")
        elements = windows.source[0] * prod(windows.results) * prod(windows.kernel)
        self.threads = thread_pool.available(threads) if elements >= _SHARED else 1
        self.code = loop_code(_Emitter(windows, dtype, host()))
        self.address = self.code.address("loops")

    def arguments(self) -> NDArray[np.uint64]:
        """A row of numbers for calls, in which the addresses are to be filled in."""
        return argument_row(2)


def has_row_code(windows: RowWindows, dtype: str) -> bool:
    """Whether there is code for windows over elements of that type."""
    # Places are numbers of 32 bits.
    fits = max(*windows.source, windows.span(windows.results[-1])) < 1 << 30
    return dtype in FLOAT_TYPES and fits and windows.lanes(host(), int(dtype[1:]) // 8) > 0


@dataclass(frozen=True, slots=True)
class _Tile:
    """Results of a row that begin at number `first`; `is_inside` where all that is read and written is there."""

    first: Value
    is_inside: bool


@dataclass(frozen=True)
class _Emitter:
    windows: RowWindows
    dtype: str
    machine: Machine

    @property
    def _width(self) -> int:
        """Bytes of an element."""
        return int(self.dtype[1:]) // 8

    @property
    def _size(self) -> int:
        """Lanes of a vector."""
        return self.machine.vector // self._width

    @property
    def _kind(self) -> str:
        return f"<{self._size} x {FLOAT_TYPES[self.dtype]}>"

    def text(self) -> str:
        """The function `loops`."""
        b = Builder(self._width)
        windows, width = self.windows, self._width
        source, result = (b.load("ptr", "%arguments", 8 * k) for k in range(2))
        outer = windows.results[:-1]
        low, high = partition(b, parallel=True)(windows.source[0] * prod(outer))
        with b.loop(low, high) as row:
            plane, places = row, list[Value]()
            for count in reversed(outer):
                quotient = b.div(plane, count)
                places.insert(0, b.sub(plane, b.mul(quotient, count)))
                plane = quotient
            at = b.at(source, b.mul(plane, prod(windows.source[1:]) * width))
            self._row(b, at, places, b.at(result, b.mul(row, windows.results[-1] * width)))
        return f'target triple = "{self.machine.triple}"\n{loop_function("loops", b, self.machine)}\n'

    def _row(self, b: Builder, source: str, places: Sequence[Value], result: str) -> None:
        """A row of results, whose places along the dims but the last are given."""
        windows, lanes = self.windows, self.windows.lanes(self.machine, self._width)
        extent, count, step = windows.source[-1], windows.results[-1], lanes * windows.strides[-1]
        before, tiles, read = windows.before[-1], -(-count // lanes), self._vectors * self._size
        # Tiles that read from before the row, those that do not leave it, and those behind.
        begin = min(-(-before // step), tiles)
        end = min((extent + before - read) // step + 1, count // lanes) if extent + before >= read else 0
        # The vector that is stored may have more lanes.
        end = end if lanes == self._size else 0
        end = max(end, begin)
        for low, high, is_inside in ((0, begin, False), (begin, end, True), (end, tiles, False)):
            if low < high:
                with b.loop(low, high) as number:
                    self._tile(b, source, places, result, _Tile(b.mul(number, lanes), is_inside))

    @property
    def _vectors(self) -> int:
        """Vectors that hold the places of a tile."""
        return -(-self.windows.span(self.windows.lanes(self.machine, self._width)) // self._size)

    # A tile -------------------------------------------------------------------------------------------------------

    def _tile(self, b: Builder, source: str, places: Sequence[Value], result: str, tile: _Tile) -> None:
        windows, size, width = self.windows, self._size, self._width
        lanes = windows.lanes(self.machine, width)
        begin = b.sub(b.mul(tile.first, windows.strides[-1]), windows.before[-1])
        masks: list[str] | None = None
        if not tile.is_inside:
            masks = [self._below(b, b.add(begin, v * size), windows.source[-1]) for v in range(self._vectors)]
        at = b.at(source, b.mul(begin, width))
        element = FLOAT_TYPES[self.dtype]
        neutral = f"splat ({element} {self._neutral})"

        def joined(level: int, at: str, values: list[str]) -> list[str]:
            """`values` and all numbers along the dims from `level` on."""
            if level < len(places):
                extent, dilation = windows.source[level + 1], windows.dilations[level]
                first = b.sub(b.mul(places[level], windows.strides[level]), windows.before[level])
                low, high = self._taps(b, first, extent, windows.kernel[level], dilation, level)
                stride = prod(windows.source[level + 2 :]) * width
                kinds = [(self._kind, value) for value in values]

                def tap(k: Value, inside: list[str]) -> list[str]:
                    place = b.add(first, b.mul(k, dilation))
                    return joined(level + 1, b.at(at, b.mul(place, stride)), inside)

                return b.carried(low, high, kinds, tap)
            found = list[str]()
            for v, value in enumerate(values):
                place = b.at(at, v * size * width)
                if masks is None:
                    loaded = b.load(self._kind, place)
                else:
                    loaded = masked_load(b, element, place, size, masks[v], width, neutral)
                found.append(self._joined(b, loaded, value))
            return found

        rows = joined(0, at, [neutral] * self._vectors)
        total: str | None = None
        for tap in range(windows.kernel[-1]):
            places_of = [k * windows.strides[-1] + tap * windows.dilations[-1] for k in range(lanes)]
            value = self._chosen(b, rows, places_of)
            total = value if total is None else self._joined(b, value, total)
        assert total is not None
        if windows.counts is not None:
            total = b.put(f"fdiv {self._kind} {total}, {self._counts(b, windows.counts, places, tile)}")
        place = b.at(result, b.mul(tile.first, width))
        if tile.is_inside:
            b.store(self._kind, total, place)
            return
        left = b.min(b.sub(windows.results[-1], tile.first), lanes)
        masked_store(b, element, total, place, size, self._below(b, 0, left), width)

    @property
    def _neutral(self) -> str:
        return literal(float("-inf") if self.windows.counts is None else 0.0, self.dtype)

    def _taps(
        self, b: Builder, first: Value, extent: int, kernel: int, dilation: int, level: int
    ) -> tuple[Value, Value]:
        """The taps [low, high) that are inside, of a window whose first place is `first`."""
        windows = self.windows
        reach = (windows.results[level] - 1) * windows.strides[level] + (kernel - 1) * dilation
        low = b.ceil(b.max(b.sub(0, first), 0), dilation) if windows.before[level] else 0
        if reach - windows.before[level] < extent:
            return low, kernel
        return low, b.min(b.ceil(b.max(b.sub(extent, first), 0), dilation), kernel)

    def _below(self, b: Builder, first: Value, count: Value) -> str:
        """Which of the numbers from `first` on, one per lane, are at least 0 and below `count`."""
        size, vector = self._size, f"<{self._size} x i32>"
        each = ", ".join(f"i32 {k}" for k in range(size))
        begin = spread(b, "i32", b.put(f"trunc i64 {b.operand(first)} to i32"), size)
        numbers = b.put(f"add {vector} {begin}, <{each}>")
        # As unsigned numbers: what is below 0 is larger than all.
        bound = spread(b, "i32", b.put(f"trunc i64 {b.operand(count)} to i32"), size)
        return b.put(f"icmp ult {vector} {numbers}, {bound}")

    def _joined(self, b: Builder, value: str, total: str) -> str:
        """The larger one, or the sum."""
        if self.windows.counts is not None:
            return b.put(f"fadd {self._kind} {total}, {value}")
        lanes = FloatFunctions(b, self.machine, self._size)
        return VectorNumPy.maximum(*(Vector(lanes, each, self.dtype) for each in (value, total))).value

    def _chosen(self, b: Builder, vectors: Sequence[str], places: Sequence[int]) -> str:
        """The numbers at these places of vectors that lie side by side, one per lane."""
        size, element, found = self._size, FLOAT_TYPES[self.dtype], "poison"
        for number in sorted({place // size for place in places}):
            here = [
                size + place % size if place // size == number else k if place // size < number else None
                for k, place in enumerate(places)
            ]
            mask = [*here, *[None] * (size - len(here))]
            found = shuffle(b, element, found, vectors[number], size, mask)
        return found

    def _counts(self, b: Builder, counts: Sequence[Shape], places: Sequence[Value], tile: _Tile) -> str:
        """How many elements the windows of a tile count, at least one."""
        element, size = FLOAT_TYPES[self.dtype], self._size
        *outer, last = [[max(count, 1) for count in of_dim] for of_dim in counts]
        if all(len(set(of_dim)) == 1 for of_dim in (*outer, last)):
            count = prod(of_dim[0] for of_dim in (*outer, last))
            return f"splat ({element} {literal(float(count), self.dtype)})"
        # As many more as a vector may read.
        table = b.parameters([float(count) for count in (*last, *[1] * size)], element)
        vector = b.put(f"load {self._kind}, ptr {b.at(table, b.mul(tile.first, self._width))}, align 4")
        number: Value = 1
        for of_dim, place in zip(outer, places, strict=True):
            number = b.mul(number, b.entry(b.table(of_dim), place))
        real = b.put(f"sitofp i64 {b.operand(number)} to {element}")
        return b.put(f"fmul {self._kind} {vector}, {spread(b, element, real, size)}")
