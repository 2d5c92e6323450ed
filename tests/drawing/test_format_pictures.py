"""Which Formats get a picture, and of which tensor."""

from __future__ import annotations

from xml.etree import ElementTree

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.drawing.format_pictures import PICTURES, Use, format_pictures
from layout_ir.errors import LayoutError


def use(tag: str, *shape: int) -> Use:
    return tag, shape, lambda: Format.from_tag(tag).bind(shape)


def test_each_format_has_one_of_the_smallest_tensor_that_shows_it():
    found = format_pictures([use("nchw", 1, 8, 1, 1), use("nchw", 2, 3, 4, 5), use("nchw", 2, 30, 40, 50)])
    assert list(found) == ["nchw"] and "shape 2x3x4x5," in found["nchw"]
    assert ElementTree.fromstring(found["nchw"]).tag.endswith("svg")


def test_the_most_frequent_come_first_and_the_others_have_none():
    rare = [use(f"ab{size}b{size + 1}b".replace("ab", "aB", 1), 2, 3) for size in range(2, PICTURES + 2)]
    found = format_pictures([*rare, use("ab", 2, 3), use("ab", 2, 3)])
    assert len(found) == PICTURES and next(iter(found)) == "ab"


def test_negative_a_format_that_fits_no_shape_has_none():
    def fail() -> Layout:
        raise LayoutError("does not fit")

    assert format_pictures([("nchw", (2, 3), fail)]) == {}


def test_negative_nothing_has_no_picture():
    assert format_pictures([]) == {}
