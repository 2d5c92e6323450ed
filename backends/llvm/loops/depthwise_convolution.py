"""Depthwise convolutions of integers of 8 bits as machine code, whose sums are exact in i32: `nn/depthwise_products`.

Of two rows of a window, the numbers at one place are interleaved, widened to 16 bits and less their zero point; one
instruction (vpmaddwd) multiplies both with their weights and adds in 32 bits, for each channel in a lane of its own.
The sums of a tile of results stay in registers (`channel_windows`), until they are bytes.

Measured on Zen 3, one thread, windows of 3x3 over 144 channels of 56x56: 20 * 10^9 products per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, shuffle, spread
from layout_ir.backends.llvm.loops.channel_windows import DECLARATIONS, ChannelWindows, Tile
from layout_ir.backends.llvm.loops.integer_sums import bytes_of_result, requantized, sums_of_pairs
from layout_ir.backends.llvm.loops.loop_calls import argument_row, loop_code, loop_function
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.dialects.nn.depthwise_products import DepthwiseIntegerConv
from layout_ir.dialects.nn.tensor_types import Shape
from layout_ir.errors import LayoutError

_SHARED = 1 << 18
"""Products from which on threads share a call: some ten microseconds."""


_TAPS = 128
"""Products of a channel and a row of a window in a tile, at most, which are written out one by one."""


class DepthwiseConvolution:
    """The code for a source of that shape: a call has the source, its zero point, the packed weights and the result,
    before which come scales and addends of the channels where sums are quantized."""

    has_indices = False

    def __init__(self, conv: DepthwiseIntegerConv, source: Shape, dtype: str, *, threads: int = 1) -> None:
        """`dtype` is the element type of the source, i8 or ui8. Raises LayoutError where there is no code."""
        if not has_code(conv, source):
            raise LayoutError(f"no code for windows of {source} by channels")
        emitter = _Emitter(conv, source, dtype == "i8", host())
        self.threads = thread_pool.available(threads) if emitter.windows.elements >= _SHARED else 1
        self.code = loop_code(emitter)
        self.address = self.code.address("loops")
        self._tensors = 4 if conv.requantization is None else 6

    def arguments(self) -> NDArray[np.uint64]:
        """A row of numbers for calls, in which the addresses are to be filled in."""
        return argument_row(self._tensors)


def has_code(conv: DepthwiseIntegerConv, source: Shape) -> bool:
    """Whether there are results, rows of windows are written out, and one window fits on the stack where it may leave
    the source."""
    return min(*source, *conv.result_shape(source)) > 0 and _Emitter(conv, source, False, host()).height > 0


@dataclass(frozen=True, slots=True)
class _Given:
    """What all tiles read: addresses of the weights, and of the scales and addends of channels, and by their lanes
    vectors of zero points, of 32 bits and as pairs of 16."""

    weights: str
    columns: Sequence[str]
    shifts: Mapping[int, str]
    pair_shifts: Mapping[int, str]


@dataclass(frozen=True)
class _Emitter:
    conv: DepthwiseIntegerConv
    source: Shape
    is_signed: bool
    machine: Machine

    @property
    def channels(self) -> int:
        return self.source[-1]

    @property
    def lanes(self) -> int:
        """Sums in a vector."""
        return self.machine.vector // 4

    @property
    def width(self) -> int:
        """Bytes of a result."""
        return bytes_of_result(self.conv.requantization)

    @property
    def windows(self) -> ChannelWindows:
        """Where the windows lie."""
        conv = self.conv
        before, results = conv.pads[: len(conv.kernel)], conv.result_shape(self.source)[1:-1]
        return ChannelWindows(self.source, conv.kernel, conv.strides, conv.dilations, before, results)

    @property
    def height(self) -> int:
        """Results of a tile: as many as there are registers for sums of two vectors; 0 where a window is too large."""
        registers = 32 if self.machine.vector > 32 else 16
        return self.windows.height(min((registers - 6) // 2, _TAPS // self.conv.kernel[-1]))

    def text(self) -> str:
        """The function `loops`."""
        b = Builder()
        count = 4 if self.conv.requantization is None else 6
        source, zero_point, *constants, result = (b.load("ptr", "%arguments", 8 * k) for k in range(count))
        zero = b.load("i8", zero_point)
        given = self._given(b, constants, zero)

        def block(tile: Tile, channel: Value, sizes: tuple[int, ...]) -> None:
            self._block(b, tile, given, channel, sizes)

        self.windows.emit(b, source, result, self.width, zero, self.height, self.lanes, block)
        loops = loop_function("loops", b, self.machine)
        return f'target triple = "{self.machine.triple}"\n{DECLARATIONS}\n{loops}\n'

    @property
    def _widened(self) -> str:
        """The instruction that widens numbers of the source."""
        return "sext" if self.is_signed else "zext"

    def _given(self, b: Builder, constants: list[str], zero: str) -> _Given:
        weights, *columns = constants
        single, half = (b.put(f"{self._widened} i8 {zero} to i{bits}") for bits in (32, 16))
        lanes = {self.lanes, min(self.lanes, self.channels)}
        shifts = {size: spread(b, "i32", single, size) for size in lanes}
        return _Given(weights, columns, shifts, {size: spread(b, "i16", half, 2 * size) for size in lanes})

    def _block(self, b: Builder, tile: Tile, given: _Given, channel: Value, sizes: tuple[int, ...]) -> None:
        """The results of channels that begin at `channel`, in vectors of so many."""
        *outer, rows, last = self.windows.dims
        height = tile.height
        weights = b.at(given.weights, b.mul(channel, 4))
        tap_bytes = 4 * self.channels
        pair_bytes = last.kernel * tap_bytes
        outer_bytes = -(-rows.kernel // 2) * pair_bytes
        kinds = [f"<{size} x i32>" for _ in range(height) for size in sizes]

        def summed(level: int, at: str, number: Value, values: list[str]) -> list[str]:
            if level < len(outer):

                def inside(tap: Value, values: list[str]) -> list[str]:
                    below = b.at(at, b.mul(tile.rows[level], tap))
                    return summed(level + 1, below, b.add(b.mul(number, outer[level].kernel), tap), values)

                return b.carried(0, outer[level].kernel, [*zip(kinds, values, strict=True)], inside)
            of = b.at(weights, b.mul(number, outer_bytes))

            def pair(k: Value, values: list[str], is_alone: bool = False) -> list[str]:
                first = b.at(at, b.mul(b.mul(tile.rows[-1], 2), k))
                places = [first] if is_alone else [first, b.at(first, tile.rows[-1])]
                return self._row(b, places, b.at(of, b.mul(k, pair_bytes)), height, given, sizes, values)

            pairs, odd = divmod(rows.kernel, 2)
            values = b.carried(0, pairs, [*zip(kinds, values, strict=True)], pair)
            return pair(pairs, values, is_alone=True) if odd else values

        found = summed(0, b.at(tile.at, channel), 0, ["zeroinitializer"] * len(kinds))
        # Vectors are of one size.
        size, made = sizes[0], self.conv.requantization
        places = [b.add(channel, v * size) for v in range(len(sizes))]
        columns = [
            [b.load(f"<{size} x float>", b.at(array, b.mul(place, 4))) for array in given.columns]
            for place in places
        ]
        for k in range(height):
            sums = found[k * len(sizes) : (k + 1) * len(sizes)]
            to = b.at(tile.result, b.mul(b.add(channel, k * self.channels), self.width))
            if made is not None:
                stored = requantized(b, self.machine, size, sums, columns, made)
                b.store(f"<{sum(sizes)} x i8>", stored, to)
                continue
            for v, each in enumerate(sums):
                b.store(f"<{size} x i32>", each, to, v * size * self.width)

    def _row(
        self, b: Builder, places: list[str], weights: str, height: int, given: _Given, sizes: tuple[int, ...],
        values: list[str],
    ) -> list[str]:  # fmt: skip
        """`values` and the products along the last dim of one row of windows, or of two at once."""
        last = self.windows.dims[-1]
        columns: dict[int, list[tuple[int, int]]] = {}
        for k in range(height):
            for tap in range(last.kernel):
                columns.setdefault(k * last.step + tap * last.dilation, []).append((k, tap))
        values, taps = list(values), dict[int, list[str]]()
        begins = [sum(sizes[:v]) for v in range(len(sizes))]
        for column in sorted(columns):
            numbers = self._numbers(b, places, column * self.channels, given, sizes)
            for k, tap in columns[column]:
                if tap not in taps:
                    at = b.at(weights, tap * 4 * self.channels)
                    taps[tap] = [
                        b.load(f"<{2 * size} x i16>", at, 4 * begin)
                        for size, begin in zip(sizes, begins, strict=True)
                    ]
                for v, size in enumerate(sizes):
                    place = k * len(sizes) + v
                    product = sums_of_pairs(b, self.machine, size, numbers[v], taps[tap][v])
                    values[place] = b.put(f"add <{size} x i32> {values[place]}, {product}")
        return values

    def _numbers(
        self, b: Builder, places: list[str], offset: int, given: _Given, sizes: tuple[int, ...]
    ) -> list[str]:
        """Per vector the pairs of numbers of one or two rows at a place, of 16 bits and less their zero point."""
        count, widened = sum(sizes), self._widened
        loaded = [b.load(f"<{count} x i8>", place, offset) for place in places]
        made, begin = list[str](), 0
        for size in sizes:
            lanes = range(begin, begin + size)
            begin += size
            if len(loaded) == 2:
                mask = [number for lane in lanes for number in (lane, count + lane)]
                both = b.put(
                    f"shufflevector <{count} x i8> {loaded[0]}, <{count} x i8> {loaded[1]}, "
                    f"<{2 * size} x i32> <{', '.join(f'i32 {k}' for k in mask)}>"
                )
                wide = b.put(f"{widened} <{2 * size} x i8> {both} to <{2 * size} x i16>")
                made.append(b.put(f"sub <{2 * size} x i16> {wide}, {given.pair_shifts[size]}"))
            else:
                part = shuffle(b, "i8", loaded[0], "poison", count, lanes)
                wide = b.put(f"{widened} <{size} x i8> {part} to <{size} x i32>")
                wide = b.put(f"sub <{size} x i32> {wide}, {given.shifts[size]}")
                made.append(b.put(f"bitcast <{size} x i32> {wide} to <{2 * size} x i16>"))
        return made
