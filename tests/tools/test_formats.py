"""Shapes, indices and layouts on the command line, in the order in which their system has its dims."""

from __future__ import annotations

from argparse import Namespace

import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.tools.commands import TextError
from layout_ir.tools.commands.formats import (
    as_indexed,
    common_element_type,
    extents_text,
    notation_of,
    read_at_shape,
    read_dynamic_shape,
    read_index,
    read_layout,
    read_shape,
    read_subject,
    reordered,
    same_order,
)


def _args(shape: str | None, dims: str | None = None) -> Namespace:
    return Namespace(shape=shape, dims=dims, dtype=None)


def test_extents_are_read():
    assert read_shape("2x17x5") == (2, 17, 5) and read_shape(" 3 x 0") == (3, 0)
    assert read_shape("()") == () and read_shape(None) is None
    assert read_dynamic_shape("2x?x5") == (2, None, 5) and read_dynamic_shape("2x3") == (2, 3)
    assert read_index("1,-2,3") == (1, -2, 3) and read_index("") == ()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("2x-1", "-1"),
        ("2xax3", "a"),
        ("2.5x3", "2.5"),
        (f"1x{2**63}", f"{2**63}"),
        ("?x3xb", "b"),
        ("2x\N{FULLWIDTH DIGIT THREE}", "\N{FULLWIDTH DIGIT THREE}"),
    ],
)
def test_negative_what_is_no_extent_is_pointed_at(text: str, wrong: str):
    with pytest.raises(TextError) as caught:
        read_dynamic_shape(text)
    assert caught.value.span is not None
    low, high = caught.value.span
    assert text[low:high] == wrong


def test_a_prefix_names_the_notation_and_errors_point_behind_it():
    assert (
        read_subject("nChw8c", None, None) == Format.from_tag("nChw8c")
        and notation_of(_args(None), "nChw8c") is None
    )
    text = "xla:{1,0}"
    assert notation_of(_args((2, 3) and "2x3"), text) == "xla" and str(
        read_subject(text, (2, 3), None)
    ) == str(Format.of("nc").bind((2, 3)))
    assert read_subject("{1,0}", (2, 3), None, "xla") == read_subject(text, (2, 3), None)
    with pytest.raises(TextError) as caught:
        read_subject("xla:{1,0", (2, 3), None)
    assert caught.value.span is not None and caught.value.span[0] == len("xla:{1,0")


def test_negative_an_unknown_notation_is_pointed_at():
    with pytest.raises(TextError) as caught:
        read_subject("nobody:{1,0}", None, None)
    assert caught.value.span == (0, len("nobody"))


@pytest.mark.parametrize("dims", ["cab", "c,a,b"])
def test_dims_say_the_order_of_the_shape(dims: str):
    fmt = Format.of("(a, b, c) : [a, b, c]")
    layout = read_layout(_args("4x2x3", dims), "(a, b, c) : [a, b, c]")
    assert layout == fmt.bind((2, 3, 4))
    assert extents_text(layout, ("c", "a", "b")) == "c=4 a=2 b=3"
    seen = as_indexed(layout, ("c", "a", "b"))
    assert isinstance(seen, Layout) and seen.shape == (4, 2, 3)
    assert seen.address((3, 1, 2)) == layout.address((1, 2, 3))


def test_extents_are_put_into_the_order_of_names():
    assert reordered((4, 2, 3), ("c", "a", "b"), ("a", "b", "c")) == (2, 3, 4)
    assert reordered((4, 2), None, ("a", "b")) == (4, 2) and reordered(None, ("a",), ("a",)) is None
    assert same_order(_args("4x2x3", "cab"), ["abc", "bca"], (4, None, 3)) == (None, 3, 4)


@pytest.mark.parametrize(("shape", "dims"), [("2x3", "ac"), ("2x3", "a"), ("2x3", "aab"), (None, "ba")])
def test_negative_dims_that_are_not_those_of_the_layout(shape: str | None, dims: str):
    with pytest.raises(LayoutError, match="--dims"):
        read_at_shape(_args(shape, dims), "ab")


def test_negative_a_format_without_a_shape_is_no_layout():
    assert read_at_shape(_args(None), "ab") == Format.of("ab")
    with pytest.raises(LayoutError, match="--shape"):
        read_layout(_args(None), "ab")


def test_the_element_type_is_that_of_the_option_or_of_the_texts():
    assert common_element_type(_args("2x3"), "nc", "cn") is None
    assert common_element_type(_args(None), "bf16[2,3]{1,0}", "cn") == "bf16"
    assert common_element_type(_args(None), "bf16[2,3]{1,0}", "memref<2x3xbf16>") == "bf16"
    assert common_element_type(Namespace(shape="2x3", dims=None, dtype="i8"), "nc", "cn") == "i8"


def test_negative_texts_that_state_two_element_types():
    with pytest.raises(LayoutError, match=r"of bf16 and 'memref<2x3xf32>' of f32: write one type"):
        common_element_type(_args(None), "bf16[2,3]{1,0}", "memref<2x3xf32>")
