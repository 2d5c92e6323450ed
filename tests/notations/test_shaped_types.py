"""Extents and element types as MLIR writes them, and the places of what is none."""

from __future__ import annotations

import pytest

from layout_ir.algebra.scan import Scanner
from layout_ir.errors import LayoutError
from layout_ir.notations.shaped_types import read_shaped_type


@pytest.mark.parametrize(
    ("text", "extents", "element", "rest"),
    [
        ("2x5xf32, strided<[5, 1]>", (2, 5), "f32", ","),
        ("2 x 5 x bf16>", (2, 5), "bf16", ">"),
        ("f16>", (), "f16", ">"),
        ("?x64xi8>", (None, 64), "i8", ">"),
        ("0x3xf8E4M3FN>", (0, 3), "f8E4M3FN", ">"),
        ("64x!tt.ptr<f16>, x", (64,), None, ","),
        ("4xcomplex<f32>>", (4,), None, ">"),
    ],
)
def test_extents_and_element_types_are_taken(
    text: str, extents: tuple[int | None, ...], element: str | None, rest: str
):
    scan = Scanner(text, "x")
    found = read_shaped_type(scan)
    assert (found.extents, found.element) == (extents, element)
    assert found.static == (None if None in extents else extents)
    assert scan.token.text == rest


@pytest.mark.parametrize(
    ("text", "message", "start"),
    [
        ("<2x5>", "expected extents and an element type", 0),
        (f"2x{2**63}xf32", "below 2\\^63", 0),
        ("2x" * 65 + "f32", "65 dims", 0),
    ],
)
def test_negative_what_is_no_type_is_pointed_at(text: str, message: str, start: int):
    with pytest.raises(LayoutError, match=message) as caught:
        read_shaped_type(Scanner(text, "x"))
    assert caught.value.span is not None and caught.value.span[0] == start
