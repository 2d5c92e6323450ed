"""A plan, its IR, the text of that, and back."""

from __future__ import annotations

from io import StringIO
from random import Random

import pytest
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.printer import Printer

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.kernel_ir import plan_of, plan_op
from layout_ir.backends.llvm.machine.known_cpus import known_cpus, machine_named
from layout_ir.dialects.kernel.ops import KernelDialect, PlanOp
from layout_ir.dialects.kernel.plan import Copy, Fill, Loop, Plan, Step
from layout_ir.errors import LayoutError
from tests.backends.llvm.cases import random_case
from tests.fuzz.reorders import cases


def _read(text: str) -> PlanOp:
    ctx = Context()
    ctx.load_dialect(KernelDialect)
    module = Parser(ctx, text).parse_module()
    module.verify()
    (op,) = module.ops
    assert isinstance(op, PlanOp)
    return op


def _check(plan: Plan) -> None:
    op = plan_op(plan, "moved")
    op.verify()
    assert plan_of(op) == plan
    text = str(op)
    again = _read(text)
    assert plan_of(again) == plan
    assert str(again) == text


@pytest.mark.parametrize("cpu", [name for name in ("host", *known_cpus()) if name != "host"])
def test_plans_of_random_pairs_survive_the_way_to_text_and_back(cpu: str):
    rng = Random(cpu)
    machine = machine_named(cpu)
    for _ in range(120):
        case = random_case(rng)
        _check(plan_reorder(case.src, case.dst, case.dtype, target=machine))


@pytest.mark.parametrize("cpu", ["haswell", "x86-64-v4", "aarch64"])
def test_plans_that_convert_survive_it_too(cpu: str):
    machine = machine_named(cpu)
    for case in cases(7, 0, 100):
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


def test_the_generic_form_is_read_as_well():
    src, dst = Format.of("nchw").bind((2, 17, 3, 5)), Format.of("nChw16c").bind((2, 17, 3, 5))
    plan = plan_reorder(src, dst, target=machine_named("haswell"))
    out = StringIO()
    Printer(stream=out, print_generic_format=True).print_op(plan_op(plan, "moved"))
    assert '"kernel.tile"' in out.getvalue()
    assert plan_of(_read(out.getvalue())) == plan


def test_pads_of_eight_bytes_keep_their_bits():
    fill = Fill(8, 0xFFF0_0000_0000_0000, 64)
    _check(Plan(8, 0, 64, (Step((), 0, 0, fill),)))


def test_negative_loops_that_carry_pads_have_no_ir():
    step = Step((Loop(4, 16, 16, valid=3),), 0, 0, Copy(16))
    with pytest.raises(LayoutError, match="carries pads"):
        plan_op(Plan(4, 64, 64, (step,)), "moved")
