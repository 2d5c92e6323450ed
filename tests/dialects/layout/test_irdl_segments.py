"""Operands of a variadic op stand in runs of one type, which add up to all of them, and are forgotten when read."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Operation

import layout_ir as li
from layout_ir.dialects.layout.irdl_segments import (
    MOST_RUNS,
    OPERAND_SIZES,
    RESULT_SIZES,
    drop_segment_sizes,
    segment_sizes,
)

TEXT = """
func.func @f(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<9xf32> {
  %z = nn.concat %x, %x, %y, %x axis = 0
    : (tensor<2xf32>, tensor<2xf32>, tensor<3xf32>, tensor<2xf32>) -> tensor<9xf32>
  %r = nn.relu %z : tensor<9xf32>
  func.return %r : tensor<9xf32>
}
"""


def op_of(name: str) -> Operation:
    return next(op for op in li.parse(TEXT).walk() if op.name == name)


def test_runs_of_one_type_are_segments():
    (sizes,) = segment_sizes(op_of("nn.concat")).values()
    assert isinstance(sizes, DenseArrayBase)
    assert list(sizes.iter_values()) == [2, 1, 1, *[0] * (MOST_RUNS - 3)]


@pytest.mark.parametrize("name", ["nn.relu", "func.return"])
def test_negative_an_op_of_known_length_and_one_of_another_dialect_have_none(name: str):
    assert segment_sizes(op_of(name)) == {}


def test_what_is_printed_for_irdl_is_read_as_it_was():
    text = li.to_text(li.parse(TEXT), for_irdl=True)
    assert OPERAND_SIZES in text and RESULT_SIZES not in text
    assert li.to_text(li.parse(text)) == li.to_text(li.parse(TEXT))


def test_negative_an_op_that_has_no_segments_keeps_its_attributes():
    op = op_of("nn.relu")
    op.attributes[OPERAND_SIZES] = DenseArrayBase.from_list(i32, [1])
    drop_segment_sizes(op)
    assert OPERAND_SIZES in op.attributes
