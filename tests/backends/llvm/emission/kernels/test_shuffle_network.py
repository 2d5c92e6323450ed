"""The network transposes K x K elements in every lane of K registers, whatever K and however many lanes."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.llvm.emission.kernels.shuffle_network import joined, transposed
from layout_ir.backends.llvm.emission.llvm_builder import Builder
from tests.backends.llvm.emission.bodies import run


def _network(
    per_lane: int, lanes: int, *, missing: tuple[int, ...] = ()
) -> tuple[np.ndarray, np.ndarray, Builder]:
    """Registers before and after, as arrays (register, lane, element)."""
    width = 16 // per_lane
    element, size = f"i{8 * width}", lanes * per_lane
    b = Builder()
    registers = [
        "poison" if k in missing else b.load(f"<{size} x {element}>", "%src", 16 * lanes * k)
        for k in range(per_lane)
    ]
    for k, register in enumerate(transposed(b, element, registers, lanes)):
        if register != "poison":
            b.store(f"<{size} x {element}>", register, "%dst", 16 * lanes * k)
    kind = np.dtype(f"u{width}")
    before = np.arange(per_lane * size, dtype=kind).reshape(per_lane, lanes, per_lane)
    after = np.zeros_like(before)
    run(b, before, after)
    return before, after, b


@pytest.mark.parametrize("per_lane", [2, 4, 8, 16])
@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_rows_and_columns_of_every_lane_change_places(per_lane: int, lanes: int):
    before, after, b = _network(per_lane, lanes)
    assert np.array_equal(after, before.transpose(2, 1, 0))
    shuffles = sum("shufflevector" in line for line in b.lines)
    assert shuffles == per_lane * (per_lane.bit_length() - 1)  # K in each of log2 K levels


def test_elements_of_registers_that_are_there_arrive_without_the_others():
    before, after, b = _network(8, 2, missing=(2, 3, 6, 7))
    there = [0, 1, 4, 5]
    assert np.array_equal(after[:, :, there], before.transpose(2, 1, 0)[:, :, there])
    assert sum("shufflevector" in line for line in b.lines) < 8 * 3


def test_two_registers_are_joined_one_behind_the_other():
    b = Builder()
    low, high = (b.load("<4 x i32>", "%src", 16 * k) for k in range(2))
    b.store("<8 x i32>", joined(b, "i32", low, high, 4), "%dst")
    b.store("<8 x i32>", joined(b, "i32", "poison", high, 4), "%dst", 32)
    src, dst = np.arange(1, 9, dtype=np.int32), np.zeros(16, np.int32)
    run(b, src, dst)
    assert dst[:8].tolist() == src.tolist() and dst[12:].tolist() == src[4:].tolist()


def test_negative_nothing_is_emitted_for_what_nobody_reads():
    b = Builder()
    assert joined(b, "i32", "poison", "poison", 4) == "poison"
    assert transposed(b, "i32", ["poison"] * 4, 1) == ["poison"] * 4
    assert b.lines == []
