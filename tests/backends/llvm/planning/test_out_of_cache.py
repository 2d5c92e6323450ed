"""Orders and prefetches for what memory streams: the same moves, and prefetches of what is read next."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.out_of_cache import (
    copy_in_source_order,
    out_of_cache,
    prefetching,
    streamed_tile,
)
from layout_ir.backends.llvm.planning.tiles import move_tile
from layout_ir.dialects.kernel.plan import Axis, Copy, Loop, Step, TableLoop, Tile, read_volume
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.planning.plans import WIDE, of_steps, step_of, tile_of
from tests.plan_evaluation import Moved, evaluate


def _read(step: Step) -> set[int]:
    """The bytes of the source that `step` reads."""
    found = evaluate(of_steps(step, width=4)).values()
    return {int(what.place) for what in found if isinstance(what, Moved)}


@pytest.mark.parametrize("width", [1, 2, 4])
def test_schedules_change_the_order_only(width: int):
    for rows, cols in product((5, 16, 70), (5, 64, 90)):
        tile = move_tile(Loop(rows, cols * width, width), Axis(cols, rows * width), width, WIDE)
        size = 3 * rows * cols * width
        step = Step((Loop(3, size // 3, size // 3),), 0, 0, tile)
        other = out_of_cache(step, ElementPair(width, width), WIDE)
        assert evaluate(of_steps(other)) == evaluate(of_steps(step))
        check_plan(of_steps(other, width=width, size=size))


def test_copies_of_lines_go_through_the_source_as_it_lies():
    step = Step((Loop(3, 64, 4096), Loop(4, 1024, 256)), 0, 0, Copy(64, Loop(5, 192, 20480)))
    ordered = copy_in_source_order(step, ElementPair(4, 4))
    assert evaluate(of_steps(ordered)) == evaluate(of_steps(step))
    assert isinstance(ordered.kernel, Copy)
    strides = [loop.src for loop in (*ordered.loops, ordered.kernel.inner) if isinstance(loop, Loop)]
    assert strides == [1024, 192, 64]


def test_negative_parts_of_a_line_stay_together_and_tables_where_they_are():
    part = Copy(16, Loop(4, 4096, 16))
    ordered = copy_in_source_order(Step((Loop(3, 64, 1024),), 0, 0, part), ElementPair(4, 4))
    assert ordered.kernel == part
    table = Step((TableLoop((0, 4096), (64, 0)), Loop(3, 64, 1024)), 0, 0, Copy(64))
    assert copy_in_source_order(table, ElementPair(4, 4)) == table
    assert out_of_cache(table, ElementPair(4, 4), WIDE).kernel == Copy(64)


def test_a_loop_prefetches_what_its_next_iteration_reads():
    copy = Copy(1024, Loop(3, 1024, 5000))
    step = prefetching(Step((Loop(2, 1 << 16, 1 << 16), Loop(4, 3072, 64)), 0, 0, copy), WIDE)
    assert step.prefetch == 1
    volume = read_volume(step.kernel)
    first = _read(replace(step, loops=(), kernel=step.kernel))
    following = _read(replace(step, loops=(), src=3072))
    assert following == {place + volume for place in first} and max(first) + 1 == min(following)


def test_a_loop_of_short_iterations_leaves_it_to_the_one_around_it():
    step = Step((Loop(8, 4096, 1 << 16), Loop(4, 1024, 64)), 0, 0, Copy(1024))
    assert prefetching(step, WIDE).prefetch == 0


def test_negative_iterations_that_are_apart_or_larger_than_the_cache_prefetch_nothing():
    assert prefetching(Step((Loop(8, 4096 + 513, 64),), 0, 0, Copy(4096)), WIDE).prefetch is None
    assert prefetching(Step((Loop(8, 4095, 64),), 0, 0, Copy(4096)), WIDE).prefetch is None
    assert prefetching(Step((Loop(8, 1 << 20, 64),), 0, 0, Copy(1 << 20)), WIDE).prefetch is None
    assert prefetching(Step((TableLoop((0, 4096), (0, 64)),), 0, 0, Copy(4096)), WIDE).prefetch is None


def test_small_gaps_between_iterations_are_prefetched_with_them():
    assert prefetching(Step((Loop(8, 4096 + 512, 64),), 0, 0, Copy(4096)), WIDE).prefetch == 0


def test_an_iteration_prefetches_where_l2_holds_two_of_them_and_what_one_writes():
    for size, streaming in ((WIDE.l2 // 3, False), (WIDE.l2 // 2, True)):
        copy = Copy(size, streaming=streaming)
        assert prefetching(Step((Loop(8, size, size),), 0, 0, copy), WIDE).prefetch == 0


def test_negative_what_l2_does_not_hold_so_is_not_prefetched():
    for size, streaming in ((WIDE.l2 // 3 + 1, False), (WIDE.l2 // 2 + 1, True)):
        copy = Copy(size, streaming=streaming)
        assert prefetching(Step((Loop(8, size, size),), 0, 0, copy), WIDE).prefetch is None


def test_negative_half_bytes_are_not_prefetched():
    pair = ElementPair.of(Conversion("f32", "i8"))
    packed = ElementPair.of(Conversion("i4", "f32"))
    step = Step((), 0, 0, move_tile(Loop(64, 40_000, 1), Axis(10_000, 64), 1, WIDE))
    tile = out_of_cache(step, pair, WIDE).kernel
    assert isinstance(tile, Tile) and tile.prefetch_distance > 0
    assert out_of_cache(step, packed, WIDE) == step


def test_pixels_of_few_lines_are_prefetched():
    tile = tile_of("nhwc", "nchw", (96, 64, 56, 56))
    assert [(x.axis, x.size) for x in tile.schedule] == [("rows", 64), ("cols", 16), ("rows", 16)]
    assert (tile.prefetch_distance, tile.square, tile.streaming) == (64 * 256, True, True)


def test_rows_that_share_a_cache_set_are_read_a_line_at_a_time():
    tile = tile_of("ab", "ba", (4096, 4096))
    assert [(x.axis, x.size) for x in tile.schedule] == [("rows", 64), ("cols", 16), ("rows", 16)]
    assert (tile.prefetch_distance, tile.square, tile.streaming) == (256, True, True)


@pytest.mark.parametrize(
    "row, crowded", [(1024, True), (3072, True), (512, False), (3136, False), (2112, False)]
)
def test_rows_that_overfill_the_sets_of_their_stride_are_read_a_line_at_a_time(row: int, crowded: bool):
    tile = move_tile(Loop(4096, row, 4), Axis(row // 4, 4 * 4096), 4, WIDE)
    step = streamed_tile(Step((), 0, 0, tile), tile, WIDE)
    assert isinstance(step.kernel, Tile)
    assert step.kernel.square == crowded == bool(step.kernel.prefetch_distance)


def test_negative_long_rows_that_are_followed_are_read_16_at_a_time():
    tile = move_tile(Loop(64, 50176, 4), Axis(12544, 256), 4, WIDE)  # 16 lines of 64 rows share a set
    step = streamed_tile(Step((Loop(8, 64 * 50176, 64 * 50176),), 0, 0, tile), tile, WIDE)
    assert isinstance(step.kernel, Tile)
    assert [blocking.axis for blocking in step.kernel.schedule] == ["rows", "cols"]


def test_negative_few_rows_have_room_in_any_sets():
    tile = move_tile(Loop(16, 1024, 4), Axis(256, 64), 4, WIDE)
    step = streamed_tile(Step((Loop(64, 1 << 14, 1 << 14),), 0, 0, tile), tile, WIDE)
    assert isinstance(step.kernel, Tile) and not step.kernel.square


def test_rows_whose_columns_are_pages_apart_are_prefetched_by_their_loop():
    step = step_of("ab", "ba", (4160, 4160))
    assert step.loops == (Loop(260, 16 * 4 * 4160, 64),)
    assert (step.parallel, step.prefetch, step.kernel.streaming) == (0, 0, True)


def test_copies_of_whole_lines_follow_a_large_source():
    step = step_of("nhwc", "nChw16c", (42, 64, 56, 56))
    assert step.loops == (Loop(42, 802816, 802816), Loop(3136, 256, 64))
    assert step.kernel == Copy(64, Loop(4, 64, 200704), streaming=True)
