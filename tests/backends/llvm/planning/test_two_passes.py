"""Two passes over a staging buffer: what arrives is what the layouts say; and where one pass does as well."""

from __future__ import annotations

from operator import index

import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.staging import stack_bytes
from layout_ir.dialects.kernel.plan import Interleave, Loop, Plan, Staged, Tile
from layout_ir.dialects.kernel.plan_parser import parse_plan
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.planning.plans import NARROW, WIDE
from tests.plan_evaluation import definition, definition_of_conversion, evaluate

GROUPED = [
    ("abcd", "ABcd2b8a4b", "i8", (16, 24, 3, 3)),
    ("abcd", "ABcd2b8a4b", "i8", (20, 30, 3, 2)),  # with pads in both channels
    ("abcd", "ABcd8b16a2b", "bf16", (32, 32, 3, 3)),
    ("abcd", "BAcd8a16b2a", "bf16", (32, 32, 3, 3)),
    ("abcd", "AcdB64a4b", "i8", (64, 32, 1, 5)),
    ("abcd", "AcdB32a2b", "bf16", (32, 18, 2, 7)),
    ("cdba", "ABcd2b8a4b", "i8", (40, 64, 3, 2)),  # the source read by lines
]


def _bound(src: str, dst: str, shape: tuple[int, ...]) -> tuple[Layout, Layout]:
    return Format.of(src).bind(shape), Format.of(dst).bind(shape)


def _passes(plan: Plan) -> list[Staged]:
    return [step.kernel for step in plan.steps if isinstance(step.kernel, Staged) and step.kernel.then]


@pytest.mark.parametrize("src, dst, dtype, shape", GROUPED)
@pytest.mark.parametrize("machine", [WIDE, NARROW])
def test_grouped_elements_arrive_where_the_layouts_say(
    src: str, dst: str, dtype: str, shape: tuple[int, ...], machine: Machine
):
    layouts = _bound(src, dst, shape)
    plan = plan_reorder(*layouts, dtype, target=machine)
    assert parse_plan(str(plan)) == plan  # and it is verified
    width = {"i8": 1, "bf16": 2}[dtype]
    assert evaluate(plan) == definition(*layouts, width, bytes(width))
    assert _passes(plan)


@pytest.mark.parametrize(
    "src, dst, to, shape",
    [("abcd", "ABcd4b16a4b", "i8", (32, 32, 3, 3)), ("acdb", "AcdB64a4b", "i8", (64, 32, 2, 2)),
     ("abcd", "ABcd8b16a2b", "bf16", (32, 32, 3, 3))],
)  # fmt: skip
def test_what_is_converted_is_converted_on_the_way_into_the_buffer(
    src: str, dst: str, to: str, shape: tuple[int, ...]
):
    conversion = Conversion("f32", to, dst_scale=(0.5,) * shape[0], dim=0, channels=shape[0])
    layouts = _bound(src, dst, shape)
    plan = plan_reorder(*layouts, conversion=conversion, target=WIDE)
    assert _passes(plan)
    check_plan(plan)
    assert evaluate(plan) == definition_of_conversion(*layouts, conversion, b"\0\0")


@pytest.mark.parametrize(
    "dst, dtype, shape",
    [
        ("AcdB64a2b", "bf16", (128, 64, 3, 3)),
        ("AcdB64a4b", "i8", (64, 64, 5, 5)),
    ],
)
def test_groups_in_long_lines_are_interleaved_from_lines(dst: str, dtype: str, shape: tuple[int, ...]):
    plan = plan_reorder(*_bound("abcd", dst, shape), dtype, target=WIDE)
    [kernel] = _passes(plan)
    [then] = [step.kernel for step in kernel.then]
    assert isinstance(then, Interleave)
    assert then.width == {"i8": 1, "bf16": 2}[dtype]
    assert kernel.extent <= WIDE.l1 // 2
    [tile] = [step.kernel for step in kernel.steps]
    assert isinstance(tile, Tile)
    # One matrix: more columns than one filter has.
    assert index(tile.cols.count) >= 2 * shape[2] * shape[3]


@pytest.mark.parametrize(
    "dst, dtype, shape",
    [
        ("ABcd2b8a4b", "i8", (64, 64, 3, 3)),  # lines of 8 bytes
        ("AcdB64a4b", "i8", (64, 64, 9, 9)),  # lines of one filter do not leave half of the first cache
    ],
)
def test_negative_groups_are_elements_where_lines_are_short_or_too_many(
    dst: str, dtype: str, shape: tuple[int, ...]
):
    plan = plan_reorder(*_bound("abcd", dst, shape), dtype, target=WIDE)
    [kernel] = _passes(plan)
    [then] = [step.kernel for step in kernel.then]
    assert isinstance(then, Tile | Interleave)
    assert then.width == 4  # a group


@pytest.mark.parametrize("channels", [64, 512, 2048])
def test_the_buffer_stays_in_the_caches_however_many_channels_there_are(channels: int):
    plan = plan_reorder(*_bound("abcd", "AcdB64a4b", (64, channels, 3, 3)), "i8", target=WIDE)
    [kernel] = _passes(plan)
    assert WIDE.l1 // 8 <= kernel.extent <= WIDE.l2 // 4
    assert stack_bytes(plan, WIDE) >= kernel.extent


@pytest.mark.parametrize(
    "src, dst, dtype, shape",
    [
        ("acdb", "ABcd2b8a4b", "i8", (64, 64, 3, 3)),  # groups lie together in the source
        ("cdba", "AcdB64a4b", "i8", (64, 64, 3, 3)),  # four runs are interleaved
        ("abcd", "ABcd8b8a", "f32", (64, 64, 3, 3)),  # a whole line of rows: a tile
        ("abcd", "ABcd2b8a4b", "i8", (64, 8, 3, 3)),  # two groups make no long run in the buffer
        ("abcd", "aBcd4b", "i8", (64, 64, 7, 7)),
    ],
)
def test_negative_one_pass_does_as_well(src: str, dst: str, dtype: str, shape: tuple[int, ...]):
    assert not _passes(plan_reorder(*_bound(src, dst, shape), dtype, target=WIDE))


def test_negative_what_is_added_to_the_destination_is_not_moved_twice():
    conversion = Conversion("f32", "i8", beta=1.0)
    layouts = _bound("abcd", "ABcd4b16a4b", (32, 32, 3, 3))
    assert not _passes(plan_reorder(*layouts, conversion=conversion, target=WIDE))


def test_negative_a_dim_that_repeats_its_elements_ends():
    stays = Format.parse("(a, b, c) : [a*16, b*0, c*1]").bind((8, 16, 16))
    grouped = Format.parse("(a, b, c) : [a, b, c, b:4]").bind((8, 16, 16))
    plan = plan_reorder(stays, grouped, "i8", target=WIDE)
    assert evaluate(plan) == definition(stays, grouped, 1, None)


def test_out_of_cache_the_first_pass_prefetches_what_its_next_iteration_reads():
    for shape, ahead in (((512, 512, 3, 3), True), ((32, 64, 3, 3), False)):
        [step] = plan_reorder(*_bound("abcd", "ABcd2b8a4b", shape), "i8", target=WIDE).steps
        assert isinstance(step.kernel, Staged) and isinstance(around := step.loops[-1], Loop)
        tile = step.kernel.steps[0].kernel
        assert isinstance(tile, Tile) and tile.prefetch_distance == (around.src if ahead else 0)
