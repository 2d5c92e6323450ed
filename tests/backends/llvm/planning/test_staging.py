"""Staging buffers: what goes through them arrives, rows begin in their lines as they should, and they fit the stack."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.out_of_cache import out_of_cache
from layout_ir.backends.llvm.planning.staging import (
    buffer_bound,
    copied_tiles,
    stack_bytes,
    staged_copies,
    staged_rows,
    staged_tiles,
    staging_size,
)
from layout_ir.backends.llvm.planning.tiles import move_tile
from layout_ir.dialects.kernel.plan import Axis, Copy, Kernel, Loop, Plan, Staged, Step, Tile
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.symbolic.shape_env import ShapeEnv
from layout_ir.symbolic.symint import dynamic_extent
from tests.backends.llvm.planning.plans import NARROW, WIDE, steps_of, tile_of
from tests.plan_evaluation import Moved, evaluate

AVX2 = replace(WIDE, cpu="x86-64-v3", vector=32)


def _transposition(rows: int, cols: int) -> Step:
    """Of a matrix of f32, in a square tile."""
    return Step((), 0, 0, move_tile(Loop(rows, 4 * cols, 4), Axis(cols, 4 * rows), 4, WIDE))


@pytest.mark.parametrize("rows, cols", [(513, 65), (515, 64), (530, 83), (544, 81)])
def test_blocks_of_rows_and_columns_are_the_whole_transposition(rows: int, cols: int):
    steps = staged_rows(_transposition(rows, cols))
    assert steps is not None
    plan = Plan(4, 4 * rows * cols, 4 * rows * cols, tuple(steps))
    check_plan(plan)
    found = evaluate(plan)
    assert len(found) == found.writes == 4 * rows * cols
    for row in range(0, rows, 7):
        for col in range(cols):
            assert found[4 * (col * rows + row)] == Moved(4 * (row * cols + col), 0, 0)


def test_rows_begin_in_their_lines_as_in_the_destination():
    for step in staged_rows(_transposition(541, 130)) or []:
        staged = step.kernel
        assert isinstance(staged, Staged)
        assert staged.row_stride % 64 == staged.dst_stride % 64
        assert staged.row_stride >= staged.size + 64  # a line that waits, and does not reach the next row
        assert stack_bytes(Plan(4, 1, 1, (step,)), WIDE) >= staged.extent + 64


@pytest.mark.parametrize("rows, cols", [(511, 64), (512, 63)])
def test_negative_short_rows_and_few_columns_are_not_staged(rows: int, cols: int):
    assert staged_rows(_transposition(rows, cols)) is None
    assert staged_rows(_transposition(512, 64)) is not None


def test_negative_elements_that_are_not_loaded_by_lines_are_not_staged():
    step = _transposition(600, 100)
    assert isinstance(step.kernel, Tile)
    assert staged_rows(replace(step, kernel=replace(step.kernel, square=False))) is None
    assert staged_rows(replace(step, kernel=Copy(4))) is None


def test_a_buffer_is_the_largest_of_those_that_a_plan_needs():
    plan = Plan(4, 1, 1, tuple(Step((), 0, 0, Staged(size, ())) for size in (512, 4096, 1024)))
    assert 4096 + 64 < stack_bytes(plan, WIDE) <= 4096 + 128
    assert stack_bytes(replace(plan, steps=(Step((), 0, 0, Copy(4)),)), WIDE) == 0
    assert staging_size(WIDE) <= WIDE.l2 // 4 and staging_size(NARROW) < staging_size(WIDE)


def test_a_symbolic_buffer_has_a_bound_that_holds_for_the_hint():
    for hint in (1, 1000, 65536, 1 << 20):
        extent = dynamic_extent(ShapeEnv(), 0, "n", hint)
        bound = buffer_bound(extent, WIDE)
        assert type(bound) is int and bound >= max(hint, staging_size(WIDE))
    assert buffer_bound(12, WIDE) == 12


def test_long_rows_that_begin_anywhere_in_a_line_are_staged_block_after_block():
    assert tile_of("ab", "ba", (2080, 2112)).streaming
    step = steps_of("ab", "ba", (2081, 2112))[0]
    staged = step.kernel
    assert step.loops == (Loop(33, 256, 532736),)
    assert isinstance(staged, Staged) and staged.streaming
    assert (staged.size, staged.rows, staged.dst_stride) == (128, 64, 4 * 2081)
    assert (staged.iterations, staged.src_stride) == (64, 32 * 4 * 2112)
    # A row begins in its line of the buffer as it does in that of the destination.
    assert (staged.row_stride - staged.dst_stride) % 64 == 0
    [inner] = staged.steps
    assert isinstance(inner.kernel, Tile) and inner.kernel.prefetch_distance == staged.src_stride


def test_negative_short_rows_are_staged_at_once():
    for step in steps_of("ab", "ba", (301, 9000)):
        assert not isinstance(step.kernel, Staged) or step.kernel.iterations == 1


def _narrow_transposition(width: int, rows: int, cols: int) -> Step:
    """Of a matrix of elements of `width` bytes, in tiles that read parts of lines."""
    return Step((), 0, 0, move_tile(Loop(rows, width * cols, width), Axis(cols, width * rows), width, WIDE))


@pytest.mark.parametrize("width, rows, cols", [(1, 64, 64), (1, 300, 130), (2, 128, 96), (2, 77, 41)])
def test_blocks_that_are_copied_first_are_the_whole_transposition(width: int, rows: int, cols: int):
    orders = list(copied_tiles(_narrow_transposition(width, rows, cols), WIDE))
    assert orders
    for steps in orders:
        plan = Plan(width, width * rows * cols, width * rows * cols, tuple(steps))
        check_plan(plan)
        found = evaluate(plan)
        assert len(found) == width * rows * cols
        for row in range(0, rows, 7):
            for col in range(cols):
                assert found[width * (col * rows + row)] == Moved(width * (row * cols + col), 0, 0)


def test_whole_lines_of_the_source_are_read_into_the_buffer_two_of_each_row_where_half_of_l1_is_full():
    copies: list[Kernel] = []
    for [step] in copied_tiles(_narrow_transposition(1, 2048, 2048), WIDE):
        assert isinstance(step.kernel, Staged)
        [copy] = step.kernel.steps
        copies.append(copy.kernel)
    blocks = (64, 64), (256, 64), (128, 128)
    assert copies == [Copy(size, Loop(rows, 2048, size)) for rows, size in blocks for _ in range(2)]


def test_negative_of_few_rows_only_blocks_of_a_line_are_copied():
    orders = list(copied_tiles(_narrow_transposition(1, 100, 2048), WIDE))
    for steps in orders:
        for step in steps:
            assert isinstance(step.kernel, Staged)
            [copy] = step.kernel.steps
            assert isinstance(copy.kernel, Copy) and copy.kernel.run == 64
    assert len(orders) == 2


def test_all_lines_of_a_block_go_to_one_row_of_the_destination_before_the_next():
    for [step] in copied_tiles(_narrow_transposition(1, 2048, 2048), WIDE):
        assert isinstance(step.kernel, Staged)
        [tile] = step.kernel.then
        assert isinstance(tile.kernel, Tile)
        if tile.kernel.rows.count > tile.kernel.block("rows"):
            assert [blocking.axis for blocking in tile.kernel.schedule] == ["cols", "rows"]


@pytest.mark.parametrize("rows, cols", [(64, 64), (65, 81), (150, 130)])
def test_blocks_of_whole_lines_that_are_copied_first_are_the_whole_transposition(rows: int, cols: int):
    step = _transposition(rows, cols)
    [steps] = copied_tiles(step, WIDE)
    size = 4 * rows * cols
    plan = Plan(4, size, size, tuple(steps))
    check_plan(plan)
    assert dict(evaluate(plan)) == dict(evaluate(Plan(4, size, size, (step,))))


def test_tiles_that_read_whole_lines_write_four_to_each_of_few_rows_from_a_buffer():
    [[step]] = copied_tiles(_transposition(512, 1024), WIDE)
    assert isinstance(step.kernel, Staged)
    [copy], [then] = step.kernel.steps, step.kernel.then
    assert copy.kernel == Copy(256, Loop(64, 4096, 256))
    assert isinstance(then.kernel, Tile) and then.kernel.rows.count == 64
    assert [(x.axis, x.size) for x in then.kernel.schedule] == [("cols", 4), ("rows", 16)]


@pytest.mark.parametrize("rows, cols", [(63, 64), (64, 63)])
def test_negative_fewer_than_four_lines_of_either_side_are_not_copied_first(rows: int, cols: int):
    assert not list(copied_tiles(_transposition(rows, cols), WIDE))


def test_negative_tiles_that_write_parts_of_lines_or_few_of_them_need_no_copy():
    half = Step((), 0, 0, move_tile(Loop(16, 1024, 2), Axis(512, 32), 2, WIDE))  # half lines are written
    assert not list(copied_tiles(half, WIDE))
    assert not list(copied_tiles(_narrow_transposition(1, 63, 64), WIDE))
    assert not list(copied_tiles(Step((), 0, 0, Copy(64)), WIDE))


def test_rows_that_are_powers_of_two_apart_are_copied_first_and_those_beside_them_are_not():
    zen3 = replace(AVX2, cpu="znver3", l2=512 << 10)

    def copied(rows: int, cols: int) -> bool:
        step = steps_of("ab", "ba", (rows, cols), machine=zen3)[0]
        return isinstance(step.kernel, Staged) and bool(step.kernel.then)

    assert copied(1024, 512) and copied(512, 1024)
    assert not any(copied(rows, cols) for rows, cols in ((1008, 512), (1040, 512), (512, 1008), (512, 1040)))


def test_bytes_whose_rows_are_powers_of_two_apart_are_copied_first():
    step = steps_of("ab", "ba", (2048, 2048), "ui8")[0]
    assert isinstance(step.kernel, Staged) and step.kernel.then


@pytest.mark.parametrize(
    "rows, cols, width",
    [(256, 8, 4), (400, 8, 4), (144, 20, 4), (72, 40, 8), (288, 40, 2), (640, 70, 1), (1088, 64, 1)],
)
def test_blocks_of_any_tiles_over_a_buffer_are_the_whole_transposition(rows: int, cols: int, width: int):
    size = rows * cols * width
    step = Step((), 0, 0, move_tile(Loop(rows, width * cols, width), Axis(cols, width * rows), width, AVX2))
    steps = staged_tiles(out_of_cache(step, ElementPair(width, width), AVX2))
    assert steps is not None
    plan = Plan(width, size, size, tuple(steps))
    check_plan(plan)
    moved = evaluate(plan)
    assert dict(moved) == dict(evaluate(Plan(width, size, size, (step,))))


def test_negative_rows_of_the_destination_that_are_short_or_no_whole_lines_are_not_staged_in_tiles():
    for rows, cols in ((112, 8), (260, 8)):
        tile = move_tile(Loop(rows, 4 * cols, 4), Axis(cols, 4 * rows), 4, AVX2)
        assert staged_tiles(Step((), 0, 0, tile)) is None


def test_blocks_of_channels_go_to_planes_in_one_set_over_a_buffer_where_streams_wait_for_it():
    def kernel(waiting: float, plane: int) -> Kernel:
        zen3 = replace(AVX2, cpu="znver3", l2=512 << 10)
        machine = replace(zen3, measured=replace(zen3.profile, streamed_conflict_ns=waiting))
        return steps_of("aBcd8b", "abcd", (8, 128, plane // 128, 128), machine=machine)[0].kernel

    kernels = kernel(8.0, 128 * 128), kernel(0.0, 128 * 128), kernel(8.0, 130 * 128)
    assert [isinstance(x, Staged) for x in kernels] == [True, False, False]
    assert all(x.streaming for x in kernels)


def _half_lines_of_planes(rows: int, planes: int) -> Step:
    """Half lines, of as many planes by turns, each with `rows` of them."""
    return Step((Loop(rows, 32, 32 * planes),), 0, 0, Copy(32, Loop(planes, 32 * rows, 32)))


@pytest.mark.parametrize("rows, planes", [(40, 32), (43, 6), (17, 2), (20, 64)])
def test_blocks_of_copies_over_a_buffer_fill_intervals_of_the_destination(rows: int, planes: int):
    step, size = _half_lines_of_planes(rows, planes), 32 * rows * planes
    steps = staged_copies(step, WIDE)
    assert steps is not None and all(isinstance(x.kernel, Staged) for x in steps)
    plan = Plan(1, size, size, tuple(steps))
    check_plan(plan)
    assert dict(evaluate(plan)) == dict(evaluate(Plan(1, size, size, (step,))))


def test_negative_copies_that_fill_no_lines_or_more_than_l1_has_room_for_go_where_they_go():
    assert staged_copies(_half_lines_of_planes(40, 66), WIDE) is None
    assert staged_copies(_half_lines_of_planes(40, 3), WIDE) is None
    whole = Step((Loop(40, 64, 256),), 0, 0, Copy(64, Loop(4, 64 * 40, 64)))
    assert staged_copies(whole, WIDE) is None


def test_half_lines_of_many_planes_in_memory_are_streamed_over_a_buffer():
    def kernel(batch: int) -> Kernel:
        return steps_of("aBcd8b", "acdb", (batch, 256, 56, 56), machine=AVX2)[0].kernel

    large, small = kernel(8), kernel(1)
    assert isinstance(large, Staged) and large.streaming
    assert isinstance(small, Copy)
