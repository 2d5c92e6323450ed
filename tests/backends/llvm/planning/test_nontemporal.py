"""Streamed lines are written whole and by one step; what is streamed depends on volume, order and threads."""

from __future__ import annotations

from dataclasses import replace
from operator import index
from random import Random

import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.nontemporal import (
    in_few_streams,
    streamed,
    streaming_limit,
    streaming_volume,
)
from layout_ir.backends.llvm.planning.planner import make_plan, streams
from layout_ir.backends.llvm.planning.tiles import move_tile
from layout_ir.dialects.kernel.plan import Axis, Copy, Elements, Loop, Staged, Step, Tile
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.cases import random_case
from tests.backends.llvm.planning.plans import NARROW, WIDE, blocks, of_steps, step_of, steps_of, tile_of
from tests.plan_evaluation import definition, evaluate

SMALL = replace(WIDE, l1=4 << 10, l2=16 << 10, l3=64 << 10)
PAIRS = [
    *(("nchw", "nhwc", (2, c, 5, 16)) for c in (3, 16, 24, 64)),
    *(("nhwc", "nchw", (2, c, 4, 16)) for c in (3, 16, 64)),
    *(
        (src, dst, (2, 32, 4, 4))
        for src, dst in (("nchw", "nChw16c"), ("nChw16c", "nchw"), ("nhwc", "nChw8c"))
    ),
    *(("ab", "ba", shape) for shape in ((64, 48), (96, 512), (33, 17))),
    ("a", "a", (1001,)),
    ("nChw8c", "nChw16c", (1, 24, 4, 4)),
]


@pytest.mark.parametrize("dtype", ["i8", "bf16", "f32"])
@pytest.mark.parametrize("src, dst, shape", PAIRS)
def test_a_streamed_line_is_written_whole(src: str, dst: str, shape: tuple[int, ...], dtype: str):
    width = {"i8": 1, "bf16": 2, "f32": 4}[dtype]
    source, target = Format.of(src).bind(shape), Format.of(dst).bind(shape)
    plan = make_plan(source, target, ElementPair(width, width), 0, SMALL, stream=True)
    check_plan(plan)
    pad = None if target.pad == "undef" else bytes(width)
    assert evaluate(plan) == definition(source, target, width, pad)
    for step in plan.steps:
        if step.kernel.streaming and not isinstance(step.kernel, Staged):
            places = evaluate(of_steps(step)).keys()
            assert len(places) == 64 * len({place // 64 for place in places}), plan


def test_random_pairs_mean_the_same_where_they_are_streamed():
    rng = Random(8)
    several = 0
    for _ in range(80):
        case = random_case(rng, limit=400)
        pair = ElementPair.of(Conversion(case.dtype, case.dtype))
        plans = [make_plan(case.src, case.dst, pair, 0, SMALL, stream=stream) for stream in (False, True)]
        assert evaluate(plans[0]) == evaluate(plans[1]), case
        check_plan(plans[1])
        several += plans[0] != plans[1] and streams(plans[1])
    assert several > 5


def test_what_fills_no_line_alone_fills_a_staging_buffer():
    elements = Step((Loop(32, 0, 1024),), 0, 0, Elements(4, Loop(256, 128, 4)))
    [step] = streamed([elements], ElementPair(4, 4), SMALL)
    assert isinstance(step.kernel, Staged) and step.kernel.size <= SMALL.l1 // 2
    assert evaluate(of_steps(step)) == evaluate(of_steps(elements))


def _planes(count: int, size: int) -> Step:
    """`count` blocks of 8 channels of `size` pixels to planes of f32."""
    tile = move_tile(Loop(size, 32, 4), Axis(8, 4 * size), 4, WIDE)
    return Step((Loop(count, 32 * size, 32 * size),), 0, 0, tile)


@pytest.mark.parametrize("size, times", [(49, 2), (50, 1), (51, 2)])
def test_a_buffer_holds_so_many_blocks_that_it_ends_with_a_line(size: int, times: int):
    blocks = _planes(20, size)
    [step] = streamed([blocks], ElementPair(4, 4), WIDE)
    assert (
        isinstance(step.kernel, Staged)
        and step.kernel.size == times * 32 * size
        and step.kernel.size % 64 == 0
    )
    assert evaluate(of_steps(step, width=4)) == evaluate(of_steps(blocks, width=4))


def test_blocks_that_are_left_have_a_buffer_of_their_own():
    blocks = _planes(21, 49)
    steps = streamed([blocks], ElementPair(4, 4), WIDE)
    assert [index(step.kernel.size) for step in steps if isinstance(step.kernel, Staged)] == [3136, 1568]
    assert evaluate(of_steps(*steps, width=4)) == evaluate(of_steps(blocks, width=4))


def test_negative_more_blocks_than_fit_are_not_put_together():
    [step] = streamed([_planes(20, 49)], ElementPair(4, 4), replace(WIDE, l1=4 << 10))
    assert isinstance(step.kernel, Staged) and step.kernel.size == 1568
    [step] = streamed([_planes(1, 49)], ElementPair(4, 4), WIDE)
    assert isinstance(step.kernel, Staged) and step.kernel.size == 1568


def _columns(width: int, cols: int = 2048) -> Step:
    """A tile whose 24 rows make up no line, and whose columns lie one behind the other."""
    return Step((), 0, 0, move_tile(Loop(24, cols * width, width), Axis(cols, 24 * width), width, WIDE))


def test_columns_that_are_no_lines_fill_a_buffer_though_other_steps_leave_gaps():
    whole, part = _columns(4), Step((Loop(9, 0, 96),), 0, 2048 * 96, Copy(32))
    *staged, rest = streamed([whole, part], ElementPair(4, 4), WIDE)
    assert rest == part and all(isinstance(step.kernel, Staged) and step.kernel.streaming for step in staged)
    assert evaluate(of_steps(*staged, width=4)) == evaluate(of_steps(whole, width=4))


def test_negative_narrow_columns_beside_gaps_go_through_the_caches():
    part = Step((Loop(9, 0, 96),), 0, 2048 * 96, Copy(32))
    steps = streamed([_columns(2), part], ElementPair(2, 2), WIDE)
    assert not any(step.kernel.streaming for step in steps)


def test_buffers_of_columns_are_of_about_one_size():
    tile = move_tile(Loop(12, 1024, 4), Axis(256, 48), 4, WIDE)
    [step] = streamed([Step((), 0, 0, tile)], ElementPair(4, 4), WIDE)  # of a page, 80 columns would fit
    assert step.loops == (Loop(4, 256, 3072),)


@pytest.mark.parametrize("pixels, columns", [(196, 4), (200, 4), (100, 8)])
def test_a_buffer_whose_stores_cross_lines_lies_within_a_page(pixels: int, columns: int):
    """Blocks of 16 channels to planes, of which some at a time fill whole lines."""
    tile = move_tile(Loop(pixels, 64, 4), Axis(16, 4 * pixels), 4, WIDE)
    blocks = Step((Loop(6, 64 * pixels, 64 * pixels),), 0, 0, tile)
    [step] = streamed([blocks], ElementPair(4, 4), WIDE)
    assert isinstance(step.kernel, Staged) and step.kernel.size == columns * 4 * pixels < 4096
    assert evaluate(of_steps(step, width=4)) == evaluate(of_steps(blocks, width=4))


def test_negative_one_whose_columns_have_more_than_a_page_is_as_large_as_they_are():
    tile = move_tile(Loop(412, 64, 4), Axis(8, 1648), 4, WIDE)
    blocks = Step((Loop(6, 32 * 412, 32 * 412),), 0, 0, tile)
    [step] = streamed([blocks], ElementPair(4, 4), WIDE)
    assert isinstance(step.kernel, Staged) and step.kernel.size == 8 * 1648


@pytest.mark.parametrize("count, sizes", [(60, [9408]), (64, [9408, 6272]), (65, [9408, 6272, 1568])])
def test_negative_one_whose_stores_stay_in_their_lines_holds_several_pages(count: int, sizes: list[int]):
    """Halves of blocks of 16 channels of bf16 of 7 x 7, 16 bytes each, to blocks of 8."""
    loops = Loop(2, 1568 * count, 1568 * count), Loop(count, 1568, 1568), Loop(2, 16, 784)
    blocks = Step(loops, 0, 0, Copy(16, Loop(49, 32, 16)))
    steps = streamed([blocks], ElementPair(2, 2), WIDE)
    assert [step.kernel.size for step in steps if isinstance(step.kernel, Staged)] == sizes
    size = 1568 * count * 2
    assert evaluate(of_steps(*steps, size=size)) == evaluate(of_steps(blocks, size=size))


def test_negative_gaps_between_what_is_written_are_not_staged():
    elements = Step((Loop(32, 0, 1028),), 0, 0, Elements(4, Loop(256, 128, 4)))
    assert streamed([elements], ElementPair(4, 4), SMALL) == [elements]


def test_negative_nor_is_what_no_loop_of_all_steps_fills_in_order():
    loops = Loop(4, 1 << 16, 2048), Loop(4, 1 << 14, 8192)
    elements = Step(loops, 0, 0, Elements(4, Loop(512, 128, 4)))
    assert streamed([elements], ElementPair(4, 4), SMALL) == [elements]


def test_negative_a_destination_that_begins_inside_of_a_line_is_not_streamed_directly():
    for src, dst, shape in PAIRS:
        source, target = Format.of(src).bind(shape), replace(Format.of(dst).bind(shape), offset=5)
        plan = make_plan(source, target, ElementPair(4, 4), 0, SMALL, stream=True)
        assert all(isinstance(step.kernel, Staged) for step in plan.steps if step.kernel.streaming)


def test_negative_lines_with_pads_are_not_streamed_where_the_next_one_is_not_aligned():
    src = Format.of("(a, b) : [b, a*177, b:8], pad = zero").bind((31, 5))
    for stride, streams_lines in ((130, False), (144, True)):
        dst = Format.of(f"(a, b) : [b, a*{stride}, b:16], pad = zero").bind((31, 5))
        plan = make_plan(src, dst, ElementPair(4, 4), 0, SMALL, stream=True)
        check_plan(plan)
        assert streams(plan) == streams_lines, plan


def test_a_larger_volume_is_cached_for_threads_and_few_streams_but_not_for_conversions():
    alone = streaming_volume(WIDE)
    assert WIDE.l2 < alone < WIDE.l3
    assert streaming_volume(WIDE, 2) == streaming_volume(WIDE, few_streams=True) > alone
    tile = [step_of("nchw", "nhwc", (2, 64, 7, 8))]
    assert streaming_limit(tile, ElementPair(4, 4), WIDE, 1) == alone
    assert streaming_limit(tile, ElementPair.of(Conversion("f32", "i8")), WIDE, 1) < alone


def test_threads_stay_in_the_caches_for_longer_unless_they_transpose_narrow_elements():
    def limit(width: int, threads: int) -> int:
        step = Step((), 0, 0, move_tile(Loop(64, 4096, width), Axis(64, 4096), width, WIDE))
        return index(streaming_limit([step], ElementPair(width, width), WIDE, threads))

    assert limit(4, 2) == WIDE.profile.streaming_volume_shared > limit(4, 1)
    assert limit(2, 2) == limit(2, 1) == limit(1, 2) == WIDE.profile.streaming_volume


def test_few_streams_are_those_that_go_on_where_they_ended():
    assert in_few_streams([Step((Loop(100, 64, 64),), 0, 0, Copy(64))])
    assert in_few_streams([Step((Loop(2, 1 << 20, 64),), 0, 0, Copy(16, Loop(4, 16, 16)))])
    assert in_few_streams([Step((Loop(100, 1 << 20, 1 << 20),), 0, 0, Copy(4096))])


def test_negative_three_jumps_between_pieces_of_pages_are_many_streams():
    step = Step((Loop(3, 1 << 20, 64),), 0, 0, Copy(64))
    assert not in_few_streams([step])
    assert not in_few_streams([Step((Loop(100, 64, 64),), 0, 0, Copy(64)), step])
    assert not in_few_streams([Step((), 0, 0, Elements(4, Loop(9, 4, 400)))])


def test_large_destinations_are_streamed():
    tile = tile_of("nchw", "nhwc", (96, 64, 56, 56))
    assert tile.streaming and tile.square and blocks(tile) == (16, 16)
    assert not tile_of("nchw", "nhwc", (1, 64, 56, 56)).streaming
    assert not tile_of("nchw", "nhwc", (96, 64, 56, 56), machine=NARROW).streaming


def test_a_long_run_is_streamed_and_its_rest_is_not():
    copies = [step.kernel for step in steps_of("a", "a", (25_000_001,))]
    assert copies == [Copy(100_000_000, streaming=True), Copy(4)]


def test_negative_short_runs_with_a_rest_are_not_streamed():
    part = Format.of("ab").bind((1_000_000, 80)).slice((0, 0), (1_000_000, 65))
    assert not streams(plan_reorder(part, part, "i8", target=WIDE))


def test_lines_that_are_not_whole_go_through_a_buffer():
    step = step_of("nhwc", "nchw", (384, 256, 14, 14))
    assert step.prefetch == 0
    assert step.loops[1:] == (Loop(16, 64, 12544),)
    assert isinstance(step.kernel, Staged) and step.kernel.size == 12544 and step.kernel.rows == 1


def test_what_lies_in_few_sequences_is_cached_up_to_twice_the_volume():
    def streamed(src: str, dst: str, *shape: int) -> bool:
        machine = replace(WIDE, l2=1 << 20, l3=32 << 20)
        source, target = (Format.of(tag).bind(shape) for tag in (src, dst))
        return streams(make_plan(source, target, ElementPair(4, 4), 0, machine))

    assert not streamed("nchw", "nhwc", 14, 3, 224, 224)
    assert streamed("nchw", "nhwc", 28, 3, 224, 224)
    assert not streamed("nChw8c", "nChw16c", 12, 64, 56, 56)
    assert streamed("nchw", "nhwc", 12, 64, 56, 56)
    assert streamed("nChw8c", "nchw", 12, 64, 56, 56)


def test_two_threads_use_the_caches_for_more():
    machine = replace(WIDE, l2=1 << 20, l3=32 << 20)

    def streamed(count: int, threads: int) -> bool:
        src, dst = (Format.of(tag).bind((count, 64, 56, 56)) for tag in ("nchw", "nhwc"))
        return streams(make_plan(src, dst, ElementPair(4, 4), 0, machine, threads))

    assert [streamed(count, 1) for count in (10, 11, 15, 16)] == [False, True, True, True]
    assert [streamed(count, 2) for count in (10, 11, 15, 16)] == [False, False, False, True]


def _folded(outer: int) -> Step:
    """16 blocks of 8 rows and 8 columns of f32, each 256 bytes of the destination, `outer` bytes apart."""
    tile = move_tile(Loop(8, 9216, 4), Axis(128, 32, 8, outer), 4, WIDE)
    return Step((), 0, 0, tile)


def test_folded_columns_that_make_up_lines_are_streamed_block_after_block():
    step = _folded(2304)
    [found] = streamed([step], ElementPair(4, 4), WIDE)
    tile = found.kernel
    assert isinstance(tile, Tile) and tile.streaming and tile.cols == Axis(8, 32)
    assert found.loops == (Loop(16, 32, 2304),)
    assert evaluate(of_steps(found, width=4)) == evaluate(of_steps(step, width=4))


def test_negative_folded_columns_that_begin_inside_of_lines_are_not():
    [found] = streamed([_folded(2336)], ElementPair(4, 4), WIDE)
    assert not found.kernel.streaming
