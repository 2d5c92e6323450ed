"""Reshape succeeds exactly when a layout of the result exists, and means what NumPy's reshape means."""

from __future__ import annotations

import math
from contextlib import suppress
from random import Random

import numpy as np
import pytest
from hypothesis import given

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from tests.algebra.test_views import check_view, pads_of
from tests.layouts import random_format, random_layout, random_shape, rngs, separable
from tests.oracles import onednn


def _new_shape(rng: Random, count: int) -> list[int]:
    """A random factorisation of `count`, unit dims included."""
    shape: list[int] = []
    rest = count
    for _ in range(rng.randint(0, 3)):
        part = rng.choice([x for x in range(1, rest + 1) if rest % x == 0])
        shape.append(part)
        rest //= part
    shape.append(rest)
    rng.shuffle(shape)
    return shape


def _digits_by_brute_force(values: list[int]) -> bool:
    """Whether the values are a sum over mixed-radix digits: peel the longest linear prefix, as the proof does."""
    while len(values) > 1:
        step = values[1] - values[0]
        run = next((k for k, v in enumerate(values) if v != values[0] + k * step), len(values))
        if run == len(values):
            return True
        if any(values[k] - values[k - k % run] != k % run * step for k in range(len(values))):
            return False
        values = values[::run]
    return True


def _answer_exists(layout: Layout, shape: list[int]) -> bool:
    """Whether the reshaped addresses are a constant plus one digit list per dim."""
    columns = separable(layout.addresses().reshape(shape))
    return columns is not None and all(map(_digits_by_brute_force, columns))


def _numpy_can(layout: Layout, shape: list[int]) -> bool:
    """Whether NumPy can do it without a copy, on the strides it would have; blocked layouts have none."""
    columns = separable(layout.addresses())
    assert columns is not None
    strides = [c[1] if len(c) > 1 else 0 for c in columns]
    if any(c != [k * s for k in range(len(c))] for c, s in zip(columns, strides, strict=True)):
        return False
    low = sum(min(c) for c in columns)
    memory = np.zeros(max(1, sum(max(c) for c in columns) - low + 1), np.int8)
    view = np.ndarray(layout.shape, np.int8, memory, -low, strides)
    try:
        return np.shares_memory(view.reshape(shape, copy=False), memory)
    except ValueError:
        return False


def _onednn_can(layout: Layout, tag: str, shape: list[int]) -> bool:
    """Whether the library reshapes its descriptor of the same layout, and to the right addresses."""
    try:
        desc = onednn.Desc.from_string_tag(layout.shape, tag).reshape(shape).described()
    except onednn.OneDNNError:
        return False
    total = np.full((1,) * len(shape), desc.offset0, np.int64)
    blocks = list(zip(desc.inner_blks, desc.inner_idxs, strict=True))
    for dim, extent in enumerate(shape):
        y, offsets, dense = np.arange(extent), np.zeros(extent, np.int64), 1
        for size, of in reversed(blocks):
            if of == dim:
                offsets, y = offsets + y % size * dense, y // size
            dense *= size
        offsets = offsets + y * desc.strides[dim]
        total = total + offsets.reshape((-1,) + (1,) * (len(shape) - 1 - dim))
    return np.array_equal(total, layout.addresses().reshape(shape))


def test_reshape_succeeds_exactly_when_an_answer_exists_and_more_often_than_others():
    rng = Random(6)
    ours = numpy = library = exists = 0
    total, with_library = 6_000, onednn.available() is None
    for _ in range(total):
        rank = rng.randint(1, 4)
        shape = random_shape(rng, rank, 400)
        order = rng.sample(range(rank), rank) if rng.random() < 0.5 else list(range(rank))
        blocks = [(rng.choice((2, 4, 8)), rng.randrange(rank)) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
        blocked = {d for _, d in blocks}
        tag = "".join(chr(97 + d).upper() if d in blocked else chr(97 + d) for d in order)
        tag += "".join(f"{size}{chr(97 + d)}" for size, d in blocks)
        layout = Format.from_tag(tag).bind(shape)
        new = _new_shape(rng, math.prod(shape))
        possible = _answer_exists(layout, new)
        exists += possible
        numpy += _numpy_can(layout, new)
        library += with_library and _onednn_can(layout, tag, new)
        try:
            view = layout.reshape(new)
        except LayoutError:
            assert not possible, (layout, new)
        else:
            check_view(view, layout, layout.addresses().reshape(new))
            ours += 1
    print(f"reshapes of {total}: an answer exists {exists}, ours {ours}, NumPy {numpy}, oneDNN {library}")
    assert ours == exists
    assert ours > numpy and ours > library


@given(rngs)
def test_reshape_of_any_layout_is_numpy_reshape_or_has_no_answer(rng: Random):
    layout = random_layout(rng, limit=200)
    if layout.lo and any(layout.lo):
        return  # a phase can hide an answer; see the next test
    new = _new_shape(rng, layout.nelems)
    try:
        view = layout.reshape(new)
    except LayoutError:
        assert not _answer_exists(layout, new)
    else:
        check_view(view, layout, layout.addresses().reshape(new))


@given(rngs)
def test_reshape_of_a_halo_is_right_where_it_succeeds(rng: Random):
    layout = random_layout(rng, limit=200)
    new = _new_shape(rng, layout.nelems)
    try:
        view = layout.reshape(new)
    except LayoutError:
        return
    check_view(view, layout, layout.addresses().reshape(new))


@given(rngs)
def test_keeping_pads_keeps_exactly_the_pads(rng: Random):
    layout = random_layout(rng, limit=200, wild=False)
    try:
        view = layout.reshape(_new_shape(rng, layout.nelems), keep_pads=True)
    except LayoutError:
        return
    assert view.pad == layout.pad and pads_of(view) == pads_of(layout)


@given(rngs)
def test_reshaping_back_restores_the_map(rng: Random):
    layout = random_layout(rng, limit=200)
    try:
        view = layout.reshape(_new_shape(rng, layout.nelems))
    except LayoutError:
        return
    assert view.reshape(layout.shape).same_map(layout)


def test_a_transposed_tensor_flattens_to_more_than_one_digit():
    # (c, h, w) stored as h, w, c: no strides say the flat tensor, three digits do.
    flat = Format.parse("(c, h, w) : [h, w, c]").bind((3, 4, 5)).reshape((60,))
    assert [(d.unit, d.stride) for d in flat.digits[0]] == [(1, 3), (20, 1)]


def test_a_blocked_dim_splits_between_and_inside_blocks():
    layout = Format.from_tag("aBc8b").bind((2, 16, 5))
    for new in ((2, 2, 8, 5), (2, 4, 4, 5), (2, 8, 2, 5)):
        check_view(layout.reshape(new), layout, layout.addresses().reshape(new))


def test_a_padded_unit_dim_that_libdnnl_swallows_is_not_swallowed():
    # 3.13.2 reshapes aBcd4b (2, 1, 6, 1) to (1, 12) and keeps a block of 4 on the wrong dim.
    layout = Format.from_tag("aBcd4b").bind((2, 1, 6, 1))
    assert layout.reshape((1, 12)).addresses().tolist() == [[4 * k for k in range(12)]]
    with pytest.raises(
        LayoutError, match="a dim of extent 1 that carries padding has no dim of extent 1 to become"
    ):
        layout.reshape((12,), keep_pads=True)


def test_merge_and_split_are_reshapes_and_inverse():
    layout = Format.from_tag("nchw").bind((2, 12, 5, 4))
    merged = layout.merge_dims(1, 3)
    assert merged.shape == (2, 240) and merged.same_map(layout.reshape((2, 240)))
    assert merged.split_dim(1, (12, 5, 4)).same_map(layout)


def test_empty_tensors_reshape():
    assert Format.from_tag("nChw8c").bind((2, 0, 5, 4)).reshape((0, 3)).shape == (0, 3)


@pytest.mark.parametrize(
    "shape, match",
    [
        ((6, 16), r"cannot reshape 2x17x5 into 6x16: 170 != 96 elements"),
        ((-2, -85), r"cannot reshape 2x17x5 into -2x-85"),
        ((34, 5), r"dim 'b' is padded from 17 to 24 and not the leading dim of its group, so .* fused dims"),
    ],
)
def test_negative_reshape_without_a_layout(shape: tuple[int, ...], match: str):
    with pytest.raises(LayoutError, match=match):
        Format.from_tag("aBc8b").bind((2, 17, 5)).reshape(shape)


def test_negative_reshape_by_a_cut_inside_a_digit():
    with pytest.raises(
        LayoutError, match=r"a cut after 6 elements falls inside the digit from 4, .* divide each other"
    ):
        Format.parse("(a, b) : [a, b, a:4]").bind((12, 2)).reshape((2, 6, 2))


def test_negative_merging_and_splitting_of_dims_that_do_not_exist():
    layout = Format.from_tag("nc").bind((4, 6))
    with pytest.raises(LayoutError, match=r"dims \[1, 3\) do not exist in shape 4x6"):
        layout.merge_dims(1, 2)
    with pytest.raises(LayoutError, match=r"cannot split dim 1 of extent 6 into 2x2: 6 != 4"):
        layout.split_dim(1, (2, 2))
    with pytest.raises(LayoutError, match=r"dim 2 does not exist"):
        layout.split_dim(2, (2, 2))


def test_negative_reshape_of_places():
    with pytest.raises(LayoutError, match="has places on another axis than memory"):
        Format.parse("(a) : [a@lane, a:4]").bind((16,)).reshape((4, 4))


def test_generated_formats_are_reshaped_both_ways():
    rng, succeeded = Random(1), 0
    for _ in range(500):
        layout = random_format(rng, 2, blocks=(2, 4)).bind((8, 6))
        with suppress(LayoutError):
            succeeded += layout.reshape((48,)).shape == (48,)
    assert 50 < succeeded < 500
