"""What is expected to be fast is known of some steps; and whatever a profile expects, the bytes are the same."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from random import Random

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import compile_many
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.machine.profile import MachineProfile
from layout_ir.backends.llvm.planning.access_cost import steps_cost, without_idle_prefetches
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.tiles import move_tile
from layout_ir.backends.llvm.runtime.call import plan_reorder
from layout_ir.dialects.kernel.plan import Axis, Blocking, Copy, Loop, Staged, Step, Tile
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.cases import Case, buffers, expected, random_case
from tests.backends.llvm.planning.plans import WIDE
from tests.seeds import seeds

PAIR = ElementPair(4, 4)
BATCH = 100


def _cost(*steps: Step, volume: int = 4 << 20, machine: Machine = WIDE) -> float:
    return steps_cost(steps, volume, PAIR, machine)


def _lines(number: int, stride: int, *, streaming: bool = False) -> Step:
    """16384 lines, written to `number` places by turns that are `stride` bytes apart."""
    loop = Loop(16384 // number, number * 64, 64)
    return Step((loop,), 0, 0, Copy(64, Loop(number, 64, stride), streaming))


def test_places_that_share_a_set_cost_more_than_those_beside_them():
    assert _cost(_lines(64, 4096)) > _cost(_lines(64, 4096 + 64))
    assert _cost(_lines(256, 131072)) > _cost(_lines(256, 4096 - 64))


def test_negative_as_many_places_as_a_cache_has_ways_cost_nothing():
    assert _cost(_lines(8, 4096)) == _cost(_lines(8, 4096 + 64))
    wider = replace(WIDE, l1=256 << 10, l1_ways=64)
    assert _cost(_lines(64, 4096), machine=wider) == _cost(_lines(64, 4096 + 64), machine=wider)


def test_the_more_places_share_a_set_the_more_lines_are_lost():
    costs = [_cost(_lines(number, 4096)) - _cost(_lines(number, 4160)) for number in (8, 16, 32, 64, 128)]
    assert costs[0] == 0 < costs[1] < costs[2] < costs[3] == pytest.approx(costs[4])
    assert costs[3] == pytest.approx(16384 * WIDE.profile.l1_conflict_ns)


def test_longer_pieces_pay_once_for_all_of_their_lines():
    def blocks(piece: int) -> Step:
        return Step((Loop(64, 64 * piece, piece),), 0, 0, Copy(piece, Loop(64, piece, 1 << 16)))

    costs = [_cost(blocks(piece)) / piece for piece in (64, 128, 256, 512)]
    assert costs == sorted(costs, reverse=True) and len(set(costs)) == 4


def _pieces_to_one_set(piece: int, *, reads: bool = False, streaming: bool = False) -> Step:
    """16384 lines in pieces, written to 64 places of one set by turns, or read from them."""
    loop, inner = (piece, 64 * piece), (1 << 16, piece)
    if not reads:
        loop, inner = loop[::-1], inner[::-1]
    return Step((Loop(16384 // piece, *loop),), 0, 0, Copy(piece, Loop(64, *inner), streaming))


def _conflicts(step: Step) -> float:
    """How much more the step costs for a nanosecond more in `l1_conflict_ns`, of 16384 lines."""
    dearer = replace(WIDE.profile, l1_conflict_ns=WIDE.profile.l1_conflict_ns + 1.0)
    return (_cost(step, machine=replace(WIDE, measured=dearer)) - _cost(step)) / 16384


def test_of_longer_pieces_fewer_must_find_a_place_at_a_time():
    written, read = (
        [_conflicts(_pieces_to_one_set(piece, reads=reads)) for piece in (64, 128, 256, 512)]
        for reads in (False, True)
    )
    # Of 64 lines that are written 64, 32, 16 and 8 pieces, of 8 of which a line each finds a place.
    some = [(1 - 8 / places) / (1 - 8 / 64) for places in (64, 32, 16, 8)]
    assert written == [pytest.approx(x / lines) for x, lines in zip(some, (1, 2, 4, 8), strict=True)]
    # Of 32 that are read, for half of the price.
    some = [(1 - 8 / places) / (1 - 8 / 64) / 2 for places in (32, 16, 8)]
    assert read == [*(pytest.approx(x / lines) for x, lines in zip(some, (1, 2, 4), strict=True)), 0]


def test_negative_pieces_that_are_streamed_and_those_that_tiles_read_need_a_place_for_each_line():
    streamed = [_conflicts(_pieces_to_one_set(piece, streaming=True)) for piece in (64, 512)]
    assert streamed[1] == pytest.approx(streamed[0] / 8) and streamed[1] > 0

    def read(cols: int, *, square: bool) -> float:
        blocks = Blocking("rows", 64), Blocking("cols", cols)
        return _conflicts(Step((), 0, 0, Tile(4, Axis(64, 1 << 16), Axis(4096, 256), blocks, square=square)))

    assert read(64, square=True) == pytest.approx(read(16, square=True) / 4) and read(64, square=True) > 0
    # One that is no square reads 16 bytes of each row by turns, and loses each line before its next part.
    assert read(64, square=False) == read(16, square=False) == pytest.approx(4.0)


def test_places_that_grow_side_by_side_have_sets_of_their_own():
    """To 64 places, to four of which at a time a line each is written until they have four."""

    def places(beside: int, apart: int) -> Step:
        loops = Loop(64, 1 << 14, 256), Loop(16, 1024, apart), Loop(4, 256, 64)
        return Step(loops, 0, 0, Copy(64, Loop(4, 64, beside)))

    assert _conflicts(places(4096 + 1024, 1 << 15)) < _conflicts(places(1 << 13, 1 << 15))


def _groups(group: int, lines: int, stride: int = 4096) -> float:
    """The cost of 16384 lines in 64 places, to `group` of which `lines` each are written by turns before the next."""
    loops = (
        Loop(256 // lines, 64 * 64 * lines, 64 * lines),
        Loop(64 // group, 64 * group * lines, group * stride),
    )
    return _cost(Step((*loops, Loop(lines, 64 * group, 64)), 0, 0, Copy(64, Loop(group, 64, stride))))


def test_groups_of_places_that_fill_a_set_cost_more_the_fewer_lines_they_get():
    costs = [_groups(8, lines) for lines in (4, 8, 16, 32)]
    assert costs == sorted(costs, reverse=True) and len(set(costs)) > 2
    assert costs[0] - _groups(4, 4) > 4096 * WIDE.profile.l1_conflict_ns


def test_negative_groups_of_half_a_set_or_in_sets_of_their_own_do_not():
    assert _groups(4, 8) == pytest.approx(_groups(4, 16), rel=0.05)
    assert _groups(8, 4, 4096 + 64) == pytest.approx(_groups(8, 32, 4096 + 64), rel=0.05)


def test_in_memory_jumps_that_nobody_follows_cost_more_the_less_of_it_the_last_level_has():
    """Lines of 1024 rows by turns."""
    loop = Loop(16, 64, 1024 * 64)
    step = Step((loop,), 0, 0, Copy(64, Loop(1024, 4160, 64), True))
    limit = WIDE.profile.streaming_volume
    costs = [_cost(step, volume=round(limit * part)) for part in (1, 1.01, 1.5, 2, 4, 8)]
    assert costs == sorted(costs) and costs[1] < costs[2] < costs[3] < costs[4] == costs[5]
    memory, last = WIDE.profile.memory_streamed_ns, WIDE.profile.streamed_ns
    assert costs[4] - costs[0] == pytest.approx(16384 * (1.8 * memory - last), rel=1e-3)


def test_parts_of_lines_cost_more_the_smaller_they_are():
    def parts(size: int) -> Step:
        return Step((Loop(64, size, size),), 0, 0, Copy(size, Loop(4096, 64 * size, 512)))

    assert _cost(parts(16)) / 16 > _cost(parts(32)) / 32 > _cost(parts(64)) / 64


def test_stores_past_the_caches_pay_above_the_volume_that_the_profile_names():
    cached, past = _lines(64, 4160), _lines(64, 4160, streaming=True)
    limit = WIDE.profile.streaming_volume
    assert _cost(cached, volume=limit - 1) < _cost(past, volume=limit - 1)
    assert _cost(cached, volume=limit) == pytest.approx(_cost(past, volume=limit))
    assert _cost(cached, volume=limit + 1) > _cost(past, volume=limit + 1)
    later = replace(WIDE, measured=replace(WIDE.profile, streaming_volume=2 * limit))
    assert _cost(cached, volume=limit + 1, machine=later) < _cost(past, volume=limit + 1, machine=later)


def test_lines_through_the_caches_grow_dearer_up_to_the_volume_from_which_streams_win():
    limit, measured = WIDE.profile.streaming_volume, 4 * WIDE.l2
    volumes = WIDE.l2, measured, (measured + limit) // 2, limit
    costs = [_cost(_lines(64, 4160), volume=volume) for volume in volumes]
    assert costs[0] == costs[1] < costs[2] < costs[3]
    more = WIDE.profile.streamed_ns - WIDE.profile.cached_ns
    assert costs[2] - costs[1] == pytest.approx(16384 * more / 4)
    assert costs[3] - costs[1] == pytest.approx(16384 * more)
    streamed = {_cost(_lines(64, 4160, streaming=True), volume=volume) for volume in volumes}
    assert len(streamed) == 1


@pytest.mark.parametrize("facts", [{"streamed_ns": 1.0}, {"streaming_volume": 2 << 20}])
def test_negative_where_streams_are_cheaper_or_win_early_no_line_grows_dearer(facts: dict[str, float]):
    machine = replace(WIDE, measured=replace(WIDE.profile, **facts))
    limit = machine.profile.streaming_volume
    costs = {
        _cost(_lines(64, 4160), volume=volume, machine=machine) for volume in (WIDE.l2, limit // 2, limit)
    }
    assert len(costs) == 1


def test_scattered_lines_past_the_caches_cost_what_the_profile_says():
    later = replace(WIDE, measured=replace(WIDE.profile, streamed_jump_ns=2.0))
    few, more, many = (_lines(number, 4160, streaming=True) for number in (2, 16, 64))
    assert _cost(few, machine=later) == _cost(few)
    assert 0 < _cost(more, machine=later) - _cost(more) < _cost(many, machine=later) - _cost(many)


CROWDED = replace(WIDE, measured=replace(WIDE.profile, streamed_conflict_ns=8.0))


def test_lines_past_the_caches_to_places_of_one_set_cost_what_the_profile_says():
    def more(number: int, stride: int) -> float:
        step = _lines(number, stride, streaming=True)
        return _cost(step, machine=CROWDED) - _cost(step)

    assert more(64, 4096) == pytest.approx(8.0 * 16384)
    assert more(256, 4096) > more(64, 4096) > more(16, 4096) > more(8, 4096) > more(4, 4096) > 0
    assert more(64, 4096) > more(64, 1024) > more(64, 512) > 0


def test_pieces_that_places_have_by_turns_pay_for_their_sets_as_well_as_the_lines_inside():
    """256 bytes to each of `number` places in one set, `turns` of them side by side, a line to each by turns."""

    def more(turns: int, number: int) -> float:
        loops = (
            Loop(16384 // 4 // number, 256 * number, 256),
            Loop(number // turns, 256 * turns, 4096 * turns),
        )
        step = Step((*loops, Loop(4, 64 * turns, 64)), 0, 0, Copy(64, Loop(turns, 64, 4096), streaming=True))
        return _cost(step, machine=CROWDED) - _cost(step)

    assert more(4, 8) > more(4, 4) > 0
    assert more(2, 8) > more(2, 2) == 0
    assert more(4, 8) < more(8, 8)


def test_negative_pieces_of_eight_lines_pay_nothing_for_the_sets_of_their_places():
    """Past the caches, pieces of some lines to 64 places in one set."""

    def more(piece: int) -> float:
        step = Step((Loop(16, 64 * piece, piece),), 0, 0, Copy(piece, Loop(64, piece, 1 << 16), True))
        return (_cost(step, machine=CROWDED) - _cost(step)) / piece

    assert more(64) > more(128) > more(256) > more(512) == more(1024) == 0


def test_in_memory_a_part_of_what_lines_wait_for_their_sets_is_hidden():
    def more(number: int, volume: int) -> float:
        step = _lines(number, 4096, streaming=True)
        return _cost(step, volume=volume, machine=CROWDED) - _cost(step, volume=volume)

    assert 0 < more(64, 64 << 20) < more(64, 4 << 20)
    assert 0 < more(4, 64 << 20) == pytest.approx(more(4, 4 << 20))


def test_negative_places_in_sets_of_their_own_cost_nothing_past_the_caches_nor_do_two_in_one():
    for step in (_lines(64, 4160, streaming=True), _lines(2, 4096, streaming=True), _lines(64, 4096)):
        assert _cost(step, machine=CROWDED) == _cost(step)


def test_negative_lines_whose_neighbours_are_left_for_later_meet_in_no_set():
    assert _cost(_lines(4096, 128, streaming=True), machine=CROWDED) == _cost(
        _lines(4096, 128, streaming=True)
    )
    assert _cost(_lines(4096, 256, streaming=True), machine=CROWDED) > _cost(
        _lines(4096, 256, streaming=True)
    )


def _rows(first: str, rows: int, *, row: int = 12544, read: int = 3136) -> Step:
    """A tile that streams blocks of 16 rows and columns, along its rows or down all of them."""
    schedule = Blocking(first, 16), Blocking("cols" if first == "rows" else "rows", 16)
    return Step(
        (), 0, 0, Tile(4, Axis(rows, row), Axis(read, 4 * rows), schedule, streaming=True, square=True)
    )


def test_in_memory_blocks_down_the_rows_are_not_followed_and_blocks_along_them_are():
    assert _cost(_rows("cols", 32), volume=64 << 20) > 1.5 * _cost(_rows("rows", 32), volume=64 << 20)


def test_negative_the_rows_of_one_block_are_followed_either_way_and_in_the_caches_all_are():
    assert _cost(_rows("cols", 16), volume=64 << 20) == _cost(_rows("rows", 16), volume=64 << 20)
    assert _cost(_rows("cols", 32)) == pytest.approx(_cost(_rows("rows", 32)), rel=0.1)


def test_small_gaps_between_rows_stop_nobody_who_follows_them():
    def copies(gap: int) -> float:
        """15 blocks of 256 bytes of 1000 rows, of two rows at a time, with a gap behind each row."""
        loops = Loop(500, 2 * (3840 + gap), 512), Loop(15, 256, 1 << 19)
        return _cost(Step(loops, 0, 0, Copy(256, Loop(2, 3840 + gap, 256), True)), volume=64 << 20)

    assert copies(160) == pytest.approx(copies(0), rel=0.01) and copies(1024) > 1.2 * copies(0)


def test_negative_what_scattered_stores_cost_is_nothing_through_the_caches():
    later = replace(WIDE, measured=replace(WIDE.profile, streamed_jump_ns=2.0))
    assert _cost(_lines(64, 4160), machine=later) == _cost(_lines(64, 4160))


def _small_tiles(rows: int) -> Step:
    """8 images of `rows` rows of 12544 bytes, in tiles that read 16 bytes of each, and prefetch the next image."""
    blocks = Blocking("rows", 8), Blocking("cols", 4)
    tile = Tile(4, Axis(rows, 12544), Axis(3136, 4 * rows), blocks, streaming=True)
    return Step((Loop(8, rows * 12544, rows * 12544),), 0, 0, tile, prefetch=0)


IDLE = replace(WIDE, measured=replace(WIDE.profile, prefetch_gain=0.9))


def test_prefetches_that_only_take_time_are_left_out():
    assert without_idle_prefetches(_small_tiles(8), PAIR, IDLE).prefetch is None


def test_negative_prefetches_stay_where_they_gain_or_nobody_else_follows():
    assert without_idle_prefetches(_small_tiles(8), PAIR, WIDE).prefetch == 0
    short = replace(
        _small_tiles(64),
        kernel=Tile(4, Axis(64, 1056), Axis(200, 256), (Blocking("rows", 8), Blocking("cols", 4))),
    )
    assert without_idle_prefetches(short, PAIR, IDLE).prefetch == 0
    whole = replace(_small_tiles(8), kernel=Copy(4096, Loop(24, 4096, 4096)))
    assert without_idle_prefetches(whole, PAIR, IDLE).prefetch == 0


def _blocks(rows: int, *, prefetch: int | None = None, distance: int = 128) -> Step:
    """Blocks of two lines of each of `rows` rows of 16640 bytes, in tiles over a buffer that is streamed."""
    blocks = Blocking("rows", 16), Blocking("cols", 16)
    tile = Tile(4, Axis(rows, 16640), Axis(32, 4 * rows), blocks, square=True, prefetch_distance=distance)
    staged = Staged(128 * rows, (Step((), 0, 0, tile, -1),), streaming=True)
    loops = Loop(1024 // rows, rows * 16640, rows * 16640), Loop(130, 128, 128 * rows)
    return Step(loops, 0, 0, staged, prefetch=prefetch)


SLOW_JUMPS = replace(WIDE, measured=replace(WIDE.profile, prefetched_jump_ns=5.0, sequences=16))
FREE_JUMPS = replace(WIDE, measured=replace(WIDE.profile, prefetched_jump_ns=0.0, sequences=16))


def test_more_rows_than_are_followed_cost_in_memory_though_they_are_prefetched():
    def more(step: Step) -> float:
        return _cost(step, volume=64 << 20, machine=SLOW_JUMPS) - _cost(
            step, volume=64 << 20, machine=FREE_JUMPS
        )

    assert 0 < more(_blocks(32)) < more(_blocks(64)) < more(_blocks(128)) == more(_blocks(512))


def test_of_what_the_last_level_does_not_quite_hold_a_part_is_there():
    def more(volume: int) -> float:
        step = _blocks(64)
        return _cost(step, volume=volume, machine=SLOW_JUMPS) - _cost(step, volume=volume, machine=FREE_JUMPS)

    assert 0 < more(24 << 20) < more(48 << 20) == pytest.approx(more(64 << 20))
    assert more(16 << 20) == 0


def test_negative_rows_that_are_followed_cost_nothing_nor_any_that_the_caches_hold_or_that_are_read_as_they_lie():
    for step, volume in (
        (_blocks(16), 64 << 20),
        (_blocks(64), 4 << 20),
        (_blocks(64, prefetch=0), 64 << 20),
        (_blocks(64, distance=0), 64 << 20),
    ):
        assert _cost(step, volume=volume, machine=SLOW_JUMPS) == _cost(
            step, volume=volume, machine=FREE_JUMPS
        )


def _across(cols: int, *, distance: int = 0, machine: Machine = SLOW_JUMPS, volume: int = 64 << 20) -> float:
    """Down 1024 rows of `cols` elements, one behind the other, to columns that share no sets."""
    schedule = Blocking("cols", 16), Blocking("rows", 16)
    tile = Tile(4, Axis(1024, 4 * cols), Axis(cols, 4096 + 192), schedule, True, square=True)
    step = Step((), 0, 0, replace(tile, prefetch_distance=distance))
    return _cost(step, volume=volume, machine=machine) / cols


def test_in_memory_short_rows_that_are_not_read_as_they_lie_cost_more():
    [one, more] = _across(16), _across(64)
    assert more > 1.2 * one
    # Prefetches in other rows than those that are read together help, at a price.
    free, slow = (_across(64, distance=64 * 16 * 4, machine=x) for x in (FREE_JUMPS, SLOW_JUMPS))
    assert one <= free < slow


def test_negative_prefetches_of_rows_that_are_read_together_come_for_nothing():
    assert _across(64, distance=64 * 8 * 4) == _across(64)


def test_negative_short_rows_in_the_caches_and_bands_that_are_prefetched_cost_no_more():
    for distance in (0, 64 * 16 * 4):
        in_cache = [
            _across(64, distance=distance, volume=8 << 20, machine=x) for x in (SLOW_JUMPS, FREE_JUMPS)
        ]
        assert in_cache[0] == in_cache[1] < 1.1 * _across(16, volume=8 << 20)
    schedule = Blocking("cols", 16), Blocking("rows", 16)
    tile = Tile(4, Axis(32, 256), Axis(64, 4096 + 192), schedule, True, square=True)
    band = Step((Loop(32, 32 * 256, 128),), 0, 0, tile, prefetch=0)
    assert _cost(band, volume=64 << 20, machine=SLOW_JUMPS) / 64 < _across(64) / 1.2


def _gain(rows: int, row: int, *, first: str = "cols", machine: Machine = WIDE) -> float:
    """What prefetches 256 bytes ahead save a transposition down all of its rows, or along 16 of them at a time."""
    schedule = Blocking(first, 16), Blocking("cols" if first == "rows" else "rows", 16)

    def tiles(distance: int) -> float:
        tile = Tile(4, Axis(rows, row), Axis(512, 4160), schedule, square=True, prefetch_distance=distance)
        return _cost(Step((), 0, 0, tile), machine=machine)

    return tiles(0) - tiles(256)


def test_prefetches_along_few_rows_are_in_time():
    assert _gain(256, 2112) > 0
    assert _gain(1008, 2112) > 0


def test_negative_prefetches_along_more_rows_than_l2_holds_come_for_nothing():
    assert _gain(1008, 2112, machine=replace(WIDE, l2=512 << 10)) == 0  # too many bytes
    assert _gain(256, 16384) == 0  # too many lines for the sets that such a stride reaches


def test_a_buffer_pays_only_where_it_avoids_conflicts():
    def tiles(stride: int) -> tuple[Step, Step]:
        blocks = Blocking("cols", 16), Blocking("rows", 16)
        tile = Tile(4, Axis(1024, 2112), Axis(512, stride), blocks, square=True, prefetch_distance=256)
        part = replace(tile, rows=Axis(128, 2112), cols=Axis(32, 576))
        staged = Staged(512, (Step((), 0, 0, part, -1),), False, 32, stride, 576)
        loops = Loop(8, 128 * 2112, 512), Loop(16, 128, 32 * stride)
        return Step((), 0, 0, tile), Step(loops, 0, 0, staged)

    direct, staged = tiles(4096)
    assert _cost(staged) < _cost(direct)
    slow = replace(WIDE, measured=replace(WIDE.profile, staging_ns=2.0))
    assert _cost(staged, machine=slow) > _cost(direct, machine=slow)
    direct, staged = tiles(4160)
    assert _cost(direct) < _cost(staged)


@pytest.mark.parametrize("streaming", [False, True])
def test_the_way_over_a_buffer_costs_what_the_profile_says(streaming: bool):
    name = "staging_streamed_ns" if streaming else "staging_ns"
    slow = replace(WIDE, measured=replace(WIDE.profile, **{name: getattr(WIDE.profile, name) + 1.0}))
    filled = Step((), 0, 0, Copy(512), -1)
    step = Step((Loop(512, 512, 512),), 0, 0, Staged(512, (filled,), streaming))
    lines = 512 * 8
    assert _cost(step, machine=slow) - _cost(step) == pytest.approx(lines)
    far = [_cost(step, volume=64 << 20, machine=machine) for machine in (slow, WIDE)]
    assert far[0] - far[1] == pytest.approx(lines / 2 if streaming else lines)
    for other in (
        replace(step, kernel=replace(step.kernel, streaming=not streaming)),
        Step((Loop(512, 512, 512),), 0, 0, Copy(512)),
    ):
        assert _cost(other, machine=slow) == _cost(other)


def _line_by_line(number: int, stride: int) -> float:
    """How many times as much it costs to give each of `number` columns a line before any has the next, as to fill one
    column after the other."""
    blocks = Blocking("rows", 16), Blocking("cols", 16)
    across, along = (
        _cost(Step((), 0, 0, Tile(4, Axis(32, 4 * number), Axis(number, stride), schedule)))
        for schedule in (blocks, blocks[::-1])
    )
    return across / along


def test_lines_in_which_columns_meet_are_written_again_where_l1_and_l2_have_lost_them():
    # Columns of 160 bytes begin within lines, those of 192 with one.
    assert _line_by_line(8192, 160) > 1.2 and _line_by_line(8192, 192) < 1.1
    assert _line_by_line(256, 160) < _line_by_line(1024, 160) < _line_by_line(16384, 160)


def test_negative_lines_that_l1_still_has_are_not():
    assert _line_by_line(256, 160) < 1.1


def _copied(run: int, count: int) -> Step:
    """`count` blocks of 64 pieces that go to a buffer and from there to 64 places."""
    copy, back = Copy(run, Loop(64, run * count, run)), Copy(run, Loop(64, run, run * count))
    kernel = Staged(64 * run, (Step((), 0, 0, copy, -1),), then=(Step((), 0, 0, back, -1),))
    return Step((Loop(count, run, run),), 0, 0, kernel)


@pytest.mark.parametrize("run", [64, 256])
def test_the_way_over_a_buffer_that_lines_are_copied_to_has_a_price_of_its_own(run: int):
    step, lines = _copied(run, 128), run * 128
    for name, volume, more in (
        ("staging_copied_ns", 4 << 20, lines),
        ("staging_copied_ns", 64 << 20, 0),
        ("staging_ns", 4 << 20, 0),
        ("staging_ns", 64 << 20, lines),
    ):
        slow = replace(WIDE, measured=replace(WIDE.profile, **{name: getattr(WIDE.profile, name) + 1.0}))
        costs = [_cost(step, volume=volume, machine=machine) for machine in (slow, WIDE)]
        assert costs[0] - costs[1] == pytest.approx(more), (name, volume)


def test_negative_a_buffer_that_tiles_fill_does_not_have_that_price():
    slow = replace(WIDE, measured=replace(WIDE.profile, staging_copied_ns=50.0))
    tile = Tile(4, Axis(16, 2112), Axis(16, 64), (Blocking("rows", 16), Blocking("cols", 16)))
    then = Step((), 0, 0, Copy(1024), -1)
    two_passes = Step((), 0, 0, Staged(1024, (Step((), 0, 0, tile, -1),), then=(then,)))
    flushed = Step((), 0, 0, Staged(512, (Step((), 0, 0, Copy(512), -1),)))
    for step in (two_passes, flushed):
        assert _cost(step, machine=slow) == _cost(step)


def test_in_memory_a_buffer_is_emptied_to_all_of_its_places_at_once():
    """To 64 places in two loops of 8, each of which alone the processor would follow."""
    copy = Copy(256, Loop(64, 256, 256))
    inner = Copy(64, Loop(8, 256, 1 << 16))
    then = Step((Loop(8, 2048, 1 << 19), Loop(4, 64, 64)), 0, 0, inner, -1)
    buffer = Staged(1 << 14, (Step((), 0, 0, copy, -1),), then=(then,))
    step = Step((Loop(256, 1 << 14, 256),), 0, 0, buffer)
    few = replace(then, loops=(Loop(4, 64, 64),))
    near = Staged(1 << 11, (Step((), 0, 0, Copy(256, Loop(8, 256, 256)), -1),), then=(few,))
    followed = Step((Loop(256, 1 << 11, 256),), 0, 0, near)
    limit = WIDE.profile.streaming_volume
    jumping, in_order = (_cost(x, volume=2 * limit) - _cost(x, volume=limit + 1) for x in (step, followed))
    # What memory gives costs more; what jumps costs as much again, four fifths of a line in memory.
    dearer, lines = WIDE.profile.memory_ns - WIDE.profile.streamed_ns, (1 << 22) // 64
    assert in_order == pytest.approx(lines // 8 * dearer, rel=1e-3)
    assert jumping == pytest.approx(lines * (dearer + 0.8 * WIDE.profile.memory_ns), rel=1e-3)


def _half_lines(number: int, stride: int, *, reads: bool = False) -> Step:
    """32768 halves of lines, written to `number` places by turns that are `stride` bytes apart, or read from them."""
    count = 32768 // number
    if reads:
        return Step((Loop(count, 32, number * 32),), 0, 0, Copy(32, Loop(number, stride, 32)))
    return Step((Loop(count, number * 32, 32),), 0, 0, Copy(32, Loop(number, 32, stride)))


def test_begun_lines_that_take_all_of_a_set_lose_some():
    apart, full, beyond = _half_lines(8, 4160), _half_lines(8, 4096), _half_lines(64, 4096)
    assert _cost(apart) < _cost(full) < _cost(beyond)


def test_negative_begun_lines_that_take_half_of_a_set_lose_none():
    assert _cost(_half_lines(4, 4096)) == _cost(_half_lines(4, 4160))


def test_parts_of_lines_that_are_still_there_cost_no_more_than_the_line():
    """Lines of 64 rows by turns, and halves of them."""
    whole = Step((Loop(256, 64, 4096),), 0, 0, Copy(64, Loop(64, 3136, 64)))
    halves = Step((Loop(512, 32, 2048),), 0, 0, Copy(32, Loop(64, 3136, 32)))
    jump = _cost(halves) - 16384 * WIDE.profile.cached_ns
    # Whole lines pay half, of 1.4 times as much for places beyond those that are followed.
    assert jump == pytest.approx(2 / 1.4 * (_cost(whole) - 16384 * WIDE.profile.cached_ns))


def test_jumps_among_few_places_or_to_the_next_line_but_one_cost_less():
    def jumps(places: int, stride: int) -> float:
        lines = Step((Loop(16384 // places, 64 * places, 64),), 0, 0, Copy(64, Loop(places, 64, stride)))
        return _cost(lines) - 16384 * WIDE.profile.cached_ns

    followed = WIDE.profile.sequences
    assert 0 < jumps(followed, 12544) < jumps(2 * followed, 12544) < jumps(4 * followed, 12544)
    assert jumps(4 * followed, 256) == pytest.approx(jumps(followed, 12544))


def test_a_buffer_whose_stores_go_on_in_other_pages_costs_more():
    """Blocks of 16 channels of f32 to planes over a buffer, of 7 x 7 within a page or not, of 8 x 8 in either."""

    def staged(blocks: int, plane: int) -> float:
        tile = move_tile(Loop(plane, 64, 4), Axis(16, 4 * plane), 4, WIDE)
        loops = (Loop(blocks, 64 * plane, 64 * plane),) if blocks > 1 else ()
        size = blocks * 64 * plane
        kernel = Staged(size, (Step(loops, 0, 0, tile, -1),), streaming=True)
        return _cost(Step((Loop(60 // blocks, size, size),), 0, 0, kernel))

    assert staged(5, 49) > 1.2 * staged(1, 49)
    assert staged(5, 64) == pytest.approx(staged(1, 64), rel=0.05)


def test_many_rows_that_tiles_over_a_buffer_read_by_turns_cost_more_in_memory():
    free, dear = (
        replace(WIDE, measured=replace(WIDE.profile, staging_scattered_ns=price, sequences=16))
        for price in (0.0, 2.0)
    )

    def more(rows: int, volume: int = 64 << 20, prefetch: int | None = None) -> float:
        step = _blocks(rows, prefetch=prefetch)
        return _cost(step, volume=volume, machine=dear) - _cost(step, volume=volume, machine=free)

    assert more(16) == 0 < more(32) < more(64) < more(128)
    assert more(64, 8 << 20) == more(64, prefetch=0) == 0


def test_parts_of_lines_that_many_places_have_by_turns_are_read_more_than_once():
    few, near, far = (_half_lines(*x, reads=True) for x in ((8, 4096), (512, 256), (512, 4096)))
    assert _cost(few) < _cost(near) < _cost(far)


def test_negative_few_places_are_read_as_one_wherever_they_lie():
    assert _cost(_half_lines(8, 4096, reads=True)) == _cost(_half_lines(8, 4160, reads=True))


def test_parts_of_lines_in_more_places_than_their_sets_hold_are_read_twice():
    assert _cost(_half_lines(32, 4096, reads=True)) > 1.2 * _cost(_half_lines(32, 4160, reads=True))


def test_negative_half_as_many_places_are_read_at_once_whatever_their_sets_hold():
    assert _cost(_half_lines(16, 4096, reads=True)) == _cost(_half_lines(16, 4160, reads=True))


def test_parts_of_lines_in_few_sets_are_seldom_lost():
    """Of 128 rows, which fill a quarter of the sets, and of 512, which fill all of them."""

    def again(rows: int, stride: int) -> float:
        return _cost(_half_lines(rows, stride, reads=True)) - _cost(_half_lines(16, stride, reads=True))

    assert 0 < again(128, 256) < again(512, 64 + 4096) / 2


def _halves_in_order(lines: int, *, volume: int = 4 << 20) -> float:
    """The cost of the first halves of so many lines, then of the second ones, of 16384 lines in all."""
    loops = Loop(16384 // lines, lines * 64, lines * 64), Loop(2, 32, lines * 32)
    return _cost(Step(loops, 0, 0, Copy(32, Loop(lines, 64, 32))), volume=volume)


def test_lines_that_l1_has_lost_are_read_again_for_their_other_half():
    assert _halves_in_order(1024) > 1.3 * _halves_in_order(64)


def test_negative_lines_that_l1_holds_are_read_once():
    assert _halves_in_order(64) == _halves_in_order(256)


def _parts_of_rows(row: int, read: int, first: int = 0) -> float:
    """The cost of `read` bytes of each of 1 << 20 rows, in memory, written one behind the other."""
    return _cost(Step((), first, 0, Copy(read, Loop(1 << 20, row, read))), volume=256 << 20)


def test_what_begins_anywhere_in_its_lines_is_read_from_one_line_more():
    # 128 bytes that begin at any multiple of 4 lie in three lines, but for one time in 16; of 192 bytes, whole lines.
    more = _parts_of_rows(196, 128) / _parts_of_rows(192, 128)
    assert 1.1 < more < 1.5


def test_negative_rows_that_are_read_whole_have_no_line_twice():
    assert _parts_of_rows(196, 196) / 196 == pytest.approx(_parts_of_rows(192, 192) / 192, rel=0.01)


def _streamed_buffer(size: int) -> float:
    """The cost per byte of 1 << 14 copies of so many bytes over a buffer."""
    staged = Staged(size, (Step((), 0, 0, Copy(size), -1),), streaming=True)
    return _cost(Step((Loop(1 << 14, size, size),), 0, 0, staged), volume=64 << 20) / size


def test_buffers_that_end_within_a_line_cost_more_the_smaller_they_are():
    assert _streamed_buffer(1568) > 1.5 * _streamed_buffer(1536)
    assert _streamed_buffer(15680 + 32) < 1.2 * _streamed_buffer(15680 - 64)


def test_negative_begun_lines_that_wait_for_the_next_iteration_cost_nothing():
    def rows(size: int, iterations: int) -> float:
        inner = Step((), 0, 0, Copy(size, Loop(4, 1 << 14, 640)), -1)
        staged = Staged(size, (inner,), True, 4, 1 << 14, 640, iterations, size)
        loop = Loop(64, 1 << 16, 1 << 16)
        return _cost(Step((loop,), 0, 0, staged), volume=64 << 20) / size / iterations

    assert rows(544, 8) == pytest.approx(rows(576, 8), rel=0.1) and rows(544, 1) > 1.3 * rows(576, 1)


@pytest.mark.parametrize("streaming, lost", [(False, 2), (True, 4)])
def test_above_the_volume_from_which_streams_win_lines_come_from_memory_little_by_little(
    streaming: bool, lost: int
):
    step, profile = Step((), 0, 0, Copy(1 << 20, streaming=streaming)), WIDE.profile
    few = profile.streaming_volume_few
    costs = [_cost(step, volume=round(few * part)) / (1 << 14) for part in (1, 1.5, lost, 2 * lost)]
    memory = profile.memory_streamed_ns if streaming else profile.memory_ns
    assert costs[0] < costs[1] < costs[2] == costs[3]
    assert costs[0] == pytest.approx(profile.streamed_ns) and costs[2] == pytest.approx(memory)


def test_in_memory_more_than_eight_sequences_that_are_written_side_by_side_do_not_come_in_time():
    def image(columns: int) -> Step:
        """64 bytes of each of `columns` rows of 1024 bytes by turns, until they are whole."""
        return Step((Loop(1024, 1024 * columns, 1024 * columns), Loop(16, 64 * columns, 64)), 0, 0,
                    Copy(64, Loop(columns, 64, 1024)))  # fmt: skip

    limit = WIDE.profile.streaming_volume
    few, many = (_cost(image(n), volume=4 * limit) / _cost(image(n), volume=limit // 2) for n in (8, 16))
    assert many > 1.3 * few


def test_over_a_buffer_lines_that_are_read_in_their_order_need_no_prefetch():
    def step(inner: Step) -> Step:
        staged = Staged(6272, (replace(inner, parallel=-1),), streaming=True)
        return Step((Loop(1000, 6272, 6272),), 0, 0, staged, prefetch=0)

    in_order = step(Step((Loop(98, 64, 32),), 0, 0, Copy(32, Loop(2, 32, 3136))))
    quarters = step(Step((Loop(4, 16, 1568),), 0, 0, Copy(16, Loop(98, 64, 16))))
    by_turns = step(Step((Loop(98, 32, 64),), 0, 0, Copy(32, Loop(2, 3136, 32))))
    assert without_idle_prefetches(in_order, PAIR, WIDE).prefetch is None
    assert without_idle_prefetches(by_turns, PAIR, WIDE) == by_turns
    assert without_idle_prefetches(quarters, PAIR, WIDE) == quarters


def test_rows_of_a_tile_that_meet_are_one_piece():
    def rows(stride: int) -> Step:
        blocks = Blocking("rows", 16), Blocking("cols", 4)
        tile = Tile(4, Axis(128, stride), Axis(8, 4160), blocks)
        return Step((Loop(64, 1 << 16, 512),), 0, 0, tile)

    assert _cost(rows(32)) < _cost(rows(96))


def test_tiles_that_overlap_move_no_line_twice_but_where_they_stream():
    def columns(number: int, *, streaming: bool) -> float:
        tile = Tile(
            4, Axis(16, 64), Axis(number, 1024), (Blocking("rows", 16), Blocking("cols", 4)), streaming
        )
        return _cost(Step((Loop(256, 1024, 64),), 0, 0, tile)) / number

    assert columns(9, streaming=False) == pytest.approx(columns(12, streaming=False))
    assert columns(5, streaming=True) > 1.1 * columns(8, streaming=True)


@pytest.mark.parametrize("first", ["rows", "cols"])
def test_all_lines_of_folded_columns_are_paid_for(first: str):
    blocks = Blocking("rows", 16), Blocking("cols", 16)
    schedule = blocks if first == "rows" else blocks[::-1]
    tile = Tile(4, Axis(16, 9216), Axis(128, 64, 8, 4608), schedule, streaming=True)
    assert _cost(Step((), 0, 0, tile)) >= 128 * WIDE.profile.streamed_ns


# Any profile ---------------------------------------------------------------------------------------------------------


def _random_machine(rng: Random) -> Machine:
    """This machine with small caches and a profile that nobody measured."""

    def size(low: int, high: int) -> int:
        return round(2 ** rng.uniform(low, high))

    def price() -> float:
        return 10 ** rng.uniform(-3, 3)

    entries = {field.name: price() for field in fields(MachineProfile) if field.name.endswith("_ns")}
    entries |= {name: size(0, 24) for name in ("streaming_volume", "streaming_volume_few", "wake_bytes")}
    profile = MachineProfile.from_json(
        entries
        | {
            "source": "made up",
            "streaming_volume_converting": size(0, 24),
            "streaming_volume_shared": size(0, 24),
            "sequences": rng.randint(1, 64),
            "prefetch_gain": rng.choice((0.8, 1.0, 1.2)),
            "multistride_copy_gain": rng.choice((0.8, 1.2)),
            "multistride_narrowing_gain": rng.choice((0.8, 1.2)),
            "multistride_tile_gain": rng.choice((0.8, 1.2)),
            "staging_scattered_ns": rng.uniform(0, 9),
            "multistride_cached_gain": rng.choice((0.8, 1.2)),
            "prefetch_distance": size(0, 14),
            "dispatch_bytes": size(0, 20),
        }
    )
    l1, l2 = 1 << rng.randint(12, 16), 1 << rng.randint(10, 14)
    return replace(
        host(),
        l1=l1,
        l2=l2,
        l3=4 * l2,
        l1_ways=1 << rng.randint(0, 4),
        l2_ways=1 << rng.randint(0, 4),
        measured=profile,
    )


_MATRICES = [
    ("cdba", "ABcd8b16a"), ("cdba", "ABcd16b32a"), ("acdb", "ABcd16a16b"), ("abcd", "ABcd32a16b"), ("abcd", "dcba"),
    ("abcd", "acdb"), ("ABcd16b16a", "abcd"),
]  # fmt: skip


def _matrix_case(rng: Random) -> Case:
    """A reorder of a matrix or of weights, large enough for blocks and buffers."""
    src, dst = rng.choice(_MATRICES)
    shape = tuple(rng.choice((16, 64, 128, 160, 161, 272)) for _ in range(2))
    sizes = (*shape, 1, 1) if rng.random() < 0.7 else (shape[0], 1, rng.choice((7, 28)), 28)
    layouts = [Format.of(tag).bind(sizes) for tag in (src, dst)]
    return Case(layouts[0], layouts[1], rng.choice(("f32", "f32", "i8", "bf16")))


def _check(seed: int) -> str:
    """Random reorders for four random machines or more, until one of them streams, against the definition; the text of
    all their plans."""
    rng, texts = Random(7000 + seed), list[str]()
    for number in range(20):
        if number >= 4 and any("streaming" in text for text in texts):
            break
        machine = _random_machine(rng)
        cases = [random_case(rng, limit=rng.choice((300, 3000))) for _ in range(BATCH // 4 - 2)]
        cases += [_matrix_case(rng) for _ in range(2)]
        kernels = compile_many([(case.src, case.dst, case.dtype) for case in cases], target=machine)
        for case, kernel in zip(cases, kernels, strict=True):
            texts.append(str(kernel.plan))
            check_plan(kernel.plan)
            src, dst, src_at, dst_at = buffers(rng, case)
            dst_at -= (dst.ctypes.data + dst_at) % 64 if rng.random() < 0.7 else 0
            wanted = expected(case, src, dst, src_at, dst_at)
            for part in range(parts := rng.choice((1, 1, 2, 3))):
                kernel.run_part(src.ctypes.data + src_at, dst.ctypes.data + dst_at, part, parts)
            assert np.array_equal(dst, wanted), f"seed {seed}: {case}\n{machine.profile}\n{kernel.plan}"
    return "\n".join(texts)


@pytest.mark.parametrize("seed", seeds(3, 60))
def test_any_profile_moves_the_same_bytes(seed: int):
    assert "streaming" in _check(seed)


def test_volumes_that_are_far_apart_have_a_plan():
    profile = replace(host().profile, streaming_volume=1 << 40, streaming_volume_converting=1)
    machine = replace(host(), measured=profile)
    src, dst = (Format.of(tag).bind((256, 256)) for tag in ("ab", "ba"))
    assert plan_reorder(src, dst, conversion=Conversion("f32", "i8"), target=machine).steps


def test_profiles_differ_in_what_they_choose():
    src, dst = (Format.of(tag).bind((256, 192, 1, 1)) for tag in ("cdba", "ABcd8b16a"))
    rng = Random(1)
    kernels = [compile_many([(src, dst, "f32")], target=_random_machine(rng))[0] for _ in range(20)]
    assert len({kernel.plan for kernel in kernels}) > 3
    assert {part in str(kernel.plan) for kernel, part in product(kernels, ["streaming"])} == {True, False}
