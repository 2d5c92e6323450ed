"""Views: permute, broadcast, slice. The law is one: addresses(view(L)) == numpy_view(addresses(L))."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from tests.layouts import is_phased_list, random_format, random_layout, random_shape, rngs, separable


def pads_of(layout: Layout) -> set[int]:
    """Addresses of the padded box that hold no element."""
    return set(layout.addresses(padded=True).ravel().tolist()) - set(layout.addresses().ravel().tolist())


def check_view(view: Layout, parent: Layout, expected: NDArray[np.int64]) -> None:
    """The view has the expected addresses, prints as a format that has them too, and promises no pad it has not."""
    assert view.shape == expected.shape
    assert np.array_equal(view.addresses(), expected)
    assert view.format.bind(view.shape).same_contract(view)
    if view.pad != "undef" and parent.is_injective():
        assert pads_of(view) <= pads_of(parent)


# --- Permute ---


@pytest.mark.parametrize("rank", range(6))
def test_permute_is_numpy_transpose_for_every_order(rank: int):
    rng = Random(rank)
    for order in itertools.permutations(range(rank)):
        layout = random_layout(rng, rank=rank, limit=300)
        check_view(layout.permute(order), layout, layout.addresses().transpose(order))
        assert layout.permute(order).pad == layout.pad


@given(rngs)
def test_permuting_back_restores_the_layout(rng: Random):
    layout = random_layout(rng)
    order = rng.sample(range(layout.rank), layout.rank)
    assert layout.permute(order).permute([order.index(d) for d in range(layout.rank)]) == layout


@pytest.mark.parametrize("order", [(0,), (0, 0), (0, 2), (-1, 0)])
def test_negative_permute_by_no_permutation(order: tuple[int, ...]):
    with pytest.raises(LayoutError, match=r"is not a permutation of the 2 dims of shape 2x3"):
        Format.from_tag("nc").bind((2, 3)).permute(order)


# --- Broadcast ---


@given(rngs)
def test_broadcast_is_numpy_broadcast_to(rng: Random):
    layout = random_layout(rng, limit=60)
    shape = [x if x != 1 or rng.random() < 0.5 else rng.choice((2, 5)) for x in layout.shape]
    shape = [rng.choice((1, 3)) for _ in range(rng.randint(0, 2))] + shape
    check_view(layout.broadcast(shape), layout, np.broadcast_to(layout.addresses(), shape))


def test_negative_broadcast_of_other_extents():
    with pytest.raises(LayoutError, match="shape 2x3 does not broadcast to 4x3: 2 is neither 1 nor 4"):
        Format.from_tag("nc").bind((2, 3)).broadcast((4, 3))


def test_negative_broadcast_to_fewer_dims():
    with pytest.raises(LayoutError, match="shape 2x3 has more dims than 3"):
        Format.from_tag("nc").bind((2, 3)).broadcast((3,))


def test_negative_broadcast_of_places():
    with pytest.raises(LayoutError, match="has places on another axis: it cannot be stretched"):
        Format.parse("(a) : [a:4@lane]").bind((1,)).broadcast((3,))


# --- Slice ---


def _box(rng: Random, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    starts = [rng.randint(0, x) for x in shape]
    return starts, [rng.randint(0, x - s) for x, s in zip(shape, starts, strict=True)]


def test_every_slice_is_representable_on_5000_random_cases():
    rng = Random(2)
    for _ in range(5_000):
        layout = random_layout(rng, limit=300)
        starts, sizes = _box(rng, layout.shape)
        box = tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))
        check_view(layout.slice(starts, sizes), layout, layout.addresses()[box])


@given(rngs)
def test_a_slice_of_a_slice_is_a_slice(rng: Random):
    layout = random_layout(rng)
    starts, sizes = _box(rng, layout.shape)
    again, smaller = _box(rng, tuple(sizes))
    both = [a + b for a, b in zip(starts, again, strict=True)]
    assert layout.slice(starts, sizes).slice(again, smaller).same_map(layout.slice(both, smaller))


@given(rngs)
def test_the_whole_slice_changes_nothing(rng: Random):
    layout = random_layout(rng)
    assert layout.slice([0] * layout.rank, layout.shape) == layout


def test_a_slice_to_the_border_keeps_its_pads():
    layout = Format.from_tag("nChw8c").bind((2, 17, 5, 4))
    tail = layout.slice((0, 8, 0, 0), (2, 9, 5, 4))
    assert (tail.pad, tail.padded_shape, tail.offset) == ("zero", (2, 16, 5, 4), 160)


def test_negative_a_slice_before_the_border_promises_nothing():
    # Behind channel 12 lie elements of the parent, not its pads.
    layout = Format.from_tag("nChw8c").bind((2, 17, 5, 4))
    assert layout.slice((0, 0, 0, 0), (2, 12, 5, 4)).pad == "undef"


def test_an_unaligned_slice_is_a_phase():
    view = Format.from_tag("nChw8c").bind((2, 17, 5, 4)).slice((0, 3, 0, 0), (2, 14, 5, 4))
    assert view.lo == (0, 3, 0, 0) and view.pad == "undef"


def test_slices_of_large_tensors_cost_nothing():
    layout = Format.from_tag("nChw8c").bind((1 << 20, 1 << 20, 7, 7))
    view = layout.slice((1, 16, 0, 0), ((1 << 20) - 5, (1 << 20) - 40, 7, 7))
    assert view.address((0, 0, 0, 0)) == layout.address((1, 16, 0, 0))


@pytest.mark.parametrize("start, size", [(0, 4), (-1, 2), (2, 2), (4, 0), (0, -1)])
def test_negative_slice_that_leaves_the_shape(start: int, size: int):
    with pytest.raises(LayoutError, match=r"leaves dim 1 of extent 3"):
        Format.from_tag("nc").bind((2, 3)).slice((0, start), (2, size))


def test_negative_slice_of_another_rank():
    with pytest.raises(LayoutError, match=r"rank mismatch between slice starts \[0\], sizes \[1\]"):
        Format.from_tag("nc").bind((2, 3)).slice((0,), (1,))


# --- Strided slice ---


def test_a_strided_slice_exists_exactly_when_its_addresses_are_digits():
    rng, found = Random(8), 0
    for _ in range(5_000):
        if rng.random() < 0.5:
            layout = random_layout(rng, rank=rng.randint(1, 3), limit=300)
        else:
            layout = random_format(rng, 2, halo=True, blocks=(3, 4, 5)).bind((rng.randint(20, 36), 2))
        selection: list[slice] = []
        starts, sizes, steps = list[int](), list[int](), list[int]()
        for extent in layout.shape:
            step, start = rng.choice((-2, -1, 1, 2, 3, 5)), rng.randrange(extent)
            room = (extent - 1 - start) // step + 1 if step > 0 else start // -step + 1
            size = rng.randint(1, room)
            stop = start + size * step
            selection.append(slice(start, stop if stop >= 0 else None, step))
            starts, sizes, steps = [*starts, start], [*sizes, size], [*steps, step]
        expected = layout.addresses()[tuple(selection)]
        columns = separable(expected)
        assert columns is not None
        # Whole dims and steps of 1 always have an answer (a phase); other dims need digits, perhaps with a phase.
        possible = all(
            step == 1 or is_phased_list(column) for column, step in zip(columns, steps, strict=True)
        )
        if possible:
            check_view(layout.slice(starts, sizes, steps), layout, expected)
            found += 1
        else:
            with pytest.raises(LayoutError, match="is no digit list"):
                layout.slice(starts, sizes, steps)
    print(f"strided slices with a layout: {found} of 5000")
    assert 4_000 < found < 5_000


def test_a_reversed_dim_has_a_negative_stride():
    view = Format.from_tag("nc").bind((2, 3)).slice((0, 2), (2, 3), (1, -1))
    assert view.addresses().tolist() == [[2, 1, 0], [5, 4, 3]]


def test_negative_strided_slice_that_leaves_the_shape():
    with pytest.raises(
        LayoutError, match=r"slice of 3 indices from 0 on in steps of 2 leaves dim 1 of extent 4"
    ):
        Format.from_tag("nc").bind((2, 4)).slice((0, 0), (2, 3), (1, 2))


def test_a_slice_keeps_places():
    layout = Format.parse("(a) : [a@lane, a:4]").bind((16,))
    view = layout.slice((5,), (6,))
    for x in range(6):
        assert (view.address((x,)), view.place((x,))) == (layout.address((x + 5,)), layout.place((x + 5,)))


def test_shapes_of_the_generator_are_bounded():
    assert all(np.prod(random_shape(Random(k), 4, 50)) <= 50 for k in range(200))
