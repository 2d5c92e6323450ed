"""Bits of an integer are the set of numbers that they stand for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from layout_ir.selection.bit_sets import bits_of, only_member

_NUMBERS = st.lists(st.integers(0, 80), max_size=5)


@given(_NUMBERS, _NUMBERS)
def test_equal_sets_are_equal_bits_and_unions_are_theirs(some: list[int], others: list[int]):
    assert (bits_of(some) == bits_of(others)) == (set(some) == set(others))
    assert bits_of(some) | bits_of(others) == bits_of([*some, *others])


@given(st.integers(0, 80))
def test_a_set_of_one_has_its_member(number: int):
    assert only_member(bits_of([number, number])) == number


@given(_NUMBERS.filter(lambda numbers: len(set(numbers)) != 1))
def test_negative_no_other_set_has_an_only_member(numbers: list[int]):
    assert only_member(bits_of(numbers)) is None
