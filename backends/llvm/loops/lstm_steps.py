"""All steps of an LSTM on integers as machine code: `nn/integer_lstm`.

A step rounds the states of all sequences to levels of their range, multiplies them by the weights as a product of
integers does (`integer_convolution`), and computes the gates of each sequence, lanes along the hidden elements, by the
definitions of the activations. States lie one behind the other, and are 0 where a sequence has ended. Threads take a
direction each: a step needs all of the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.emission.iteration import all_iterations, partition
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, spread
from layout_ir.backends.llvm.loops.channel_windows import DECLARATIONS
from layout_ir.backends.llvm.loops.float_functions import FloatFunctions
from layout_ir.backends.llvm.loops.integer_convolution import ProductEmitter, panel_columns
from layout_ir.backends.llvm.loops.loop_calls import argument_row, loop_code, loop_function
from layout_ir.backends.llvm.loops.masked_lanes import load_leading, store_leading
from layout_ir.backends.llvm.loops.nibble_product import QUAD, NibbleProduct, has_nibble_product
from layout_ir.backends.llvm.loops.vector_numpy import Vector, VectorNumPy, converted
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.dialects.nn.integer_lstm import IntegerLstm
from layout_ir.dialects.nn.recurrent_activations import Activation
from layout_ir.errors import LayoutError

_SHARED = 1 << 20
"""Products from which on threads share a call: some ten microseconds."""

OPTIONAL = ("peepholes", "lengths", "states", "cells")
"""The inputs that may be left out, in order."""

_TENSORS = 8
"""The number of tensors that each call has: four inputs in front, and the results."""

Block = Callable[[Value, int], None]
"""Code for the elements of a row that begin at some element, so many of the lanes or all of them."""


class LstmSteps:
    """The code for so many steps of a batch: a call has the inputs, those that are given of `OPTIONAL` last among them,
    then the last states, the last cells, the memory, and all states. It notes a length that there are no steps for."""

    def __init__(
        self,
        lstm: IntegerLstm,
        steps: int,
        batch: int,
        given: tuple[str, ...],
        weight: str,
        *,
        threads: int = 1,
    ) -> None:
        """`weight` is the element type of the weights, i8 or i16. Raises LayoutError where there are no elements, for
        weights that are packed for another machine or batch, and for activations that loops do not compute."""
        machine = host()
        is_known = lstm.panel == panel_columns(machine)
        if lstm.in_quads:
            is_known = is_known and batch == 1 and has_nibble_product(machine)
        if min(steps, batch) < 1 or not is_known:
            raise LayoutError(f"no code for {steps} steps of {batch} sequences in panels of {lstm.panel}")
        products = steps * batch * lstm.columns * lstm.hidden
        shared = thread_pool.available(min(threads, lstm.directions)) if products >= _SHARED else 1
        self.threads = shared
        self.has_indices = "lengths" in given
        self.code = loop_code(_Emitter(lstm, steps, batch, given, 1 if weight == "i8" else 2, machine))
        self.address = self.code.address("loops")
        self._tensors = _TENSORS + len(given)

    def arguments(self) -> NDArray[np.uint64]:
        """A row of numbers for calls, in which the addresses are to be filled in."""
        return argument_row(self._tensors)


@dataclass(frozen=True, slots=True)
class _Direction:
    """The addresses at which one direction reads and writes."""

    number: Value
    is_reverse: Value
    weights: str
    columns: str
    """Scales of both weights, the bias, and sums of weights."""
    peepholes: str | None
    cells: str
    last: str
    sums: str
    states: str
    levels: str


@dataclass(frozen=True)
class _Emitter:
    lstm: IntegerLstm
    steps: int
    batch: int
    given: tuple[str, ...]
    width: int
    """Bytes of a weight of states."""
    machine: Machine

    def text(self) -> str:
        """The function `loops`."""
        b = Builder()
        names = (
            "sums",
            "scale",
            "weights",
            "columns",
            *self.given,
            "last",
            "last_cells",
            "scratch",
            "result",
        )
        pointers = {name: b.load("ptr", "%arguments", 8 * k) for k, name in enumerate(names)}
        lstm = self.lstm
        low, high = partition(b, parallel=True)(lstm.directions)
        first = 0
        while first < lstm.directions:
            functions, alike = lstm.activations[first], first + 1
            while alike < lstm.directions and lstm.activations[alike] == functions:
                alike += 1
            # Directions of the same activations have the same code.
            bounds = b.max(low, first), b.min(high, alike)
            if lstm.directions == 1:
                bounds = low, high
            with b.loop(*bounds) as number:
                self._direction(b, pointers, number, functions)
            first = alike
        return f'target triple = "{self.machine.triple}"\n{DECLARATIONS}\n{loop_function("loops", b, self.machine)}\n'

    @property
    def _lanes(self) -> int:
        return self.machine.vector // 4

    def _functions(self, b: Builder) -> FloatFunctions:
        return FloatFunctions(b, self.machine, self._lanes)

    # A direction --------------------------------------------------------------------------------------------------

    def _direction(
        self, b: Builder, pointers: dict[str, str], number: Value, functions: tuple[Activation, ...]
    ) -> None:
        lstm, batch = self.lstm, self.batch
        state = 4 * batch * lstm.hidden
        sums = b.at(pointers["scratch"], b.mul(number, 4 * lstm.scratch(batch)))
        states = b.at(sums, 4 * batch * lstm.columns)
        packed = prod(lstm.packed_shape) * self.width
        at = _Direction(
            number,
            int(lstm.reverse[0]) if len(set(lstm.reverse)) == 1 else number,
            b.at(pointers["weights"], b.mul(number, packed)),
            b.at(pointers["columns"], b.mul(number, 4 * lstm.rows * lstm.columns)),
            b.at(pointers["peepholes"], b.mul(number, 4 * 3 * lstm.hidden))
            if "peepholes" in pointers
            else None,
            b.at(pointers["last_cells"], b.mul(number, state)),
            b.at(pointers["last"], b.mul(number, state)),
            sums,
            states,
            b.at(states, state),
        )
        begins = ("states", states), ("cells", at.cells)
        for name, to in begins:
            if name in pointers:
                _copy(b, to, b.at(pointers[name], b.mul(number, state)), state)
            else:
                _clear(b, to, state)
        most: Value = self.steps
        if "lengths" in pointers:
            most = self._ended(b, pointers, at)
        scale = self._spread_number(b, pointers["scale"])
        with b.loop(0, most) as step:
            state_scale, zero_point = self._rounded(b, at)
            self._product(b, at)
            with b.loop(0, batch) as row:
                self._row(b, pointers, at, (step, row), (scale, state_scale, zero_point), functions)
        if "lengths" in pointers:
            with b.loop(0, batch) as row, b.when(b.compare("eq", self._length(b, pointers, row), 0)):
                _clear(b, b.at(at.cells, b.mul(row, 4 * lstm.hidden)), 4 * lstm.hidden)

    def _length(self, b: Builder, pointers: dict[str, str], row: Value) -> str:
        """The length of a sequence, 0 of one that is noted."""
        wide = b.put(f"sext i32 {b.load('i32', pointers['lengths'], b.mul(row, 4))} to i64")
        return b.select(b.compare("ule", wide, self.steps), wide, 0)

    def _ended(self, b: Builder, pointers: dict[str, str], at: _Direction) -> Value:
        """The number of steps of the longest sequence. Writes what is behind the ends, and notes what is no length."""
        lstm, note = self.lstm, 8 * (_TENSORS + len(self.given))

        def longer(row: Value, most: list[str]) -> list[str]:
            given = b.put(f"sext i32 {b.load('i32', pointers['lengths'], b.mul(row, 4))} to i64")
            with b.when(b.compare("ugt", given, self.steps)):
                b.store("i64", "1", "%arguments", note)
                b.store("i64", given, "%arguments", note + 8)
            length = self._length(b, pointers, row)
            with b.loop(length, self.steps) as step:
                _clear(b, self._result(b, pointers, at, step, row), 4 * lstm.hidden)
            return [b.operand(b.max(length, most[0]))]

        _clear(b, at.last, 4 * self.batch * lstm.hidden)
        [most] = b.carried(0, self.batch, [("i64", "0")], longer)
        return most

    def _result(self, b: Builder, pointers: dict[str, str], at: _Direction, step: Value, row: Value) -> str:
        """Where the state of a sequence behind a step is written."""
        place = b.add(b.mul(b.add(b.mul(step, self.lstm.directions), at.number), self.batch), row)
        return b.at(pointers["result"], b.mul(place, 4 * self.lstm.hidden))

    def _product(self, b: Builder, at: _Direction) -> None:
        """The sums of the products of all states."""
        lstm, batch = self.lstm, self.batch
        if lstm.in_quads:
            low = b.at(at.levels, QUAD * lstm.quads)
            product = NibbleProduct(self.machine, lstm.quads, lstm.columns, lstm.panel)
            product.emit(b, at.levels, low, at.weights, at.sums)
        else:
            wide = ProductEmitter(lstm.packing, (batch, lstm.hidden), self.width, self.machine, 1)
            wide.emit(b, at.levels, at.weights, [], at.sums, all_iterations)

    # Levels -------------------------------------------------------------------------------------------------------

    def _blocks(self, b: Builder, count: int, block: Block) -> None:
        """All elements of a row, block by block."""
        lanes = self._lanes
        blocks, rest = divmod(count, lanes)
        if blocks:
            with b.loop(0, blocks) as number:
                block(b.mul(number, lanes), lanes)
        if rest:
            block(blocks * lanes, rest)

    def _load(self, b: Builder, pointer: str, element: Value, count: int) -> Vector:
        place = b.at(pointer, b.mul(element, 4))
        return Vector(self._functions(b), load_leading(b, "float", place, self._lanes, count), "f32")

    def _spread_number(self, b: Builder, pointer: str) -> Vector:
        return Vector(self._functions(b), spread(b, "float", b.load("float", pointer), self._lanes), "f32")

    def _rounded(self, b: Builder, at: _Direction) -> tuple[Vector, Vector]:
        """Writes the states of all sequences as levels, and gives their scale and their zero point, an i32.

        Levels that are multiplied in quads are halves of four bits, all higher ones before all lower; others are less
        their zero point.
        """
        np, lanes, count = VectorNumPy, self._lanes, self.batch * self.lstm.hidden
        vector = f"<{lanes} x float>"
        blocks, rest = divmod(count, lanes)

        def wider(element: Value, here: int, ends: list[str]) -> list[str]:
            # Lanes outside are 0, which is in the range.
            value = self._load(b, at.states, element, here).value
            return [
                b.put(f"call {vector} @llvm.{name}.v{lanes}f32({vector} {end}, {vector} {value})")
                for name, end in zip(("minnum", "maxnum"), ends, strict=True)
            ]

        ends = ["zeroinitializer"] * 2
        if blocks:
            kinds = [(vector, end) for end in ends]
            ends = b.carried(0, blocks, kinds, lambda k, inside: wider(b.mul(k, lanes), lanes, inside))
        if rest:
            ends = wider(blocks * lanes, rest, ends)
        low, high = (
            Vector(
                self._functions(b),
                spread(
                    b,
                    "float",
                    b.put(f"call float @llvm.vector.reduce.{name}.v{lanes}f32({vector} {end})"),
                    lanes,
                ),
                "f32",
            )
            for name, end in zip(("fmin", "fmax"), ends, strict=True)
        )
        width = high - low
        scale = np.where(width == 0, 1, width / 255)
        zero_point = np.rint(np.clip(-low / scale, 0, 255))

        def level(element: Value, here: int) -> Vector:
            steps = np.rint(self._load(b, at.states, element, here) / scale)
            return np.clip(steps + zero_point, 0, 255)

        def wide(element: Value, here: int) -> None:
            number = converted(level(element, here) - zero_point, "i16").value
            store_leading(b, "i16", number, b.at(at.levels, b.mul(element, 2)), lanes, here, 2)

        def halves(element: Value, here: int) -> None:
            number = converted(level(element, here), "i32")
            for k, half in enumerate((number >> 4, number & 15)):
                to = b.at(at.levels, b.add(element, k * QUAD * self.lstm.quads))
                store_leading(b, "i8", converted(half, "i8").value, to, lanes, here, 1)

        self._blocks(b, count, halves if self.lstm.in_quads else wide)
        return scale, converted(zero_point, "i32")

    # Gates --------------------------------------------------------------------------------------------------------

    def _row(
        self, b: Builder, pointers: dict[str, str], at: _Direction, place: tuple[Value, Value],
        scales: tuple[Vector, Vector, Vector], functions: tuple[Activation, ...],
    ) -> None:  # fmt: skip
        """The state and the cell of a sequence behind a step."""
        lstm, (step, row) = self.lstm, place
        state = b.at(at.states, b.mul(row, 4 * lstm.hidden))
        if "lengths" not in pointers:
            self._running_row(b, pointers, at, place, self.steps, scales, functions)
            return
        length = self._length(b, pointers, row)
        with b.either(b.compare("slt", step, length)) as otherwise:
            self._running_row(b, pointers, at, place, length, scales, functions)
            otherwise()
            _clear(b, state, 4 * lstm.hidden)

    def _running_row(
        self, b: Builder, pointers: dict[str, str], at: _Direction, place: tuple[Value, Value], length: Value,
        scales: tuple[Vector, Vector, Vector], functions: tuple[Activation, ...],
    ) -> None:  # fmt: skip
        np, lstm, (step, row) = VectorNumPy, self.lstm, place
        hidden, columns, clip = lstm.hidden, lstm.columns, lstm.clip
        from_end = b.sub(b.sub(length, 1), step)
        index = (
            (from_end if at.is_reverse else step)
            if isinstance(at.is_reverse, int)
            else b.select(b.compare("ne", at.is_reverse, 0), from_end, step)
        )
        sums = b.add(b.mul(b.add(b.mul(index, self.batch), row), lstm.directions), at.number)
        of_input = b.at(pointers["sums"], b.mul(sums, 4 * columns))
        of_state = b.at(at.sums, b.mul(row, 4 * columns))
        cells, state = (b.at(pointer, b.mul(row, 4 * hidden)) for pointer in (at.cells, at.states))
        result = self._result(b, pointers, at, index, row)
        gate_function, cell_function, state_function = functions
        of_input_scale, of_state_scale, zero_point = scales
        products = ((of_input, of_input_scale, 0), (of_state, of_state_scale, columns))

        def real(pointer: str, element: Value, here: int) -> Vector:
            loaded = load_leading(b, "i32", b.at(pointer, b.mul(element, 4)), self._lanes, here)
            number = Vector(self._functions(b), loaded, "i32")
            if pointer == of_state and lstm.in_quads:
                # What the zero point added to each level adds to the sum.
                weights = self._load(b, at.columns, b.add(element, 3 * columns), here)
                number = number - zero_point * converted(weights, "i32")
            return converted(number, "f32")

        def block(element: Value, here: int) -> None:
            cell = self._load(b, cells, element, here)

            def gate(number: int, function: Activation, peephole: int | None, cell: Vector) -> Vector:
                column = b.add(element, number * hidden)
                total: Vector | None = None
                for pointer, scale, begin in products:
                    factor = scale * self._load(b, at.columns, b.add(column, begin), here)
                    product = real(pointer, column, here) * factor
                    total = product if total is None else total + product
                assert total is not None
                if peephole is not None and at.peepholes is not None:
                    weights = self._load(b, at.peepholes, b.add(element, peephole * hidden), here)
                    total = total + weights * cell
                total = total + self._load(b, at.columns, b.add(column, 2 * columns), here)
                return function(np, total if clip is None else np.clip(total, -clip, clip))

            taken = gate(0, gate_function, 0, cell)
            kept = 1 - taken if lstm.input_forget else gate(2, gate_function, 2, cell)
            cell = kept * cell + taken * gate(3, cell_function, None, cell)
            made = gate(1, gate_function, 1, cell) * state_function(np, cell)
            for pointer, value in ((cells, cell), (state, made), (result, made)):
                store_leading(b, "float", value.value, b.at(pointer, b.mul(element, 4)), self._lanes, here, 4)

        self._blocks(b, hidden, block)
        with b.when(b.compare("eq", b.add(step, 1), length)):
            _copy(b, b.at(at.last, b.mul(row, 4 * hidden)), state, 4 * hidden)


def _copy(b: Builder, to: str, source: str, count: int) -> None:
    b.put(f"call ptr @memcpy(ptr {to}, ptr {source}, i64 {count})")


def _clear(b: Builder, to: str, count: int) -> None:
    b.put(f"call ptr @memset(ptr {to}, i32 0, i64 {count})")
