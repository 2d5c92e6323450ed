"""Plans that are timed for a profile are valid, move what they say and have the one fact in them that is asked for."""

from __future__ import annotations

from dataclasses import replace
from operator import index

import pytest

from layout_ir.backends.llvm.runtime.profiling_plans import (
    copy_in_pieces,
    copy_of,
    lines_by_turns,
    narrowed_rows,
    rows_over_buffer,
    scattered_lines,
    transpositions,
)
from layout_ir.dialects.kernel.plan import Copy, Loop, Plan, Staged, Tile
from layout_ir.dialects.kernel.plan_verifier import check_plan
from tests.backends.llvm.planning.plans import NARROW, WIDE
from tests.plan_evaluation import Moved, evaluate

SIZE = 1 << 16


def _check(plan: Plan) -> dict[int, int]:
    """Where each byte that a valid plan writes is from; that of a move once each."""
    check_plan(plan)
    moved = evaluate(plan)
    assert all(isinstance(what, Moved) for what in moved.values())
    return {place: index(what.place) for place, what in moved.items() if isinstance(what, Moved)}


@pytest.mark.parametrize("streaming", [False, True])
def test_copies_move_all_bytes_in_order_or_by_turns(streaming: bool):
    assert _check(copy_of(SIZE + 100, streaming=streaming)) == {k: k for k in range(SIZE)}
    for plan in (
        scattered_lines(SIZE, 4160, 16, streaming=streaming),
        copy_in_pieces(SIZE, 1024, over_buffer=False, streaming=streaming),
    ):
        found = _check(plan)
        assert sorted(found) == sorted(found.values()) == [*range(index(plan.src_bytes))]
        assert found != {k: k for k in found}


def test_a_buffer_changes_nothing_of_what_is_copied():
    direct, staged = (
        copy_in_pieces(SIZE, 1024, over_buffer=over_buffer, streaming=True) for over_buffer in (False, True)
    )
    assert isinstance(staged.steps[0].kernel, Staged) and _check(direct) == _check(staged)


@pytest.mark.parametrize("number", [1, 4, 16])
def test_lines_are_read_from_so_many_places_by_turns(number: int):
    plan = lines_by_turns(SIZE, number)
    kernel = plan.steps[0].kernel
    assert isinstance(kernel, Copy) and kernel.inner.count == number
    found = _check(plan)
    assert [found[64 * k] for k in range(number)] == [k * index(kernel.inner.src) for k in range(number)]


def test_matrices_are_transposed_alike_in_every_order():
    plans = transpositions(SIZE, WIDE)
    first, *others = map(_check, plans)
    assert len(others) == 2 and all(found == first for found in others)


def test_rows_over_a_buffer_are_transposed():
    plan = rows_over_buffer(SIZE, 64, WIDE)
    assert plan is not None and all(isinstance(step.kernel, Staged) for step in plan.steps)
    found = _check(plan)
    assert sorted(found) == sorted(found.values()) == [*range(index(plan.src_bytes))]
    assert [found[4 * k] for k in range(64)] == [k * found[4] for k in range(64)]


def test_rows_that_are_narrowed_are_read_by_turns():
    plan = narrowed_rows(SIZE, 64)
    check_plan(plan)
    [step] = plan.steps
    assert isinstance(step.kernel, Tile) and isinstance(step.loops[0], Loop)
    assert plan.src_bytes == 4 * index(plan.dst_bytes) and step.kernel.rows.count == 64


def test_negative_without_registers_of_a_line_or_room_for_a_buffer_there_is_no_plan():
    assert transpositions(SIZE, NARROW) == []
    assert rows_over_buffer(SIZE, 64, replace(WIDE, l1=16 << 10)) is None
