"""RoiAlign as machine code, on tensors with their channels last: lanes are channels, which all are read alike.

Each result is the average, or with `largest` the greatest, over a grid of positions in its part of a region. Of a
position the four elements around it are read, each with its weight; what lies more than an element outside of the
tensor counts as 0. Positions along a dim never go back, so that those that lie inside are found by bisection where the
first or the last does not: a region may be as large as it likes. Arithmetic on positions is that of
`reference/roi_align`, operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.emission.iteration import partition
from layout_ir.backends.llvm.emission.kernels.lanes import literal
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, spread
from layout_ir.backends.llvm.loops.float_functions import FLOAT_TYPES
from layout_ir.backends.llvm.loops.loop_calls import argument_row, loop_function
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.caches import keeps_kernels
from layout_ir.dialects.nn.regions import MOST_POSITIONS, Regions
from layout_ir.errors import LayoutError

_REGISTERS = 8
"""Vectors of channels that are added up side by side: half of the registers that AVX2 has."""


_TENSORS = 4
"""x, the regions, their batches, and the result: the addresses of a call."""


class RegionPooling:
    """The code for row-major x (N, H, W, C): a call has x, regions (R, 4), their batches (R, i64) and the result
    (R, C, rows, columns), and notes a batch that x has not."""

    has_indices = True

    def __init__(
        self, shape: tuple[int, ...], count: int | None, dtype: str, regions: Regions, *, threads: int = 1
    ) -> None:
        """`count` regions; None: as many as the number behind the addresses says.

        Raises LayoutError for element types that there is no code for, and for what has no elements.
        """
        if dtype not in FLOAT_TYPES or not prod((*shape, *regions.extents)):
            raise LayoutError(f"no code for regions of {dtype} {shape}")
        machine = host()
        self._has_count = count is None
        self.code = _code(_Emitter(shape, count, dtype, regions, machine), machine)
        self.address = self.code.address("loops")
        self.threads = thread_pool.available(threads) if count is None or count >= threads else 1

    def arguments(self, count: int = 0) -> NDArray[np.uint64]:
        """A row of numbers for calls, in which the addresses are to be filled in."""
        row = argument_row(_TENSORS + self._has_count)
        if self._has_count:
            row[_TENSORS] = count
        return row


@keeps_kernels
@lru_cache(maxsize=256)
def _code(emitter: _Emitter, machine: Machine) -> Code:
    text = emitter.text()
    return Code(text, machine, ("loops",), key=text)


@dataclass(frozen=True, slots=True)
class _Dim:
    """The positions of one region along a dim: where it starts, how far a result goes, and their number per result."""

    start: str
    step: str
    count: str
    count_as_real: str


@dataclass(frozen=True, slots=True)
class _Range:
    """The positions [low, high) of one result along a dim that are inside; `base` is where the result begins."""

    dim: _Dim
    base: str
    low: str
    high: str


@dataclass(frozen=True)
class _Emitter:
    shape: tuple[int, ...]
    count: int | None
    dtype: str
    regions: Regions
    machine: Machine

    @property
    def real(self) -> str:
        """The type of elements, of which positions are, too."""
        return FLOAT_TYPES[self.dtype]

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return 4 if self.dtype == "f32" else 8

    def text(self) -> str:
        """The function `loops`."""
        b = Builder()
        tensors = [b.load("ptr", "%arguments", 8 * k) for k in range(_TENSORS)]
        count = b.load("i64", "%arguments", 8 * _TENSORS) if self.count is None else self.count
        note = 8 * (_TENSORS + (self.count is None))
        slots = [b.put("alloca i64") for _ in range(2)]
        low, high = partition(b, parallel=True)(count)
        with b.loop(low, high) as region:
            batch = b.load("i64", tensors[2], b.mul(region, 8))
            is_there = b.compare("ult", batch, self.shape[0])
            with b.either(is_there) as otherwise:
                self._region(b, region, batch, tensors, slots)
                otherwise()
                b.store("i64", "1", "%arguments", note)
                b.store("i64", batch, "%arguments", note + 8)
        return f'target triple = "{self.machine.triple}"\n{loop_function("loops", b, self.machine)}\n'

    def _region(self, b: Builder, region: Value, batch: str, tensors: list[str], slots: list[str]) -> None:
        _, height, width, channels = self.shape
        rows, columns = self.regions.extents
        x = b.at(tensors[0], b.mul(batch, height * width * channels * self.width))
        corners = b.at(tensors[1], b.mul(region, 4 * self.width))
        result = b.at(tensors[3], b.mul(region, channels * rows * columns * self.width))
        down, across = self._dim(b, corners, 1, rows), self._dim(b, corners, 0, columns)
        with b.loop(0, rows) as row:
            along = self._range(b, down, row, height, slots)
            with b.loop(0, columns) as column:
                beside = self._range(b, across, column, width, slots)
                place = b.at(result, b.mul(b.add(b.mul(row, columns), column), self.width))
                self._result(b, x, place, along, beside)

    # Positions --------------------------------------------------------------------------------------------------

    def _number(self, value: float) -> str:
        return literal(value, self.dtype)

    def _compare(self, b: Builder, relation: str, left: str, right: str) -> str:
        return b.put(f"fcmp {relation} {self.real} {left}, {right}")

    def _dim(self, b: Builder, corners: str, number: int, results: int) -> _Dim:
        """The positions along the dim of which coordinate `number` is the first corner."""
        real, shift = self.real, self._number(0.5 if self.regions.half_pixel else 0.0)
        ends: list[str] = []
        for corner in (number, number + 2):
            scaled = b.put(
                f"fmul {real} {b.load(real, corners, corner * self.width)}, {self._number(self._scale)}"
            )
            ends.append(b.put(f"fsub {real} {scaled}, {shift}"))
        size = b.put(f"fsub {real} {ends[1]}, {ends[0]}")
        if not self.regions.half_pixel:
            one = self._number(1.0)
            is_small = self._compare(b, "olt", size, one)
            size = b.select(is_small, one, size, real)
        step = b.put(f"fdiv {real} {size}, {self._number(float(results))}")
        if self.regions.ratio > 0:
            return _Dim(ends[0], step, str(self.regions.ratio), self._number(float(self.regions.ratio)))
        is_some = self._compare(b, "ogt", step, self._number(0.0))
        is_finite = self._compare(b, "olt", step, self._number(float("inf")))
        some = b.put(f"and i1 {is_some}, {is_finite}")
        known = b.select(some, step, self._number(0.0), real)
        most = self._number(float(MOST_POSITIONS))
        is_huge = self._compare(b, "ogt", known, most)
        bounded = b.select(is_huge, most, known, real)
        whole = b.put(f"fptosi {real} {bounded} to i64")
        is_less = self._compare(b, "olt", b.put(f"sitofp i64 {whole} to {real}"), bounded)
        count = b.put(f"add i64 {whole}, {b.put(f'zext i1 {is_less} to i64')}")
        return _Dim(ends[0], step, count, b.put(f"sitofp i64 {count} to {real}"))

    @property
    def _scale(self) -> float:
        return float(np.float32(self.regions.scale)) if self.dtype == "f32" else self.regions.scale

    def _position(self, b: Builder, dim: _Dim, base: str, number: Value) -> str:
        """Where position `number` of a result is, which begins at `base`."""
        real = self.real
        middle = b.put(
            f"fadd {real} {b.put(f'sitofp i64 {b.operand(number)} to {real}')}, {self._number(0.5)}"
        )
        within = b.put(f"fdiv {real} {b.put(f'fmul {real} {middle}, {dim.step}')}, {dim.count_as_real}")
        return b.put(f"fadd {real} {base}, {within}")

    def _range(self, b: Builder, dim: _Dim, number: Value, extent: int, slots: list[str]) -> _Range:
        """The positions of result `number` that are inside of a dim."""
        real, low, high = self.real, self._number(-1.0), self._number(float(extent))
        before = b.put(f"fmul {real} {b.put(f'sitofp i64 {b.operand(number)} to {real}')}, {dim.step}")
        base = b.put(f"fadd {real} {dim.start}, {before}")

        def sides(number: Value, above: str, below: str) -> tuple[str, str]:
            """Where position `number` is beside the lower end of the dim, and beside the upper one."""
            place = self._position(b, dim, base, number)
            return self._compare(b, above, place, low), self._compare(b, below, place, high)

        def is_inside(number: Value) -> str:
            above, below = sides(number, "oge", "ole")
            return b.put(f"and i1 {above}, {below}")

        is_downwards = self._compare(b, "olt", dim.step, self._number(0.0))

        def has_come(number: Value) -> str:
            above, below = sides(number, "oge", "ole")
            return b.select(is_downwards, below, above, "i1")

        def has_gone(number: Value) -> str:
            before, behind = sides(number, "olt", "ogt")
            return b.select(is_downwards, before, behind, "i1")

        ends = b.put(f"and i1 {is_inside(0)}, {is_inside(b.sub(dim.count, 1))}")
        with b.either(ends) as otherwise:
            b.store("i64", "0", slots[0])
            b.store("i64", dim.count, slots[1])
            otherwise()
            first = _bisected(b, "0", dim.count, has_come)
            b.store("i64", first, slots[0])
            b.store("i64", _bisected(b, first, dim.count, has_gone), slots[1])
        return _Range(dim, base, b.load("i64", slots[0]), b.load("i64", slots[1]))

    def _taps(self, b: Builder, within: _Range, number: Value, extent: int) -> list[tuple[str, str]]:
        """The indices (i64) of the two elements around position `number`, each with its weight."""
        real, zero = self.real, self._number(0.0)
        place = self._position(b, within.dim, within.base, number)
        is_inside = self._compare(b, "ogt", place, zero)  # false for what is no number
        above = b.select(is_inside, place, zero, real)
        last = self._number(float(extent - 1))
        is_beyond = self._compare(b, "oge", above, last)
        known = b.select(is_beyond, last, above, real)
        low = b.put(f"fptosi {real} {known} to i64")
        more = b.select(is_beyond, 0, 1)
        high = b.put(f"add i64 {low}, {more}")
        rest = b.put(f"fsub {real} {known}, {b.put(f'sitofp i64 {low} to {real}')}")
        return [(low, b.put(f"fsub {real} {self._number(1.0)}, {rest}")), (high, rest)]

    # Results ----------------------------------------------------------------------------------------------------

    def _result(self, b: Builder, x: str, place: str, down: _Range, across: _Range) -> None:
        """Writes one result of all channels, the first of which is at `place`."""
        channels, lanes = self.shape[3], self.machine.vector // self.width
        total = b.mul(down.dim.count, across.dim.count)
        initial = self._number(0.0)
        if self.regions.largest:
            # What is outside is 0, and so is the greatest of none.
            whole = [b.compare("eq", b.sub(r.high, r.low), r.dim.count) for r in (down, across)]
            is_whole = b.put(f"and i1 {whole[0]}, {whole[1]}")
            is_some = b.compare("sgt", total, 0)
            flag = b.put(f"and i1 {is_whole}, {is_some}")
            initial = b.select(flag, self._number(float("-inf")), initial, self.real)
        divisor = self._number(1.0)
        if not self.regions.largest:
            divisor = b.put(f"sitofp i64 {b.operand(b.max(total, 1))} to {self.real}")
        block = lanes * _REGISTERS
        whole_blocks, rest = divmod(channels, block)
        sizes = [lanes] * (rest // lanes) + [rest % lanes] * (rest % lanes > 0)
        if whole_blocks:
            with b.loop(0, whole_blocks) as number:
                self._channels(
                    b, x, place, b.mul(number, block), [lanes] * _REGISTERS, down, across, initial, divisor
                )
        if sizes:
            self._channels(b, x, place, whole_blocks * block, sizes, down, across, initial, divisor)

    def _channels(
        self, b: Builder, x: str, place: str, first: Value, sizes: list[int], down: _Range, across: _Range,
        initial: str, divisor: str,
    ) -> None:  # fmt: skip
        """Writes one result of the channels from `first` on, in vectors of these sizes."""
        _, height, width, channels = self.shape
        types = [f"<{size} x {self.real}>" for size in sizes]
        starts = [sum(sizes[:k]) * self.width for k in range(len(sizes))]
        here = b.at(x, b.mul(first, self.width))

        def of_row(number: Value, values: list[str]) -> list[str]:
            rows = [
                (b.at(here, b.mul(index, width * channels * self.width)), weight)
                for index, weight in self._taps(b, down, number, height)
            ]

            def of_column(number: Value, values: list[str]) -> list[str]:
                terms: list[tuple[str, str]] = []
                columns = self._taps(b, across, number, width)
                for row, weight in rows:
                    for index, other in columns:
                        at = b.at(row, b.mul(index, channels * self.width))
                        terms.append((at, b.put(f"fmul {self.real} {weight}, {other}")))
                return self._added(b, terms, values, types, starts)

            return b.carried(across.low, across.high, list(zip(types, values, strict=True)), of_column)

        begin = [spread(b, self.real, initial, size) for size in sizes]
        made = b.carried(down.low, down.high, list(zip(types, begin, strict=True)), of_row)
        apart = prod(self.regions.extents) * self.width
        for vector, size, type, start in zip(made, sizes, types, starts, strict=True):
            if not self.regions.largest:
                vector = b.put(f"fdiv {type} {vector}, {spread(b, self.real, divisor, size)}")
            for lane in range(size):
                element = b.put(f"extractelement {type} {vector}, i32 {lane}")
                to = b.add(b.mul(first, apart), (start // self.width + lane) * apart)
                b.do(f"store {self.real} {element}, ptr {b.at(place, to)}, align {self.width}")

    def _added(
        self, b: Builder, terms: list[tuple[str, str]], values: list[str], types: list[str], starts: list[int]
    ) -> list[str]:  # fmt: skip
        """`values` with a position: four addresses and weights."""
        made = list(values)
        for at, weight in terms:
            wide: dict[str, str] = {}
            for k, (type, start) in enumerate(zip(types, starts, strict=True)):
                size = int(type[1:].split()[0])
                factor = wide.setdefault(type, "") or spread(b, self.real, weight, size)
                wide[type] = factor
                element = b.put(f"load {type}, ptr {b.at(at, start)}, align {self.width}")
                if self.regions.largest:
                    weighed = b.put(f"fmul {type} {element}, {factor}")
                    is_more = b.put(f"fcmp ogt {type} {weighed}, {made[k]}")
                    flags = f"<{size} x i1>"
                    made[k] = b.put(f"select {flags} {is_more}, {type} {weighed}, {type} {made[k]}")
                else:
                    name = f"llvm.fmuladd.v{size}{self.dtype}"
                    made[k] = b.put(
                        f"call {type} @{name}({type} {element}, {type} {factor}, {type} {made[k]})"
                    )
        return made


def _bisected(b: Builder, low: str, high: str, holds: Callable[[Value], str]) -> str:
    """The first number in [low, high) for which it holds, as it does for all behind; `high` where there is none."""
    head, body, exit_, enter = b.name("halve"), b.name("half"), b.name("found"), b.name("enter")
    begin, end = b.name("low"), b.name("high")
    b.do(f"br label {enter}")
    b.label(enter)
    b.do(f"br label {head}")
    b.label(head)
    at = len(b.lines)
    b.lines.append("")
    more = b.compare("slt", begin, end)
    b.do(f"br i1 {more}, label {body}, label {exit_}")
    b.label(body)
    middle = b.put(f"lshr i64 {b.put(f'add i64 {begin}, {end}')}, 1")
    flag = holds(middle)
    behind = b.put(f"add i64 {middle}, 1")
    new_begin = b.select(flag, begin, behind)
    new_end = b.select(flag, middle, end)
    b.do(f"br label {head}")
    b.lines[at] = (
        f"  {begin} = phi i64 [ {low}, {enter} ], [ {new_begin}, {body} ]\n"
        f"  {end} = phi i64 [ {high}, {enter} ], [ {new_end}, {body} ]"
    )
    b.label(exit_)
    return begin
