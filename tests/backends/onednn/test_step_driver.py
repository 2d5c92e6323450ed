"""Records that are walked by machine code: which are run, in how many parts, and where a walk ends."""

from __future__ import annotations

from ctypes import CFUNCTYPE, c_int, c_int64, c_void_p, cast
from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import compile_reorder
from layout_ir.backends.onednn.step_driver import (
    ARGUMENT_B,
    CALL_WITH_STATUS,
    CALL_WITHOUT_STATUS,
    INDEX_OUT_OF_RANGE,
    RECORD_FIELDS,
    finds_elements,
    step_driver,
    team_functions,
)
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


def walked(rows: list[list[int]], first: int = 0, end: int | None = None) -> int:
    """Where the walk over these records ends."""
    team = team_functions().ctypes.data
    records = np.array([[*row, *[0] * (RECORD_FIELDS - 1 - len(row)), team] for row in rows], np.int64)
    return step_driver()(records.ctypes.data, first, len(rows) if end is None else end)


def address(function: Any) -> int:
    """Where a callback begins."""
    found = cast(function, c_void_p).value
    assert found is not None
    return found


def test_records_run_in_order_and_a_status_ends_the_walk():
    seen: list[tuple[int, ...]] = []

    def note(a: int, b: int, c: int, d: int) -> int:
        seen.append((a, b, c, d))
        return int(a == 3)

    function = CFUNCTYPE(c_int, c_int64, c_int64, c_int, c_int64)(note)
    rows = [[CALL_WITH_STATUS, address(function), k, 10 * k, -k, 1 << 40] for k in range(6)]
    assert walked(rows) == 3
    assert seen == [(k, 10 * k, -k, 1 << 40) for k in range(4)]
    seen.clear()
    assert walked(rows, 4, 5) == 5 and [row[0] for row in seen] == [4]
    assert walked(rows, 2, 2) == 2 and len(seen) == 1


@pytest.mark.parametrize("threads", [CALL_WITHOUT_STATUS, 2, 3])
def test_a_kernel_in_parts_is_the_whole_kernel(threads: int):
    shape = (3, 33, 65, 40)
    source = Format.from_tag("nchw").bind(shape)
    target = Format.from_tag("nChw8c").with_pad("zero").bind(shape)
    kernel = compile_reorder(source, target, threads=1)
    x = numbers(shape).reshape(-1)
    expected, found = (np.full(target.extent, np.nan, np.float32) for _ in range(2))
    kernel(x, expected)
    row = [threads, kernel.address, x.ctypes.data, found.ctypes.data, 0, 1]
    assert walked([row]) == 1
    assert np.array_equal(found, expected) and not np.isnan(found).any()


def test_lent_memory_is_written_where_it_is_needed_by_address_and_by_array():
    seen: list[tuple[int, int]] = []

    def note(a: int, b: int, c: int, d: int) -> int:
        seen.append((a, b))
        return 0

    function = CFUNCTYPE(c_int, c_int64, c_int64, c_int, c_int64)(note)
    records = np.array([[CALL_WITH_STATUS, address(function), k, -1, 0, 0, 0] for k in range(3)], np.int64)
    first = records.ctypes.data
    patches = np.array(
        [[first + 8 * (RECORD_FIELDS * k + ARGUMENT_B), k % 2, 4 * k] for k in range(3)], np.int64
    )
    arrays = numbers((5,)), numbers((7,))[2:]
    addresses = [array.ctypes.data for array in arrays]
    expected = [(0, addresses[0]), (1, addresses[1] + 4), (2, addresses[0] + 8)]
    lent = np.array(addresses, np.int64)
    step_driver().lend(patches.ctypes.data, 3, lent.ctypes.data)
    assert records[:, ARGUMENT_B].tolist() == [place for _, place in expected] and seen == []
    records[:, ARGUMENT_B] = 0
    assert finds_elements()
    lent[:] = [id(array) for array in arrays]
    words = np.zeros(2, np.int64)  # where loops note an index outside of its dim
    notes = words.ctypes.data + np.array([0, 8])
    block = np.array([patches.ctypes.data, 3, lent.ctypes.data, first, 3, notes.ctypes.data, 2], np.int64)
    assert step_driver().run(block.ctypes.data) == 3
    assert seen == expected
    words[1] = 1
    assert step_driver().run(block.ctypes.data) == INDEX_OUT_OF_RANGE
