"""Walks of steps go through all bytes of both sides, and pieces are what lies together on them."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from operator import index
from random import Random

import pytest

from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.planner import candidates
from layout_ir.backends.llvm.planning.tiles import move_tile
from layout_ir.backends.llvm.planning.walks import (
    Side,
    Walk,
    crosses_lines,
    is_in_order,
    lines_held,
    pieces_of,
    walked_bytes,
    walks_of,
)
from layout_ir.dialects.kernel.plan import (
    Axis,
    Blocking,
    Copy,
    Fill,
    Interleave,
    Loop,
    Staged,
    Step,
    Tile,
    VariableBoundLoops,
)
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.cases import random_case
from tests.backends.llvm.planning.plans import WIDE


def test_a_walk_goes_through_no_fewer_bytes_than_there_are():
    rng, exact = Random(3), 0
    for _ in range(60):
        case = random_case(rng, limit=600)
        pair = ElementPair.of(Conversion(case.dtype, case.dtype))
        least = index(pair.src_bytes(prod(case.src.shape)))
        for plan in candidates(case.src, case.dst, pair, 0, WIDE):
            steps = [step for step in plan.steps if not isinstance(step.kernel, Fill)]
            loops = [loop for step in steps for loop in step.loops]
            if any(isinstance(x, VariableBoundLoops) for x in loops) or any(
                isinstance(step.kernel, Staged) for step in steps
            ):
                continue
            read = sum(walked_bytes(walks_of(step, pair)[0]) for step in steps)
            assert read >= least, (case, plan)
            exact += read == least
    assert exact > 60


@pytest.mark.parametrize(
    "walk, side",
    [
        ([(64, 1)], Side(64, 0, 1)),
        ([(64, 1), (8, 64)], Side(512, 0, 1)),
        ([(64, 1), (64, 4096), (4, 64)], Side(64, 4096, 64)),
        ([(64, 1), (4, 4096), (64, 64)], Side(16384, 0, 1)),  # four sequences grow until they meet
        ([(64, 1), (4, 4096), (8, 64)], Side(512, 4096, 1)),
    ],
)
def test_pieces_are_what_lies_together(walk: Walk, side: Side):
    assert pieces_of(walk, 4, WIDE) == side


def test_negative_lines_beside_each_other_that_l1_does_not_hold_are_many_places():
    few, many = ([(16, 1), (count, 64), (4, 16)] for count in (256, 1024))
    assert pieces_of(few, 4, WIDE).piece == 256 * 64 and pieces_of(many, 4, WIDE) == Side(16, 64, 1024)
    assert pieces_of(many, 4, WIDE, followed=True).piece == 1024 * 64


def test_negative_parts_of_more_lines_than_half_of_l1_holds_are_no_sequence():
    few, many = ([(16, 1), (64, 64), (count, 4096), (4, 16)] for count in (4, 5))
    assert pieces_of(few, 32, WIDE).piece > 16 and pieces_of(many, 32, WIDE) == Side(16, 64, 320)


def test_small_gaps_do_not_end_what_is_followed():
    walk: Walk = [(960, 1), (64, 1000)]
    assert pieces_of(walk, 1, WIDE).piece == 960 and pieces_of(walk, 1, WIDE, followed=True).piece > 60000


def test_what_is_gone_through_byte_by_byte_is_in_order():
    assert is_in_order([(16, 1), (49, 16), (1, 5), (7, 784)]) and is_in_order([(4096, 1), (3, 1 << 20)])


def test_halves_of_lines_and_what_is_read_twice_are_in_order():
    assert is_in_order([(32, 1), (49, 64), (2, 32)])
    assert is_in_order([(16, 1), (32, 16), (2, 272), (4, 784)])  # 49 rows in blocks of 32


def test_negative_quarters_of_lines_and_sequences_by_turns_are_in_no_order():
    assert not is_in_order([(16, 1), (49, 64), (4, 16)]) and not is_in_order([(16, 1), (2, 784), (49, 16)])


def test_ways_that_are_interleaved_are_read_by_turns_and_written_when_they_are_taken_apart():
    for inverse in (False, True):
        kernel = Interleave(4, 3, 64, 1024, inverse, 16)
        sides = walks_of(Step((), 0, 0, kernel), ElementPair(4, 4))
        assert sides[inverse] == [(64, 1), (3, 1024), (4, 64)] and sides[not inverse] == [(768, 1)]


def test_a_tile_that_is_no_square_reads_a_lane_of_each_row_by_turns():
    schedule = Blocking("rows", 16), Blocking("cols", 16)
    for square, first in ((True, [(64, 1), (16, 4096)]), (False, [(16, 1), (16, 4096), (4, 16)])):
        tile = Tile(4, Axis(16, 4096), Axis(64, 64), schedule, square=square)
        reads, writes = walks_of(Step((Loop(2, 256, 1 << 14),), 0, 0, tile), ElementPair(4, 4))
        assert [x for x in reads if x[0] > 1][: len(first)] == first
        assert walked_bytes(reads) == walked_bytes(writes) == 2 * 16 * 64 * 4


def test_lines_that_share_sets_are_held_as_far_as_there_are_ways():
    assert lines_held(4096, (4096, 8)) == 8 and lines_held(4160, (4096, 8)) == 512
    assert lines_held(1 << 20, (1 << 17, 8)) == 8


@pytest.mark.parametrize(
    "rows, columns, crosses",
    [(Loop(49, 64, 4), Axis(16, 196), True), (Loop(48, 64, 4), Axis(16, 192), False)],
)
def test_stores_cross_lines_where_columns_begin_within_them(rows: Loop, columns: Axis, crosses: bool):
    assert crosses_lines(Step((), 0, 0, move_tile(rows, columns, 4, WIDE)), 64) == crosses


def test_negative_parts_of_lines_that_have_places_of_their_size_cross_none():
    halves = Step((Loop(2, 16, 784),), 0, 0, Copy(16, Loop(49, 32, 16)))
    assert not crosses_lines(halves, 64)
    assert crosses_lines(replace(halves, loops=(Loop(2, 16, 788),)), 64)
    lines = Step((Loop(2, 64, 96),), 0, 0, Copy(64))
    assert not crosses_lines(lines, 32) and crosses_lines(lines, 64)
