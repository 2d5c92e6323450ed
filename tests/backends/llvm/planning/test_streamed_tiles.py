"""Other orders of lines that are streamed move the same bytes once each, and are taken where the profile says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.streamed_tiles import streamed_orders
from layout_ir.backends.llvm.planning.tiles import move_tile
from layout_ir.dialects.kernel.plan import Axis, Loop, Plan, Staged, Step, Tile
from layout_ir.dialects.kernel.plan_verifier import check_plan
from tests.backends.llvm.planning.plans import WIDE, steps_of
from tests.plan_evaluation import evaluate

SCATTERED = replace(WIDE, measured=replace(WIDE.profile, streamed_jump_ns=2.0))
"""Where lines that are streamed to many places cost as much again."""

ZEN3 = Machine("x86_64-unknown-linux-gnu", "znver3", "", 32, 32 << 10, 512 << 10, 32 << 20)


def _transposition(rows: int, cols: int, width: int) -> Step:
    tile = move_tile(Loop(rows, width * cols, width), Axis(cols, width * rows), width, WIDE)
    return Step((), 0, 0, replace(tile, streaming=True))


@pytest.mark.parametrize(
    "rows, cols, width, has_bands",
    [
        (64, 96, 4, False), (16, 33, 4, False), (48, 95, 4, False), (32, 64, 2, False), (64, 71, 2, False),
        (64, 192, 1, False),
        (96, 64, 4, True), (80, 40, 4, True), (160, 33, 2, True), (320, 37, 1, True), (64, 48, 8, True),
    ],
)  # fmt: skip
def test_every_order_moves_the_same_bytes(rows: int, cols: int, width: int, has_bands: bool):
    step = _transposition(rows, cols, width)
    size = rows * cols * width
    found = evaluate(Plan(width, size, size, (step,)))
    orders = list(streamed_orders(step, WIDE))
    assert any(isinstance(part.kernel, Staged) for parts in orders for part in parts) or has_bands
    assert len(_bands(step)) == has_bands
    for parts in orders:
        plan = Plan(width, size, size, tuple(parts))
        check_plan(plan)
        moved = evaluate(plan)
        assert moved.writes == size and dict(moved) == dict(found)


def test_a_buffer_holds_a_quarter_of_l1_and_each_load_prefetches_the_next_block():
    [whole, rest] = next(x for x in streamed_orders(_transposition(64, 100, 4), WIDE) if len(x) > 1)
    assert isinstance(whole.kernel, Staged) and isinstance(rest.kernel, Staged)
    assert (whole.kernel.size, rest.kernel.size) == (32 * 256, 4 * 256)
    tile = whole.kernel.steps[0].kernel
    assert isinstance(tile, Tile) and tile.prefetch_distance == 32 * 4


def test_negative_columns_that_overfill_the_buffer_stay_tiles():
    step = _transposition(256, 96, 4)
    assert not any(isinstance(part.kernel, Staged) for x in streamed_orders(step, WIDE) for part in x)


def _bands(step: Step, machine: Machine = WIDE) -> list[Step]:
    """The orders of `step` whose innermost loop prefetches its next iteration."""
    steps = [step for parts in streamed_orders(step, machine) for step in parts]
    return [step for step in steps if step.prefetch is not None and step.prefetch == len(step.loops) - 1]


@pytest.mark.parametrize("rows, lines", [(96, 2), (80, 1)])
def test_bands_are_intervals_of_the_source_and_write_whole_lines(rows: int, lines: int):
    [band] = _bands(_transposition(rows, 40, 4))
    loop, tile = band.loops[-1], band.kernel
    assert isinstance(loop, Loop) and isinstance(tile, Tile)
    assert loop.src == tile.rows.count * 160 == lines * 16 * 160
    assert loop.dst == tile.rows.count * 4 == lines * 64
    assert loop.count * tile.rows.count == rows and tile.streaming


def test_negative_rows_with_something_between_them_are_in_no_bands():
    tile = move_tile(Loop(96, 176, 4), Axis(40, 4 * 96), 4, WIDE)
    assert isinstance(tile, Tile)
    assert not _bands(Step((), 0, 0, replace(tile, streaming=True)))


def test_negative_few_rows_and_very_long_ones_are_in_no_bands():
    assert not _bands(_transposition(64, 40, 4))
    assert not _bands(_transposition(96, 1 << 15, 4), replace(WIDE, l3=1 << 20))


def test_in_memory_short_rows_are_moved_in_bands():
    [step] = steps_of("nhwc", "nchw", (96, 64, 56, 56), machine=ZEN3)
    assert step.prefetch == len(step.loops) - 1 == 1


def test_negative_in_the_last_level_short_rows_are_in_no_bands():
    [step] = steps_of("nhwc", "nchw", (4, 64, 56, 56), machine=ZEN3)
    assert len(step.loops) == 1


def test_negative_what_is_not_streamed_has_no_other_order():
    step = _transposition(64, 96, 4)
    assert isinstance(step.kernel, Tile)
    assert not list(streamed_orders(replace(step, kernel=replace(step.kernel, streaming=False)), WIDE))


def _is_staged(machine: Machine) -> bool:
    steps = steps_of("nchw", "nhwc", (24, 64, 56, 56), machine=machine)
    assert all(step.kernel.streaming for step in steps)
    return any(isinstance(step.kernel, Staged) for step in steps)


def test_scattered_lines_go_through_a_buffer_where_they_cost_more():
    assert _is_staged(SCATTERED)


def test_negative_lines_stay_in_tiles_where_scattered_ones_cost_nothing():
    assert not _is_staged(WIDE)
