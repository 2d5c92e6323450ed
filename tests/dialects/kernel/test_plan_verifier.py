"""The bounds of plans against the addresses of the layouts that they are made from, and what no plan may be."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.dialects.kernel.micro_kernel_verifier import PlanError
from layout_ir.dialects.kernel.plan import (
    Copy,
    Level,
    Loop,
    Plan,
    Staged,
    Step,
    VariableBoundLoops,
)
from layout_ir.dialects.kernel.plan_verifier import check_plan
from tests.backends.llvm.cases import WIDTHS, Case, random_case


def _of(loop: Loop | VariableBoundLoops) -> Plan:
    return Plan(1, 1000, 1000, (Step((loop,), 100, 100, Copy(1), -1),))


def test_negative_levels_number_the_positions():
    levels = (Level(1, Loop(4, 1, 1)), Level(4, Loop(3, 4, 4)))
    check_plan(_of(VariableBoundLoops(levels, 0, 12)))
    with pytest.raises(PlanError, match="the levels number 12 positions, the loop ends at 13"):
        check_plan(_of(VariableBoundLoops(levels, 0, 13)))
    with pytest.raises(PlanError, match="a level of unit 5 follows levels that count 4"):
        check_plan(_of(VariableBoundLoops((levels[0], Level(5, Loop(3, 4, 4))), 0, 12)))
    backwards = Level(1, Loop(-2, 1, 1)), Level(-2, Loop(-2, 1, 1))
    with pytest.raises(PlanError, match="count is -2, at least 1 is needed"):
        check_plan(_of(VariableBoundLoops(backwards, 0, 4)))
    many = tuple(Level(2**k, Loop(2, 2**k, 2**k)) for k in range(64))
    with pytest.raises(PlanError, match="2\\^62 are the most"):
        check_plan(_of(VariableBoundLoops(many, 0, 1)))


def _emptied(*then: Step, size: int = 64) -> Plan:
    """A buffer of `size` bytes that is filled, and emptied by `then`."""
    fill = Step((), 0, 0, Copy(size), parallel=-1)
    return Plan(4, 256, 256, (Step((Loop(2, 64, 128),), 0, 0, Staged(size, (fill,), then=then)),))


def test_negative_what_empties_a_staging_buffer_stays_inside_of_it_and_of_the_destination():
    inner = Step((Loop(4, 16, 32),), 0, 0, Copy(16), parallel=-1)
    check_plan(_emptied(inner))
    with pytest.raises(PlanError, match=r"reads bytes \[4, 68\) of a source of 64"):
        check_plan(_emptied(replace(inner, src=4)))
    with pytest.raises(PlanError, match=r"writes bytes \[.*, 260\) of a destination of 256"):
        check_plan(_emptied(replace(inner, dst=20)))
    with pytest.raises(PlanError, match="no loop inside of a staging buffer is shared by threads"):
        check_plan(_emptied(replace(inner, parallel=0)))
    with pytest.raises(PlanError, match="it is not filled from another"):
        nested = Staged(64, (replace(inner, loops=(), kernel=Copy(64)),), then=(inner,))
        check_plan(_emptied(replace(inner, loops=(), kernel=nested)))


def test_negative_loops_that_carry_pads_are_no_plan():
    with pytest.raises(PlanError, match="carries pads"):
        check_plan(_of(Loop(4, 16, 16, valid=3)))


def test_an_error_names_the_part_of_the_plan():
    step = Step((), 0, 0, Copy(64))
    with pytest.raises(PlanError) as found:
        check_plan(Plan(4, 60, 64, (step,)))
    assert found.value.node is step.kernel


def _tight(case: Case, plan: Plan) -> Plan | None:
    """The plan with buffers that end where the last element (or pad) does; None where nothing is moved."""
    padded = case.dst.pad != "undef"
    src, dst = case.src.addresses(), case.dst.addresses(padded=padded)
    if not src.size:
        return None
    width = WIDTHS[case.dtype]
    return replace(plan, src_bytes=(int(src.max()) + 1) * width, dst_bytes=(int(dst.max()) + 1) * width)


def test_plans_fit_their_buffers_exactly():
    rng, machine = Random(5), machine_named("haswell")
    seen = 0
    for _ in range(150):
        case = random_case(rng)
        plan = _tight(case, plan_reorder(case.src, case.dst, case.dtype, target=machine))
        if plan is None:
            continue
        seen += 1
        check_plan(plan)
        for name in ("src_bytes", "dst_bytes"):
            smaller = replace(plan, **{name: getattr(plan, name) - plan.width})
            with pytest.raises(PlanError, match="bytes"):
                check_plan(smaller)
    assert seen > 100
