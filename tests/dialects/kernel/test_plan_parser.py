"""A plan, its text, and back."""

from __future__ import annotations

from random import Random

import pytest
from xdsl.utils.exceptions import ParseError

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.machine.known_cpus import known_cpus, machine_named
from layout_ir.dialects.kernel.plan import Plan
from layout_ir.dialects.kernel.plan_parser import parse_plan
from tests.backends.llvm.cases import random_case
from tests.fuzz.reorders import cases


def _check(plan: Plan) -> None:
    text = str(plan)
    again = parse_plan(text)
    assert again == plan
    assert str(again) == text
    assert parse_plan(" ".join(text.split())) == plan


@pytest.mark.parametrize("cpu", [name for name in known_cpus() if name != "host"])
def test_plans_of_random_pairs_survive_the_way_to_text_and_back(cpu: str):
    rng = Random(cpu)
    machine = machine_named(cpu)
    for _ in range(60):
        case = random_case(rng)
        _check(plan_reorder(case.src, case.dst, case.dtype, target=machine))


@pytest.mark.parametrize("cpu", ["haswell", "x86-64-v4", "aarch64"])
def test_plans_that_convert_survive_it_too(cpu: str):
    machine = machine_named(cpu)
    for case in cases(7, 0, 60):
        _check(plan_reorder(case.src, case.dst, conversion=case.conversion, target=machine))


STREAMED = [
    ("nchw", "nhwc", (96, 64, 56, 56), "f32"),
    ("nhwc", "nchw", (384, 256, 14, 14), "f32"),
    ("nhwc", "nchw", (3001, 3, 64, 64), "i8"),
    ("nchw", "nChw8c", (96, 61, 56, 56), "f32"),
    ("ab", "ba", (4096, 4096), "f32"),
    ("ab", "ba", (4160, 4160), "f32"),
    ("oihw", "Ohwi32o", (1024, 1024, 3, 3), "f32"),
    ("nhwc", "nChw16c", (42, 64, 56, 56), "f32"),
    ("nChw8c", "nChw16c", (160, 17, 56, 56), "f32"),
    ("ab", "ba", (4095, 4097), "i8"),
    ("ab", "ab", (4095, 4097), "f64"),
    ("aBc8b", "aBc12b", (200, 96, 555), "f32"),
]


@pytest.mark.parametrize(("src", "dst", "shape", "dtype"), STREAMED)
def test_plans_of_large_tensors_survive_too(src: str, dst: str, shape: tuple[int, ...], dtype: str):
    layouts = [Format.of(name).bind(shape) for name in (src, dst)]
    for cpu in ("haswell", "x86-64-v4", "aarch64"):
        _check(plan_reorder(layouts[0], layouts[1], dtype, target=machine_named(cpu)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expected 'width'"),
        ("width 4 src 0 dst 0 steps", "expected 'step' or the end of the plan"),
        ("width 4 src 64 dst 64 step src 0 dst 0", "expected a loop or a micro-kernel"),
        ("width 4 src 64 dst 64 step src 0 dst 0 copy true", "integer"),
        ("width 4 src 64 dst 64 step src 0 dst 0 elements 4", "expected 'for'"),
        ("width 4 src 64 dst 64 step src 0 dst 0 table <0, 4> copy 4", "Expected ':'"),
        (f"width 4 src {'9' * 5000} dst 64", "not below 2\\^63"),
        (
            f"width 4 src 64 dst 64 convert <f32 to i8, dst_scale channel, dim 1 of {'9' * 5000}>",
            "not below 2\\^63",
        ),
        (f"width 4 src 64 dst 64 convert <f32 to i8, dst_scale {'9' * 5000}>", "beyond those of f64"),
        (f"width 4 src 64 dst 64 convert <f32 to i8, dst_scale {'9' * 400}>", "beyond those of f64"),
        (f"width 4 src 64 dst 64 step src 0 dst 0 fill 8 with {'9' * 5000} width 8", "not below 2\\^64"),
    ],
)
def test_negative_texts(text: str, message: str):
    with pytest.raises(ParseError, match=message):
        parse_plan(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("staged 64 { step src 0 dst 0 " * 5000, "it is not filled from another"),
        ("for 1 src 0 dst 0 " * 5000 + "copy 64", "5000 loops are nested: 64 are the most"),
        (
            "positions 0 to 1 <" + "1: for 1 src 0 dst 0, " * 4999 + "1: for 1 src 0 dst 0> copy 64",
            "1 to 64 levels",
        ),
        (
            "tile 4 rows 4 by 16 cols 4 by 16 schedule <" + "rows 4, " * 5000 + "cols 4>",
            "a schedule of 5001 loops: 64 are the most",
        ),
    ],
    ids=lambda text: text[:12],
)
def test_negative_deep_texts(text: str, message: str):
    with pytest.raises(ParseError, match=message):
        parse_plan(f"width 4 src 64 dst 64 step src 0 dst 0 {text}")


def test_an_error_points_at_the_micro_kernel():
    text = "width 4 src 60 dst 64\nstep src 0 dst 0\n  copy 64"
    with pytest.raises(ParseError, match="reads bytes") as found:
        parse_plan(text)
    assert text[found.value.span.start : found.value.span.end] == "copy 64"
