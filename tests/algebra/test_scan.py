"""The cursor names what it expects and what it finds, and marks where."""

from __future__ import annotations

import re
import time

import pytest

from layout_ir.algebra.scan import MAX_DEPTH, Scanner
from layout_ir.errors import LayoutError


def test_tokens_are_numbers_words_and_the_rest_with_their_places():
    tokens = Scanner("ab12 ->-7\n//é").tokens
    assert [(t.kind, t.text, t.start) for t in tokens] == [
        ("word", "ab12", 0), ("punct", "->", 5), ("punct", "-", 7), ("number", "7", 8),
        ("punct", "//", 10), ("punct", "é", 12), ("end", "", 13),
    ]  # fmt: skip


def test_a_pattern_names_its_own_kinds():
    pattern = re.compile(r"(?P<space> )|(?P<vowel>[aeiou])|(?P<other>.)")
    assert [t.kind for t in Scanner("a b", pattern=pattern).tokens] == ["vowel", "other", "end"]


def test_integers_and_lists_are_read():
    scan = Scanner("[-3, 4,] x")
    assert scan.integers("[", "]", "a number") == (-3, 4) and scan.word("a name") == "x"
    scan.end()


@pytest.mark.parametrize(
    "text, message, marked",
    [
        ("x", "a stride (an integer), found 'x'", "x"),
        ("", "a stride (an integer), found the end", ""),
        ("-x", "a stride (an integer), found 'x'", "x"),
        ("9223372036854775808", "a stride 9223372036854775808 is not below 2^63", "9223372036854775808"),
        ("-1", "a stride is -1, at least 0 is needed", "-"),
    ],
)
@pytest.mark.parametrize("what", ["", "cute"])
def test_negative_integers(text: str, message: str, marked: str, what: str):
    with pytest.raises(LayoutError, match=re.escape(message)) as caught:
        Scanner(text, what).integer("a stride", low=0)
    assert str(caught.value).startswith(f"cute text '{text}': " if what else "") and caught.value.span
    assert text[slice(*caught.value.span)] == marked


def test_negative_deep_nesting():
    scan = Scanner("(" * (MAX_DEPTH + 1), "cute")

    def item() -> object:
        return scan.sequence("(", ")", item)

    with pytest.raises(LayoutError, match=f"more than {MAX_DEPTH} levels of nesting"):
        item()


def test_long_texts_cost_no_more_than_their_length():
    start = time.process_time()
    scan = Scanner("[" + "1, " * 100_000 + "]", "cute")
    assert len(scan.integers("[", "]", "a number")) == 100_000
    with pytest.raises(LayoutError, match="is not below"):
        Scanner("9" * 1_000_000).integer("a number")
    assert time.process_time() - start < 5
