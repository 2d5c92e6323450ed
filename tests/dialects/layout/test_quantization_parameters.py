"""Quantization parameters of a reorder: what is printed reads back, and channels fit the shape."""

from __future__ import annotations

from random import Random

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.parser import Parser

from layout_ir.dialects.layout.quantization_parameters import (
    QuantizationParameter,
    check_channels,
    parse_sides,
    sides_of,
    sides_text,
)
from layout_ir.errors import LayoutError


def reread(sides: tuple[QuantizationParameter, ...]) -> tuple[QuantizationParameter, ...]:
    return sides_of(parse_sides(Parser(Context(), sides_text(sides))), "scale")


def test_what_is_printed_reads_back_bit_for_bit():
    rng = Random(1)

    def number() -> float:
        return rng.choice((1.0, -3.0, 0.1, 1e-30, 5e-324, 2.0**60, rng.uniform(-1, 1), rng.random() * 1e20))

    for _ in range(200):
        sides = tuple(
            number() if rng.random() < 0.5 else tuple(number() for _ in range(rng.randint(1, 4)))
            for _ in range(2)
        )
        assert reread(sides) == sides


def test_a_list_of_one_channel_stays_a_list():
    assert reread((1.0, (0.5,))) == (1.0, (0.5,)) != reread((1.0, 0.5))


def test_negative_a_property_of_something_else():
    with pytest.raises(LayoutError, match="zero_point holds"):
        sides_of(ArrayAttr([StringAttr("3")]), "zero_point")


def test_channels_fit_the_dim_they_run_along():
    check_channels("scale", (1.0, (0.5, 0.25, 2.0)), 1, (8, 3))
    check_channels("scale", (1.0, 0.5), None, (8, 3))


@pytest.mark.parametrize(
    ("dim", "shape", "named"),
    [
        (None, (8, 3), "result"),
        (0, (8, 3), "3 .* 8"),
        (1, (8, -1), r"8x\?"),
        (2, (8, 3), "dim = 2"),
        (-1, (8, 3), "dim = -1"),
    ],
)
def test_negative_channels_that_do_not_fit(dim: int | None, shape: tuple[int, ...], named: str):
    with pytest.raises(LayoutError, match=named):
        check_channels("scale", (1.0, (0.5, 0.25, 2.0)), dim, shape)
