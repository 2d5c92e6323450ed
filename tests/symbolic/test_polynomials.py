"""Polynomials have one spelling each, and their values add and multiply as numbers do."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.symbolic.polynomials import Terms, constant, divides, plus, scaled, times

A, B = (((0,), 1),), (((1,), 1),)

monomials = st.lists(st.integers(0, 2), max_size=3).map(lambda m: tuple(sorted(m)))
polynomials: st.SearchStrategy[Terms] = st.dictionaries(
    monomials, st.integers(-5, 5).filter(bool), max_size=4
).map(lambda terms: tuple(sorted(terms.items())))
POINTS = list(product((-2, 0, 1, 3), repeat=3))


def _value(terms: Terms, point: tuple[int, ...]) -> int:
    return sum(factor * math.prod(point[k] for k in monomial) for monomial, factor in terms)


@given(polynomials, polynomials, st.integers(-4, 4))
def test_operations_are_those_of_the_values(x: Terms, y: Terms, k: int):
    for point in POINTS:
        assert _value(plus(x, y), point) == _value(x, point) + _value(y, point)
        assert _value(times(x, y), point) == _value(x, point) * _value(y, point)
        assert _value(scaled(x, k), point) == k * _value(x, point)
        assert _value(constant(k), point) == k


@given(polynomials, polynomials, polynomials)
def test_equal_polynomials_are_spelled_alike(x: Terms, y: Terms, z: Terms):
    assert plus(x, y) == plus(y, x) and times(x, y) == times(y, x)
    assert times(x, plus(y, z)) == plus(times(x, y), times(x, z))
    assert plus(x, scaled(x, -1)) == scaled(x, 0) == constant(0) == ()
    assert times(x, constant(1)) == plus(x, constant(0)) == x


def test_negative_other_polynomials_are_spelled_otherwise():
    assert len({A, B, plus(A, B), times(A, B), times(A, A), scaled(A, 2), plus(A, constant(1)), ()}) == 8


@pytest.mark.parametrize("whole, part", list(product([(), (0,), (0, 0), (0, 1), (0, 0, 1)], repeat=2)))
def test_a_monomial_divides_what_it_times_another_is(whole: tuple[int, ...], part: tuple[int, ...]):
    others = [(0,) * a + (1,) * b for a, b in product(range(4), repeat=2)]
    quotients = [other for other in others if tuple(sorted((*part, *other))) == whole]
    assert divides(part, whole) is bool(quotients)
