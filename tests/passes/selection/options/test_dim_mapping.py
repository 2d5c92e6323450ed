"""Formats on the dims that those of another tensor become."""

from __future__ import annotations

import pytest

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.options.dim_mapping import mapped_format


@pytest.mark.parametrize(
    ("source", "images", "result"),
    [
        ("(n, c, h, w) : [n, h, w, c]", ((0,), (1,), (), ()), "(n, c) : [n, c]"),
        ("(n, c, h, w) : [h, w, c, n]", ((0,), (1,), (), ()), "(n, c) : [c, n]"),
        ("(n, c, h, w) : [n, c, h, w, c:8], pad = zero", ((0,), (1,), (), ()), "(n, c) : [n, c, c:8], pad = zero"),
        ("(n, c, h, w) : [n, c, h, w, c:8], pad = zero", ((0,), (), (1,), (2,)), "(n, h, w) : [n, h, w], pad = zero"),
        ("(a, b) : [b, a]", ((0, 1), (2,)), "(a, b, c) : [c, a, b]"),
        ("(a, b) : [b, a, b:4]", ((0, 1), (2,)), "(a, b, c) : [c, a, b, c:4]"),
    ],
)  # fmt: skip
def test_factors_follow_their_dims(source: str, images: tuple[tuple[int, ...], ...], result: str):
    assert mapped_format(Format.parse(source), images) == Format.parse(result)


@pytest.mark.parametrize(
    ("source", "images"),
    [
        ("(a, b) : [b, a, a:4]", ((0, 1), (2,))),  # a block of what becomes two dims
        ("(a, b) : [b*7, a]", ((0,), ())),  # a stride that counts elements of the dim that goes
        ("(a, b) : [b, a], lo = [1, 0]", ((0,), (1,))),
    ],
)
def test_negative_formats_that_say_nothing_of_other_shapes(source: str, images: tuple[tuple[int, ...], ...]):
    assert mapped_format(Format.parse(source), images) is None
