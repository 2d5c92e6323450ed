"""Rows of elements, by address: four-bit integers share bytes and leave their neighbours alone."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given

from layout_ir.arrays.storage import allocate, gather, scatter
from tests.layouts import rngs


@pytest.mark.parametrize("dtype", ["i4", "ui4"])
@given(rng=rngs)
def test_four_bit_integers_are_packed_low_half_first(rng: Random, dtype: str):
    count = rng.randint(1, 60)
    row = allocate(-(-count // 2), dtype)
    row[:] = np.frombuffer(rng.randbytes(row.size), np.uint8)
    before = int.from_bytes(row.tobytes(), "little")
    where = rng.sample(range(count), rng.randint(1, count))
    values = [rng.randrange(16) if dtype == "ui4" else rng.randrange(-8, 8) for _ in where]
    scatter(row, np.array(where), np.array(values), dtype)
    assert gather(row, np.array(where), dtype).tolist() == values
    # The row as one number, of which address a has bits 4 a to 4 a + 3.
    after = before
    for address, value in zip(where, values, strict=True):
        after = after & ~(15 << 4 * address) | (value & 15) << 4 * address
    assert int.from_bytes(row.tobytes(), "little") == after
