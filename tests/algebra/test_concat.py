"""Concat, split and compose: layouts made of several, against the concatenated and indexed address arrays."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from layout_ir.algebra.concat import compose, concat, split
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from tests.algebra.test_views import check_view, pads_of
from tests.layouts import is_phased_list, random_format, random_layout, random_shape, rngs, separable


def _parts(rng: Random, extent: int) -> list[int]:
    cuts = sorted(rng.randint(0, extent) for _ in range(rng.randint(0, 3)))
    return [b - a for a, b in zip([0, *cuts], [*cuts, extent], strict=True)]


def test_splitting_then_concatenating_restores_the_map_on_3000_random_layouts():
    rng = Random(4)
    for _ in range(3_000):
        layout = random_layout(rng, rank=rng.randint(1, 4), limit=300)
        dim = rng.randrange(layout.rank)
        parts = split(layout, _parts(rng, layout.shape[dim]), dim)
        joined = concat(parts, dim)
        assert joined.same_map(layout)
        check_view(joined, layout, layout.addresses())


@given(rngs)
def test_split_is_numpy_split(rng: Random):
    layout = random_layout(rng, rank=rng.randint(1, 3), limit=300)
    dim = rng.randrange(layout.rank)
    sizes = _parts(rng, layout.shape[dim])
    expected = np.split(layout.addresses(), np.cumsum(sizes)[:-1], axis=dim)
    for part, addresses in zip(split(layout, sizes, dim), expected, strict=True):
        check_view(part, layout, addresses)


def test_concat_exists_exactly_when_the_addresses_are_digits():
    rng, found, total = Random(14), 0, 3_000
    for _ in range(total):
        rank = rng.randint(1, 3)
        dim = rng.randrange(rank)
        format, shape = random_format(rng, rank, blocks=(2, 4)), random_shape(rng, rank, 60)
        parts: list[Layout] = []
        start = rng.choice((0, 5))
        for _ in range(rng.randint(2, 3)):
            own = [rng.choice((x, x, 2, 4, 6)) if d == dim else x for d, x in enumerate(shape)]
            part = Format(format.names, format.factors, format.chunk_factors, format.pad, start).bind(own)
            parts.append(part)
            start = part.extent + rng.choice((0, 0, 0, 4))
        expected = np.concatenate([part.addresses() for part in parts], axis=dim)
        columns = separable(expected)
        possible = columns is not None and all(map(is_phased_list, columns))
        try:
            joined = concat(parts, dim)
        except LayoutError:
            assert not possible
            continue
        assert possible
        found += 1
        check_view(joined, joined, expected)
        if joined.pad != "undef":
            assert pads_of(joined) <= set().union(*map(pads_of, parts))
    print(f"concats with a layout: {found} of {total}")
    assert 300 < found < total


def test_whole_blocks_concatenate_and_keep_their_pads():
    layout = Format.from_tag("nChw8c").bind((1, 27, 5, 4))
    joined = concat(split(layout, (8, 16, 3), 1), 1)
    assert joined.same_contract(layout)


def test_concat_of_one_is_itself_and_empty_parts_count_for_nothing():
    layout = Format.from_tag("nc").bind((4, 6))
    assert concat([layout], 0) is layout
    assert concat(split(layout, (0, 4, 0), 0), 0).same_map(layout)


def test_a_growing_buffer_concatenates_along_its_outer_dim():
    first = Format.from_tag("nhwc").bind((2, 3, 4, 4))
    second = Format(first.names, first.format.factors, offset=first.extent).bind((5, 3, 4, 4))
    assert concat([first, second], 0).is_contiguous("nhwc")


@pytest.mark.parametrize(
    "texts, shapes, match",
    [
        (["(a) : [a]", "(a, b) : [a, b]"], [(2,), (2, 3)], "rank mismatch between 2 and 2x3: 1 != 2"),
        (["(a, b) : [a, b]"] * 2, [(2, 3), (2, 4)], "dim 1 has 3 and 4 elements"),
        (["(a, b) : [a, b]", "(a, b) : [b, a]"], [(2, 3), (2, 3)], "dim 'b' has other strides"),
        (["(a, b) : [a, b]", "(a, b) : [a, b], offset = 7"], [(2, 3), (2, 3)], None),
        (["(a, b) : [a, b]", "(a, b) : [a, b], swizzle = (1, 0, 1)"], [(2, 2), (2, 2)], "different swizzles"),
        (["(a, b) : [a, b]", "(a, b) : [a, b@lane]"], [(2, 2), (2, 2)], "places on other axes"),
    ],
)
def test_negative_concat_without_a_layout(texts: list[str], shapes: list[tuple[int, ...]], match: str | None):
    parts = [Format.parse(text).bind(shape) for text, shape in zip(texts, shapes, strict=True)]
    if match is None:
        # 0, 3 then 7, 10: two rows and two rows, 7 apart: digits.
        assert concat(parts, 0).addresses()[:, 0].tolist() == [0, 3, 7, 10]
        return
    with pytest.raises(LayoutError, match=match):
        concat(parts, 0)


def test_negative_concat_of_parts_that_do_not_continue_each_other():
    parts = [
        Format.parse(f"(a) : [a], offset = {offset}").bind((size,))
        for offset, size in ((0, 3), (9, 3), (14, 3), (30, 3), (40, 3))
    ]
    with pytest.raises(
        LayoutError, match=r"cannot concat parts of 3, 3, 3, 3, 3 along dim 'a' .* do not continue each other"
    ):
        concat(parts, 0)


@pytest.mark.parametrize(
    ("layouts", "dim", "message"),
    [
        (3, 0, "concat takes a sequence of Layouts, not 3"),
        (Format.from_tag("a").bind((4,)), 0, "concat takes a sequence of Layouts, not Format.parse"),
        ("a", 0, "a Layout is needed, not 'a'"),
        ([Format.from_tag("a").bind((4,))] * 2, 1, "dim 1 does not exist in shape 4"),
        ([Format.from_tag("a").bind((4,))] * 2, "a", "dim 'a' is no integer"),
    ],
)
def test_negative_concat_of_what_are_no_layouts_and_along_no_dim(layouts: Any, dim: Any, message: str):
    with pytest.raises(LayoutError, match=f"^{message}"):
        concat(layouts, dim)


def test_negative_concat_of_nothing_and_split_that_does_not_add_up():
    layout = Format.from_tag("nc").bind((4, 6))
    with pytest.raises(LayoutError, match="at least one layout"):
        concat([], 0)
    with pytest.raises(LayoutError, match=r"parts \[2, 3\] do not add up to dim 1 of extent 6: 5"):
        split(layout, (2, 3), 1)


# --- Compose ---


def _composed(outer: Layout, inner: Layout) -> np.ndarray:
    return outer.addresses().ravel()[inner.addresses()]


def test_compose_answers_exactly_where_indexing_gives_digits():
    rng, found, exists, total = Random(9), 0, 0, 4_000
    for _ in range(total):
        outer = random_format(rng, 2, blocks=(2, 3, 4)).bind(
            (rng.choice((4, 6, 8, 12)), rng.choice((1, 2, 4, 8)))
        )
        count = outer.nelems
        inner = random_format(rng, rng.randint(1, 3), blocks=(2, 4)).with_pad("undef")
        shape = random_shape(rng, inner.rank, count)
        bound = Format(inner.names, inner.factors, offset=rng.choice((0, 0, 1))).bind(shape)
        if int(bound.addresses().max()) >= count:
            continue
        expected = _composed(outer, bound)
        columns = separable(expected)
        possible = columns is not None and all(map(is_phased_list, columns))
        exists += possible
        try:
            result = compose(outer, bound)
        except LayoutError:
            assert not possible, (outer, bound)
            continue
        found += 1
        assert possible
        assert np.array_equal(result.addresses(), expected)
    print(f"compositions with a layout: {exists}, found {found}")
    assert found == exists > 1_000


@given(rngs)
def test_composing_with_row_major_reshapes(rng: Random):
    outer = random_format(rng, 2, blocks=(2, 4)).bind((8, rng.choice((1, 4, 6))))
    inner = Format.row_major("ab").bind(outer.shape)
    assert compose(outer, inner).same_map(outer)


def test_composing_takes_every_second_row():
    outer = Format.from_tag("ba").bind((8, 4))
    rows = Format.parse("(a, b) : [a*8, b]").bind((4, 4))
    assert compose(outer, rows).addresses().tolist() == outer.addresses()[::2].tolist()


def test_negative_compose_that_leaves_the_outer_layout():
    outer, inner = Format.parse("(a) : [a]").bind((8,)), Format.parse("(a) : [a*3]").bind((4,))
    with pytest.raises(LayoutError, match=r"reaches \[0, 9\], the outer layout has 8 elements"):
        compose(outer, inner)


def test_negative_compose_that_carries():
    outer = Format.parse("(a, b) : [b, a]").bind((4, 4))
    inner = Format.parse("(x, y) : [x*2, y*3]").bind((2, 4))
    with pytest.raises(LayoutError, match="together carry over the extent 4 of dim 'b'"):
        compose(outer, inner)


def test_compose_reads_through_padding():
    outer = Format.from_tag("Ba4b").bind((2, 6))
    assert compose(outer, Format.parse("(a, b) : [a*6, b]").bind((2, 4))).same_map(
        outer.slice((0, 0), (2, 4))
    )


def test_negative_compose_over_padding():
    with pytest.raises(
        LayoutError, match="dim 'a' of the result would need units that do not divide each other"
    ):
        compose(Format.from_tag("Ba4b").bind((2, 6)), Format.parse("(a) : [a]").bind((12,)))


def test_sizes_of_parts_add_up():
    assert all(sum(_parts(Random(k), 9)) == 9 for k in range(50)) and math.prod(()) == 1
