"""Formats have no more states of their pads than matter, and where some are left out, the problem says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.passes.selection.pads.behaviour import PadValues
from layout_ir.passes.selection.pads.states import _least  # pyright: ignore[reportPrivateUsage]
from tests.passes.selection.pads.padded_programs import BLOCKED, NEEDS_NOTHING, NEEDS_ZERO, TYPE, selected


def _pads(result: str, body: str) -> set[str]:
    """What the pads of value `result` may hold, as its formats say it."""
    selection, _ = selected(body)
    at = next(k for k, value in enumerate(selection.values) if value.name_hint == result)
    return {str(fmt.pad) for fmt in selection.formats[at] if fmt.bind((1, 17, 4, 4)).is_padded}


def test_a_chain_that_keeps_zeros_has_one_state():
    selection, cost = selected(f"""
      %a = "test.op"(%x) {{{NEEDS_ZERO}}} : ({BLOCKED}) -> {TYPE}
      %b = nn.relu %a : {TYPE}
      %y = "test.op"(%b) {{{NEEDS_ZERO}}} : ({TYPE}) -> {TYPE}""")
    assert cost == 10
    assert all(
        len({str(f.with_pad("undef")) for f in formats}) == len(formats) for formats in selection.formats
    )


FILLED = f"""
  %b = nn.exp %x : ({BLOCKED}) -> {TYPE}
  %y = "test.op"(%b) {{{NEEDS_ZERO}}} : ({TYPE}) -> {TYPE}"""

SHARED = f"""
  %b = nn.exp %x : ({BLOCKED}) -> {TYPE}
  %r = nn.relu %b : {TYPE}
  %c = nn.add %b, %r : {TYPE}
  %d = nn.mul %b, %r : {TYPE}
  %e = "test.op"(%c) {{{NEEDS_ZERO}}} : ({TYPE}) -> {TYPE}
  %y = "test.op"(%d) {{{NEEDS_ZERO}}} : ({TYPE}) -> {TYPE}"""
"""One fill of %b serves both, because zeros in both operands give zeros."""


def test_pads_that_may_hold_something_else_have_two_states():
    assert _pads("b", FILLED) == {"zero", "undef"}


def test_negative_pads_that_nothing_needs_have_one():
    assert _pads("b", FILLED.replace(NEEDS_ZERO, NEEDS_NOTHING)) == {"undef"}


def test_beyond_the_limit_only_operands_that_agree_are_tried_and_nothing_is_proven(
    monkeypatch: pytest.MonkeyPatch,
):
    selection, before = selected(SHARED)
    assert not selection.omissions
    monkeypatch.setattr("layout_ir.passes.selection.pads.states.COMBINATIONS", 1)
    selection, cost = selected(SHARED)
    assert cost >= before
    assert any("only equal ones take part" in omission.what for omission in selection.omissions)


def test_after_the_time_limit_only_operands_that_agree_are_tried_and_nothing_is_proven():
    _, before = selected(SHARED)
    selection, _ = selected(SHARED, time_limit=60)
    assert not selection.omissions
    selection, cost = selected(SHARED, time_limit=1e-9)
    assert cost >= before
    assert any("only equal ones take part" in omission.what for omission in selection.omissions)


PADS = st.sampled_from([None, 0.0, 1.0, -1.0])


@given(st.lists(st.tuples(st.tuples(PADS, PADS, PADS, PADS), st.tuples(PADS)), max_size=60))
def test_what_asks_for_more_than_another_that_leaves_the_same_is_left_out(
    made: list[tuple[PadValues, PadValues]],
):
    def asks_for_more(one: tuple[PadValues, PadValues], other: tuple[PadValues, PadValues]) -> bool:
        (states, left), (fewer, same) = one, other
        return (
            left == same
            and states != fewer
            and all(f in (None, s) for f, s in zip(fewer, states, strict=True))
        )

    wanted = [one for one in dict.fromkeys(made) if not any(asks_for_more(one, other) for other in made)]
    assert _least(made) == wanted


def test_negative_numbers_in_pads_beyond_the_limit_leave_nothing_proven(monkeypatch: pytest.MonkeyPatch):
    selection, _ = selected(FILLED)
    assert not selection.omissions
    monkeypatch.setattr("layout_ir.passes.selection.pads.states.NUMBERS", 0)
    selection, _ = selected(FILLED)
    assert any("of the numbers that pads of a value may hold" in o.what for o in selection.omissions)
