"""A Format is a recipe: what it accepts, how it binds, and what equality of recipes means."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Index, Pad
from layout_ir.algebra.pads import pad_number
from layout_ir.errors import LayoutError
from tests.layouts import addresses_by_definition, random_format, random_shape, rngs

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "cases/reference_layouts.json").read_text()
)["layouts"]
LAYOUTS = [case for case in CASES if "shape" in case]


# --- The layouts of the reference texts ---


@pytest.mark.parametrize("case", LAYOUTS, ids=lambda case: case["id"])
def test_reference_layout_has_every_offset(case: dict[str, Any]):
    layout = Format.parse(case["expr"]).bind(case["shape"])
    assert list(layout.padded_shape) == case["padded"]
    assert layout.nelems == case["nelems"]
    assert layout.span == case["size"]
    assert layout.extent == case.get(
        "alloc", case["offset"] + case["size"] if "offset" in case else case["size"]
    )
    for index, offset in case["offsets"].items():
        assert layout.address([int(x) for x in index.split(",")]) == offset
    data = layout.addresses().astype("<i8")
    assert hashlib.sha256(np.ascontiguousarray(data).tobytes()).hexdigest() == case["sha256"]


@pytest.mark.parametrize("case", [c for c in LAYOUTS if "pads" in c], ids=lambda case: case["id"])
def test_reference_layout_has_the_pads_and_memory_order(case: dict[str, Any]):
    layout = Format.parse(case["expr"]).bind(case["shape"])
    assert math.prod(layout.padded_shape) - layout.nelems == case["pads"]
    for address, index in enumerate(case["mem_head"]):
        found = layout.inverse(address)
        assert isinstance(found, Pad) if index is None else found == Index(tuple(index))


@pytest.mark.parametrize("case", [c for c in LAYOUTS if "chunk_offsets" in c], ids=lambda case: case["id"])
def test_reference_layout_has_the_chunks(case: dict[str, Any]):
    layout = Format.parse(case["expr"]).bind(case["shape"])
    # Some entries are spelled without a bar; their chunks are the same stretches of memory.
    assert layout.chunk_size in (0, case["chunk_elems"])
    for index, chunk in case["chunk_offsets"].items():
        found = [int(x) for x in index.split(",")]
        assert list(divmod(layout.address(found), case["chunk_elems"])) == chunk
        if layout.chunk_rank:
            assert layout.chunk_address(found) == tuple(chunk)


def test_every_reference_entry_is_accounted_for():
    assert len(CASES) == 69
    assert sorted(case["kind"] for case in CASES if "shape" not in case) == ["absent", "any"]


# --- Binding ---


@given(rngs)
def test_binding_means_what_reading_the_factors_right_to_left_means(rng: Random):
    rank = rng.randint(0, 4)
    format = random_format(rng, rank, strided=True, halo=True, chunked=True)
    shape = random_shape(rng, rank, 300)
    assert np.array_equal(format.bind(shape).addresses(), addresses_by_definition(format, shape))


@given(rngs)
def test_binding_pads_each_dim_to_a_multiple_of_its_blocks(rng: Random):
    rank = rng.randint(1, 4)
    format = random_format(rng, rank, halo=True)
    shape = random_shape(rng, rank)
    low = format.lo or (0,) * rank
    for extent, front, block, padded in zip(
        shape, low, format.blocks(), format.bind(shape).padded_shape, strict=True
    ):
        assert padded == math.ceil((extent + front) / block) * block


@given(st.permutations(range(4)), st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_plain_formats_are_transposed_arrays(order: list[int], shape: list[int]):
    layout = Format(tuple("abcd"), tuple(Factor(d) for d in order)).bind(shape)
    array = np.arange(math.prod(shape)).reshape([shape[d] for d in order]).transpose(np.argsort(order))
    assert np.array_equal(layout.addresses(), array)


def test_a_scalar_has_one_address():
    layout = Format.parse("() : []").bind(())
    assert (layout.address(()), layout.span, layout.padded_shape) == (0, 1, ())


def test_an_empty_tensor_binds_and_holds_nothing():
    layout = Format.from_tag("nChw8c").bind((2, 0, 5, 4))
    assert (layout.span, layout.extent, layout.addresses().shape) == (0, 0, (2, 0, 5, 4))


def test_adjacent_factors_of_one_dim_only_round_it_up():
    pitch = Format.parse("(h, w) : [h, w, w:32]").bind((3, 33))
    assert pitch.padded_shape == (3, 64)
    assert [d.stride for d in pitch.digits[1]] == [1, 32]
    assert pitch.address((1, 0)) == 64


def test_binding_is_remembered():
    format = Format.from_tag("nChw8c")
    assert format.bind((2, 17, 5, 4)) is format.bind([2, 17, 5, 4])


def test_negative_rank_mismatch_names_both_sides():
    with pytest.raises(
        LayoutError, match=r"rank mismatch between format \(n, c, h, w\) and shape 2x3: 4 != 2"
    ):
        Format.from_tag("nchw").bind((2, 3))


@pytest.mark.parametrize("shape", [(2.0, 3), (None, 3), ("2", 3)])
def test_negative_extents_that_are_no_integers(shape: Any):
    with pytest.raises(LayoutError, match=r"shape \(.*, 3\) is no row of integers, as binding \(n, c\)"):
        Format.from_tag("nc").bind(shape)


def test_extents_of_numpy_are_integers():
    extents: list[Any] = [np.int64(2), np.uint8(3)]
    assert Format.from_tag("nc").bind(extents).shape == (2, 3)


def test_negative_extent_below_zero():
    with pytest.raises(LayoutError, match=r"extent -1 of dim 'c' is negative"):
        Format.from_tag("nchw").bind((2, -1, 5, 4))


def test_negative_capacity_below_the_extent():
    with pytest.raises(LayoutError, match=r"dim 'a' holds 8 elements in .* less than its extent 9"):
        Format.parse("(a) : [a:2, a:4]").bind((9,))


def test_negative_capacity_below_the_extent_with_a_halo():
    with pytest.raises(LayoutError, match="less than its extent 8 and 1 pads in front of it"):
        Format.parse("(a) : [a:2, a:4], lo = [1]").bind((8,))


@pytest.mark.parametrize(
    "text, shape",
    [
        ("(a, b) : [a, b]", (1 << 32, 1 << 31)),
        ("(a) : [a*4]", ((1 << 61) + 1,)),
        ("(a) : [a], offset = 9223372036854775807", (2,)),
        ("(a) : [a*0]", (1 << 63,)),
        ("(a, b) : [a*0, b*0]", (1 << 32, 1 << 32)),
        ("(a, b) : [a, b:9223372036854775807]", (2, 1)),
    ],
)
def test_negative_overflow_past_2_63(text: str, shape: tuple[int, ...]):
    with pytest.raises(LayoutError, match=r"not below 2\^63"):
        Format.parse(text).bind(shape)


def test_the_largest_tensor_below_2_63_binds():
    assert Format.parse("(a, b) : [a, b]").bind(((1 << 32) - 1, 1 << 31)).extent == (1 << 63) - (1 << 31)


# --- What is a recipe ---


@pytest.mark.parametrize(
    "factors, chunk, match",
    [
        ((Factor(0),), (), "dim 'b' has no factor"),
        ((Factor(0), Factor(1), Factor(2)), (), "factor refers to dim 2, the format has 2 dims"),
        (
            (Factor(0), Factor(1), Factor(0)),
            (),
            "factor 'a' without a size stands behind another factor of 'a'",
        ),
        ((Factor(0),), (Factor(1),), "factor 'b' right of the bar has no size"),
        ((Factor(0),), (Factor(1, 4, 2),), "right of the bar has a stride or an axis"),
        ((Factor(0), Factor(1, axis="a b")), (), "axis 'a b' is not an identifier"),
        ((Factor(0), Factor(1, 1 << 63)), (), r"not below 2\^63"),
        ((Factor(0), Factor(1, 2, -(1 << 63))), (), r"not below 2\^63"),
    ],
)
def test_negative_factors_that_are_no_recipe(
    factors: tuple[Factor, ...], chunk: tuple[Factor, ...], match: str
):
    with pytest.raises(LayoutError, match=match):
        Format(("a", "b"), factors, chunk)


@pytest.mark.parametrize(
    "fields, match",
    [
        ({"pad": "none"}, "pad policy 'none' is none of undef, zero, zp or a number"),
        ({"pad": [1]}, r"pad policy \[1\] is none of undef, zero, zp or a number"),
        ({"pad": None}, "pad policy None is none of undef, zero, zp or a number"),
        ({"pad": True}, "pad policy True is none of undef, zero, zp or a number"),
        ({"pad": math.nan}, "nan promises nothing"),
        ({"lo": (1,)}, "lo has 1 entries, the format has 2 dims"),
        ({"lo": (1, -1)}, "negative entry"),
        ({"size": -1}, "size = -1 is negative"),
        ({"swizzle": (3, 0, 2)}, "shift >= bits"),
        ({"swizzle": (3, 30, 31)}, "reaches bit 64, addresses have 63"),
        ({"swizzle": (3, 0)}, r"swizzle = \(3, 0\) is not \(bits, base, shift\)"),
        ({"swizzle": ("3", 0, 3)}, "swizzle = '3' is no integer"),
        ({"names": 2}, "names = 2 is no row"),
        ({"factors": None}, "factors = None is no row"),
        ({"factors": ("a", "b")}, "a format is made of Factors, not of 'a'"),
        ({"factors": (Factor(0), Factor(1, axis=3))}, "axis '3' is not an identifier"),  # pyright: ignore[reportArgumentType]
        ({"offset": 1.5}, "offset = 1.5 is no integer"),
        ({"lo": (0, "1")}, "lo = '1' is no integer"),
        ({"names": ("a", "a")}, "declared twice"),
        ({"names": ("a", "b c")}, "not an identifier"),
        ({"names": ("a", "é")}, "not an identifier"),
        ({"names": tuple(f"d{k}" for k in range(65))}, "at most 64"),
    ],
)
def test_negative_fields_that_are_no_recipe(fields: dict[str, Any], match: str):
    arguments: dict[str, Any] = {"names": ("a", "b"), "factors": (Factor(0), Factor(1)), **fields}
    with pytest.raises(LayoutError, match=match):
        Format(**arguments)


def test_rows_and_integers_of_any_kind_make_the_same_recipe():
    eight, two = np.int8(8), np.int64(2)
    factors = [Factor(0), Factor(1), Factor(np.uint8(1), eight, np.int16(1))]  # pyright: ignore[reportArgumentType]
    given: Any = {"names": ["a", "b"], "factors": factors, "offset": two, "lo": np.array([0, 1])}
    fmt = Format(**given)
    assert fmt == Format.parse("(a, b) : [a, b, b:8*1], offset = 2, lo = [0, 1]") and hash(fmt)
    numbers = [number for f in fmt.factors for number in (f.dim, f.size, f.stride) if number is not None]
    assert {type(number) for number in (*numbers, fmt.offset, *fmt.lo)} == {int}
    # An int8 would have overflown: 100 rows of 8 end at address 800.
    assert fmt.bind((100, 7)).extent == Format.parse(str(fmt)).bind((100, 7)).extent > 800


# --- Equality ---


def test_names_take_no_part_in_equality():
    left, right = Format.parse("(a, b) : [b, a]"), Format.parse("(h, w) : [w, h]")
    assert left == right and hash(left) == hash(right)
    assert left.bind((2, 3)).names == ("a", "b") and right.bind((2, 3)).names == ("h", "w")


def test_a_zero_pad_has_one_spelling():
    assert Format(("a",), (Factor(0),), pad=0.0).pad == "zero"
    assert Format(("a",), (Factor(0),), pad=31.0) == Format(("a",), (Factor(0),), pad=31)


def test_digits_of_one_value_are_dropped():
    assert Format.parse("(a, b) : [a, b:1, b:4, a:1]") == Format.parse("(a, b) : [a, b:4]")


def test_negative_a_digit_of_one_value_with_a_stride_is_kept():
    # Its stride is where the running product goes on, so it has a meaning.
    format = Format.parse("(a, b) : [a, b:1*100, b:4]")
    assert format.bind((2, 4)).address((1, 0)) == 100


def test_a_halo_of_nothing_is_no_halo():
    assert Format(("a",), (Factor(0),), lo=(0,)) == Format(("a",), (Factor(0),))


@pytest.mark.parametrize(
    "policy, number", [("undef", None), ("zp", None), ("zero", 0.0), (31, 31.0), (math.inf, math.inf)]
)
def test_pad_number_is_the_promise(policy: str | float, number: float | None):
    assert pad_number(policy) == number


def test_of_accepts_tags_texts_and_formats():
    format = Format.from_tag("nhwc")
    assert Format.of(format) is format
    assert Format.of("nhwc") == Format.of(" (n, c, h, w) : [n, h, w, c]") == format


def test_with_pad_and_with_names_change_one_thing():
    format = Format.from_tag("nChw8c")
    assert format.with_pad(31).factors == format.factors and format.with_pad(31).pad == 31
    assert str(format.with_names("wxyz")) == "(w, x, y, z) : [w, x, y, z, x:8], pad = zero"


def test_row_major_is_the_running_product():
    for shape in itertools.product((1, 2, 5), repeat=3):
        assert np.array_equal(
            Format.row_major("abc").bind(shape).addresses().ravel(), np.arange(math.prod(shape))
        )


@given(rngs)
def test_repr_is_the_notation_of_an_equal_format_with_the_same_names(rng: Random):
    format = random_format(rng, rng.randint(0, 4), strided=True, halo=True, chunked=True)
    again = Format.parse(repr(format))
    assert again == format
    assert again.names == format.names


@pytest.mark.parametrize("pad", ["zero", "zp", 3, -2.5, math.inf, -math.inf, -(1 << 63)])
def test_repr_keeps_the_pad_policy(pad: str | float):
    format = Format.from_tag("nChw8c").with_pad(pad)
    assert Format.parse(repr(format)) == format


def test_repr_shows_the_notation():
    assert repr(Format.from_tag("nChw8c")) == "(n, c, h, w) : [n, c, h, w, c:8], pad = zero"


def test_negative_a_text_is_no_shape():
    with pytest.raises(LayoutError, match="shape '2x17' is no row of integers"):
        Format.from_tag("nc").bind("2x17")  # pyright: ignore[reportArgumentType]


def test_negative_each_dim_has_one_name():
    with pytest.raises(
        LayoutError, match=r"rank mismatch between names \(a, b\) and format \(n, c, h\): 2 != 3"
    ):
        Format.from_tag("abc").with_names("nch").with_names(("a", "b"))
