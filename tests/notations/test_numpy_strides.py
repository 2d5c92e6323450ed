"""Byte strides, against NumPy arrays."""

from __future__ import annotations

import random

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS

NUMPY = NOTATIONS["numpy"]


def random_view(rng: random.Random):
    """A view of a small array: sliced with steps of any sign, transposed, broadcast; and the array."""
    base = np.arange(720, dtype=rng.choice((np.int16, np.int32, np.float64))).reshape(
        rng.choice(((720,), (24, 30), (6, 8, 15), (2, 3, 4, 30)))
    )
    view = base[tuple(slice(None, None, rng.choice((1, 1, 2, -1, -3))) for _ in base.shape)]
    view = view.transpose(rng.sample(range(view.ndim), view.ndim))
    if rng.random() < 0.3:
        view = np.broadcast_to(view[..., :1], (*view.shape[:-1], 4))
    return base, view


def test_random_views_read_and_print():
    rng = random.Random(0)
    for _ in range(1500):
        base, view = random_view(rng)
        offset = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        text = f"shape={view.shape}, strides={view.strides}, offset={offset}, itemsize={view.itemsize}"
        layout = NUMPY.parse(text)
        assert isinstance(layout, Layout)
        assert np.array_equal(base.ravel()[layout.addresses()], view)
        dtype = {2: "i16", 4: "i32", 8: "f64"}[view.itemsize]
        assert NUMPY.print(layout, dtype) == text


def test_the_example_of_the_theory():
    layout = NUMPY.parse("shape=(2, 5), strides=(20, 4)", None, "i32")
    assert isinstance(layout, Layout)
    assert layout.address((1, 2)) * 4 == 28


@pytest.mark.parametrize(
    ("text", "dtype", "reason"),
    [
        ("shape=(2, 5), strides=(20, 4)", None, "give the element type"),
        ("shape=(2, 5), strides=(20, 6)", "f32", "stride of 6 bytes is no multiple of the 4 bytes"),
        ("shape=(2, 5), strides=(20, 4), offset=2", "f32", "offset of 2 bytes is no multiple"),
        ("shape=(2, 5), strides=(20, 4), itemsize=8", "f32", "itemsize 8, an element of f32 has 32 bits"),
        ("shape=(2, 5), strides=(20,)", "f32", "2 != 1"),
        ("strides=(20, 4)", "f32", "shape unless one is given"),
        ("shape=(8,), strides=(1,)", "i4", "an element of i4 has 4 bits"),
        ("shape=(-8,), strides=(1,)", "i8", "at least 0"),
    ],
)
def test_negative_texts(text: str, dtype: str | None, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NUMPY.parse(text, None, dtype)


def test_negative_blocked_layouts_have_no_strides():
    with pytest.raises(LayoutError, match=r"numpy cannot say .* one stride per dim"):
        NUMPY.print(Format.from_tag("nChw8c").bind((2, 16, 5, 4)), "f32")


def test_negative_bytes_that_no_64_bits_hold():
    layout = Format.parse("(a, b) : [a, b], offset = 4611686018427387904").bind((2, 3))
    with pytest.raises(
        LayoutError, match="its offset of 36893488147419103232 bytes is no integer of 64 bits"
    ):
        NUMPY.print(layout, "f64")


def test_a_bare_tuple_is_that_of_numpy():
    rng = random.Random(9)
    for _ in range(50):
        base, view = random_view(rng)
        dtype = {"int16": "i16", "int32": "i32", "float64": "f64"}[base.dtype.name]
        found = NUMPY.parse(repr(view.strides), view.shape, dtype)
        want = NUMPY.parse(f"shape={view.shape}, strides={view.strides}", None, dtype)
        assert found == want


def test_negative_a_bare_tuple_needs_extents_and_an_element_type():
    with pytest.raises(LayoutError, match="shape unless one is given"):
        NUMPY.parse("(20, 4)", None, "f32")
    with pytest.raises(LayoutError, match="give the element type"):
        NUMPY.parse("(20, 4)", (2, 5))
    with pytest.raises(LayoutError, match="behind the end"):
        NUMPY.parse("(20, 4), 3", (2, 5), "f32")
