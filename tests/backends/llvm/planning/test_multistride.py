"""Parts of a sequence by turns: the same moves, four places that are read at a time, and few sets that they share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import compile_reorder
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.machine.profile import MachineProfile
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.multistride import gain_by_parts, multistrided
from layout_ir.backends.llvm.planning.tiles import move_tile
from layout_ir.backends.reference.conversions import converted
from layout_ir.dialects.kernel.plan import (
    Axis,
    Blocking,
    Copy,
    Interleave,
    Loop,
    Plan,
    Staged,
    Step,
    TableLoop,
    Tile,
    read_volume,
)
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.planning.plans import WIDE, steps_of
from tests.plan_evaluation import evaluate

GAINS: dict[str, float] = dict.fromkeys(
    (
        "multistride_copy_gain",
        "multistride_narrowing_gain",
        "multistride_tile_gain",
        "multistride_cached_gain",
    ),
    1.3,
)
MOVES = ElementPair(4, 4)


def _gaining(gains: Mapping[str, float] = GAINS) -> Machine:
    return replace(WIDE, measured=MachineProfile.from_json({**WIDE.profile.to_json(), **gains}))


def _check(step: Step, steps: list[Step], pair: ElementPair = MOVES, width: int = 4) -> Loop:
    """That `steps` do what `step` does, in four parts by turns, whose loop is returned."""
    size = (1 << 20, 1 << 20)
    plans = [Plan(width, *size, tuple(x), pair.conversion) for x in ([step], steps)]
    assert evaluate(plans[1]) == evaluate(plans[0])
    check_plan(plans[1])
    part = steps[0].loops[-1]
    assert isinstance(part, Loop) and part.count == 4
    return part


@pytest.mark.parametrize("run", [70000, 80 * 1024 + 12])
@pytest.mark.parametrize("streaming", [False, True])
def test_a_copy_reads_four_places_by_turns(run: int, streaming: bool):
    step = Step((), 64, 128, Copy(run - run % 64 if streaming else run, streaming=streaming))
    steps = multistrided(step, MOVES, _gaining())
    part = _check(step, steps)
    assert part.src == part.dst > 16000 and 192 <= part.dst % 4096 <= 4096 - 192
    assert all(x.kernel.streaming == streaming for x in steps)


def test_a_conversion_takes_its_channels_along():
    pair = ElementPair.of(Conversion("f32", "i8", dst_scale=(0.5,) * 20003, dim=0, channels=20003))
    step = Step((), 0, 0, Copy(20000, channel=1), channel=3)
    part = _check(step, multistrided(step, pair, _gaining()), pair, 1)
    assert part.channel == part.dst == part.src // 4


def test_a_conversion_to_wider_elements_is_taken_for_a_copy():
    pair = ElementPair.of(Conversion("bf16", "f32"))
    step = Step((), 0, 0, Copy(34048, streaming=True))
    part = _check(step, multistrided(step, pair, _gaining({"multistride_copy_gain": 1.3})), pair, 2)
    assert 2 * part.src == part.dst


def test_a_tile_of_blocks_of_channels_goes_down_four_parts_of_its_rows():
    tile = move_tile(Loop(1088, 64, 4), Axis(16, 8192 + 256), 4, WIDE)
    assert isinstance(tile, Tile)
    tile = replace(tile, schedule=(Blocking("cols", 16), Blocking("rows", 16)), streaming=True)
    step = Step((), 0, 0, tile)
    part = _check(step, multistrided(step, MOVES, _gaining()))
    assert part.src >= 4 * 4096


def test_what_parts_gain_is_known_of_a_tile_that_is_cut():
    tile = move_tile(Loop(1088, 64, 4), Axis(16, 8192 + 256), 4, WIDE)
    assert isinstance(tile, Tile)
    tile = replace(tile, schedule=(Blocking("cols", 16), Blocking("rows", 16)), streaming=True)
    machine = _gaining()
    assert gain_by_parts(Step((), 0, 0, tile), MOVES, machine) == machine.profile.multistride_tile_gain > 1


def test_negative_a_tile_that_stays_whole_and_a_copy_gain_nothing():
    tile = move_tile(Loop(1024, 64, 4), Axis(16, 4096), 4, WIDE)  # places that share sets
    assert isinstance(tile, Tile)
    tile = replace(tile, schedule=(Blocking("cols", 16), Blocking("rows", 16)), streaming=True)
    assert gain_by_parts(Step((), 0, 0, tile), MOVES, _gaining()) == 1
    assert gain_by_parts(Step((), 0, 0, Copy(1 << 20, Loop(1, 0, 0))), MOVES, _gaining()) == 1


def test_images_that_are_short_are_themselves_the_parts():
    tile = move_tile(Loop(64, 64, 4), Axis(16, 256), 4, WIDE)
    assert isinstance(tile, Tile)
    tile = replace(tile, schedule=(Blocking("cols", 16), Blocking("rows", 16)), streaming=True)
    step = Step((Loop(20, 4096, 4096 + 64),), 0, 0, tile)
    steps = multistrided(step, MOVES, _gaining())
    part = _check(step, steps)
    assert part.src % 4096 == 0 and read_volume(steps[0].kernel) == 1024


def test_tiles_whose_planes_share_sets_stay_in_order_and_prefetch():
    tile = move_tile(Loop(1024, 64, 4), Axis(16, 4096), 4, WIDE)
    assert isinstance(tile, Tile)
    tile = replace(tile, schedule=(Blocking("cols", 16), Blocking("rows", 16)), streaming=True)
    step = Step((), 0, 0, tile)
    assert multistrided(step, MOVES, _gaining()) == [
        replace(step, kernel=replace(tile, prefetch_distance=8192))
    ]
    short = replace(step, kernel=replace(tile, rows=Axis(256, 64)))
    assert multistrided(short, MOVES, _gaining()) == [short]


def test_colours_are_taken_apart_at_four_places():
    step = Step((), 0, 0, Interleave(1, 3, 23040, 23104, True, 64, streaming=True))
    _check(step, multistrided(step, ElementPair(1, 1), _gaining()), width=1)


@pytest.mark.parametrize(
    "name, step, pair",
    [
        ("multistride_copy_gain", Step((), 0, 0, Copy(1 << 17, streaming=True)), MOVES),
        ("multistride_cached_gain", Step((), 0, 0, Copy(1 << 17)), MOVES),
        (
            "multistride_narrowing_gain",
            Step((), 0, 0, Copy(1 << 17, streaming=True)),
            ElementPair.of(Conversion("f32", "bf16")),
        ),
        (
            "multistride_cached_gain",
            Step((), 0, 0, Copy(1 << 17)),
            ElementPair.of(Conversion("f32", "bf16")),
        ),
    ],
)
def test_negative_what_gains_nothing_stays_as_it_is(name: str, step: Step, pair: ElementPair):
    assert multistrided(step, pair, WIDE) == [step]
    assert multistrided(step, pair, _gaining({**GAINS, name: 1.0})) == [step]
    assert multistrided(step, pair, _gaining({name: 1.1})) != [step]


@pytest.mark.parametrize(
    "step",
    [
        Step((), 0, 0, Copy(60000)),
        Step((TableLoop((0, 4096), (0, 64)),), 0, 0, Copy(4096)),
        Step((Loop(64, 4096, 4096),), 0, 0, Copy(4096)),
        Step((), 0, 0, Copy(4096, Loop(64, 4096, 8192))),
        Step((), 0, 0, Interleave(1, 3, 40000, 40000, False, 64)),
        Step((), 0, 0, Interleave(1, 3, 40000, 40000, True, 64)),
        Step((), 0, 0, Interleave(1, 4, 65536, 65536, True, 64, streaming=True)),
        Step((), 0, 0, Interleave(1, 3, 65536, 65536 + 2048, True, 64, streaming=True)),
        Step((), 0, 0, Staged(4096, (Step((), 0, 0, Copy(4096)),), streaming=True)),
    ],
    ids=["short", "table", "rows", "runs", "several sequences", "cached", "one set", "two sets", "staged"],
)
def test_negative_what_is_no_long_sequence_stays_as_it_is(step: Step):
    assert multistrided(step, ElementPair(1, 1), _gaining()) == [step]


def test_negative_halves_of_bytes_stay_as_they_are():
    pair = ElementPair.of(Conversion("f32", "f4E2M1FN"))
    step = Step((), 0, 0, Copy(1 << 17))
    assert pair.packed and multistrided(step, pair, _gaining()) == [step]


def test_of_what_is_written_by_turns_two_lines_at_most_share_a_set():
    for src, dst, dtype, shape in (
        ("nChw16c", "nchw", "f32", (96, 64, 56, 56)),
        ("nChw8c", "nchw", "bf16", (96, 64, 112, 112)),
        ("nhwc", "nchw", "ui8", (300, 3, 224, 224)),
    ):
        steps = steps_of(src, dst, shape, dtype, _gaining())
        assert isinstance(steps[0].loops[-1], Loop) and steps[0].loops[-1].count == 4
        kernel, part = steps[0].kernel, steps[0].loops[-1].dst
        if isinstance(kernel, Interleave):
            places = [way * kernel.stride for way in range(kernel.ways)]
        else:
            assert isinstance(kernel, Tile)
            places = [kernel.cols.offset(k) for k in range(kernel.cols.count)]
        sets = Counter((place + k * part) % 4096 // 64 for place in places for k in range(4))
        assert max(sets.values()) <= 2


def test_a_plan_in_memory_is_in_parts_and_what_the_caches_hold_is_not():
    steps = steps_of("a", "a", (1 << 25,), machine=_gaining())
    assert steps[0].loops[-1].count == 4
    assert WIDE.l2 < 8 * (1 << 20) < WIDE.l3
    for elements in (1 << 16, 1 << 20):  # of L2, of the last level
        [step] = steps_of("a", "a", (elements,), machine=_gaining())
        assert isinstance(step.kernel, Copy) and not step.loops


def _planned_for_this_machine() -> Machine:
    """This machine, which is told that its caches are small and that parts gain."""
    facts = host().profile.to_json()
    volumes = dict.fromkeys((name for name in facts if name.startswith("streaming_volume")), 1 << 16)
    profile = MachineProfile.from_json({**facts, **GAINS, **volumes, "streamed_conflict_ns": 0.0})
    return replace(host(), l2=32 << 10, l3=64 << 10, measured=profile)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("elements", [1 << 18, 300007])
def test_copies_and_conversions_in_parts_give_the_same_bytes(elements: int, threads: int):
    x = np.random.default_rng(0).standard_normal(elements, np.float32)
    layout = Format.of("a").bind((elements,))
    for dtype in ("f32", "bf16", "i8"):
        conversion = None if dtype == "f32" else Conversion("f32", dtype)
        kernel = compile_reorder(
            layout, layout, "f32", conversion=conversion, target=_planned_for_this_machine(), threads=threads
        )
        assert kernel.plan.steps[0].loops[-1].count == 4
        expected = x if conversion is None else converted(x, conversion)
        got = np.empty(elements, np.float32 if conversion is None else expected.dtype)
        kernel(x, got)
        assert np.array_equal(got.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "src, shape, dtype", [("nChw16c", (3, 64, 56, 60), "f32"), ("nhwc", (2, 3, 200, 232), "ui8")]
)
def test_transpositions_in_parts_give_the_same_bytes(
    src: str, shape: tuple[int, ...], dtype: str, threads: int
):
    kernel = compile_reorder(
        Format.of(src).bind(shape), Format.of("nchw").bind(shape), dtype,
        target=_planned_for_this_machine(), threads=threads,
    )  # fmt: skip
    assert kernel.plan.steps[0].loops[-1].count == 4
    number = math.prod(shape)
    x = np.arange(number, dtype=np.float32) if dtype == "f32" else np.arange(number).astype(np.uint8)
    n, c, h, w = shape
    expected = (
        x.reshape(n, h, w, c).transpose(0, 3, 1, 2)
        if src == "nhwc"
        else x.reshape(n, c // 16, h, w, 16).transpose(0, 1, 4, 2, 3)
    )
    got = np.empty(number, x.dtype)
    kernel(x, got)
    assert np.array_equal(got, expected.reshape(-1))
