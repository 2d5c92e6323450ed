"""A plan that machine code runs again and again: the body of a Loop or Scan.

A result that is carried is an operand of the next iteration where it lies: it has two buffers, and iterations write to
them in turn. Rows are read and written in the arrays that hold them all. So an iteration is the records of the plan,
some addresses, and a copy of what is wanted in a second place (`trip_driver`). Python comes back every now and then, so
that a loop can be interrupted.

Addresses are numbers where the memory is known, and else places in memory that another plan is lent, which runs the
loop as one of its records (`nested_flow`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_uint8, memmove
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from layout_ir.backends.onednn.execution_context import ExecutionContext
from layout_ir.backends.onednn.plan_runner import PlanRunner
from layout_ir.backends.onednn.plan_steps import Address, Location, Owner, moved
from layout_ir.backends.onednn.trip_driver import COPY_FIELDS, failed_record, trip_driver
from layout_ir.backends.reference.tensor import is_row_major
from layout_ir.elements.aligned_arrays import aligned_bytes
from layout_ir.elements.numpy_types import Array

_FEWEST, _SECONDS = 16, 0.02
"""Iterations of the first call of machine code; behind one that takes less than so many seconds the next has twice as
many."""

Slot = tuple[Address, Address, Address, int]
"""An address in iteration 0, in even and in odd ones, and how many bytes further it is per iteration
(`trip_driver`)."""


def fixed(address: Address) -> Slot:
    """The slot of what is at one address in all iterations."""
    return address, address, address, 0


def row_slot(address: Address, count: int, nbytes: int, *, backwards: bool = False) -> Slot:
    """The slot of a row per iteration: of so many rows of so many bytes, from the first on or from the last on."""
    start, step = (moved(address, (count - 1) * nbytes), -nbytes) if backwards else (address, nbytes)
    return start, start, start, step


@dataclass(frozen=True, slots=True)
class Rows:
    """A row per iteration of a row-major array, from the first on or from the last on."""

    array: Array
    backwards: bool = False

    @property
    def slot(self) -> Slot:
        """Where the row of an iteration is."""
        count = len(self.array)
        nbytes = self.array.nbytes // max(count, 1)
        return row_slot(self.array.ctypes.data, count, nbytes, backwards=self.backwards)

    def of(self, trip: int) -> Array:
        """The row of an iteration."""
        return self.array[len(self.array) - 1 - trip if self.backwards else trip, ...]


class RepeatedPlan:
    """A plan whose iterations `run` makes, and what is the same in all of its loops.

    `carried` has the result that an operand is in the next iteration. `counter` is the operand that holds the number of
    the iteration; `condition` the carried one that says whether there is another one.
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
            runner.is_native
            and not runner.checked
            and all(is_row_major(place.layout) and not place.layout.is_padded for place in results)
            and all(results[made].type == inputs[taken].type for taken, made in carried.items())
        )
        """Whether machine code can run it: no step is by Python, what is carried keeps its type, and results lie
        row-major."""
        self.carried = {
            taken: made for taken, made in carried.items() if results[made].buffer is not inputs[taken].buffer
        }
        """The result that each carried operand is in the next iteration, without those that lie there already."""
        self.after = None if condition is None else carried[condition]
        """The result that is the condition behind an iteration."""
        self.nbytes = [place.nbytes for place in results]
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
        """Runs at most `most` iterations; how many there were, and whether the condition still holds.

        An operand is what it is in every iteration, or an array of rows, or, for one that is carried, what it is in the
        first. `rows` has where results are stacked, and `at_the_end` the row-major arrays that get what an operand is
        behind the last iteration. Raises LayoutError where a step fails.
        """
        context = self._runner.take()
        slots = [given.slot if isinstance(given, Rows) else fixed(given.ctypes.data) for given in operands]
        try:
            placed = PlacedTrips(self, context, slots, {k: stacked.slot for k, stacked in rows.items()})
            return self._run(placed, context, most, at_the_end)
        finally:
            self._runner.give_back(context)

    def _run(
        self,
        placed: PlacedTrips,
        context: ExecutionContext,
        most: int | None,
        at_the_end: Mapping[int, Array],
    ) -> tuple[int, bool]:
        driver, block = trip_driver(), TripBlock(placed)
        trip, going, count = 0, True, _FEWEST
        while going and (most is None or trip < most):
            started = perf_counter()
            trip = driver(block.address, trip, trip + count if most is None else min(trip + count, most))
            failed = failed_record(trip)
            if failed is not None:
                raise context.failed(failed)
            context.check_indices()
            if self.condition is not None:
                going = bool(c_uint8.from_address(_address(placed.taken[self.condition], trip)).value)
            if perf_counter() - started < _SECONDS:
                count *= 2
        for operand, target in at_the_end.items():
            memmove(target.ctypes.data, _address(placed.taken[operand], trip), target.nbytes)
        return trip, going

    def context(self) -> ExecutionContext:
        """One that a plan keeps which runs this one as one of its records."""
        return self._runner.new_context()


class PlacedTrips:
    """Where everything of one loop is in each of its iterations: what `TripBlock` writes down.

    `operands` has the slot of each operand, for one that is carried where it is in the first iteration, and for the
    counter anything; `rows` those of results that are stacked, or written to one place.
    """

    def __init__(
        self,
        body: RepeatedPlan,
        context: ExecutionContext,
        operands: Sequence[Slot],
        rows: Mapping[int, Slot],
    ) -> None:
        self.body = body
        self.context = context
        self._operands = operands
        self._rows = rows
        self.buffers: list[Array] = []
        """Memory that must live as long as the loop."""
        self.copies: list[tuple[Slot, int]] = []
        """Where a result is copied to behind each iteration, and which."""
        self.number = np.zeros((), np.int64)
        """The number of the iteration, where there is a counter."""
        self.made = [self._result(number) if own else None for number, own in enumerate(body.own)]
        self.taken = [self._operand(number) for number in range(len(operands))]
        self.copies += [(slot, number) for number, slot in rows.items() if not body.own[number]]

    def _result(self, number: int) -> Slot:
        stacked = self._rows.get(number)
        return self._two_buffers(number) if stacked is None else stacked

    def _operand(self, number: int) -> Slot:
        given, made = self._operands[number], self.body.carried.get(number)
        if number == self.body.counter:
            return fixed(self.number.ctypes.data)
        if made is None:
            return given
        if self.body.plan.results[made].buffer.owner is Owner.RESULT:
            before = self.source(made)
        else:
            before = self._two_buffers(made)
            self.copies.append((before, made))
        _, even, odd, step = before
        return given[0], moved(odd, -step), moved(even, -step), step

    def _two_buffers(self, result: int) -> Slot:
        size = -(-self.body.nbytes[result] // 64) * 64
        self.buffers.append(both := aligned_bytes(2 * size))
        start = both.ctypes.data
        return start, start, start + size, 0

    def source(self, result: int) -> Slot:
        """Where a result is behind an iteration."""
        place = self.body.plan.results[result]
        buffer = place.buffer
        if buffer.owner is Owner.RESULT:
            slot = self.made[buffer.number]
            assert slot is not None
        elif buffer.owner is Owner.INPUT:
            slot = self.taken[buffer.number]
        else:
            slot = fixed(self.context.addresses[buffer])
        return _moved(slot, place.start)


class TripBlock:
    """The memory that the driver takes: a block (`trip_driver.BLOCK`), and the tables that it names.

    `ends` are copies behind the last iteration, from an operand to a slot.
    """

    def __init__(self, placed: PlacedTrips, ends: Sequence[tuple[Slot, int, int]] = ()) -> None:
        body, context = placed.body, placed.context
        slots: list[Slot] = []
        for buffer in context.lent:
            slot = (placed.made if buffer.owner is Owner.RESULT else placed.taken)[buffer.number]
            assert slot is not None
            slots.append(slot)

        def copy(target: Slot, source: Slot, nbytes: int) -> tuple[int, int, int]:
            slots.extend((target, source))
            return len(slots) - 2, len(slots) - 1, nbytes

        copies = [
            copy(target, placed.source(result), body.nbytes[result]) for target, result in placed.copies
        ]
        last = [copy(target, placed.taken[operand], nbytes) for target, operand, nbytes in ends]
        condition = -1
        if body.after is not None:
            condition = len(slots)
            slots.append(placed.source(body.after))
        places = [field for slot in slots for field in slot]
        table = np.array(list(map(_known, places)), np.int64)
        self.patches: list[tuple[int, Location]] = [
            (table.ctypes.data + 8 * number, address)
            for number, address in enumerate(places)
            if isinstance(address, Location)
        ]
        """The fields that hold an address in lent memory."""
        moves, self.ends = (np.array(rows, np.int64).reshape(-1, COPY_FIELDS) for rows in (copies, last))
        addresses = np.empty(len(slots), np.int64)
        patches, records = context.patches, context.records
        fields = [
            patches.ctypes.data, len(patches), table.ctypes.data, len(slots), addresses.ctypes.data,
            records.ctypes.data, len(records), moves.ctypes.data, len(moves), condition, placed.number.ctypes.data,
        ]  # fmt: skip
        self._fields = np.array(fields, np.int64)
        self.address = self._fields.ctypes.data
        self._kept = placed, table, moves, addresses


def _known(address: Address) -> int:
    """The address where it is known; 0 where it is patched."""
    return 0 if isinstance(address, Location) else address


def _moved(slot: Slot, nbytes: int) -> Slot:
    first, even, odd, step = slot
    return moved(first, nbytes), moved(even, nbytes), moved(odd, nbytes), step


def _address(slot: Slot, trip: int) -> int:
    """Where a slot is in an iteration."""
    first, even, odd, step = slot
    return _known(first if trip == 0 else odd if trip % 2 else even) + step * trip
