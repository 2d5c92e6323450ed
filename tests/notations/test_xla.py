"""XLA and JAX layouts, against the documented formula of tiled shapes written out here."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from layout_ir.notations.xla import subject_of


def linear_index(
    index: Sequence[int], shape: Sequence[int], major_to_minor: Sequence[int], tiles: Sequence[Sequence[int]]
) -> tuple[int, int]:
    """(address, elements in all) by tiling the physical shape, one tile after the other."""
    place = [index[d] for d in major_to_minor]
    extent = [shape[d] for d in major_to_minor]
    for tile in tiles:
        k = len(extent) - len(tile)
        head_p, tail_p, head_e, tail_e = place[:k], place[k:], extent[:k], extent[k:]
        place = (
            head_p
            + [p // t for p, t in zip(tail_p, tile, strict=True)]
            + [p % t for p, t in zip(tail_p, tile, strict=True)]
        )
        extent = head_e + [math.ceil(e / t) for e, t in zip(tail_e, tile, strict=True)] + list(tile)
    address = 0
    for p, e in zip(place, extent, strict=True):
        address = address * e + p
    return address, math.prod(extent)


def agree(layout: Layout, dims: Sequence[int], tiles: Sequence[Sequence[int]]) -> None:
    for index in itertools.product(*map(range, layout.shape)):
        address, size = linear_index(index, layout.shape, dims, tiles)
        assert layout.address(index) == address, (index, dims, tiles, str(layout))
        assert layout.extent == size, (dims, tiles, str(layout))


def test_random_tilings_follow_the_formula_or_are_refused():
    rng = random.Random(4)
    read = refused = irregular = 0
    for _ in range(1500):
        rank = rng.randint(1, 3)
        dims = rng.sample(range(rank), rank)
        tiles: list[tuple[int, ...]] = []
        width = rank
        for _ in range(rng.randint(0, 3)):
            k = rng.randint(1, width)
            tiles.append(tuple(rng.choice((1, 2, 2, 3, 4, 6, 8)) for _ in range(k)))
            width = rank if not tiles else max(k, 1)
        shape = tuple(rng.randint(1, 9) for _ in range(rank))
        try:
            found = subject_of(dims, tuple(tiles), shape)
        except LayoutError as error:
            assert "do not divide" in str(error) or "depend on the shape" in str(error), str(error)
            refused += 1
            continue
        if isinstance(found, Layout):
            irregular += 1
        else:
            found = found.bind(shape)
            again = NOTATIONS["xla"].parse(NOTATIONS["xla"].print(found), shape)
            assert isinstance(again, Layout)
            assert again.same_store(found)
        read += 1
        agree(found, dims, tiles)
    assert read > 1000
    assert irregular > 10


def test_the_documented_examples():
    layout = NOTATIONS["xla"].parse("{1,0:T(2,2)}", (3, 5))
    assert isinstance(layout, Layout)
    assert layout.address((2, 3)) == 17
    layout = NOTATIONS["xla"].parse("{1,0:T(8,128)(2,1)}", (20, 200))
    assert isinstance(layout, Layout)
    assert layout.padded_shape == (24, 256)
    assert layout.address((9, 130)) == 3077
    assert str(NOTATIONS["xla"].parse("{1,0:T(8,128)(2,1)}")) == "(n, c) : [n, c, n:4, c:128, n:2]"


def test_xla_and_jax_say_the_same():
    for text in ("{1,0:T(8,128)(2,1)}", "{0,1}", "{3,1,2,0:T(8,128)}", "{2,1,0:T(4)(2)}"):
        format = NOTATIONS["xla"].parse(text)
        assert NOTATIONS["jax"].parse(NOTATIONS["jax"].print(format)) == format


def test_element_and_space_qualifiers_do_not_change_addresses():
    assert NOTATIONS["xla"].parse("{1,0:T(8,128)(2,1)E(4)S(1)}") == NOTATIONS["xla"].parse(
        "{1,0:T(8,128)(2,1)}"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{1,0:T(*,128)}", r"'\*' fuses a dim with the next minor one"),
        ("{1,0:T(6,128)(4,1)}", "cuts 6 into blocks of 4: it rounds up"),
        ("{1,1}", "no permutation of 2 dims"),
        ("{1,0:T(2,2,2)}", "more dims than the 2 dims it is applied to"),
        ("{1,0:L(128)}", "says more than addresses"),
        ("{1,0:T(0,2)}", "at least 1 is needed"),
        ("{1,0", "expected ',', found the end"),
    ],
)
def test_negative_texts_that_are_no_layout_here(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS["xla"].parse(text)


def test_a_tiling_that_does_not_divide_is_read_at_shapes_where_it_is_digits():
    layout = NOTATIONS["xla"].parse("{0:T(6)(4)}", (13,))
    assert isinstance(layout, Layout)
    agree(layout, (0,), ((6,), (4,)))  # blocks of 6, 8 apart
    with pytest.raises(LayoutError, match="do not divide"):
        NOTATIONS["xla"].parse("{1,0:T(6,2)(4,1)}", (13, 4))  # units 1, 4 and 6


def test_negative_strides_with_holes_have_no_tiles():
    with pytest.raises(LayoutError, match=r"xla cannot say .* strides of its own"):
        NOTATIONS["xla"].print(Format.parse("(a, b) : [a*9, b]").bind((2, 5)))
