"""Other orders move the same bytes from the same places, whole blocks and rests alike."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from operator import index

import pytest

from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.loop_blocking import bands_of_rows, other_orders
from layout_ir.backends.llvm.planning.tiles import move_tile
from layout_ir.dialects.kernel.plan import Axis, Blocking, Copy, Loop, Step, TableLoop, Tile
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.planning.plans import WIDE, blocks, of_steps, step_of
from tests.plan_evaluation import evaluate


@pytest.mark.parametrize("rows, cols", [(16, 8), (37, 9), (70, 5), (9, 2)])
def test_copies_in_blocks_move_the_same(rows: int, cols: int):
    step = Step((Loop(2, rows * cols * 64, rows * cols * 64), Loop(rows, cols * 64, 64)), 0, 0,
                Copy(64, Loop(cols, 64, rows * 64)))  # fmt: skip
    wanted = evaluate(of_steps(step))
    found = list(other_orders(step, ElementPair(4, 4)))
    assert len(found) >= 2
    for steps in found:
        plan = of_steps(*steps)
        check_plan(plan)
        assert evaluate(plan) == wanted


def test_a_block_has_a_few_lines_of_both_sides():
    step = Step((Loop(512, 4096, 64),), 0, 0, Copy(64, Loop(64, 64, 32768)))
    blocked = [steps for steps in other_orders(step, ElementPair(4, 4)) if len(steps[0].loops) == 3]
    kernels = [steps[0].kernel for steps in blocked]
    assert kernels and all(kernel == Copy(64, Loop(4, 64, 32768)) for kernel in kernels)
    assert {steps[0].loops[-1].count for steps in blocked} == {8, 16, 64}


@pytest.mark.parametrize("cols", [48, 50, 784])
def test_columns_in_blocks_move_the_same(cols: int):
    tile = move_tile(Loop(16, cols, 1), Axis(cols, 512), 1, WIDE)
    step = Step((Loop(4, 16 * cols, 16),), 0, 0, tile)
    found = list(other_orders(step, ElementPair(1, 1)))
    assert found
    for steps in found:
        plan = of_steps(*steps)
        check_plan(plan)
        assert evaluate(plan) == evaluate(of_steps(step))


def test_tiles_go_along_either_axis_and_as_the_source_lies():
    tile = move_tile(Loop(16, 256, 4), Axis(64, 64), 4, WIDE)
    loops = Loop(4, 4096, 65536), Loop(2, 16384, 4096)
    step = Step(loops, 0, 0, tile)
    found = list(other_orders(step, ElementPair(4, 4)))
    turned = [steps for steps in found if steps[0].loops == loops]
    assert {part.kernel.schedule for [part] in turned if isinstance(part.kernel, Tile)} == {
        schedule
        for schedule in (
            (Blocking("rows", 16), Blocking("cols", 16)),
            (Blocking("cols", 16), Blocking("rows", 16)),
        )
        if schedule != tile.schedule
    }
    assert any(steps[0].loops == loops[::-1] for steps in found)
    for steps in found:
        assert evaluate(of_steps(*steps)) == evaluate(of_steps(step))


def test_negative_tiles_that_stream_stay_as_they_are():
    tile = replace(move_tile(Loop(16, 256, 4), Axis(64, 64), 4, WIDE), streaming=True)
    step = Step((Loop(4, 4096, 65536), Loop(2, 16384, 4096)), 0, 0, tile)
    assert not list(other_orders(step, ElementPair(4, 4)))


def test_columns_of_a_conversion_lie_apart_as_elements_of_the_source_do():
    tile = move_tile(Loop(16, 2 * 50, 1), Axis(50, 512), 1, WIDE)
    step = Step((Loop(4, 2 * 16 * 50, 16),), 0, 0, tile)
    found = list(other_orders(step, ElementPair.of(Conversion("bf16", "f8E4M3FN"))))
    assert found
    for steps in found:
        places: list[int] = []
        for part in steps:
            assert isinstance(part.kernel, Tile)
            blocks = [loop for loop in part.loops if isinstance(loop, Loop) and loop.dst >= 512] or [
                Loop(1, 0, 0)
            ]
            places += [
                index(part.src + block * blocks[0].src) + 2 * col
                for block in range(index(blocks[0].count))
                for col in range(index(part.kernel.cols.count))
            ]
        assert sorted(places) == [2 * k for k in range(50)]


def _converting(rows: int, cols: int, high: int) -> Step:
    """f32 to s8, in tiles of `high` rows that read 16 bytes of each."""
    blocks = Blocking("rows", high), Blocking("cols", 4)
    return Step((), 0, 0, Tile(1, Axis(rows, 4 * cols), Axis(cols, rows), blocks))


def test_a_conversion_of_many_rows_reads_few_at_a_time_in_blocks():
    conversion = Conversion("f32", "i8")
    pair, step = ElementPair.of(conversion), _converting(64, 1100, 64)
    blocks = Blocking("cols", 512), Blocking("rows", 16), Blocking("cols", 4)
    [[found]] = [
        steps for steps in other_orders(step, pair)
        if isinstance(steps[0].kernel, Tile) and steps[0].kernel.schedule == blocks
    ]  # fmt: skip
    plans = [replace(of_steps(x, width=1), conversion=conversion) for x in (step, found)]
    check_plan(plans[1])
    assert evaluate(plans[0]) == evaluate(plans[1])


@pytest.mark.parametrize("rows, cols, high", [(16, 1100, 16), (64, 512, 64)])
def test_negative_few_rows_or_columns_have_no_blocks(rows: int, cols: int, high: int):
    pair = ElementPair.of(Conversion("f32", "i8"))
    for [step] in other_orders(_converting(rows, cols, high), pair):
        assert isinstance(step.kernel, Tile) and len(step.kernel.schedule) == 2


def test_negative_what_has_one_order_or_tables_has_no_other():
    pair = ElementPair(4, 4)
    assert list(other_orders(Step((), 0, 0, Copy(4096, Loop(8, 4096, 4096))), pair)) == []
    assert (
        list(other_orders(Step((TableLoop((0, 64), (64, 0)),), 0, 0, Copy(64, Loop(4, 64, 256))), pair)) == []
    )
    assert list(other_orders(Step((Loop(9, 40, 4),), 0, 0, Copy(4, Loop(10, 4, 36))), pair)) == []


def test_negative_half_bytes_stay_in_order():
    pair = ElementPair.of(Conversion("i4", "f32"))
    step = Step((Loop(16, 256, 64),), 0, 0, Copy(64, Loop(4, 64, 4096)))
    assert list(other_orders(step, pair)) == []


def _rows_in_order(rows: int, cols: int, stride: int) -> Step:
    """f32 in rows one behind the other, to columns that are `stride` bytes apart."""
    tile = move_tile(Loop(rows, 4 * cols, 4), Axis(cols, stride), 4, WIDE)
    return Step((Loop(2, 4 * rows * cols, 1 << 19),), 0, 0, tile)


@pytest.mark.parametrize("rows, cols", [(512, 16), (300, 24), (384, 20), (260, 16)])
def test_bands_of_rows_write_eight_lines_to_a_few_columns(rows: int, cols: int):
    step = _rows_in_order(rows, cols, 4096)
    [steps] = bands_of_rows(step, WIDE)
    band = steps[0].kernel
    assert isinstance(band, Tile) and band.rows.count == 128 and blocks(band) == (16, 4)
    assert band.schedule[0].axis == "cols"
    assert steps[0].prefetch == 1 and len(steps) == (1 if rows % 128 == 0 else 2)
    plan = of_steps(*steps)
    check_plan(plan)
    moved = [prod(index(loop.count) for loop in x.loops if isinstance(loop, Loop)) for x in steps]
    kernels = [x.kernel for x in steps if isinstance(x.kernel, Tile)]
    assert sum(n * index(k.rows.count) for n, k in zip(moved, kernels, strict=True)) == 2 * rows  # none twice
    assert evaluate(plan) == evaluate(of_steps(step))


@pytest.mark.parametrize(
    "step",
    [
        _rows_in_order(512, 16, 4096 + 64),  # columns in sets of their own
        _rows_in_order(192, 16, 4096),  # one band and a half
        _rows_in_order(512, 4, 4096),  # few columns anyway
        _rows_in_order(1 << 9, 1 << 11, 1 << 14),  # a band that L2 does not hold twice
    ],
)
def test_negative_no_bands_of_rows_where_they_gain_nothing(step: Step):
    assert not list(bands_of_rows(step, WIDE))


@pytest.mark.parametrize("plane", [(64, 64), (32, 32)])
def test_planes_of_powers_of_two_are_written_in_bands(plane: tuple[int, int]):
    step = step_of("nhwc", "nchw", (4, 32, *plane))
    assert isinstance(step.kernel, Tile) and step.kernel.rows.count == 128 and step.prefetch is not None


def test_negative_other_planes_are_not():
    step = step_of("nhwc", "nchw", (4, 32, 56, 56))
    assert isinstance(step.kernel, Tile) and step.kernel.rows.count == 56 * 56
