"""What is decided for known pairs, as the plan prints it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.planner import candidates, make_plan, streams

WIDE = Machine("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 32 << 10, 1 << 20, 32 << 20)
NARROW = Machine("aarch64-unknown-linux-gnu", "generic", "", 16, 32 << 10, 512 << 10, 8 << 20)


def _plan(
    src: str, dst: str, shape: tuple[int, ...], dtype: str = "f32", machine: Machine = WIDE
) -> list[str]:
    plan = plan_reorder(Format.of(src).bind(shape), Format.of(dst).bind(shape), dtype, target=machine)
    return [line.strip() for line in str(plan).splitlines()[1:]]


def test_equal_layouts_are_one_copy():
    assert _plan("nchw", "nchw", (2, 3, 4, 5)) == ["step src+0 dst+0 split 0", "copy 480"]


def test_dims_that_stay_together_are_one_loop():
    assert _plan("nchw", "nhwc", (2, 64, 7, 8)) == [
        "step src+0 dst+0 split 1",
        "for 2: src+14336 dst+14336",
        "tile 4 rows 64 by 224, cols 56 by 256: rows/16 cols/16 cols/4",
    ]


def test_negative_rows_that_crowd_sets_of_the_first_level_are_loaded_whole():
    # Of 16 lines 2 KiB apart eight are in one set, which has eight ways; of those 1 KiB apart four.
    assert _plan("ab", "ba", (256, 512))[-1].endswith("rows/16 whole")
    assert _plan("ab", "ba", (512, 256))[-1].endswith("rows/16 whole")
    assert _plan("ab", "ba", (256, 256))[-1].endswith("rows/16 cols/4")
    assert _plan("ab", "ba", (512, 49))[-1].endswith("rows/16 cols/4")
    wide = replace(WIDE, l1=48 << 10)
    assert _plan("ab", "ba", (256, 512), machine=wide)[-1].endswith("cols/4")


def test_registers_of_another_machine_give_another_tile():
    assert _plan("nchw", "nhwc", (2, 64, 7, 8), machine=NARROW)[-1] == (
        "tile 4 rows 64 by 224, cols 56 by 256: cols/16 rows/4 cols/4"
    )


def test_a_run_of_half_a_lane_moves_as_one_element():
    # Two bytes of a pixel stay together: a transposition of 16-bit elements.
    assert "tile 2 rows" in _plan("(a, b, c) : [a, b, c]", "(a, b, c) : [b, a, c]", (64, 32, 2), "i8")[-1]


def test_pads_that_share_a_block_are_written_with_it():
    steps = _plan("nchw", "nChw8c", (1, 17, 4, 4))
    assert steps[-1] == "tile 4 rows 8 by 64, cols 16 by 32: rows/8 cols/4 valid 1 pad 0x0"
    assert not any(line.startswith("fill") for line in steps)


def test_negative_pads_behind_whole_blocks_are_filled_apart():
    steps = _plan("nc", "(n, c) : [n, c:16, c:4], pad = 3", (5, 8))
    assert steps[-1].startswith("fill 224 with 0x40400000")


def test_pads_behind_a_copied_run_complete_its_line():
    assert _plan("nChw8c", "nChw16c", (1, 17, 4, 4))[-1] == (
        "copy 4 padded to 64 with 0x00000000 (for 16: src+32 dst+64)"
    )


def test_three_channels_are_woven():
    assert _plan("nchw", "nhwc", (1, 3, 8, 8))[-1] == "weave 4 strands 3 of 64 by 256: block 16"
    assert _plan("nhwc", "nchw", (1, 3, 8, 8))[-1] == "split 4 strands 3 of 64 by 256: block 16"


def test_blocks_that_conflict_need_a_table():
    assert "table 6: 0:0, 16:16, 160:32, 176:240, 320:256, 336:272" in _plan("aBc8b", "aBc12b", (2, 96, 5))


def test_large_destinations_are_streamed():
    assert _plan("nchw", "nhwc", (96, 64, 56, 56))[-1].endswith("rows/16 cols/16 whole streaming")
    assert "streaming" not in _plan("nchw", "nhwc", (1, 64, 56, 56))[-1]
    assert "streaming" not in _plan("nchw", "nhwc", (96, 64, 56, 56), machine=NARROW)[-1]


def test_lines_that_are_not_whole_go_through_a_buffer():
    steps = _plan("nhwc", "nchw", (384, 256, 14, 14))
    assert steps[0] == "step src+0 dst+0 split 0 ahead 0"
    assert steps[2:4] == ["for 16: src+64 dst+12544", "staged 12544"]


def test_long_rows_that_begin_anywhere_in_a_line_are_walked_in_strips():
    assert _plan("ab", "ba", (2080, 2112))[-1].endswith("streaming")
    assert _plan("ab", "ba", (2081, 2112))[:5] == [
        "step src+0 dst+0 split 0",
        "for 33: src+256 dst+532736",
        "staged 128 runs 64 by 8324 pitch 196 along 64 src+270336",
        "step src+0 dst+0 split -1",
        "tile 4 rows 32 by 8448, cols 64 by 196: rows/16 cols/16 reach 270336 whole",
    ]


def test_negative_short_rows_are_no_strips():
    assert not any(" along " in line for line in _plan("ab", "ba", (301, 9000)))


def test_pixels_of_few_lines_are_asked_for_ahead():
    assert _plan("nhwc", "nchw", (96, 64, 56, 56))[-1].endswith(
        "rows/64 cols/16 rows/16 reach 16384 whole streaming"
    )


def test_rows_that_share_a_cache_set_are_read_a_line_at_a_time():
    assert _plan("ab", "ba", (4096, 4096))[-1].endswith("rows/64 cols/16 rows/16 reach 256 whole streaming")


def test_rows_whose_columns_are_pages_apart_are_asked_for_ahead():
    assert _plan("ab", "ba", (4160, 4160)) == [
        "step src+0 dst+0 split 0 ahead 0",
        "for 260: src+266240 dst+64",
        "tile 4 rows 16 by 16640, cols 4160 by 16640: cols/16 rows/16 streaming",
    ]


def test_few_columns_are_taken_together_with_the_next_digit():
    assert _plan("oihw", "Ohwi32o", (64, 64, 3, 3))[-2:] == [
        "for 4: src+576 dst+2048",
        "tile 4 rows 32 by 2304, cols 144 by 8192 fold 9 by 128: cols/16 rows/16 cols/4",
    ]


def test_copies_of_whole_lines_follow_a_large_source():
    assert _plan("nhwc", "nChw16c", (42, 64, 56, 56))[1:] == [
        "for 42: src+802816 dst+802816",
        "for 3136: src+256 dst+64",
        "copy 64 streaming (for 4: src+64 dst+200704)",
    ]


def test_candidates_differ_and_begin_with_the_plan():
    src, dst = (Format.of(tag).bind((64, 256, 14, 14)) for tag in ("nchw", "nhwc"))
    plans = candidates(src, dst, 4, 0, WIDE)
    assert plans[0] == make_plan(src, dst, 4, 0, WIDE)
    assert len(plans) == len(set(plans)) > 3
    assert {streams(plan) for plan in plans} == {True, False}


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing_to_do(shape: tuple[int, ...]):
    assert _plan("ab", "ba", shape) == []


def test_what_lies_in_few_sequences_is_cached_up_to_twice_the_volume():
    def streamed(src: str, dst: str, *shape: int) -> bool:
        machine = replace(WIDE, l2=1 << 20, l3=32 << 20)
        source, target = (Format.of(tag).bind(shape) for tag in (src, dst))
        return streams(make_plan(source, target, 4, 0, machine))

    assert not streamed("nchw", "nhwc", 14, 3, 224, 224)
    assert streamed("nchw", "nhwc", 28, 3, 224, 224)
    assert not streamed("nChw8c", "nChw16c", 10, 64, 56, 56)
    assert streamed("nhwc", "nChw8c", 10, 64, 56, 56)
    assert streamed("nChw8c", "nchw", 10, 64, 56, 56)


def test_two_threads_use_the_caches_for_more():
    machine = replace(WIDE, l2=1 << 20, l3=32 << 20)

    def streamed(count: int, threads: int) -> bool:
        src, dst = (Format.of(tag).bind((count, 64, 56, 56)) for tag in ("nchw", "nhwc"))
        return streams(make_plan(src, dst, 4, 0, machine, threads))

    assert [streamed(count, 1) for count in (7, 8, 15, 16)] == [False, True, True, True]
    assert [streamed(count, 2) for count in (7, 8, 15, 16)] == [False, False, False, True]
