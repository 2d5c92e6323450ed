"""Trips by machine code: where slots are in each, what is copied, and where a loop ends."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CFUNCTYPE, c_int, c_int64, c_void_p, cast

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.onednn.step_driver import CALL_WITH_STATUS, RECORD_FIELDS
from layout_ir.backends.onednn.trip_driver import (
    COPY_FIELDS,
    SLOT_FIELDS,
    failed_record,
    trip_driver,
)
from tests.backends.onednn.small_programs import needs_library

pytestmark = needs_library

Slot = tuple[int, int, int, int]


def trips(
    slots: Sequence[Slot], copies: Sequence[tuple[int, int, int]], end: int, *, condition: int = -1,
    records: Sequence[Sequence[int]] = (), begin: int = 0,
) -> int:  # fmt: skip
    """What the driver returns for these slots, copies and records, none of which has an address in a slot."""
    table, moves, walked = (
        np.array(rows, np.int64).reshape(-1, fields)
        for rows, fields in ((slots, SLOT_FIELDS), (copies, COPY_FIELDS), (records, RECORD_FIELDS))
    )
    addresses, number = np.zeros(len(table) + 1, np.int64), np.zeros((), np.int64)
    block = np.array([
        0, 0, table.ctypes.data, len(table), addresses.ctypes.data, walked.ctypes.data, len(walked),
        moves.ctypes.data, len(moves), condition, number.ctypes.data,
    ])  # fmt: skip
    return trip_driver()(block.ctypes.data, begin, end)


def rows(array: NDArray[np.int64], step: int = 1) -> Slot:
    """The slot of a row per trip."""
    start = array.ctypes.data + (0 if step > 0 else array.nbytes - array.strides[0])
    return start, start, start, step * array.strides[0]


def test_rows_are_copied_from_both_ends():
    given = np.arange(21).reshape(7, 3)
    taken = np.zeros_like(given)
    assert trips([rows(taken), rows(given, -1)], [(0, 1, 24)], 7) == 7
    np.testing.assert_array_equal(taken, given[::-1])


def test_slots_are_elsewhere_in_the_first_trip_and_in_even_and_odd_ones():
    places, taken = np.array([10, 20, 30]), np.zeros(6, np.int64)
    first, even, odd = (places[k:].ctypes.data for k in range(3))
    slots = [rows(taken), (first, even, odd, 0)]
    assert trips(slots, [(0, 1, 8)], 4) == 4
    assert trips(slots, [(0, 1, 8)], 6, begin=4) == 6  # goes on where it came back
    assert taken.tolist() == [10, 30, 20, 30, 20, 30]


def test_a_loop_ends_behind_the_trip_whose_condition_does_not_hold():
    holds = np.array([1, 1, 0, 1])
    assert trips([rows(holds)], [], 4, condition=0) == 3
    assert trips([rows(holds[3:])], [], 1, condition=0) == 1


def test_negative_a_record_that_fails_ends_the_loop():
    seen: list[int] = []

    def note(number: int, until: int, _c: int, _d: int) -> int:
        seen.append(number)
        return int(len(seen) == until)

    function = CFUNCTYPE(c_int, c_int64, c_int64, c_int, c_int64)(note)
    at = cast(function, c_void_p).value
    assert at is not None
    records = [[CALL_WITH_STATUS, at, number, 5, 0, 0, 0] for number in range(3)]
    assert failed_record(trips([], [], 9, records=records)) == 1
    assert seen == [0, 1, 2, 0, 1]
    assert failed_record(trips([], [], 0, records=records)) is None
