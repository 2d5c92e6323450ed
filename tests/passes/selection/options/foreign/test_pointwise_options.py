"""Ops that compute element by element run in every Format that reaches them, and broadcasts in those without blocks."""

from __future__ import annotations

import layout_ir as li
from layout_ir.algebra.format import Format
from layout_ir.passes.selection.options.models import options_of
from layout_ir.passes.selection.options.targets import target_named

T = "tensor<1x17x5x4xf32>"
ONES = "tensor<1x17x1x1xf32>"
TAGS = ("nchw", "nhwc", "nChw8c")


def _outs(name: str, text: str) -> list[Format]:
    module = li.parse(f"func.func @f(%x : {T}, %one : {ONES}) {{\n  {text}\n  func.return\n}}")
    (op,) = [op for op in module.walk() if op.name == name]
    formats = [Format.from_tag(tag) for tag in TAGS]
    options = list(options_of(op, lambda value: formats, target_named("blocked8")))
    assert all(fmt == option.outs[0] for option in options for fmt in option.ins)
    return [option.outs[0].with_pad("undef") for option in options]


def test_every_format_that_reaches_an_op_is_one_of_its_own():
    outs = _outs("tosa.sigmoid", f"%r = tosa.sigmoid %x : ({T}) -> {T}")
    assert outs == [Format.from_tag(tag).with_pad("undef") for tag in TAGS]


def test_negative_a_broadcast_is_in_no_blocks():
    outs = _outs("tosa.greater", f"%r = tosa.greater %x, %one : ({T}, {ONES}) -> tensor<1x17x5x4xi1>")
    assert outs == [Format.from_tag(tag) for tag in ("nchw", "nhwc")]
