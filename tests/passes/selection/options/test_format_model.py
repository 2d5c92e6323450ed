"""A format model gives for many Formats what it gives for each of them, each option once and at its least cost."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith
from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.format_model import FormatModel, FormatOptions, tensors_of
from layout_ir.passes.selection.options.targets import target_named
from tests.programs import parse

_FORMATS = [Format.from_tag(tag) for tag in ("ab", "ba", "aB8b")]


def _add() -> arith.AddfOp:
    type = "tensor<16x16xf32, #layout.any>"
    module = parse(f"func.func @f(%x : {type}) {{\n  %y = arith.addf %x, %x : {type}\n  func.return\n}}")
    return next(op for op in module.walk() if isinstance(op, arith.AddfOp))


def _says(op: Operation, target: Target) -> FormatOptions:
    """One Format for all; from the result's at half the cost."""
    tensors = tensors_of(op)

    def of(k: int, fmt: Format) -> Iterator[LayoutOption]:
        yield LayoutOption((fmt, fmt), (fmt,), 5 if k == 2 else 10)

    return FormatOptions((), of, tensors)


def test_options_are_those_of_each_format_each_once_at_the_least_cost():
    options = list(FormatModel(_says)(_add(), lambda value: _FORMATS, target_named("blocked8")))
    assert [option.outs[0] for option in options] == _FORMATS
    assert {option.cost for option in options} == {5}


def test_row_major_is_offered_where_no_format_is_known():
    options = list(FormatModel(_says)(_add(), lambda value: (), target_named("blocked8")))
    assert [option.outs[0] for option in options] == [_FORMATS[0]]


def test_negative_options_of_other_names_stay_apart():
    def says(op: Operation, target: Target) -> FormatOptions:
        plain = _FORMATS[0]
        named = [LayoutOption((plain, plain), (plain,), 1, name=name) for name in ("", "fast")]
        return FormatOptions(tuple(named), lambda k, fmt: (), ())

    options = list(FormatModel(says)(_add(), lambda value: (), target_named("blocked8")))
    assert [option.name for option in options] == ["", "fast"]
