"""Micro-kernels whose numbers fit together, and beside each what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layout_ir.dialects.kernel.micro_kernel_verifier import PlanError
from layout_ir.dialects.kernel.plan import (
    Axis,
    Blocking,
    Copy,
    Fill,
    Interleave,
    Kernel,
    Plan,
    Staged,
    Step,
    Tile,
)
from layout_ir.dialects.kernel.plan_verifier import check_plan


def _of(kernel: Kernel, width: int = 4) -> Plan:
    return Plan(width, 1 << 16, 1 << 16, (Step((), 0, 0, kernel),))


def test_negative_a_tile_fits_its_axes_and_its_registers():
    tile = Tile(4, Axis(16, 64), Axis(16, 64), (Blocking("rows", 8), Blocking("cols", 16)))
    check_plan(_of(tile))
    with pytest.raises(PlanError, match="the last block of rows is the tile, of 1 to 16, not 32"):
        check_plan(_of(replace(tile, schedule=(Blocking("rows", 32), Blocking("cols", 16)))))
    with pytest.raises(PlanError, match="16 columns are no whole folds of 3"):
        check_plan(_of(replace(tile, cols=replace(tile.cols, fold=3))))
    with pytest.raises(PlanError, match="elements have 1, 2, 4 or 8 bytes, not 16"):
        check_plan(_of(replace(tile, width=16)))


def test_negative_an_interleave_moves_no_more_at_a_time_than_its_ways_have():
    kernel = Interleave(4, ways=2, count=16, stride=64, inverse=False, block=8)
    check_plan(_of(kernel))
    with pytest.raises(PlanError, match="a block of 32 elements does not fit ways of 16"):
        check_plan(_of(replace(kernel, block=32)))
    with pytest.raises(PlanError, match="ways is 0, at least 1 is needed"):
        check_plan(_of(replace(kernel, ways=0)))


def test_negative_a_staging_buffer_that_is_emptied_by_steps_is_one_row():
    inner = Step((), 0, 0, Copy(64), parallel=-1)
    rows = Staged(64, (inner,), rows=1, row_stride=128, then=(inner,))
    with pytest.raises(PlanError, match="has one row"):
        check_plan(Plan(4, 64, 64, (Step((), 0, 0, rows),)))


def test_pads_of_eight_bytes_keep_their_bits():
    check_plan(Plan(8, 0, 64, (Step((), 0, 0, Fill(8, 0xFFF0_0000_0000_0000, 64)),)))
