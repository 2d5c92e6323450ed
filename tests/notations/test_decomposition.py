"""Layouts taken apart into strides, chains, physical dims and blocks, and put together again."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError
from layout_ir.notations.decomposition import (
    PhysicalDim,
    blocked,
    format_of_physical,
    from_strides,
    layout_of,
    physical_dims,
    strided,
)
from tests.layouts import random_layout, random_tag, rngs


@given(rngs)
def test_a_layout_is_what_the_chains_of_its_dims_make(rng: Random):
    layout = random_layout(rng)
    chains = [[(d.count, d.stride) for d in reversed(digits)] for digits in layout.digits]
    again = layout_of(layout.shape, chains, offset=layout.offset, lo=layout.lo, swizzle=layout.swizzle)
    assert again.same_map(layout)


@given(rngs)
def test_a_dense_format_is_what_its_physical_dims_make(rng: Random):
    format = Format.from_tag(random_tag(rng, rng.randint(1, 4))[0])
    physical = physical_dims(format)
    assert physical is not None
    assert format_of_physical(format.names, physical, format.pad) == format


def test_strides_are_those_of_the_array():
    assert strided(from_strides((3, 4), (4, 1), 7), "us") == ((4, 1), 7)
    assert strided(Format.from_tag("nhwc").bind((2, 3, 4, 5)), "us") == ((60, 1, 15, 3), 0)


def test_blocks_are_rests_and_what_lies_inside_them():
    assert blocked(Format.from_tag("OIhw4i16o4i"), "us") == ([0, 1, 2, 3], [(1, 4), (0, 16), (1, 4)])


def test_negative_blocks_have_several_strides():
    with pytest.raises(
        LayoutError, match=r"dim 'c' of extent 16 has the digits \(unit, stride\) \(\(1, 1\), \(8, 160\)\)"
    ):
        strided(Format.from_tag("nChw8c").bind((2, 16, 5, 4)), "us")


def test_negative_a_window_inside_blocks_has_a_phase():
    window = Format.parse("(a, b) : [b, a, b:4]").bind((2, 12)).slice((0, 3), (2, 6))
    with pytest.raises(LayoutError, match="dim 'b' of extent 6 has a phase"):
        strided(window, "us")


def test_negative_physical_dims_that_leave_a_digit_out():
    with pytest.raises(LayoutError, match="one starts at unit 8 where 1 is needed"):
        format_of_physical(("a",), [PhysicalDim(0, 8, None)])


def test_negative_a_pitch_is_no_physical_dim():
    assert physical_dims(from_strides((3, 4), (6, 1))) is None
