"""Tiles cover what they should in blocks that fit, and begin and end at whole bytes and whole lanes where they must."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.tiles import (
    begins_at_bytes,
    conversion_tiles,
    folded,
    in_cache,
    move_tile,
)
from layout_ir.dialects.kernel.plan import Axis, Copy, Loop, Plan, Step, TableLoop, Tile
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.planning.plans import NARROW, WIDE, blocks, of_steps, step_of, tile_of
from tests.plan_evaluation import Moved, evaluate

AVX2 = replace(WIDE, vector=32)


@pytest.mark.parametrize("machine", [WIDE, AVX2, NARROW], ids=["64", "32", "16"])
def test_a_tile_of_any_extents_is_a_plan_with_blocks_inside_of_it(machine: Machine):
    for rows, cols, width in product(
        (1, 2, 3, 7, 8, 15, 16, 33, 64, 200), (1, 2, 5, 16, 17, 70), (1, 2, 4, 8)
    ):
        tile = move_tile(Loop(rows, cols * width, width), Axis(cols, rows * width), width, machine)
        high, wide = blocks(tile)
        assert 1 <= high <= rows and 1 <= wide <= cols
        check_plan(Plan(width, rows * cols * width, rows * cols * width, (Step((), 0, 0, tile),)))


@pytest.mark.parametrize("rows, high", [(16, 16), (23, 16), (24, 8), (32, 16), (40, 8), (48, 16), (56, 8)])
def test_few_rows_that_are_half_tiles_are_moved_once(rows: int, high: int):
    tile = move_tile(Loop(rows, 400, 4), Axis(100, 4 * rows), 4, AVX2)
    assert blocks(tile)[0] == high and tile.square


@pytest.mark.parametrize("rows", [24, 40, 56])
def test_negative_half_a_tile_does_not_fill_a_register_of_a_line(rows: int):
    assert blocks(move_tile(Loop(rows, 400, 4), Axis(100, 4 * rows), 4, WIDE))[0] == 16


def test_negative_of_many_rows_the_last_tile_is_moved_back():
    tile = move_tile(Loop(1000, 400, 4), Axis(100, 4000), 4, AVX2)
    assert blocks(tile) == (16, 16)


def test_rows_with_pads_are_one_block():
    tile = move_tile(Loop(24, 400, 4, valid=17), Axis(100, 96), 4, WIDE)
    assert tile.block("rows") == 24


def _reached(loops: list[Loop], cols: Axis, width: int) -> set[tuple[int, int]]:
    """(source, destination) of every column in every iteration, by what loops and axes are."""
    tile = Tile(width, Axis(1, 0), cols, ())
    found = evaluate(of_steps(Step(tuple(loops), 0, 0, tile), width=width))
    return {(int(what.place), place) for place, what in found.items() if isinstance(what, Moved)}


@pytest.mark.parametrize("count, outer", [(9, 64), (9, 7), (3, 1), (5, 12)])
def test_folded_columns_reach_what_the_loop_reached(count: int, outer: int):
    width, batch = 4, Loop(2, 100_000, 1_000)
    loops = [batch, Loop(outer, count * width, 20_000)]
    rest, axis = folded(loops, Loop(count, width, 48), width)
    assert axis.fold == count and axis.count % count == 0
    assert _reached(rest, axis, width) == _reached(loops, Axis(count, 48), width)


@pytest.mark.parametrize("count, src", [(16, 64), (64, 256), (9, 40)])
def test_negative_columns_that_are_lines_or_many_or_apart_are_not_folded(count: int, src: int):
    loops = [Loop(8, src, 20_000)]
    assert folded(loops, Loop(count, 4, 48), 4) == (loops, Axis(count, 48))


def test_in_caches_a_square_tile_means_the_same_in_smaller_blocks():
    step = Step((), 0, 0, move_tile(Loop(33, 4 * 50, 4), Axis(50, 4 * 33), 4, WIDE), 0)
    gathered = in_cache(step, WIDE)
    assert isinstance(step.kernel, Tile) and isinstance(gathered.kernel, Tile)
    assert step.kernel.square and not gathered.kernel.square
    assert evaluate(of_steps(gathered)) == evaluate(of_steps(step))
    check_plan(Plan(4, 33 * 50 * 4, 33 * 50 * 4, (gathered,)))


PACKED_SOURCE, PACKED = ElementPair.of(Conversion("i4", "f32")), ElementPair.of(Conversion("i4", "ui4"))


@pytest.mark.parametrize("pair", [PACKED_SOURCE, PACKED])
def test_iterations_begin_at_bytes_where_their_sums_say_so(pair: ElementPair):
    for first, a, b in product((0, 1), (1, 2, 3, 4), (0, 1, 2)):
        at = Step((), first, 0, Copy(1))
        loops = (Loop(3, a, 2 * a), TableLoop((0, b), (0, 4)))
        sums = [first + k * a + entry for k in range(3) for entry in (0, b)]
        assert begins_at_bytes(at, loops, pair) == all(place % 2 == 0 for place in sums)


def test_negative_the_packed_side_alone_counts():
    assert begins_at_bytes(Step((), 0, 1, Copy(1)), (Loop(3, 2, 1),), PACKED_SOURCE)
    assert not begins_at_bytes(Step((), 0, 1, Copy(1)), (Loop(3, 2, 1),), PACKED)
    assert begins_at_bytes(Step((), 1, 1, Copy(1)), (), ElementPair(4, 2))


@pytest.mark.parametrize(
    "conversion", [Conversion("f32", "f32", beta=0.5), Conversion("i4", "f32"), Conversion("f32", "ui4")]
)
@pytest.mark.parametrize("rows, cols", [(19, 37), (1, 5), (16, 16), (33, 2)])
def test_what_may_be_written_once_is_cut_into_whole_blocks(conversion: Conversion, rows: int, cols: int):
    pair = ElementPair.of(conversion)
    height, width = Loop(rows, 64 * pair.src, pair.dst), Loop(cols, pair.src, 64 * pair.dst)
    steps = tuple(conversion_tiles(Step((), 0, 0, Copy(1)), (), height, width, pair, WIDE))
    for step in steps:
        if isinstance(step.kernel, Tile):
            high, wide = blocks(step.kernel)
            assert step.kernel.rows.count % high == step.kernel.cols.count % wide == 0
            assert not (pair.src_packed and (step.src % 2 or wide % 2))
            assert not (pair.dst_packed and (step.dst % 2 or high % 2))
    found = evaluate(Plan(pair.narrower, 1 << 20, 1 << 20, steps, pair.conversion))
    wanted = {
        r * pair.dst + c * 64 * pair.dst + byte: Moved(r * 64 * pair.src + c * pair.src, 0, byte)
        for r, c, byte in product(range(rows), range(cols), range(pair.dst))
    }
    assert found == wanted and found.writes == len(wanted)


def test_negative_what_may_be_written_twice_is_one_tile():
    pair = ElementPair.of(Conversion("f32", "i8"))
    [step] = conversion_tiles(Step((), 0, 0, Copy(1)), (), Loop(19, 400, 1), Loop(37, 4, 64), pair, WIDE)
    assert isinstance(step.kernel, Tile) and (step.kernel.rows.count, step.kernel.cols.count) == (19, 37)


def test_registers_of_another_machine_give_another_tile():
    assert blocks(tile_of("nchw", "nhwc", (2, 64, 7, 8))) == (16, 4)
    assert blocks(tile_of("nchw", "nhwc", (2, 64, 7, 8), machine=NARROW)) == (4, 4)


def test_negative_rows_that_crowd_sets_of_the_first_level_are_loaded_whole():
    # Of 16 lines 2 KiB apart eight are in one set, which has eight ways; of those 1 KiB apart four.
    assert tile_of("ab", "ba", (256, 512)).square
    assert tile_of("ab", "ba", (512, 256)).square
    assert not tile_of("ab", "ba", (256, 256)).square
    assert not tile_of("ab", "ba", (512, 49)).square
    wide = replace(WIDE, l1=48 << 10)
    assert not tile_of("ab", "ba", (256, 512), machine=wide).square


def test_few_columns_are_taken_together_with_the_next_digit():
    step = step_of("oihw", "Ohwi32o", (64, 64, 3, 3))
    assert step.loops[-1] == Loop(4, 576, 2048)
    assert isinstance(step.kernel, Tile) and step.kernel.cols == Axis(144, 8192, fold=9, outer_stride=128)
