"""A plan that machine code runs again and again: the body of a Loop or Scan.

A result that is carried is an operand of the next trip where it lies: it has two buffers, and trips write to them in
turn. Rows are read and written in the arrays that hold them all. So a trip is the records of the plan, some addresses,
and a copy of what is wanted in a second place (`trip_driver`). Python comes back every now and then, so that a loop can
be interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_uint8, memmove
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from layout_ir.backends.onednn.plan_runner import Activation, PlanRunner
from layout_ir.backends.onednn.plan_steps import Owner, Place, aligned
from layout_ir.backends.onednn.trip_driver import COPY_WORDS, SLOT_WORDS, failed_record, trip_driver
from layout_ir.backends.reference.tensor import is_row_major
from layout_ir.elements.numpy_types import Array, storage

_FEWEST, _SECONDS = 16, 0.02
"""Trips of the first call of machine code; behind one that takes less than so many seconds the next has twice as
many."""

_Slot = tuple[int, int, int, int]
"""An address in trip 0, in even and in odd ones, and how many bytes further it is per trip (`trip_driver`)."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A row per trip of a row-major array, from the first on or from the last on."""

    array: Array
    backwards: bool = False

    @property
    def slot(self) -> _Slot:
        """Where the row of a trip is."""
        count = len(self.array)
        start, step = self.array.ctypes.data, self.array.nbytes // max(count, 1)
        if self.backwards:
            start, step = start + (count - 1) * step, -step
        return start, start, start, step

    def of(self, trip: int) -> Array:
        """The row of a trip."""
        return self.array[len(self.array) - 1 - trip if self.backwards else trip, ...]


class RepeatedPlan:
    """A plan whose trips `run` makes, and what is the same in all of its loops.

    `carried` has the result that an operand is in the next trip. `counter` is the operand that holds the number of the
    trip; `condition` the carried one that says whether there is another one.
    """

    def __init__(
        self,
        runner: PlanRunner,
        carried: Mapping[int, int],
        *,
        counter: int | None = None,
        condition: int | None = None,
    ) -> None:
        self._runner = runner
        self.plan = runner.plan
        self.counter = counter
        self.condition = condition
        results, inputs = self.plan.results, self.plan.inputs
        self.is_possible = (
            self.plan.is_native
            and not runner.checked
            and all(is_row_major(place.layout) and not place.layout.is_padded for place in results)
            and all(_type(results[made]) == _type(inputs[taken]) for taken, made in carried.items())
        )
        """Whether machine code can run it: no step is by Python, what is carried keeps its type, and results lie
        row-major."""
        self.carried = {
            taken: made for taken, made in carried.items() if results[made].buffer is not inputs[taken].buffer
        }
        """Without what is handed on as it is."""
        self.after = None if condition is None else carried[condition]
        """The result that is the condition behind a trip."""
        self.nbytes = [place.layout.nelems * storage(place.dtype).itemsize for place in results]
        """Bytes of each result."""
        self.own = [
            place.buffer.owner is Owner.RESULT and place.buffer.number == number
            for number, place in enumerate(results)
        ]
        """Which results the steps write to memory that is lent for them, and for them alone."""

    def run(
        self,
        operands: Sequence[Array | Rows],
        rows: Mapping[int, Rows],
        at_the_end: Mapping[int, Array],
        most: int | None,
    ) -> tuple[int, bool]:
        """Runs at most `most` trips; how many there were, and whether the condition still holds.

        An operand is what it is in every trip, or an array of rows, or, for one that is carried, what it is in the
        first. `rows` has where results are stacked, and `at_the_end` the row-major arrays that get what an operand is
        behind the last trip. Raises LayoutError where a step fails.
        """
        activation = self._runner.take()
        try:
            return _Loop(self, activation, operands, rows).run(most, at_the_end)
        finally:
            self._runner.give_back(activation)


class _Loop:
    """Where everything of one loop is in each of its trips."""

    def __init__(
        self,
        body: RepeatedPlan,
        activation: Activation,
        operands: Sequence[Array | Rows],
        rows: Mapping[int, Rows],
    ) -> None:
        self._body = body
        self._activation = activation
        self._operands = operands
        self._rows = rows
        self._buffers: list[Array] = []
        """Memory that must live as long as the loop."""
        self._copies: list[tuple[_Slot, int]] = []
        """Where a result is copied to behind each trip, and which."""
        self._made = [self._result(number) if own else None for number, own in enumerate(body.own)]
        self._taken = [self._operand(number) for number in range(len(operands))]
        self._copies += [(stacked.slot, number) for number, stacked in rows.items() if not body.own[number]]

    def run(self, most: int | None, at_the_end: Mapping[int, Array]) -> tuple[int, bool]:
        driver, counter, condition = trip_driver(), self._body.counter, self._body.condition
        trip, going, count = 0, True, _FEWEST
        while going and (most is None or trip < most):
            begin, end = trip, trip + count if most is None else min(trip + count, most)
            if counter is not None:
                numbers = np.arange(begin, end, dtype=np.int64)
                self._taken[counter] = _moved(Rows(numbers).slot, -begin * numbers.itemsize)
            block, *_kept = self._block()
            started = perf_counter()
            trip = driver(block.ctypes.data, begin, end)
            failed = failed_record(trip)
            if failed is not None:
                raise self._activation.failed(failed)
            self._activation.check_indices()
            if condition is not None:
                going = bool(c_uint8.from_address(_address(self._taken[condition], trip)).value)
            if perf_counter() - started < _SECONDS:
                count *= 2
        for operand, target in at_the_end.items():
            memmove(target.ctypes.data, _address(self._taken[operand], trip), target.nbytes)
        return trip, going

    def _result(self, number: int) -> _Slot:
        stacked = self._rows.get(number)
        return self._two_buffers(number) if stacked is None else stacked.slot

    def _operand(self, number: int) -> _Slot:
        given = self._operands[number]
        if isinstance(given, Rows):
            return given.slot
        first, made = given.ctypes.data, self._body.carried.get(number)
        if made is None:
            return _at(first)
        place = self._body.plan.results[made]
        if place.buffer.owner is Owner.RESULT:
            before = self._source(made)
        else:
            before = self._two_buffers(made)
            self._copies.append((before, made))
        _, even, odd, step = before
        return first, odd - step, even - step, step

    def _two_buffers(self, result: int) -> _Slot:
        size = -(-self._body.nbytes[result] // 64) * 64
        self._buffers.append(both := aligned(2 * size))
        start = both.ctypes.data
        return start, start, start + size, 0

    def _source(self, result: int) -> _Slot:
        """Where a result is behind a trip."""
        place = self._body.plan.results[result]
        buffer = place.buffer
        if buffer.owner is Owner.RESULT:
            slot = self._made[buffer.number]
            assert slot is not None
        elif buffer.owner is Owner.INPUT:
            slot = self._taken[buffer.number]
        else:
            slot = _at(self._activation.bytes[buffer].ctypes.data)
        return _moved(slot, place.start)

    def _block(self) -> tuple[Array, ...]:
        """What the driver takes, and the memory that it names."""
        slots: list[_Slot | None] = [
            (self._made if buffer.owner is Owner.RESULT else self._taken)[buffer.number]
            for buffer in self._activation.lent
        ]
        copies: list[tuple[int, int, int]] = []
        for target, result in self._copies:
            copies.append((len(slots), len(slots) + 1, self._body.nbytes[result]))
            slots += target, self._source(result)
        condition = -1
        if self._body.after is not None:
            condition = len(slots)
            slots.append(self._source(self._body.after))
        table = np.array(slots, np.int64).reshape(-1, SLOT_WORDS)
        moves = np.array(copies, np.int64).reshape(-1, COPY_WORDS)
        addresses = np.empty(len(slots), np.int64)
        patches, records = self._activation.patches, self._activation.records
        block = [
            patches.ctypes.data, len(patches), table.ctypes.data, len(table), addresses.ctypes.data,
            records.ctypes.data, len(records), moves.ctypes.data, len(moves), condition,
        ]  # fmt: skip
        return np.array(block, np.int64), table, moves, addresses


def _type(place: Place) -> tuple[str, tuple[int, ...]]:
    return place.dtype, place.layout.shape


def _at(address: int) -> _Slot:
    return address, address, address, 0


def _moved(slot: _Slot, nbytes: int) -> _Slot:
    first, even, odd, step = slot
    return first + nbytes, even + nbytes, odd + nbytes, step


def _address(slot: _Slot, trip: int) -> int:
    """Where a slot is in a trip."""
    first, even, odd, step = slot
    return (first if trip == 0 else odd if trip % 2 else even) + step * trip
