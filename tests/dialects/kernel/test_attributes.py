"""The lists of the dialect, as text and as values."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from layout_ir.dialects.kernel.ops import CutsAttr, Digit, KernelDialect, LevelsAttr, OffsetsAttr, Steady


def _read(text: str) -> Attribute:
    ctx = Context()
    ctx.load_dialect(KernelDialect)
    return Parser(ctx, text).parse_attribute()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("#kernel.cuts<cols:16, rows:4>", CutsAttr((("cols", 16), ("rows", 4)))),
        ("#kernel.offsets<0:0, 16:-32>", OffsetsAttr(((0, 0), (16, -32)))),
        (
            "#kernel.levels<1: for 4 src -4 dst 8, 4: <0:0, 64:16>>",
            LevelsAttr((Digit(1, Steady(4, -4, 8)), Digit(4, ((0, 0), (64, 16))))),
        ),
    ],
)
def test_text_and_value_say_the_same(text: str, value: Attribute):
    assert _read(text) == value
    assert str(value) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#kernel.cuts<depth:16>", "expected 'rows' or 'cols'"),
        ("#kernel.offsets<0, 16>", "':'"),
        ("#kernel.levels<1: for 4 src 4>", "'dst'"),
    ],
)
def test_negative_texts(text: str, message: str):
    with pytest.raises(ParseError, match=message):
        _read(text)


def test_a_digit_knows_where_its_rounds_go():
    steady, table = Digit(1, Steady(4, -4, 8)), Digit(4, ((0, 0), (64, 16)), 5)
    assert [steady.offset(k) for k in range(steady.rounds)] == [
        (0, 0, 0),
        (-4, 8, 0),
        (-8, 16, 0),
        (-12, 24, 0),
    ]
    assert [table.offset(k) for k in range(table.rounds)] == [(0, 0, 0), (64, 16, 5)]
    assert steady.moves == ((-4,), (8,))
    assert table.moves == ((0, 64), (0, 16))
