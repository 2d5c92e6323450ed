"""The canonical form is unique (equal maps have equal keys) and complete (equal keys have equal maps)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given

from layout_ir.algebra.canonical import canonical_digits, canonical_terms, overlaps
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from tests.algebra.digit_lists import value_at
from tests.layouts import random_format, random_layout, random_shape, rngs

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
        function = tuple(value_at(terms, x) for x in range(extent))
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
        assert [value_at(terms, x) for x in range(extent)] == expected.tolist()


@given(rngs)
def test_canonical_terms_are_idempotent(rng: Random):
    layout = random_layout(rng, limit=300)
    for digits, extent in zip(layout.digits, layout.padded_shape, strict=True):
        terms = canonical_digits(digits, extent)
        assert canonical_terms(terms, extent) == terms


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


def test_overlaps_are_those_of_the_addresses():
    rng, seen = Random(3), set[bool | None]()
    for _ in range(1500):
        names = "abc"[: rng.randint(1, 3)]
        shape = [rng.choice((0, 1, 2, 3, 4, 5, 6)) for _ in names]
        factors = [f"{n}*{rng.randint(-14, 14)}" for n in names]
        factors += [f"{n}:{rng.choice((2, 3))}*{rng.randint(-14, 14)}" for n in names if rng.random() < 0.5]
        lo = ", ".join(str(rng.choice((0, 0, 1))) for _ in names)
        layout = Format.parse(f"({', '.join(names)}) : [{', '.join(factors)}], lo = [{lo}]").bind(shape)
        for padded in (False, True):
            addresses = layout.addresses(padded=padded).ravel().tolist()
            found = overlaps(layout, padded=padded)
            assert found == (len(set(addresses)) < len(addresses)), (str(layout), padded)
            seen.add(found)
    assert seen == {False, True}


def test_overlaps_of_large_layouts_are_decided_by_their_strides():
    """90,000 and 27,000,000 elements, strides that are not nested."""
    for text, shape, shared in (
        ("(a, b) : [a*2, b*601]", (300, 300), False),
        ("(a, b) : [a*4, b*598]", (300, 300), True),
        ("(a, b, c) : [a*2, b*601, c*180303]", (300, 300, 300), False),
        ("(a, b, c) : [a*2, b*601, c*180297]", (300, 300, 300), True),
    ):
        layout = Format.parse(text).bind(shape)
        assert overlaps(layout, padded=False) is overlaps(layout, padded=True) is shared, text


def test_negative_overlaps_that_take_too_long_are_not_decided():
    layout = Format.parse("(a, b, c) : [a*1000, b*999, c*1001]").bind((300, 300, 300))
    assert overlaps(layout, padded=False) is None


def test_layouts_are_the_same_map_whatever_their_swizzles_iff_all_addresses_are_equal():
    rng, same = Random(8), 0
    for _ in range(4000):
        shape = [rng.choice((1, 2, 4, 4, 8, 3)) for _ in range(2)]
        layouts: list[Layout] = []
        for _ in range(2):
            head = rng.choice(("a, b", "b, a", "a, b, b:2", "a*8, b", "a*4, b", "a*2, b*8", "a*5, b"))
            swizzle = rng.choice(
                ("", f", swizzle = ({rng.randint(0, 2)}, {rng.randint(0, 2)}, {rng.randint(2, 4)})")
            )
            extra = rng.choice(("", "", f", offset = {rng.choice((1, 4, 8, 16))}", ", lo = [0, 1]"))
            layouts.append(Format.parse(f"(a, b) : [{head}]{extra}{swizzle}").bind(shape))
        first, second = layouts
        want = np.array_equal(first.addresses(), second.addresses())
        assert first.same_map(second) is second.same_map(first) is want, (str(first), str(second))
        same += want and first.swizzle != second.swizzle
    assert same > 100


def test_two_spellings_of_one_swizzled_map():
    """Bits of the address that are 0 swizzle nothing, and an XOR with a constant is an offset."""
    texts = (
        "[a, b]",
        "[a, b], swizzle = (1, 0, 6)",
        "[a, b], swizzle = (3, 3, 3)",
        "[a, b], swizzle = (0, 0, 0)",
    )
    layouts = [Format.parse(f"(a, b) : {text}").bind((4, 8)) for text in texts]
    assert all(a.same_map(b) for a in layouts for b in layouts)
    shifted = Format.parse("(a) : [a], offset = 8, swizzle = (1, 0, 3)").bind((1,))
    assert shifted.same_map(Format.parse("(a) : [a], offset = 9").bind((1,)))


def test_negative_swizzles_that_reach_an_address():
    plain, swizzled = (
        Format.parse(f"(a, b) : [a, b]{swizzle}").bind((4, 8)) for swizzle in ("", ", swizzle = (1, 0, 3)")
    )
    assert not plain.same_map(swizzled) and not swizzled.same_map(plain)
