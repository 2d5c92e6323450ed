"""What is decided for known pairs; what plans mean is `tests.test_plan_evaluation`'s business."""

from __future__ import annotations

from dataclasses import replace
from operator import index

import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.planner import candidates, make_plan, streams
from layout_ir.dialects.kernel.plan import (
    Axis,
    Copy,
    Fill,
    Interleave,
    Loop,
    PaddedCopy,
    Staged,
    Step,
    TableLoop,
    Tile,
)

WIDE = Machine("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 32 << 10, 1 << 20, 32 << 20)
NARROW = Machine("aarch64-unknown-linux-gnu", "generic", "", 16, 32 << 10, 512 << 10, 8 << 20)


def _steps(
    src: str, dst: str, shape: tuple[int, ...], dtype: str = "f32", machine: Machine = WIDE
) -> tuple[Step, ...]:
    plan = plan_reorder(Format.of(src).bind(shape), Format.of(dst).bind(shape), dtype, target=machine)
    return plan.steps


def _step(src: str, dst: str, shape: tuple[int, ...], dtype: str = "f32", machine: Machine = WIDE) -> Step:
    """The only step of the plan."""
    [step] = _steps(src, dst, shape, dtype, machine)
    return step


def _tile(src: str, dst: str, shape: tuple[int, ...], dtype: str = "f32", machine: Machine = WIDE) -> Tile:
    """The tile of the only step."""
    tile = _step(src, dst, shape, dtype, machine).kernel
    assert isinstance(tile, Tile)
    return tile


def _blocks(tile: Tile) -> tuple[int, int]:
    return index(tile.block("rows")), index(tile.block("cols"))


def test_equal_layouts_are_one_copy():
    assert _steps("nchw", "nchw", (2, 3, 4, 5)) == (Step((), 0, 0, Copy(480)),)


def test_dims_that_stay_together_are_one_loop():
    step = _step("nchw", "nhwc", (2, 64, 7, 8))
    assert step.loops == (Loop(2, 14336, 14336),)
    assert isinstance(step.kernel, Tile)
    assert (step.kernel.rows, step.kernel.cols) == (Axis(64, 224), Axis(56, 256))
    assert step.parallel == 1  # the tile's own loop: two images are few


def test_negative_rows_that_crowd_sets_of_the_first_level_are_loaded_whole():
    # Of 16 lines 2 KiB apart eight are in one set, which has eight ways; of those 1 KiB apart four.
    assert _tile("ab", "ba", (256, 512)).square
    assert _tile("ab", "ba", (512, 256)).square
    assert not _tile("ab", "ba", (256, 256)).square
    assert not _tile("ab", "ba", (512, 49)).square
    wide = replace(WIDE, l1=48 << 10)
    assert not _tile("ab", "ba", (256, 512), machine=wide).square


def test_registers_of_another_machine_give_another_tile():
    assert _blocks(_tile("nchw", "nhwc", (2, 64, 7, 8))) == (16, 4)
    assert _blocks(_tile("nchw", "nhwc", (2, 64, 7, 8), machine=NARROW)) == (4, 4)


def test_a_run_of_half_a_lane_moves_as_one_element():
    # Two bytes of a pixel stay together: a transposition of 16-bit elements.
    assert _tile("(a, b, c) : [a, b, c]", "(a, b, c) : [b, a, c]", (64, 32, 2), "i8").width == 2


def test_pads_that_share_a_block_are_written_with_it():
    whole, part = _steps("nchw", "nChw8c", (1, 17, 4, 4))
    assert isinstance(whole.kernel, Tile) and not whole.kernel.valid
    assert isinstance(part.kernel, Tile) and (part.kernel.rows.count, part.kernel.valid) == (8, 1)


def test_negative_pads_behind_whole_blocks_are_filled_apart():
    fill = _steps("nc", "(n, c) : [n, c:16, c:4], pad = 3", (5, 8))[-1].kernel
    assert isinstance(fill, Fill) and (fill.run, fill.value) == (224, 0x40400000)  # 3.0


def test_pads_behind_a_copied_run_complete_its_line():
    padded = _steps("nChw8c", "nChw16c", (1, 17, 4, 4))[-1].kernel
    assert padded == PaddedCopy(4, 0, 4, 64, Loop(16, 32, 64))


def test_three_channels_are_interleaved():
    assert _step("nchw", "nhwc", (1, 3, 8, 8)).kernel == Interleave(4, 3, 64, 256, inverse=False, block=16)
    assert _step("nhwc", "nchw", (1, 3, 8, 8)).kernel == Interleave(4, 3, 64, 256, inverse=True, block=16)


def test_blocks_that_conflict_need_a_table():
    tables = [x for x in _step("aBc8b", "aBc12b", (2, 96, 5)).loops if isinstance(x, TableLoop)]
    assert [table.count for table in tables] == [6]  # blocks of 4, the divisor of 8 and 12, in 24 channels


def test_large_destinations_are_streamed():
    tile = _tile("nchw", "nhwc", (96, 64, 56, 56))
    assert tile.streaming and tile.square and _blocks(tile) == (16, 16)
    assert not _tile("nchw", "nhwc", (1, 64, 56, 56)).streaming
    assert not _tile("nchw", "nhwc", (96, 64, 56, 56), machine=NARROW).streaming


def test_a_long_run_is_streamed_and_its_rest_is_not():
    copies = [step.kernel for step in _steps("a", "a", (25_000_001,))]
    assert copies == [Copy(100_000_000, streaming=True), Copy(4)]


def test_negative_short_runs_with_a_rest_are_not_streamed():
    part = Format.of("ab").bind((1_000_000, 80)).slice((0, 0), (1_000_000, 65))
    assert not streams(plan_reorder(part, part, "i8", target=WIDE))


def test_lines_that_are_not_whole_go_through_a_buffer():
    step = _step("nhwc", "nchw", (384, 256, 14, 14))
    assert step.prefetch == 0
    assert step.loops[1:] == (Loop(16, 64, 12544),)
    assert isinstance(step.kernel, Staged) and step.kernel.size == 12544 and step.kernel.rows == 1


def test_long_rows_that_begin_anywhere_in_a_line_are_staged_block_after_block():
    assert _tile("ab", "ba", (2080, 2112)).streaming
    step = _steps("ab", "ba", (2081, 2112))[0]
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
    for step in _steps("ab", "ba", (301, 9000)):
        assert not isinstance(step.kernel, Staged) or step.kernel.iterations == 1


def test_pixels_of_few_lines_are_prefetched():
    tile = _tile("nhwc", "nchw", (96, 64, 56, 56))
    assert [(x.axis, x.size) for x in tile.schedule] == [("rows", 64), ("cols", 16), ("rows", 16)]
    assert (tile.prefetch_distance, tile.square, tile.streaming) == (64 * 256, True, True)


def test_rows_that_share_a_cache_set_are_read_a_line_at_a_time():
    tile = _tile("ab", "ba", (4096, 4096))
    assert [(x.axis, x.size) for x in tile.schedule] == [("rows", 64), ("cols", 16), ("rows", 16)]
    assert (tile.prefetch_distance, tile.square, tile.streaming) == (256, True, True)


def test_rows_whose_columns_are_pages_apart_are_prefetched_by_their_loop():
    step = _step("ab", "ba", (4160, 4160))
    assert step.loops == (Loop(260, 16 * 4 * 4160, 64),)
    assert (step.parallel, step.prefetch, step.kernel.streaming) == (0, 0, True)


def test_few_columns_are_taken_together_with_the_next_digit():
    step = _step("oihw", "Ohwi32o", (64, 64, 3, 3))
    assert step.loops[-1] == Loop(4, 576, 2048)
    assert isinstance(step.kernel, Tile) and step.kernel.cols == Axis(144, 8192, fold=9, outer_stride=128)


def test_copies_of_whole_lines_follow_a_large_source():
    step = _step("nhwc", "nChw16c", (42, 64, 56, 56))
    assert step.loops == (Loop(42, 802816, 802816), Loop(3136, 256, 64))
    assert step.kernel == Copy(64, Loop(4, 64, 200704), streaming=True)


def test_candidates_differ_and_begin_with_the_plan():
    src, dst = (Format.of(tag).bind((64, 256, 14, 14)) for tag in ("nchw", "nhwc"))
    plans = candidates(src, dst, ElementPair(4, 4), 0, WIDE)
    assert plans[0] == make_plan(src, dst, ElementPair(4, 4), 0, WIDE)
    assert len(plans) == len(set(plans)) > 3
    assert {streams(plan) for plan in plans} == {True, False}


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing_to_do(shape: tuple[int, ...]):
    assert _steps("ab", "ba", shape) == ()


def test_what_lies_in_few_sequences_is_cached_up_to_twice_the_volume():
    def streamed(src: str, dst: str, *shape: int) -> bool:
        machine = replace(WIDE, l2=1 << 20, l3=32 << 20)
        source, target = (Format.of(tag).bind(shape) for tag in (src, dst))
        return streams(make_plan(source, target, ElementPair(4, 4), 0, machine))

    assert not streamed("nchw", "nhwc", 14, 3, 224, 224)
    assert streamed("nchw", "nhwc", 28, 3, 224, 224)
    assert not streamed("nChw8c", "nChw16c", 10, 64, 56, 56)
    assert streamed("nhwc", "nChw8c", 10, 64, 56, 56)
    assert streamed("nChw8c", "nchw", 10, 64, 56, 56)


def test_two_threads_use_the_caches_for_more():
    machine = replace(WIDE, l2=1 << 20, l3=32 << 20)

    def streamed(count: int, threads: int) -> bool:
        src, dst = (Format.of(tag).bind((count, 64, 56, 56)) for tag in ("nchw", "nhwc"))
        return streams(make_plan(src, dst, ElementPair(4, 4), 0, machine, threads))

    assert [streamed(count, 1) for count in (7, 8, 15, 16)] == [False, True, True, True]
    assert [streamed(count, 2) for count in (7, 8, 15, 16)] == [False, False, False, True]
