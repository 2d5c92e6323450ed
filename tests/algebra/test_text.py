"""The text form: what is read, how it is printed, and that nothing but LayoutError comes out of a bad text."""

from __future__ import annotations

import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.text import print_format
from layout_ir.errors import LayoutError
from tests.layouts import random_format, random_layout, rngs

CANONICAL = [
    "() : []",
    "(n, c, h, w) : [n, c, h, w]",
    "(n, c, h, w) : [n, c, h, w, c:8], pad = zero",
    "(o, i, h, w) : [o, i, h, w, i:4, o:16, i:4], pad = zero",
    "(n, c, h, w) : [n, c*64, h*8, w], offset = 19",
    "(n, h, w, c) : [n, h, w, c | h:8, w:8, c:32], pad = 31",
    "(n, c, h, w) : [n, c, h:7, w:6], pad = zp, lo = [0, 0, 1, 1]",
    "(n, h, c, w, v) : [n, h*64, c, w, v], size = 320",
    "(m, k) : [m, k:32], swizzle = (3, 3, 3)",
    "(m, n) : [m@warp, m:16*-2@lane, n*0]",
    "(a) : [a:4*-1], pad = -0.5, offset = 3",
    "(a) : [a, a:4], pad = inf",
    "(a) : [a, a:4], pad = -inf",
]


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_texts_print_as_they_are_read(text: str):
    assert print_format(Format.parse(text)) == str(Format.parse(text)) == text


@given(rngs)
def test_printing_then_reading_gives_the_same_format(rng: Random):
    format = random_format(rng, rng.randint(0, 5), strided=True, halo=True, chunked=True)
    again = Format.parse(str(format))
    assert again == format and again.names == format.names and str(again) == str(format)


@given(rngs)
def test_a_bound_layout_prints_as_a_text_that_stores_the_same(rng: Random):
    layout = random_layout(rng)
    again = Format.parse(str(layout.format)).bind(layout.shape)
    assert again.same_contract(layout)


@given(st.floats(allow_nan=False))
def test_every_pad_number_survives_the_text(value: float):
    format = Format(("a",), (Factor(0), Factor(0, 4)), pad=value)
    assert Format.parse(str(format)) == format
    assert format.pad == value or (format.pad == "zero" and value == 0)


def test_spaces_carry_no_meaning():
    assert Format.parse(" ( n,c ):[n ,c\t, c : 8 * 1]\n,pad=zero ") == Format.parse(
        "(n, c) : [n, c, c:8*1], pad = zero"
    )


def test_fields_may_come_in_any_order():
    left = Format.parse("(a) : [a, a:4], offset = 1, pad = zp, size = 9")
    assert str(left) == "(a) : [a, a:4], pad = zp, offset = 1, size = 9"


@pytest.mark.parametrize(
    "text, match, marked",
    [
        ("", "expected '\\(' before the dim names, found the end", ""),
        ("(n", "expected ',' between dim names, found the end", ""),
        ("(n,) : [n]", "expected a dim name, found '\\)'", ")"),
        ("(n n) : [n]", "expected ',' between dim names, found 'n'", "n"),
        ("(n, n) : [n]", "dim 'n' is declared twice", "n"),
        ("(n) [n]", "expected ':' between the dim names and the factors, found '\\['", "["),
        ("(n) : n", "expected '\\[' before the factors", "n"),
        ("(n) : [c]", "unknown dim 'c': the format declares \\(n\\)", "c"),
        ("(n) : [n:0]", "factor 'n:0' has size 0, sizes start at 1", "0"),
        ("(n) : [n:x]", "expected an integer as the size of 'n', found 'x'", "x"),
        ("(n) : [n*]", "expected an integer as the stride of 'n', found '\\]'", "]"),
        ("(n) : [n@]", "expected an axis", "]"),
        ("(n) : [n |]", "expected the factors of a chunk behind '\\|'", "]"),
        ("(n) : [n, n]", "without a size stands behind another factor of 'n'", "[n, n]"),
        ("(n, c) : [n]", "dim 'c' has no factor", "[n]"),
        ("(n) : [n:1.5]", "expected an integer", "1.5"),
        ("(n) : [n:99999999999999999999]", "not below 2\\^63", None),
        ("(n) : [n:9223372036854775808]", "not below 2\\^63", None),
        ("(n) : [n], pad = none", "pad policy 'none' is none of undef, zero, zp or a number", "none"),
        ("(n) : [n], pad = nan", "pad policy 'nan'", "nan"),
        (
            "(n) : [n], fill = 0",
            "unknown field 'fill': the fields are pad, offset, lo, size, swizzle",
            "fill",
        ),
        ("(n) : [n], pad = 0, pad = 1", "field 'pad' is given twice", "pad"),
        ("(n) : [n], lo = [1, 2]", "lo has 2 entries, the format has 1 dims", None),
        ("(n) : [n], lo = [-1]", "negative entry", None),
        ("(n) : [n], swizzle = (1, 2)", "swizzle has 2 numbers, expected \\(bits, base, shift\\)", "("),
        ("(n) : [n] x", "unexpected 'x' behind the format", "x"),
        ("(n) : [n] ?", "unexpected character '\\?'", "?"),
        ("(né) : [n]", "unexpected character 'é'", "é"),
    ],
)
def test_negative_malformed_texts_name_the_place(text: str, match: str, marked: str | None):
    with pytest.raises(LayoutError, match=match) as caught:
        Format.parse(text)
    span = caught.value.span
    assert span is not None
    if marked is not None:
        assert text[span[0] : span[1]] == marked


# --- Nothing but LayoutError ---

_WORDS = [
    *("n", "c", "h", "w", "zz", "pad", "offset", "lo", "size", "swizzle", "undef", "zero", "zp", "inf", "nan", "m"),
    *("(", ")", "[", "]", ":", ",", "|", "*", "@", "=", "-", " ", "\n", "\t", "#", "?", "é", "\0", "²", "٣"),
    *("0", "1", "2", "8", "17", "63", "64", "1.5", "1e9", "1e999"),
    *("9223372036854775807", "9223372036854775808", "9" * 40),
]  # fmt: skip


def _mutated(rng: Random) -> str:
    """A text of one of three kinds: words at random, a valid text with errors in it, or a format spelled at random."""
    kind = rng.randrange(3)
    if kind == 0:
        return "".join(rng.choice(_WORDS) for _ in range(rng.randint(0, 24)))
    text = (
        rng.choice(CANONICAL)
        if kind == 1
        else str(random_format(rng, rng.randint(0, 4), strided=True, chunked=True))
    )
    for _ in range(rng.randint(0, 4)):
        at, to = rng.randint(0, len(text)), rng.randint(0, 3)
        text = text[:at] + rng.choice(_WORDS) * rng.randint(0, 2) + text[at + to :]
    return text


def _reads_or_refuses(text: str) -> bool:
    """Parses, prints, reparses and binds; True if the text is a format. Anything but LayoutError propagates."""
    try:
        format = Format.parse(text)
    except LayoutError as error:
        assert error.span is not None and 0 <= error.span[0] <= error.span[1] <= len(text) + 1, text
        return False
    assert Format.parse(str(format)) == format, text
    try:
        layout = format.bind(tuple(range(1, format.rank + 1)))
        assert layout.format.bind(layout.shape).same_contract(layout), text
        layout.inverse(layout.address([0] * layout.rank))
    except LayoutError:
        pass
    return True


def test_50000_random_texts_give_a_format_or_a_layout_error():
    rng = Random(20)
    accepted = sum(_reads_or_refuses(_mutated(rng)) for _ in range(50_000))
    # Both answers must be met often, or the texts test nothing.
    assert 5_000 < accepted < 45_000


@given(st.text())
def test_any_text_gives_a_format_or_a_layout_error(text: str):
    _reads_or_refuses(text)


@pytest.mark.parametrize(
    "text",
    [
        "(n) : [n" + ", n:1" * 20_000 + "]",
        "(n) : [n" + ", n:2" * 20_000 + "]",
        "(n) : [n:" + "9" * 200_000 + "]",
        "(" + "n" * 200_000 + ") : [n]",
        "(" + ", ".join(f"d{k}" for k in range(15_000)) + ") : []",
        "[" * 200_000,
        "(n) : [n], lo = [" + "1, " * 50_000 + "1]",
        "(n) : [n], swizzle = (1, 1, 9000000000000000000)",
    ],
    ids=lambda text: text[:20],
)
def test_long_texts_cost_no_more_than_their_length(text: str):
    # Each takes a second of this process at most; work that grows with the square of the length takes minutes.
    start = time.process_time()
    _reads_or_refuses(text)
    assert time.process_time() - start < 5
