"""Ranges against counting, and the bounds of plans against the addresses of the layouts that they are made from."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest
from xdsl.utils.exceptions import VerifyException

from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.kernel_ir import plan_op
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.dialects.kernel.bounds import Access, check_levels, linear, positive, ragged
from layout_ir.dialects.kernel.ops import Digit, Steady
from layout_ir.dialects.kernel.plan import Plan
from tests.backends.llvm.cases import WIDTHS, Case, random_case


@pytest.mark.parametrize(("count", "stride"), list(product((1, 2, 7), (-12, 0, 4))))
def test_a_linear_range_is_what_its_rounds_reach(count: int, stride: int):
    offsets = [k * stride for k in range(count)]
    assert linear(count, stride) == (min(offsets), max(offsets))


def test_an_access_is_the_bytes_of_all_its_rounds():
    access = Access(8, ((3, -16), (2, 64)))
    places = [a * -16 + b * 64 for a in range(3) for b in range(2)]
    assert access.range == (min(places), max(places) + 8)
    assert access.volume == 8 * len(places)


LEVELS = (Digit(1, Steady(4, -4, 8)), Digit(4, ((0, 0), (64, 16), (8, 200))), Digit(12, Steady(3, 100, -7)))


def test_a_ragged_range_is_what_its_positions_reach():
    for start, stop in product(range(36), range(37)):
        if start >= stop:
            continue
        for side in (0, 1):
            offsets = [
                LEVELS[0].offset(p % 4)[side]
                + LEVELS[1].offset(p // 4 % 3)[side]
                + LEVELS[2].offset(p // 12)[side]
                for p in range(start, stop)
            ]
            assert ragged(LEVELS, start, stop, side) == (min(offsets), max(offsets)), (start, stop)


def test_levels_number_the_positions():
    check_levels(LEVELS, 36)


def test_negative_levels():
    with pytest.raises(VerifyException, match="the digits number 36 positions, the loop ends at 37"):
        check_levels(LEVELS, 37)
    with pytest.raises(VerifyException, match="a digit of unit 12 follows digits that count 4"):
        check_levels((LEVELS[0], LEVELS[2]), 8)


def test_negative_counts_are_at_least_one():
    positive(rows=1)
    with pytest.raises(VerifyException, match="cols is 0, at least 1 is needed"):
        positive(rows=1, cols=0)


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
        plan_op(plan, "tight").verify()
        for name in ("src_bytes", "dst_bytes"):
            smaller = replace(plan, **{name: getattr(plan, name) - plan.width})
            with pytest.raises(VerifyException, match="bytes"):
                plan_op(smaller, "small").verify()
    assert seen > 100
