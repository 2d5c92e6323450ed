"""Variants of a plan move the same, with the same tiles in registers, and differ from it in one decision."""

from __future__ import annotations

from dataclasses import fields

import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.planner import make_plan
from layout_ir.backends.llvm.planning.variants import variants
from layout_ir.dialects.kernel.plan import Copy, Loop, Plan, Step, Tile
from layout_ir.dialects.kernel.plan_verifier import check_plan
from tests.backends.llvm.planning.plans import NARROW, WIDE, blocks, of_steps
from tests.plan_evaluation import evaluate

PAIRS = [
    ("nchw", "nhwc", (2, 64, 7, 8), 4),
    ("nhwc", "nchw", (2, 72, 7, 16), 1),
    ("ab", "ba", (144, 96), 2),
    ("nchw", "nChw16c", (1, 40, 6, 6), 4),
]


@pytest.mark.parametrize("src, dst, shape, width", PAIRS)
@pytest.mark.parametrize("stream", [False, True])
def test_variants_are_plans_that_move_the_same(
    src: str, dst: str, shape: tuple[int, ...], width: int, stream: bool
):
    layouts = Format.of(src).bind(shape), Format.of(dst).bind(shape)
    for machine in (WIDE, NARROW):
        plan = make_plan(*layouts, ElementPair(width, width), 0, machine, stream=stream)
        found = list(variants(plan, WIDE))
        assert (found or stream) and plan not in found and len(set(found)) == len(found)
        for other in found:
            check_plan(other)
            assert evaluate(other) == evaluate(plan)
            for new, old in zip(other.steps, plan.steps, strict=True):
                if isinstance(new.kernel, Tile) and isinstance(old.kernel, Tile):
                    assert blocks(new.kernel) == blocks(old.kernel)


def test_a_variant_differs_in_one_decision_that_all_steps_take():
    src, dst = (Format.of(tag).bind((2, 64, 7, 8)) for tag in ("nchw", "nhwc"))
    [step] = make_plan(src, dst, ElementPair(4, 4), 0, WIDE).steps
    decisions = {"schedule", "prefetch_distance"}
    for other in variants(of_steps(step, step, width=4), WIDE):
        first, second = other.steps
        assert first == second
        differ = {
            x.name for x in fields(Tile) if getattr(first.kernel, x.name) != getattr(step.kernel, x.name)
        }
        assert len(differ) == 1 and differ <= decisions


def test_negative_a_plan_without_tiles_and_prefetches_has_no_variants():
    layout = Format.of("nchw").bind((2, 3, 4, 5))
    plan = make_plan(layout, layout, ElementPair(4, 4), 0, WIDE)
    assert list(variants(plan, WIDE)) == []


def test_prefetches_of_loops_are_left_out():
    step = Step((Loop(4, 4096, 4096),), 0, 0, Copy(4096), prefetch=0)
    [other] = variants(Plan(4, 1 << 14, 1 << 14, (step,)), WIDE)
    assert other.steps[0].prefetch is None
