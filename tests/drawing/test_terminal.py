"""The memory view in characters."""

from __future__ import annotations

import re

import pytest

from layout_ir.algebra.format import Format
from layout_ir.drawing.terminal import ASCII, to_terminal
from tests.drawing.cases import CASES, case

ESCAPE = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [60, 100, 200])
def test_rows_keep_to_the_width(name: str, width: int):
    text = to_terminal(case(name), width=width)
    rows = [line for line in text.splitlines() if "│" in line]
    # The index of an element and its address may be wider than a narrow terminal: then a row holds one element.
    assert name == "huge" or all(len(line) <= width for line in rows)


def test_a_small_layout_reads_as_expected():
    text = to_terminal(Format.from_tag("nChw4c").bind((1, 6, 2, 2)), "nChw4c", width=80)
    assert text == (
        "nChw4c\n"
        "(n, c, h, w) : [n, c, h, w, c:4], pad = zero\n"
        "shape 1x6x2x2, padded to 1x8x2x2, 32 addresses: 24 elements, 8 pads\n"
        "cells: c,w, ░░░ is a pad and holds 0\n"
        "\n"
        "address  n c h w\n"
        "      0  0 . 0 . │ 0,0 1,0 2,0 3,0  0,1 1,1 2,1 3,1\n"
        "      8  0 . 1 . │ 0,0 1,0 2,0 3,0  0,1 1,1 2,1 3,1\n"
        "     16  0 . 0 . │ 4,0 5,0 ░░░ ░░░  4,1 5,1 ░░░ ░░░\n"
        "     24  0 . 1 . │ 4,0 5,0 ░░░ ░░░  4,1 5,1 ░░░ ░░░\n"
        "\n"
        "addresses: w across, c down; n = 0, h = 0\n"
        "     │  0  1\n"
        "   0 │  0  4\n"
        "   1 │  1  5\n"
        "   2 │  2  6\n"
        "   3 │  3  7\n"
        "   4 │ 16 20\n"
        "   5 │ 17 21\n"
        "   6 │ 18 22\n"
        "   7 │ 19 23\n"
    )


@pytest.mark.parametrize("name", CASES)
def test_colours_change_nothing_but_colours(name: str):
    plain, coloured = to_terminal(case(name)), to_terminal(case(name), colours=True)
    assert "\x1b" not in plain
    assert [line.rstrip() for line in ESCAPE.sub("", coloured).splitlines()] == plain.splitlines()


def test_colours_are_switched_off_behind_each_cell():
    text = to_terminal(case("nChw8c"), colours=True)
    assert text.count("\x1b[0m") == len(re.findall(r"\x1b\[(?!0m)", text)) > 100


@pytest.mark.parametrize("name", CASES)
def test_a_plain_terminal_gets_plain_characters(name: str):
    assert to_terminal(case(name), charset=ASCII).isascii()


def test_chunks_are_numbered_and_samples_say_so():
    text = to_terminal(case("crouton"), width=140)
    assert "── chunk 1 ─" in text and "── chunk 23 ─" in text
    assert "sampled: " in text and "left out" in text


def test_negative_an_empty_tensor_has_nothing_to_show():
    text = to_terminal(case("empty"))
    assert "no elements" in text and "address  " not in text
