"""The canonical form is unique (equal maps have equal keys) and complete (equal keys have equal maps)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_ir.canonical import canonical_digits, canonical_terms, fit
from layout_ir.format import Format
from layout_ir.layout import Layout
from tests.layouts import chain_of, random_format, random_layout, random_shape, rngs


def _evaluate(terms: tuple[tuple[int, int], ...], x: int) -> int:
    """A digit list at x, coarsest unit first."""
    total = 0
    for unit, stride in reversed(terms):
        digit, x = divmod(x, unit)
        total += digit * stride
    return total


Terms = tuple[tuple[int, int], ...]


def _digit_lists(extent: int, strides: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    """All digit lists with units that divide each other, below 2 * extent, and strides out of `strides`."""
    result: list[tuple[tuple[int, int], ...]] = []
    level: list[Terms] = [((1, s),) for s in strides]
    while level:
        result += level
        level = [
            (*terms, (unit, s))
            for terms in level
            for last in [terms[len(terms) - 1][0]]
            if len(terms) < 3
            for unit in range(2 * last, 2 * extent, last)
            for s in strides
        ]
    return result


@pytest.mark.parametrize("extent", [1, 2, 3, 4, 6, 8, 9])
def test_canonical_digits_are_unique_and_complete_on_every_small_digit_list(extent: int):
    by_function: dict[tuple[int, ...], set[tuple[tuple[int, int], ...]]] = {}
    by_digits: dict[tuple[tuple[int, int], ...], set[tuple[int, ...]]] = {}
    for terms in _digit_lists(extent, (0, 1, 2, 3, -2, 6)):
        function = tuple(_evaluate(terms, x) for x in range(extent))
        canonical = canonical_terms(terms, extent)
        by_function.setdefault(function, set()).add(canonical)
        by_digits.setdefault(canonical, set()).add(function)
    assert all(len(canonicals) == 1 for canonicals in by_function.values())
    assert all(len(functions) == 1 for functions in by_digits.values())


@given(rngs)
def test_canonical_digits_compute_the_same_function(rng: Random):
    layout = random_layout(rng, limit=300)
    for dim, (digits, extent) in enumerate(zip(layout.digits, layout.padded_shape, strict=True)):
        terms = canonical_digits(digits, extent)
        expected = layout.offsets(dim, padded=True)
        assert [_evaluate(terms, x) for x in range(extent)] == expected.tolist()


@given(rngs)
def test_canonical_terms_are_idempotent(rng: Random):
    layout = random_layout(rng, limit=300)
    for digits, extent in zip(layout.digits, layout.padded_shape, strict=True):
        terms = canonical_digits(digits, extent)
        assert canonical_terms(terms, extent) == terms


@settings(max_examples=300)
@given(st.lists(st.integers(-3, 6), min_size=1, max_size=13))
def test_fit_finds_digits_exactly_when_a_chain_of_units_does(values: list[int]):
    terms, chain = fit(values), chain_of(values)
    assert (terms is None) == (chain is None)
    if terms is not None and chain is not None:
        assert [values[0] + _evaluate(terms, x) for x in range(len(values))] == values
        # The shortest chain is the canonical one.
        assert tuple(unit for unit, _ in terms) == (chain if len(values) > 1 else ())


@given(rngs)
def test_fit_of_a_digit_list_is_its_canonical_form(rng: Random):
    layout = random_layout(rng, rank=rng.randint(1, 3), limit=200)
    for dim, digits in enumerate(layout.digits):
        extent = layout.padded_shape[dim]
        assert fit(layout.offsets(dim, padded=True).tolist()) == canonical_digits(digits, extent)


def _random_pair(rng: Random) -> tuple[Layout, Layout]:
    """Two layouts of one shape that are often equal: extents of 1, single blocks, phases."""
    rank = rng.randint(1, 3)
    shape = tuple(rng.choice((1, 1, 2, 3, 4, 8)) for _ in range(rank))
    left, right = (random_format(rng, rank, halo=True, blocks=(2, 4, 8)).bind(shape) for _ in range(2))
    return left, right


def test_equal_keys_mean_equal_addresses_on_20000_random_pairs():
    rng, equal = Random(5), 0
    for _ in range(20_000):
        left, right = _random_pair(rng)
        same = np.array_equal(left.addresses(), right.addresses())
        assert left.same_map(right) == same, (left, right)
        equal += same
    # A test of equality that never meets equal layouts shows nothing.
    assert equal > 1_000


@given(rngs)
def test_a_phase_does_not_hide_equality(rng: Random):
    big = random_layout(rng, rank=2, limit=100)
    starts = [rng.randrange(extent) for extent in big.shape]
    sizes = [rng.randint(1, extent - start) for start, extent in zip(starts, big.shape, strict=True)]
    small = big.slice(starts, sizes)
    other = random_format(rng, 2).bind(small.shape)
    assert small.same_map(other) == np.array_equal(small.addresses(), other.addresses())
    # The same box taken in two steps is the same map.
    assert small.same_map(
        big.slice(starts, [e - s for e, s in zip(big.shape, starts, strict=True)]).slice((0, 0), sizes)
    )


def test_strides_of_extent_1_do_not_count():
    for strides in itertools.product((1, 7, -3, 0), repeat=2):
        text = f"(a, b, c) : [a*{strides[0]}, b*{strides[1]}, c]"
        assert (
            Format.parse(text).bind((1, 1, 5)).same_map(Format.parse("(a, b, c) : [a, b, c]").bind((1, 1, 5)))
        )


def test_places_are_part_of_the_map():
    left = Format.parse("(a) : [a@lane, a:4]").bind((4,))
    assert left.same_map(Format.parse("(a) : [a]").bind((4,)))
    phased = Format.parse("(a) : [a@lane, a:4], lo = [4]").bind((4,))
    assert not left.same_map(phased)
    wide = Format.parse("(a) : [a@lane, a:4]").bind((8,))
    assert not wide.same_map(Format.parse("(a) : [a@warp, a:4]").bind((8,)))
    assert wide.same_map(Format.parse("(a) : [a:2@lane, a:2*2, a:2]").bind((8,)))


def test_an_empty_swizzle_is_none():
    layout = Format.parse("(a) : [a]").bind((8,))
    assert layout.same_map(replace(layout, swizzle=(0, 1, 2)))
    assert not layout.same_map(replace(layout, swizzle=(1, 0, 1)))


def test_empty_tensors_are_all_the_same_map():
    left, right = Format.from_tag("nchw").bind((2, 0, 3, 4)), Format.from_tag("nChw8c").bind((2, 0, 3, 4))
    assert left.same_map(right)


@pytest.mark.parametrize("shape", [(2, 17, 5, 4), (1 << 20, 1 << 20, 1 << 10, 1 << 10)])
def test_equality_costs_digits_not_elements(shape: tuple[int, ...]):
    # The last shape has 2^60 elements: any enumeration would be noticed.
    left, right = Format.from_tag("nChw8c").bind(shape), Format.from_tag("nChw4c").bind(shape)
    assert not left.same_map(right)
    assert left.same_map(Format.parse("(n, c, h, w) : [n, c, h, w, c:4, c:2]").bind(shape))


@given(rngs)
def test_keys_can_be_hashed(rng: Random):
    layout = random_layout(rng)
    assert hash(layout.canonical) == hash(layout.format.bind(layout.shape).canonical)
    assert random_shape(rng, 1)  # shapes stay tuples of ints
