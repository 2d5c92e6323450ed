"""What ops need in pads and leave there, as passes ask it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xdsl.dialects import test
from xdsl.ir import Operation

from layout_ir.interfaces import PAD_BEHAVIOURS, PadBehaviour, PadRead
from layout_ir.passes.pad_queries import has_pad_behaviour, needed_pad, provided_pad
from tests.programs import parse

BLOCKED = "tensor<1x17x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>>"


@pytest.fixture
def op() -> Iterator[Operation]:
    """An op that nobody knows, on blocked tensors; what a test registers is forgotten after it."""
    module = parse(f"""
func.func @main(%x : {BLOCKED}) {{
  %r = "test.op"(%x) : ({BLOCKED}) -> {BLOCKED}
  func.return
}}""")
    with PAD_BEHAVIOURS.isolated():
        yield next(op for op in module.walk() if isinstance(op, test.TestOp))


def test_negative_of_an_op_that_nobody_knows_nothing_is_known(op: Operation):
    assert not has_pad_behaviour(op)
    assert (provided_pad(op), needed_pad(op, 0)) == (None, None)


def test_padding_behaviour_can_be_registered(op: Operation):
    PAD_BEHAVIOURS.register(test.TestOp, PadBehaviour(lambda op, operand: (PadRead(1, 3.0),), lambda op: 7.0))
    assert has_pad_behaviour(op)
    assert (provided_pad(op), needed_pad(op, 0)) == (7.0, 3.0)


def test_negative_a_dim_without_pads_needs_nothing_in_them(op: Operation):
    PAD_BEHAVIOURS.register(test.TestOp, PadBehaviour(lambda op, operand: (PadRead(2, 3.0),)))
    assert (provided_pad(op), needed_pad(op, 0)) == (None, None)
