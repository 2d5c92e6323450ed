"""Known pairs: which pads are written with elements, where digits conflict, what else is worth measuring."""

from __future__ import annotations

from random import Random

import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.machine.known_cpus import known_cpus
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.pad_fills import pad_bits
from layout_ir.backends.llvm.planning.planner import candidates, make_plan, streams
from layout_ir.dialects.kernel.plan import Copy, Fill, Loop, PaddedCopy, Plan, TableLoop, Tile
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.planning.plans import TAGS, WIDE, random_shape, step_of, steps_of


def test_pads_that_share_a_block_are_written_with_it():
    whole, part = steps_of("nchw", "nChw8c", (1, 17, 4, 4))
    assert isinstance(whole.kernel, Tile) and not whole.kernel.valid
    assert isinstance(part.kernel, Tile) and (part.kernel.rows.count, part.kernel.valid) == (8, 1)


def test_negative_pads_behind_whole_blocks_are_filled_apart():
    fill = steps_of("nc", "(n, c) : [n, c:16, c:4], pad = 3", (5, 8))[-1].kernel
    assert isinstance(fill, Fill) and (fill.run, fill.value) == (224, 0x40400000)  # 3.0


def test_pads_behind_a_copied_run_complete_its_line():
    padded = steps_of("nChw8c", "nChw16c", (1, 17, 4, 4))[-1].kernel
    assert padded == PaddedCopy(4, 0, 4, 64, Loop(16, 32, 64))


def test_blocks_that_conflict_need_a_table():
    tables = [x for x in step_of("aBc8b", "aBc12b", (2, 96, 5)).loops if isinstance(x, TableLoop)]
    assert [table.count for table in tables] == [6]  # blocks of 4, the divisor of 8 and 12, in 24 channels


def test_candidates_differ_and_begin_with_the_plan():
    src, dst = (Format.of(tag).bind((64, 256, 14, 14)) for tag in ("nchw", "nhwc"))
    plans = candidates(src, dst, ElementPair(4, 4), 0, WIDE)
    assert plans[0] == make_plan(src, dst, ElementPair(4, 4), 0, WIDE)
    assert len(plans) == len(set(plans)) > 3
    assert {streams(plan) for plan in plans} == {True, False}


def _weight(volume: int) -> Plan:
    src, dst = (Format.of(tag).bind((256, 64, 1, 1)) for tag in ("oihw", "Oihw16o"))
    return make_plan(src, dst, ElementPair(4, 4), 0, WIDE, volume=volume)


def test_a_small_part_of_a_large_volume_is_streamed_as_the_whole_would_be():
    assert streams(_weight(256 << 20))


def test_negative_a_volume_that_the_caches_hold_changes_nothing():
    assert _weight(100 << 10) == _weight(0) and not streams(_weight(0))


_CPUS = {name: cpu.machine for name, cpu in known_cpus().items()}


@pytest.mark.parametrize("seed", range(8))
def test_no_plan_of_any_machine_leaves_its_buffers(seed: int):
    rng = Random(seed)
    number = 0
    while number < 1000:
        shape = random_shape(rng)
        src, dst = (Format.of(tag).bind(shape) for tag in rng.sample(TAGS, 2))
        if max(src.extent, dst.extent) > 1 << 26:
            continue
        dtype = rng.choice(["f32", "f32", "bf16", "ui8", "f64"])
        conversion = Conversion(dtype, rng.choice([dtype, dtype, "bf16", "i8"]))
        pair, machine = ElementPair.of(conversion), rng.choice(list(_CPUS.values()))
        pad = pad_bits(dst.pad, conversion.dst)
        of_list = make_plan(src, dst, pair, pad, machine, volume=1 << rng.randint(20, 30))
        for plan in (of_list, *candidates(src, dst, pair, pad, machine, rng.choice([1, 2]))):
            check_plan(plan)
            number += 1


@pytest.mark.parametrize("shape", [(213995, 17, 2, 1), (279620, 9, 1, 3)])
def test_columns_fewer_than_a_lane_are_all_that_is_moved(shape: tuple[int, ...]):
    src, dst = (Format.of(tag).bind(shape) for tag in ("nchw", "nChw16c"))
    check_plan(plan_reorder(src, dst, target=WIDE))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing_to_do(shape: tuple[int, ...]):
    assert steps_of("ab", "ba", shape) == ()


def test_half_lines_of_rows_that_share_sets_are_read_by_lines_in_what_l2_holds():
    step = step_of("cdba", "ABcd8b8a", (512, 128, 1, 1))
    assert isinstance(step.kernel, Copy) and step.kernel.inner.src == 32


def test_negative_where_rows_share_no_sets_the_destination_is_written_in_order():
    step = step_of("cdba", "ABcd8b8a", (496, 128, 1, 1))
    assert isinstance(step.kernel, Copy) and step.kernel.inner.dst == 32
