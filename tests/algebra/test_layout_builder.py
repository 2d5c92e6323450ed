"""Layouts with one dim changed have the addresses that their functions promise; all other dims keep theirs."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import assume, given

from layout_ir.algebra.factors import MEMORY, BoundFactor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.layout_builder import (
    chains_of,
    counted,
    on_axes,
    ordered,
    with_low,
    with_steps,
    with_terms,
    with_top,
)
from layout_ir.algebra.steps import Steps
from tests.layouts import indices, random_format, random_shape, rngs


def _layout(rng: Random) -> Layout:
    return random_format(rng, 2, strided=True).bind(random_shape(rng, 2, 200))


@given(rngs)
def test_low_pads_move_index_0_to_a_later_position(rng: Random):
    layout = _layout(rng)
    low = rng.randrange(layout.shape[0])
    rest = with_low(layout, 0, low)
    for i, j in indices(layout.shape):
        if i + low < layout.shape[0]:
            assert rest.address((i, j)) == layout.address((i + low, j))


@given(rngs)
def test_another_count_on_top_leaves_the_addresses_there_were(rng: Random):
    layout = _layout(rng)
    dim = rng.randrange(2)
    count = rng.randint(1, 5)
    changed = with_top(layout, dim, count)
    assert changed.padded_shape[1 - dim] == layout.padded_shape[1 - dim]
    top = next(f for f in layout.factors if f.dim == dim).count
    assert changed.padded_shape[dim] * top == layout.padded_shape[dim] * count
    both = [min(a, b) for a, b in zip(changed.padded_shape, layout.padded_shape, strict=True)]
    for position in indices(both):
        assert changed.position_address(position) == layout.position_address(position)


@given(rngs)
def test_terms_are_the_digits_of_the_dim(rng: Random):
    layout = _layout(rng)
    unit, apart, stride = rng.choice((2, 3, 4)), rng.randint(-3, 9), rng.randint(1, 9)
    changed = with_terms(layout, 0, ((1, stride), (unit, apart)))
    first = layout.address((0, 0))
    for i, j in indices(layout.shape):
        moved = i % unit * stride + i // unit * apart
        assert changed.address((i, j)) == layout.address((0, j)) + moved
    assert changed.address((0, 0)) == first


@given(rngs)
def test_steps_are_the_addresses_along_the_dim(rng: Random):
    """Of a list that digits compute, and without regard to where in it one begins."""
    layout = _layout(rng)
    unit, near, far = rng.choice((2, 3, 4)), rng.randint(1, 5), rng.randint(6, 40)
    begin, count = rng.randrange(unit), rng.randint(1, 3 * unit)
    values = [i % unit * near + i // unit * far for i in range(begin, begin + count)]
    changed = with_steps(layout, 0, 7, Steps.of_values(values))
    assume(changed is not None)
    assert changed is not None and changed.shape == (count, layout.shape[1])
    other = layout.offsets(1)
    for i, j in indices(changed.shape):
        expected = layout.offset + 7 + values[i] - values[0] + int(other[j] - other[0])
        assert changed.address((i, j)) == expected + layout.position_address((0, 0)) - layout.offset


def test_negative_steps_without_digits_are_none():
    layout = Format.of("(a, b) : [a, b]").bind((4, 3))
    assert with_steps(layout, 0, 0, Steps.of_values([0, 1, 4, 9, 16])) is None


@given(rngs)
def test_an_order_by_stride_keeps_all_factors_and_the_significance_in_each_dim(rng: Random):
    layout = _layout(rng)
    chains = chains_of(layout)
    found = ordered(chains)
    assert sorted(found, key=str) == sorted(layout.factors, key=str)
    for dim, chain in enumerate(chains):
        assert [f for f in found if f.dim == dim] == chain
    for earlier, later in pairwise(found):
        assert earlier.dim == later.dim or abs(earlier.stride) >= abs(later.stride)


def test_counted_digits_hold_the_extent():
    assert counted(((1, 5), (4, 100)), 10, 1) == [BoundFactor(1, 3, 100), BoundFactor(1, 4, 5)]
    assert counted((), 6, 0) == [BoundFactor(0, 6, 0)]
    for extent in range(1, 30):
        chain = counted(((1, 1), (3, 7), (6, 50)), extent, 0)
        size = chain[0].count * chain[1].count * chain[2].count
        assert size >= extent > size - 6 or extent <= 6


def test_digits_on_other_axes_are_told_from_those_in_memory():
    layout = Format.of("(a, b) : [a@lane, b]").bind((4, 3))
    assert on_axes(layout, 0) and not on_axes(layout, 1)
    assert not on_axes(Format.of("(a, b) : [a@lane, b]").bind((1, 3)), 0)
    assert {f.axis for f in layout.factors} == {"lane", MEMORY}
