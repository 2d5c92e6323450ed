"""Convolutions of i16 by i8 or i16 as machine code, whose sums are exact in i32: `nn/integer_products`.

A tile of the result, some rows by one panel of columns, stays in registers while all taps and channels are added up. Of
each row two neighbouring channels are spread over a vector, and one instruction (vpmaddwd) multiplies them with two
weights per column and adds both products in 32 bits, where nothing saturates. Products of bytes in 16 bits take three
instructions where these take four, and are wrong where sums leave 16 bits. Rows are results along the last spatial dim,
or along several whose results all lie evenly apart in the source.

Measured on Zen 3, one thread, products with 768 x 3072 weights, 10^9 products per second: 70 of 128 rows and of 16 by
weights of i8, 77 by those of i16, where f32 has 28 to 47.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.emission.iteration import Partition, partition
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, spread
from layout_ir.backends.llvm.loops.integer_sums import bytes_of_result, requantized, sums_of_pairs
from layout_ir.backends.llvm.loops.loop_calls import argument_row, loop_code, loop_function
from layout_ir.backends.llvm.loops.masked_lanes import load_leading, store_leading
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.dialects.nn.integer_products import PackedIntegerConv
from layout_ir.errors import LayoutError

_VECTORS = 2
"""Vectors of columns in a panel."""

_SHARED = 1 << 20
"""Products from which on threads share a call: some ten microseconds."""

_ITEMS, _LEAST_ROWS = 4, 64
"""Items that a thread has at least, where rows are many enough, and rows of a block."""


def panel_columns(machine: Machine) -> int:
    """Columns of a panel for the registers of this machine."""
    return _VECTORS * _lanes(machine)


class IntegerConvolution:
    """The code for a source of that shape: a call has the source, the packed weights and the result, before which come
    scales and addends of the columns where sums are quantized."""

    has_indices = False

    def __init__(
        self, conv: PackedIntegerConv, source: tuple[int, ...], weight: str, *, threads: int = 1
    ) -> None:
        """`weight` is the element type of the weights, i8 or i16. Raises LayoutError where a result has no elements, or
        for panels that are those of another machine."""
        machine = host()
        empty = not prod((*source, *conv.result_shape(source)))
        if conv.panel != panel_columns(machine) or empty or source[-1] % conv.group:
            raise LayoutError(f"no code for windows of {source} in panels of {conv.panel}")
        products = prod(conv.result_shape(source)) * prod(conv.kernel) * source[-1] // conv.group
        self.threads = thread_pool.available(threads) if products >= _SHARED else 1
        self.code = loop_code(ProductEmitter(conv, source, 1 if weight == "i8" else 2, machine, self.threads))
        self.address = self.code.address("loops")
        self._tensors = 3 if conv.requantization is None else 5

    def arguments(self) -> NDArray[np.uint64]:
        """A row of numbers for calls, in which the addresses are to be filled in."""
        return argument_row(self._tensors)


def _divided(b: Builder, number: Value, by: int) -> tuple[Value, Value]:
    """Quotient and rest."""
    if by == 1:
        return number, 0
    quotient = b.div(number, by)
    return quotient, b.sub(number, b.mul(quotient, by))


def _lanes(machine: Machine) -> int:
    return machine.vector // 4


@dataclass(frozen=True, slots=True)
class _Dim:
    """`count` results, so many numbers apart in the source and in the result."""

    count: int
    src: int
    dst: int


@dataclass(frozen=True)
class ProductEmitter:
    """Emits the loops for a source of that shape."""

    conv: PackedIntegerConv
    source: tuple[int, ...]
    width: int
    """Bytes of a weight."""
    machine: Machine
    threads: int

    def text(self) -> str:
        """The function `loops`."""
        b = Builder()
        count = 3 if self.conv.requantization is None else 5
        source, weights, *columns_of, result = (b.load("ptr", "%arguments", 8 * k) for k in range(count))
        self.emit(b, source, weights, columns_of, result, partition(b, parallel=True))
        return f'target triple = "{self.machine.triple}"\n{loop_function("loops", b, self.machine)}\n'

    def emit(
        self, b: Builder, source: str, weights: str, columns_of: list[str], result: str, split: Partition
    ) -> None:
        """All results, of which a thread computes the part that `split` says; `columns_of` are the addresses of scales
        and addends, where sums are quantized."""
        *outer, rows = self._dims()
        group = self.conv.group
        whole, rest = divmod(self.conv.columns // group, self.conv.panel)
        inputs, outputs = self.source[-1] // group, self.conv.columns // group
        above = prod(dim.count for dim in outer)
        for first, panels, columns in ((0, whole, self.conv.panel), (whole, min(rest, 1), rest)):
            if not panels:
                continue
            # Panels outside: their weights stay in the caches while all rows go by.
            blocks = self._blocks(group * panels * above, rows.count)
            low, high = split(group * panels * above * blocks)
            with b.loop(low, high) as item:
                place, block = _divided(b, item, blocks)
                panel, number = _divided(b, place, above)
                of, panel = _divided(b, panel, panels)
                panel = b.add(panel, first)
                column = b.add(b.mul(of, outputs), b.mul(panel, self.conv.panel))
                packed = b.add(b.mul(of, whole + (rest > 0)), panel)
                src, dst = self._starts(b, outer, number)
                src = b.add(src, b.mul(of, inputs))
                self._rows(
                    b,
                    b.at(source, b.mul(src, 2)),
                    b.at(weights, b.mul(packed, self._panel_bytes)),
                    b.at(result, b.mul(b.add(dst, column), self._result_width)),
                    rows,
                    (block, blocks),
                    columns,
                    [b.at(pointer, b.mul(column, 4)) for pointer in columns_of],
                )

    # Where results and taps lie -----------------------------------------------------------------------------------

    def _spatial_strides(self) -> list[int]:
        """Numbers from one index of each dim of the source but the last to the next."""
        return [prod(self.source[k + 1 :]) for k in range(len(self.source) - 1)]

    def _dims(self) -> list[_Dim]:
        """The dims of the result but the last, those joined that lie evenly on both sides; at least one."""
        shape = self.conv.result_shape(self.source)
        steps = [
            stride * step
            for stride, step in zip(self._spatial_strides(), (1, *self.conv.strides), strict=True)
        ]
        found = list[_Dim]()
        for k, (count, src) in enumerate(zip(shape, steps, strict=False)):
            dim = _Dim(count, src, prod(shape[k + 1 :]))
            outside = found[-1] if found else None
            if outside is not None and outside.src == dim.count * dim.src:
                found[-1] = _Dim(outside.count * dim.count, dim.src, dim.dst)
            else:
                found.append(dim)
        return found

    def _starts(self, b: Builder, outer: list[_Dim], number: Value) -> tuple[Value, Value]:
        """Where the rows of item `number` of the outer dims begin, in numbers of the source and the result."""
        src: Value = 0
        dst: Value = 0
        for dim in reversed(outer):
            number, place = _divided(b, number, dim.count)
            src, dst = b.add(src, b.mul(place, dim.src)), b.add(dst, b.mul(place, dim.dst))
        return src, dst

    @property
    def _inner(self) -> int:
        return self.conv.inner(self.source[-1] // self.conv.group)

    @property
    def _tap_bytes(self) -> int:
        """Bytes of the weights of a tap in a panel."""
        return -(-self._inner // 2) * 2 * self.conv.panel * self.width

    @property
    def _panel_bytes(self) -> int:
        return prod(self.conv.taps) * self._tap_bytes

    # Tiles --------------------------------------------------------------------------------------------------------

    @property
    def _result_width(self) -> int:
        return bytes_of_result(self.conv.requantization)

    def _blocks(self, items: int, rows: int) -> int:
        """In how many blocks rows are cut, so that threads have several of so many items each, where they can."""
        return 1 if self.threads == 1 else min(-(-_ITEMS * self.threads // items), -(-rows // _LEAST_ROWS))

    def _rows(
        self, b: Builder, source: str, weights: str, result: str, rows: _Dim, part: tuple[Value, int], columns: int,
        numbers: list[str],
    ) -> None:  # fmt: skip
        """The rows of one panel of columns, in tiles of about as many rows each as there are registers for.

        `part` is a block of the rows, and of how many; `numbers` are where the scales and addends of the panel begin.
        """
        block, blocks = part
        registers = 32 if self.machine.vector > 32 else 16
        tiles = -(-rows.count // ((registers - _VECTORS - 2) // _VECTORS))
        size, larger = divmod(rows.count, tiles)
        first = 0
        for height, count in ((size + 1, larger), (size, tiles - larger)):
            if not count:
                continue
            low, high = (b.div(b.mul(b.add(block, end), count), blocks) for end in (0, 1))
            with b.loop(low, high) as tile:
                row = b.add(b.mul(tile, height), first)
                self._tile(
                    b,
                    b.at(source, b.mul(row, 2 * rows.src)),
                    weights,
                    b.at(result, b.mul(row, self._result_width * rows.dst)),
                    [(2 * k * rows.src, self._result_width * k * rows.dst) for k in range(height)],
                    columns,
                    numbers,
                )
            first += height * count

    def _tile(
        self, b: Builder, source: str, weights: str, result: str, rows: list[tuple[int, int]], columns: int,
        numbers: list[str],
    ) -> None:  # fmt: skip
        """The columns of rows that begin so many bytes behind `source` and `result`."""
        lanes = _lanes(self.machine)
        sum_type = f"<{lanes} x i32>"
        # Of the last panel, vectors that are no columns are left out.
        vectors = -(-columns // lanes)
        taps = [*zip(self.conv.taps, self.conv.dilations, self._spatial_strides()[1:], strict=False)]

        def added(level: int, at: str, tap: Value, values: list[str]) -> list[str]:
            """`values` and the products of all taps whose first indices are known."""
            if level < len(taps):
                count, dilation, stride = taps[level]
                kinds = [(sum_type, value) for value in values]
                return b.carried(
                    0,
                    count,
                    kinds,
                    lambda k, inside: added(
                        level + 1,
                        b.at(at, b.mul(k, 2 * dilation * stride)),
                        b.add(b.mul(tap, count), k),
                        inside,
                    ),
                )
            return self._pairs(b, at, b.at(weights, b.mul(tap, self._tap_bytes)), rows, vectors, values)

        found = added(0, source, 0, ["zeroinitializer"] * (len(rows) * vectors))
        # Whole vectors are stored together as bytes, a last one that is none by itself.
        whole, made = columns // lanes, self.conv.requantization
        parts = (
            [range(whole), range(whole, vectors)]
            if made is not None
            else [range(v, v + 1) for v in range(vectors)]
        )
        for part in parts:
            if not part:
                continue
            left = columns - part.start * lanes
            factors = [
                [
                    load_leading(b, "float", b.at(pointer, 4 * v * lanes), lanes, columns - v * lanes)
                    for pointer in numbers
                ]
                for v in part
            ]
            for k, (_, dst) in enumerate(rows):
                sums, element = [found[k * vectors + v] for v in part], "i32"
                value = sums[0]
                if made is not None:
                    value, element = requantized(b, self.machine, lanes, sums, factors, made), "i8"
                place = b.at(result, dst + self._result_width * part.start * lanes)
                store_leading(b, element, value, place, len(part) * lanes, left, self._result_width)

    def _pairs(
        self,
        b: Builder,
        source: str,
        weights: str,
        rows: list[tuple[int, int]],
        vectors: int,
        values: list[str],
    ) -> list[str]:
        """`values` and the products of one tap, two channels at a time."""
        lanes = _lanes(self.machine)

        def pair(k: Value, values: list[str], numbers: int = 2) -> list[str]:
            at = b.at(weights, b.mul(k, 2 * self.conv.panel * self.width))
            columns = [self._weights(b, at, v) for v in range(vectors)]
            made: list[str] = []
            for row, (src, _) in enumerate(rows):
                place = b.at(source, b.add(b.mul(k, 4), src))
                number = b.put(f"load i{16 * numbers}, ptr {place}, align 2")
                number = number if numbers == 2 else b.put(f"zext i16 {number} to i32")
                both = b.put(
                    f"bitcast <{lanes} x i32> {spread(b, 'i32', number, lanes)} to <{2 * lanes} x i16>"
                )
                for v in range(vectors):
                    products = sums_of_pairs(b, self.machine, lanes, both, columns[v])
                    made.append(b.put(f"add <{lanes} x i32> {values[row * vectors + v]}, {products}"))
            return made

        pairs, odd = divmod(self._inner, 2)
        kinds = [(f"<{lanes} x i32>", value) for value in values]
        if pairs:
            values = b.carried(0, pairs, kinds, pair)
        return pair(pairs, values, 1) if odd else values

    def _weights(self, b: Builder, at: str, vector: int) -> str:
        """Two weights of each column of a vector, as numbers of 16 bits."""
        size = 2 * _lanes(self.machine)
        place = b.at(at, vector * size * self.width)
        stored = b.put(f"load <{size} x i{8 * self.width}>, ptr {place}, align {self.width}")
        return stored if self.width == 2 else b.put(f"sext <{size} x i8> {stored} to <{size} x i16>")
