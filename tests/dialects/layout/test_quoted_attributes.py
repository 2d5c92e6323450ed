"""An attribute with a text of its own is read from a string as well, and its mistakes have their place."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

import layout_ir as li


def attribute(text: str) -> object:
    return Parser(li.context(), text).parse_attribute()


@pytest.mark.parametrize(
    "text",
    [
        "#layout.format<(n, c) : [n, c, c:8], pad = -1.5>",
        "#layout.tag<nChw8c>",
        "#layout.option<ins = [#layout.tag<ab>, _], outs = [#layout.tag<ba>], cost = 5, in_place = [0 -> 0]>",
        "#kernel.shape<?, 64, ?>",
        "#kernel.conversion<f32 to i8, dst_scale 0.5, dst_zero 3.0>",
        "#kernel.plan<width 4 src 64 dst 64 step src 0 dst 0 copy 64 parallel>",
    ],
)
def test_a_text_is_the_same_attribute_as_a_string(text: str):
    name, _, body = text.removesuffix(">").partition("<")
    assert attribute(f'{name}<"{body}">') == attribute(text)
    assert attribute(f'{name} < "{body}" >') == attribute(text)
    assert attribute(f'[{name}<"{body}">, 5 : i64]') == attribute(f"[{text}, 5 : i64]")


def test_the_size_of_an_opaque_layout_may_have_its_type():
    assert attribute('#layout.opaque<"w", 64 : i64>') == attribute('#layout.opaque<"w", 64>')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('#layout.format<"(n, c) : [n, d]">', "unknown dim 'd'"),
        ('#layout.format<"(n, c) : [n, c]", 5>', "'>' expected"),
        ('#kernel.shape<"?, 64> 5">', "expected the end of the string"),
        ('#kernel.shape<"\\22?, 64\\22">', "<text>:1:54: Expected integer"),
        ('#layout.format<"(n, c) : [n, c]', "before closing string"),
    ],
)
def test_negative_a_string_that_is_no_such_text_is_refused(text: str, message: str):
    with pytest.raises(li.LayoutError, match=message):
        li.parse(f"func.func private @f() attributes {{a = {text}}}\n")
