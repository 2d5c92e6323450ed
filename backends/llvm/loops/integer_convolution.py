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
from functools import lru_cache
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.emission.iteration import partition
from layout_ir.backends.llvm.emission.kernels.lanes import literal
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, shuffle, spread
from layout_ir.backends.llvm.loops.loop_calls import argument_row, loop_function
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.caches import keeps_kernels
from layout_ir.dialects.nn.integer_products import PackedIntegerConv, Requantization
from layout_ir.errors import LayoutError

_VECTORS = 2
"""Vectors of columns in a panel."""

_SHARED = 1 << 20
"""Products from which on threads share a call: some ten microseconds."""

_ITEMS, _LEAST_ROWS = 4, 64
"""Items that a thread has at least, where rows are many enough, and rows of a block."""

_INSTRUCTIONS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
"""By lanes of 32 bits, the instruction of x86 that multiplies pairs of 16 bits and adds both products."""


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
        if conv.panel != panel_columns(machine) or not prod((*source, *conv.result_shape(source))):
            raise LayoutError(f"no code for windows of {source} in panels of {conv.panel}")
        products = prod(conv.result_shape(source)) * prod(conv.kernel) * source[-1]
        self.threads = thread_pool.available(threads) if products >= _SHARED else 1
        self.code = _code(_Emitter(conv, source, 1 if weight == "i8" else 2, machine, self.threads))
        self.address = self.code.address("loops")
        self._tensors = 3 if conv.requantization is None else 5

    def arguments(self) -> NDArray[np.uint64]:
        """A row of numbers for calls, in which the addresses are to be filled in."""
        return argument_row(self._tensors)


@keeps_kernels
@lru_cache(maxsize=1024)
def _code(emitter: _Emitter) -> Code:
    text = emitter.text()
    return Code(text, emitter.machine, ("loops",), key=text)


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
class _Emitter:
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
        *outer, rows = self._dims()
        whole, rest = divmod(self.conv.columns, self.conv.panel)
        above = prod(dim.count for dim in outer)
        for first, panels, columns in ((0, whole, self.conv.panel), (whole, min(rest, 1), rest)):
            if not panels:
                continue
            # Panels outside: their weights stay in the caches while all rows go by.
            blocks = self._blocks(panels * above, rows.count)
            low, high = partition(b, parallel=True)(panels * above * blocks)
            with b.loop(low, high) as item:
                place, block = _divided(b, item, blocks)
                panel, number = _divided(b, place, above)
                panel = b.add(panel, first)
                src, dst = self._starts(b, outer, number)
                self._rows(
                    b,
                    b.at(source, b.mul(src, 2)),
                    b.at(weights, b.mul(panel, self._panel_bytes)),
                    b.at(result, b.mul(b.add(dst, b.mul(panel, self.conv.panel)), self._result_width)),
                    rows,
                    (block, blocks),
                    columns,
                    [b.at(pointer, b.mul(panel, 4 * self.conv.panel)) for pointer in columns_of],
                )
        return f'target triple = "{self.machine.triple}"\n{loop_function("loops", b, self.machine)}\n'

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
        return self.conv.inner(self.source[-1])

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
        return 4 if self.conv.requantization is None else 1

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
        for v in range(vectors):
            left = columns - v * lanes
            factors = [self._loaded(b, b.at(pointer, 4 * v * lanes), left) for pointer in numbers]
            for k, (_, dst) in enumerate(rows):
                value, element = found[k * vectors + v], "i32"
                if self.conv.requantization is not None:
                    value, element = self._quantized(b, value, factors, self.conv.requantization), "i8"
                place = b.at(result, dst + self._result_width * v * lanes)
                self._store(b, element, value, place, left)

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
                    products = self._multiplied(b, both, columns[v])
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

    def _multiplied(self, b: Builder, left: str, right: str) -> str:
        """Per lane of 32 bits the sum of the products of two numbers of 16 bits."""
        lanes, size = _lanes(self.machine), 2 * _lanes(self.machine)
        instruction = _INSTRUCTIONS.get(lanes)
        has = lanes < 16 or "+avx512bw" in self.machine.features
        if instruction is not None and has and self.machine.triple.startswith("x86_64"):
            pair = f"<{size} x i16> {left}, <{size} x i16> {right}"
            return b.put(f"call <{lanes} x i32> @llvm.x86.{instruction}({pair})")
        wide = [b.put(f"sext <{size} x i16> {value} to <{size} x i32>") for value in (left, right)]
        products = b.put(f"mul <{size} x i32> {wide[0]}, {wide[1]}")
        even, odd = (shuffle(b, "i32", products, "poison", size, range(k, size, 2)) for k in (0, 1))
        return b.put(f"add <{lanes} x i32> {even}, {odd}")

    # What becomes of sums ------------------------------------------------------------------------------------------

    def _quantized(self, b: Builder, sums: str, factors: list[str], made: Requantization) -> str:
        """Integers of 8 bits for a vector of sums, `Requantization`; `factors` are the scales and addends."""
        lanes = _lanes(self.machine)
        real, whole = f"<{lanes} x float>", f"<{lanes} x i32>"
        scale, addend = factors

        def number(value: float) -> str:
            return f"splat (float {literal(value, 'f32')})"

        def within(value: str, low: float, high: float) -> str:
            for name, bound, unbounded in (("maxnum", low, -inf), ("minnum", high, inf)):
                if bound != unbounded:
                    pair = f"{real} {value}, {real} {number(bound)}"
                    value = b.put(f"call {real} @llvm.{name}.v{lanes}f32({pair})")
            return value

        value = b.put(f"sitofp {whole} {sums} to {real}")
        value = b.put(f"fadd {real} {b.put(f'fmul {real} {value}, {scale}')}, {addend}")
        value = within(value, made.low, made.high)
        value = b.put(f"fmul {real} {value}, {number(made.factor)}")
        value = b.put(f"call {real} @llvm.rint.v{lanes}f32({real} {value})")
        value = within(b.put(f"fadd {real} {value}, {number(made.zero_point)}"), *made.bounds)
        return b.put(f"trunc {whole} {b.put(f'fptosi {real} {value} to {whole}')} to <{lanes} x i8>")

    def _loaded(self, b: Builder, place: str, columns: int) -> str:
        """A number for each of the first `columns` lanes, or all of them."""
        lanes = _lanes(self.machine)
        vector = f"<{lanes} x float>"
        if columns >= lanes:
            return b.put(f"load {vector}, ptr {place}, align 4")
        mask = f"<{lanes} x i1> {self._mask(columns)}"
        name = f"llvm.masked.load.v{lanes}f32.p0"
        return b.put(f"call {vector} @{name}(ptr {place}, i32 4, {mask}, {vector} zeroinitializer)")

    def _store(self, b: Builder, element: str, value: str, place: str, columns: int) -> None:
        """Stores the first `columns` lanes, or all of them."""
        lanes, align = _lanes(self.machine), self._result_width
        vector = f"<{lanes} x {element}>"
        if columns >= lanes:
            b.do(f"store {vector} {value}, ptr {place}, align {align}")
            return
        mask = f"<{lanes} x i1> {self._mask(columns)}"
        name = f"llvm.masked.store.v{lanes}{element}.p0"
        b.do(f"call void @{name}({vector} {value}, ptr {place}, i32 {align}, {mask})")

    def _mask(self, columns: int) -> str:
        return f"<{', '.join(f'i1 {int(k < columns)}' for k in range(_lanes(self.machine)))}>"
