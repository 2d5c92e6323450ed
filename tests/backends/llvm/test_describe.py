"""A description tells all that a plan says: every number of its loops and kernels, and every mark of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import cast

import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.describe import (
    describe_arithmetic,
    describe_choice,
    describe_conversion,
    describe_dynamic_plan,
    describe_plan,
    describe_step,
)
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.dynamic_shapes import dynamic_reorder
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.planner import make_plan
from layout_ir.backends.llvm.runtime.tuning import Choice
from layout_ir.dialects.kernel.plan import ONCE, Copy, Fill, Loop, Plan, Step, TableLoop
from layout_ir.dialects.kernel.plan_parser import parse_plan
from layout_ir.elements.quantization import Conversion

MACHINE = Machine("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 32 << 10, 1 << 20, 32 << 20)

PLAN = Plan(4, 0, 0, ())

BLOCK = "tile 4 rows 32 by 64 cols 16 by 196 schedule <rows 16, cols 16>"
KERNELS = [
    "for 5 src 17 dst 70001 copy 71 for 3 src 101 dst 103",
    "for 5 src 17 dst 70001 tile 4 rows 37 by 1009 cols 41 by 1013 schedule <rows 8, cols 4> prefetch_distance 257",
    "tile 4 rows 32 by 1009 cols 36 by 1013 fold 9 by 2003 schedule <rows 32, cols 4> valid 29 pad 255",
    "interleave 2 ways 3 of 67 by 1009 block 16",
    "deinterleave 4 ways 2 of 67 by 1009 block 8",
    "for 5 src 17 dst 70001 elements 4 for 7 src 29 dst 31",
    "padded_copy 20 of 64 with 258 width 2 for 3 src 32 dst 128",
    "staged 1024 streaming { step src 19 dst 0 copy 64 for 16 src 64 dst 64 }",
    "staged 64 { step src 19 dst 0 copy 64 } then { step src 0 dst 7 copy 4 for 16 src 4 dst 31 }",
    f"staged 128 rows 16 by 1028 row_stride 196 iterations 3 src 2053 streaming {{ step src 0 dst 0 {BLOCK} }}",
]


def _numbers(part: object) -> Iterator[int]:
    """The numbers that say where and how much; what is 0 or 1 means no loop, no stride, no such part."""
    if isinstance(part, tuple):
        for item in cast("tuple[object, ...]", part):
            yield from _numbers(item)
    elif is_dataclass(part) and not isinstance(part, type) and part != ONCE:
        for field in fields(part):
            if field.name not in ("parallel", "prefetch", "value", "pad", "iterations", "row_stride"):
                yield from _numbers(getattr(part, field.name))
    elif isinstance(part, int) and not isinstance(part, bool) and part > 1:
        yield part


def _step(text: str) -> Step:
    [step] = parse_plan(f"width 1 src 400000 dst 400000 step src 65 dst 129 {text}").steps
    return step


def _told(lines: list[str]) -> set[int]:
    text = "\n".join(lines)
    told = {int(word, 0) for word in re.findall(r"0x[0-9a-f]+|\d+", text)}
    return told | {int(count) << 10 for count in re.findall(r"(\d+) KiB", text)}


@pytest.mark.parametrize("text", KERNELS)
def test_every_number_of_a_step_is_told(text: str):
    step = _step(text)
    missing = (
        set(_numbers(step)) - _told(describe_step(step)) - {2, 4} - ({64} if "padded" in text else set())
    )
    assert not missing, describe_step(step)


@pytest.mark.parametrize("text", KERNELS)
def test_a_line_each_for_loops_and_the_kernel_with_their_marks(text: str):
    step = _step(text)
    for depth in range(len(step.loops) + 1):
        lines = describe_step(replace(step, parallel=depth, prefetch=0 if step.loops else None))
        assert [k for k, line in enumerate(lines) if "threads" in line] == [depth + 1]
        assert [k for k, line in enumerate(lines) if "next iteration" in line] == [1] * bool(step.loops)
    assert any("bypass" in line or "stream" in line for line in describe_step(step)) is step.kernel.streaming


def test_negative_what_reads_no_source_tells_nothing_of_one():
    fill = Step((Loop(3, 0, 640),), 0, 128, Fill(2, 0x0102, 64, Loop(5, 0, 128)))
    lines = describe_step(fill)
    assert not any("source" in line for line in lines)
    assert {3, 640, 128, 64, 5, 0x0102} <= _told(lines)
    assert any("source" in line for line in describe_step(Step((TableLoop((0, 9), (3, 4)),), 0, 0, Copy(5))))


def test_a_plan_tells_its_buffers_machine_and_steps():
    plan = make_plan(Format.of("nchw").bind((1, 17, 4, 4)), Format.of("nChw8c").bind((1, 17, 4, 4)),
                     ElementPair(4, 4), 0, MACHINE)  # fmt: skip
    lines = describe_plan(plan, MACHINE)
    assert {plan.src_bytes, plan.dst_bytes, len(plan.steps), 64} <= _told(lines)
    assert MACHINE.cpu in "\n".join(lines) and "one buffer" not in "\n".join(lines)
    told = [line.strip() for line in lines]
    for step in plan.steps:
        assert set(describe_step(step)[1:]) <= set(told)


def test_negative_nothing_to_do_and_elements_that_stay():
    assert "nothing" in describe_plan(Plan(4, 0, 0, ()), MACHINE)[-1]
    stays = Plan(4, 64, 64, (Step((), 0, 0, Copy(64)),))
    assert any("one buffer" in line for line in describe_plan(stays, MACHINE))
    moves = Plan(4, 64, 128, (Step((), 0, 64, Copy(64)),))
    assert not any("one buffer" in line for line in describe_plan(moves, MACHINE))


def test_arithmetic_has_a_line_for_every_parameter_in_the_order_it_is_computed():
    conversion = Conversion(
        "ui8", "i8", 11.0, (2.5, 3.5), 0.75, beta="tensor", dst_zero="channel", dim=0, channels=2
    )
    lines = describe_arithmetic(conversion)
    places = [
        next(k for k, line in enumerate(lines) if word in line)
        for word in ("11.0", "the source's scale", "0.75", "beta", "the destination's zero")
    ]
    assert places == sorted(places) and len(lines) == 1 + len(conversion.parameters) + 1
    assert "i8" in lines[-1] and "saturated" in lines[-1]


@pytest.mark.parametrize(
    ("dst", "saturate", "beyond"),
    [
        ("f16", False, "infinity"), ("f8E5M2", False, "infinity"), ("f8E4M3FN", False, "NaN"),
        ("f8E5M2", True, "the greatest number"), ("f4E2M1FN", False, "the greatest number"),
    ],
)  # fmt: skip
def test_it_is_said_what_becomes_of_what_is_too_large(dst: str, saturate: bool, beyond: str):
    [line] = describe_arithmetic(Conversion("f32", dst, saturate=saturate))
    assert f"too large becomes {beyond}" in line


def test_negative_what_stays_what_it_is_has_no_arithmetic():
    assert describe_arithmetic(Conversion("f32", "f32")) == describe_conversion(None) == []
    assert len(describe_conversion(Conversion("i4", "i4"))) == 1  # two in a byte
    assert "saturated" not in "\n".join(describe_arithmetic(Conversion("i8", "f32")))


def test_a_choice_tells_its_number_among_all():
    assert {5, 3} <= _told(describe_choice(Choice(PLAN, 2, 5, remembered=False)))
    remembered, measured = (describe_choice(Choice(PLAN, 0, 5, remembered=known)) for known in (True, False))
    assert remembered != measured
    assert _told(describe_choice(Choice(PLAN, 0, 1, remembered=False))) == set()


def test_dynamic_plans_tell_their_guards():
    reorder = dynamic_reorder(Format.of("ab"), Format.of("ba"), (None, None), "f32", MACHINE)
    plan = reorder.specialize((64, 48))
    assert all(guard in describe_dynamic_plan(plan)[0] for guard in plan.shape_env.guards_text())
    assert "all others" in describe_dynamic_plan(reorder.fallback())[0]
    before = list(plan.shape_env.guards)
    describe_dynamic_plan(plan)
    assert list(plan.shape_env.guards) == before
