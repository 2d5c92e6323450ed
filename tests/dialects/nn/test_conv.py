"""Convolution: what it takes, and what it needs of pads."""

from __future__ import annotations

import pytest

from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from layout_ir.interfaces import PadRead
from tests.dialects.nn.building import value


@pytest.mark.parametrize(
    ("x", "w", "b", "group", "message"),
    [
        ((1, 3), (4, 3), None, 1, "works on rank 3 to 5 .* operand 0 is 1x3: rank 2"),
        ((1, 3, 5, 5), (4, 3, 3), None, 1, "rank mismatch between input 1x3x5x5 and weight 4x3x3: 4 != 3"),
        ((1, 6, 5, 5), (4, 2, 3, 3), None, 1, r"in 1 groups: 6 != 2 \* 1"),
        (
            (1, 6, 5, 5),
            (4, 2, 3, 3),
            None,
            3,
            "group = 3 does not divide the 4 output channels of weight 4x2x3x3",
        ),
        ((1, 6, 5, 5), (4, 2, 3, 3), None, 0, "group = 0 is below 1"),
        ((1, 3, 5, 5), (4, 3, 3, 3), (3,), 1, "bias 3 and output channels of weight 4x3x3x3: 3 != 4"),
        ((1, 3, 5, 5), (4, 3, 3, 3), (4, 1), 1, "bias 4x1 and output channels of weight 4x3x3x3: 4x1 != 4"),
    ],
)
def test_negative_shapes(
    x: tuple[int, ...], w: tuple[int, ...], b: tuple[int, ...] | None, group: int, message: str
):
    operands = [value(shape) for shape in (x, w, b) if shape is not None]
    with pytest.raises(LayoutError, match=message):
        nn.ConvOp(*operands, group=group)


def test_channels_are_reduced_over():
    op = nn.ConvOp(value((1, 3, 5, 5)), value((4, 3, 3, 3)), value((4,)))
    assert [op.pad_reads(number) for number in range(3)] == [(PadRead(1, 0.0),), (PadRead(1, 0.0),), ()]


def test_channels_of_groups_are_read_by_index():
    op = nn.ConvOp(value((1, 6, 5, 5)), value((4, 3, 3, 3)), group=2)
    assert [op.pad_reads(number) for number in range(2)] == [(), (PadRead(1, 0.0),)]


def test_pads_of_the_result_are_zero_whatever_those_of_the_operands_hold():
    op = nn.ConvOp(value((1, 3, 5, 5)), value((4, 3, 3, 3)))
    assert op.pad_result([None, 7.0]) == 0.0
