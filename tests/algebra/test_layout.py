"""A bound layout: addresses, their inverse, sizes, density and the three levels of sameness."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from random import Random
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given

from layout_ir.algebra.concat import compose, concat, split
from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import HOLE, Index, Layout, Pad
from layout_ir.algebra.refinement import refine
from layout_ir.errors import LayoutError
from tests.layouts import address_by_definition, indices, random_format, random_layout, random_shape, rngs


def _elements(layout: Layout) -> dict[int, list[tuple[int, ...]]]:
    """Per address, the indices that live there."""
    result: dict[int, list[tuple[int, ...]]] = {}
    for index in indices(layout.shape):
        result.setdefault(layout.address(index), []).append(index)
    return result


def _positions(layout: Layout) -> dict[int, list[tuple[int, ...]]]:
    """Per address, the positions of the padded box that live there, pads included."""
    result: dict[int, list[tuple[int, ...]]] = {}
    for position in indices(layout.padded_shape):
        result.setdefault(layout.position_address(position), []).append(position)
    return result


# --- Addresses ---


@given(rngs)
def test_address_is_addresses_at_the_index(rng: Random):
    layout = random_layout(rng, limit=200)
    array = layout.addresses()
    assert array.dtype == np.int64 and array.shape == layout.shape
    for index in indices(layout.shape):
        assert array[index] == layout.address(index)


@given(rngs)
def test_positions_follow_the_definition(rng: Random):
    rank = rng.randint(1, 3)
    format = random_format(rng, rank, strided=True, halo=True, chunked=True)
    layout = format.bind(random_shape(rng, rank, 60))
    for position in itertools.islice(indices(layout.padded_shape), 300):
        assert layout.position_address(position) == address_by_definition(format, layout.shape, position)


@given(rngs)
def test_padded_addresses_contain_the_addresses(rng: Random):
    layout = random_layout(rng, limit=200)
    box = tuple(slice(low, low + extent) for low, extent in zip(layout.lo, layout.shape, strict=True))
    assert np.array_equal(layout.addresses(padded=True)[box], layout.addresses())


@given(rngs)
def test_an_address_is_the_offset_plus_one_term_per_dim(rng: Random):
    layout = random_layout(rng, limit=200)
    columns = [layout.offsets(dim) for dim in range(layout.rank)]
    for index in indices(layout.shape):
        assert layout.address(index) == layout.offset + sum(
            int(c[x]) for c, x in zip(columns, index, strict=True)
        )


def test_digits_are_fine_to_coarse_and_units_divide_each_other():
    layout = Format.from_tag("OIhw4i16o4i").bind((20, 18, 3, 2))
    assert [(d.unit, d.count, d.stride) for d in layout.digits[1]] == [(1, 4, 1), (4, 4, 64), (16, 2, 1536)]
    assert layout.address((17, 5, 2, 1)) == 4421
    assert layout.inverse(3000) == Pad((14, 24, 2, 1))


@given(rngs)
def test_pads_are_the_positions_without_an_index(rng: Random):
    layout = random_layout(rng, limit=100)
    box = layout.addresses(padded=True)
    outside = np.ones(box.shape, bool)
    outside[tuple(slice(low, low + x) for low, x in zip(layout.lo, layout.shape, strict=True))] = False
    assert sorted(layout.pad_addresses().tolist()) == sorted(box[outside].tolist())


def test_negative_index_of_another_rank():
    with pytest.raises(LayoutError, match=r"rank mismatch between index \(1,\) and shape \(2, 3\): 1 != 2"):
        Format.from_tag("nc").bind((2, 3)).address((1,))


@pytest.mark.parametrize("index", [(2, 0), (0, 3), (-1, 0)])
def test_negative_index_outside_the_shape(index: tuple[int, int]):
    with pytest.raises(LayoutError, match=r"is outside shape \(2, 3\): dim \d has \d elements"):
        Format.from_tag("nc").bind((2, 3)).address(index)


# --- Inverse ---


@given(rngs)
def test_inverse_tells_indices_pads_and_holes_apart(rng: Random):
    layout = random_layout(rng, rank=rng.randint(0, 3), limit=60)
    elements, positions = _elements(layout), _positions(layout)
    for address in range(layout.first_address - 3, layout.first_address + min(layout.span, 400) + 3):
        found = layout.inverse(address)
        if address in elements:
            assert isinstance(found, Index) and found.index in elements[address]
        elif address in positions:
            assert isinstance(found, Pad) and found.position in positions[address]
        else:
            assert found == HOLE


@given(rngs)
def test_inverse_undoes_a_swizzle(rng: Random):
    bits = rng.randint(0, 3)
    swizzle = (bits, rng.randint(0, 3), rng.randint(bits, 4))
    layout = replace(random_layout(rng, rank=2, limit=200, wild=False), swizzle=swizzle)
    addresses = [layout.address(index) for index in indices(layout.shape)]
    assert len(set(addresses)) == len(addresses)
    for index, address in zip(indices(layout.shape), addresses, strict=True):
        assert layout.inverse(address) == Index(index)
        assert 0 <= address < layout.extent


# --- Swizzles and axes ---


def test_a_swizzle_xors_address_bits():
    plain, swizzled = (
        Format.parse(f"(m, k) : [m, k]{s}").bind((8, 64)) for s in ("", ", swizzle = (3, 3, 3)")
    )
    for index in indices((8, 64)):
        a = plain.address(index)
        assert swizzled.address(index) == a ^ (((a >> 6) & 7) << 3)


def test_axes_place_elements_and_take_no_memory():
    layout = Format.parse("(m, n) : [m@warp, m:4@lane, n:2@lane, n:8]").bind((8, 16))
    assert layout.span == 8 and layout.axes == ("lane", "warp")
    assert layout.address((5, 11)) == 3
    assert layout.place((5, 11)) == {"warp": 1, "lane": 1 * 2 + 1}


def test_a_dim_of_stride_0_is_replicated():
    layout = Format.parse("(a, b) : [a*0, b]").bind((3, 4))
    assert layout.span == 4 and layout.is_injective() is False


# --- Size ---


@given(rngs)
def test_span_reaches_from_the_first_to_the_last_position(rng: Random):
    layout = random_layout(rng, limit=100)
    positions = _positions(layout)
    assert layout.first_address == min(positions)
    assert layout.span == max(positions) - min(positions) + 1


def test_extent_holds_offset_and_trailing_elements():
    layout = Format.parse("(a, b) : [a*10, b], offset = 7").bind((2, 3))
    assert (layout.span, layout.extent) == (13, 20)
    assert Format.parse("(a, b) : [a*10, b], offset = 7, size = 30").bind((2, 3)).extent == 30


@pytest.mark.parametrize(
    "dtype, count, nbytes",
    [
        ("f32", 5, 20),
        ("f16", 5, 10),
        ("i8", 5, 5),
        ("i4", 5, 3),
        ("ui4", 4, 2),
        ("s8", 3, 3),
        (1, 9, 2),
        (6, 4, 3),
        ("i1", 9, 9),
    ],
)
def test_nbytes_rounds_bits_up_to_bytes(dtype: str | int, count: int, nbytes: int):
    assert Format.parse("(a) : [a]").bind((count,)).nbytes(dtype) == nbytes


@pytest.mark.parametrize(
    "dtype, match", [("f31", "unknown element type 'f31': known are"), (0, "an element of 0 bits")]
)
def test_negative_nbytes_of_no_element_type(dtype: str | int, match: str):
    with pytest.raises(LayoutError, match=match):
        Format.from_tag("nc").bind((2, 3)).nbytes(dtype)


@given(rngs)
def test_dense_means_the_padded_box_is_an_interval(rng: Random):
    layout = random_layout(rng, limit=100)
    positions = _positions(layout)
    expected = len(positions) == layout.span == math.prod(layout.padded_shape)
    assert layout.is_dense() == expected


@given(rngs)
def test_injective_means_no_address_is_shared(rng: Random):
    layout = random_layout(rng, limit=100)
    assert layout.is_injective() == all(len(p) == 1 for p in _positions(layout).values())
    assert layout.is_injective(padded=False) == all(len(i) == 1 for i in _elements(layout).values())


def test_injective_is_unknown_where_it_would_cost_too_much():
    # Strides that are not nested (9 does not exceed what stride 4 reaches): a few differences to try.
    layout = Format.parse("(a, b, c) : [a*5000, b*9, c*4]").bind((1 << 30, 4, 4))
    assert layout.is_injective() is True
    # Strides that are nearly equal, and far too many of both.
    layout = Format.parse("(a, b, c) : [a*100000, b*99999, c*100001]").bind((1 << 16, 1 << 16, 1 << 16))
    assert layout.is_injective() is None


def test_not_nested_but_injective_is_found_by_enumeration():
    assert Format.parse("(a, b, c) : [a*12, b*3, c*4]").bind((3, 3, 2)).is_injective() is True


# --- Contiguity ---


@given(rngs)
def test_contiguous_means_the_addresses_of_the_dense_order(rng: Random):
    rank = rng.randint(1, 4)
    shape = random_shape(rng, rank, 200)
    layout = random_format(rng, rank, blocks=(2, 8)).bind(shape)
    for order in itertools.permutations(range(rank)):
        dense = Format(layout.names, tuple(Factor(d) for d in order))
        array = np.arange(math.prod(shape)).reshape([shape[d] for d in order]).transpose(np.argsort(order))
        assert layout.is_contiguous(dense) == np.array_equal(layout.addresses(), array)


def test_contiguity_holds_for_several_orders_at_once():
    layout = Format.from_tag("nchw").bind((2, 1, 5, 4))
    assert layout.is_contiguous() and layout.is_contiguous("nhwc") and layout.is_contiguous("nchw")
    assert not layout.is_contiguous("nwhc")


def test_contiguity_does_not_look_at_the_offset():
    assert Format.parse("(a, b) : [a, b], offset = 4").bind((2, 3)).is_contiguous()


# --- Sameness ---


@given(rngs)
def test_a_layout_and_its_format_say_the_same(rng: Random):
    layout = random_layout(rng)
    again = layout.format.bind(layout.shape)
    assert again.same_contract(layout)
    assert again.format == layout.format


@given(rngs)
def test_each_level_of_sameness_implies_the_one_before(rng: Random):
    shape = random_shape(rng, 2, 40)
    left, right = (random_format(rng, 2, blocks=(2, 4)).bind(shape) for _ in range(2))
    assert left.same_store(right) or not left.same_contract(right)
    assert left.same_map(right) or not left.same_store(right)


@given(rngs)
def test_same_store_means_same_elements_and_same_pads(rng: Random):
    shape = random_shape(rng, 2, 40)
    left, right = (random_format(rng, 2, blocks=(2, 4)).bind(shape) for _ in range(2))
    if left.same_store(right):
        assert np.array_equal(left.addresses(), right.addresses())
        assert set(_positions(left)) == set(_positions(right))


def test_one_block_is_a_plain_tensor_but_its_pads_differ():
    blocked, plain = (
        Format.from_tag("nChw8c").bind((1, 5, 2, 2)),
        Format.parse("(n, c, h, w) : [n, h*16, w*8, c]").bind((1, 5, 2, 2)),
    )
    assert blocked.same_map(plain) and not blocked.same_store(plain)


def test_trailing_elements_are_part_of_the_store():
    short, long = (Format.parse(f"(a, b) : [a*4, b]{s}").bind((2, 3)) for s in ("", ", size = 8"))
    assert short.same_map(long) and not short.same_store(long)


def test_tensors_without_elements_and_pads_are_stored_alike():
    plain, blocked = Format.from_tag("abc"), Format.from_tag("cBa8b")
    assert plain.bind((9, 0, 8)).same_store(blocked.bind((9, 0, 8)))
    assert plain.bind((9, 0, 8)).same_contract(blocked.with_pad(1).bind((9, 0, 8)))


def test_negative_a_tensor_without_elements_may_have_pads():
    room = Format.parse("(a, b) : [a, b:8], pad = zero").bind((2, 0))
    assert room.same_map(Format.from_tag("ab").bind((2, 0))) and not room.same_store(
        Format.from_tag("ab").bind((2, 0))
    )


def test_the_policy_counts_only_where_there_are_pads():
    zero = Format.from_tag("nChw8c")
    undef = zero.with_pad("undef")
    assert zero.bind((1, 8, 2, 2)).same_contract(undef.bind((1, 8, 2, 2)))
    assert zero.bind((1, 9, 2, 2)).same_store(undef.bind((1, 9, 2, 2)))
    assert not zero.bind((1, 9, 2, 2)).same_contract(undef.bind((1, 9, 2, 2)))


def test_negative_sameness_of_different_shapes():
    with pytest.raises(LayoutError, match=r"different shapes cannot be the same map: \(2, 3\) != \(3, 2\)"):
        Format.from_tag("nc").bind((2, 3)).same_map(Format.from_tag("nc").bind((3, 2)))


# --- Chunks ---


def test_chunk_addresses_split_the_address():
    crouton = Format.parse("(n, h, w, c) : [n, h, w, c | h:8, w:8, c:32], pad = 31").bind((2, 9, 20, 50))
    assert crouton.chunk_size == 2048
    assert crouton.chunk_address((1, 8, 19, 49)) == (23, 113)


def test_negative_chunk_address_without_chunks():
    with pytest.raises(LayoutError, match="has no chunks: its format has no bar"):
        Format.from_tag("nchw").bind((1, 1, 1, 1)).chunk_address((0, 0, 0, 0))


@given(rngs)
def test_repr_evaluates_to_a_layout_of_the_same_contract(rng: Random):
    layout = random_layout(rng)
    again = eval(repr(layout), {"Format": Format})
    assert again.names == layout.names
    assert again.shape == layout.shape
    assert again.same_contract(layout)


def test_what_lies_at_an_address_is_written_as_it_is_made():
    layout = Format.from_tag("nc").bind((2, 3))
    found = [layout.inverse(5), layout.inverse(6)]
    assert eval(repr(found), {"Index": Index, "HOLE": HOLE}) == found


_ROW: Any = Format.from_tag("aB8b").bind((3, 16))


@pytest.mark.parametrize(
    "call",
    [
        lambda: _ROW.address((0.0, 1)),
        lambda: _ROW.address("ab"),
        lambda: _ROW.address(None),
        lambda: _ROW.inverse(1.0),
        lambda: _ROW.inverse(math.nan),
        lambda: _ROW.reshape((48.0,)),
        lambda: _ROW.split_dim(1, [2.0, 8]),
        lambda: _ROW.slice([0, 0], [2.0, 8]),
        lambda: _ROW.broadcast((3.0, 16)),
        lambda: _ROW.broadcast(16),
        lambda: _ROW.permute(None),
        lambda: _ROW.permute((0, 1.0)),
        lambda: _ROW.merge_dims(0, 2.0),
        lambda: split(_ROW, cast("Any", 3), 0),
    ],
)
def test_negative_what_is_no_integer_makes_no_layout(call: Any):
    with pytest.raises(LayoutError, match="is no row of integers"):
        call()


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (Format.from_tag("nc"), r"and \(n, c\) : \[n, c\] is a Format: bind it to a shape"),
        ("ab", "not 'ab'"),
        (None, "not None"),
    ],
)
@pytest.mark.parametrize("relation", ["same_map", "same_store", "same_contract"])
def test_negative_what_is_no_layout_is_the_same_as_none(relation: str, other: Any, found: str):
    with pytest.raises(LayoutError, match=f"^a Layout is needed, {found}"):
        getattr(_ROW, relation)(other)


def test_integers_may_be_those_of_numpy():
    index = np.array([2, 9], np.int8)
    assert type(_ROW.address(index)) is int
    assert _ROW.inverse(np.uint16(_ROW.address(index))) == Index((2, 9))
    assert _ROW.reshape(np.array([48])).shape == (48,)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [(Format.from_tag("ab"), r"\(a, b\) : \[a, b\] is a Format: bind it to a shape"), ("ab", "not 'ab'")],
)
def test_negative_what_is_no_layout_is_named(wrong: Any, message: str):
    layout = Format.from_tag("ab").bind((2, 3))
    for call in (
        lambda: refine(layout, wrong), lambda: compose(wrong, layout), lambda: concat([layout, wrong], 0),
        lambda: split(wrong, (1, 1), 0),
    ):  # fmt: skip
        with pytest.raises(LayoutError, match=f"a Layout is needed, .*{message}"):
            call()


def test_negative_a_place_is_one_of_an_index_of_the_shape():
    layout = Format.from_tag("ab").bind((2, 3))
    for index in ((0,), (0, 0, 0), (2, 0), (0, -1)):
        with pytest.raises(LayoutError, match=r"index .* (is outside|and) shape"):
            layout.place(index)
    with pytest.raises(LayoutError, match=r"position \(1,\) and shape \(2, 3\): 1 != 2"):
        layout.position_address((1,))


def test_a_position_reaches_into_the_pads_and_negative_not_beyond():
    layout = Format.parse("(a) : [a, a:4]").bind((5,))
    assert [layout.position_address((y,)) for y in range(8)] == list(range(8))
    for position in ((8,), (-1,)):
        with pytest.raises(LayoutError, match=r"is outside the padded box \(8,\): dim 0 has 8 of them"):
            layout.position_address(position)
    with pytest.raises(LayoutError, match="dim 1 does not exist in shape 5"):
        layout.offsets(1)
