"""Attributes: numbers are printed as short as they can be read back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.utils.exceptions import ParseError

from layout_ir.dialects import nn
from layout_ir.dialects.nn.attributes import format_float
from tests.dialects.nn.building import error_of, program, text, value
from tests.programs import parse


@given(st.floats())
def test_every_number_survives_printing(number: float):
    op = nn.PadOp(value((2,)), pads=[0, 1], value=number)
    again = list(parse(text(program(op))).body.block.ops)[1]
    assert isinstance(again, nn.PadOp)
    assert again.value == number or (math.isnan(number) and math.isnan(again.value))
    assert math.copysign(1, again.value) == math.copysign(1, number) or number == 0 or math.isnan(number)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4))
def test_lists_of_numbers_survive_printing(scales: list[float]):
    op = nn.ResizeOp(value((100,) * len(scales)), scales=scales)
    again = list(parse(text(program(op))).body.block.ops)[1]
    assert isinstance(again, nn.ResizeOp)
    assert again.scales == tuple(scales)


@pytest.mark.parametrize(
    ("number", "wanted"),
    [(0.1, "0.1"), (1e-5, "1.0e-05"), (3.0, "3.0"), (1 / 3, "0.33333333333333331"), (-math.inf, "-inf")],
)
def test_numbers_are_short(number: float, wanted: str):
    assert format_float(number) == wanted


def test_negative_words_are_checked():
    op = nn.GeluOp(value((2,)), approximate="cosh", result_type=value((2,)).type)  # pyright: ignore
    assert "approximate = cosh is unknown, expected one of none, tanh" in error_of(op)
    with pytest.raises(ParseError, match="approximate = cosh is unknown, expected one of none, tanh"):
        parse('%x = "test.op"() : () -> tensor<2xf32>\n%y = nn.gelu %x approximate = cosh : tensor<2xf32>')


def test_negative_repeated_attribute():
    with pytest.raises(ParseError, match="alpha is given twice"):
        parse(
            '%x = "test.op"() : () -> tensor<2xf32>\n%y = nn.elu %x alpha = 1.0 alpha = 2.0 : tensor<2xf32>'
        )


def test_negative_attribute_of_another_kind():
    with pytest.raises(ParseError):
        parse('%x = "test.op"() : () -> tensor<2xf32>\n%y = nn.elu %x alpha = [1.0] : tensor<2xf32>')
