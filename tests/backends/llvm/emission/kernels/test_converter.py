"""Tiles that convert, in registers narrower than a line."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.llvm.runtime.call import load
from layout_ir.dialects.kernel.plan import Axis, Blocking, Plan, Step, Tile
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.cases import machine_here


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("high", [18, 32, 34, 36])
def test_columns_of_half_bytes_are_whole_bytes(cpu: str, high: int):
    """A tile of more registers than there are goes in parts, none of which ends inside a byte."""
    machine = machine_here(cpu)
    rows, cols = 2 * high, 24
    tile = Tile(1, Axis(rows, cols), Axis(cols, rows), (Blocking("rows", high), Blocking("cols", 8)))
    size = rows * cols
    plan = Plan(1, size, size // 2, (Step((), 0, 0, tile, 0),), Conversion("ui8", "ui4"))
    x = np.random.default_rng(high).integers(0, 20, (rows, cols), np.uint8)
    packed = np.zeros(size // 2, np.uint8)
    load(plan, machine)(x.ctypes.data, packed.ctypes.data)
    found = np.stack([packed & 15, packed >> 4], axis=1).reshape(cols, rows)
    assert np.array_equal(found, np.minimum(x.T, 15))
