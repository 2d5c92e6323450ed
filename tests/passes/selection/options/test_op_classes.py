"""Ops that are alike have one number, and nothing that options may follow from is overlooked."""

from __future__ import annotations

from xdsl.ir import Attribute

from layout_ir.dialects import nn
from layout_ir.passes.selection.options.op_classes import OpClasses
from layout_ir.passes.selection.options.targets import target_named
from tests.programs import parse

ANY = "tensor<1x16x8x8xf32, #layout.any>"


def _classes(text: str) -> list[int | None]:
    op_classes = OpClasses(target_named("blocked8"))
    found: list[int | None] = []
    for op in parse(text).walk():
        if isinstance(op, nn.NNOp):
            values = [*op.operands, *op.results]
            found.append(op_classes.of(op, values, tuple(values.index(value) for value in values)))
    return found


def test_ops_of_the_same_types_and_attributes_are_alike_whatever_their_operands():
    assert _classes(f"""func.func @f(%x : {ANY}, %z : {ANY}) {{
  %0 = nn.softmax %x axis = 1 : {ANY}
  %1 = nn.softmax %z axis = 1 : {ANY}
  %2 = nn.softmax %1 axis = 1 : {ANY}
  func.return
}}""") == [0, 0, 0]


def test_negative_ops_of_other_attributes_types_or_operands_are_not_alike():
    found = _classes(f"""func.func @f(%x : {ANY}, %z : {ANY}, %s : tensor<1x16x8x8xf64, #layout.any>) {{
  %0 = nn.relu %x : {ANY}
  %1 = nn.relu %z : {ANY}
  %2 = nn.sigmoid %x : {ANY}
  %3 = nn.relu %s : tensor<1x16x8x8xf64, #layout.any>
  %4 = nn.add %x, %z : {ANY}
  %5 = nn.add %x, %x : {ANY}
  %6 = nn.softmax %x axis = 1 : {ANY}
  %7 = nn.softmax %x axis = 2 : {ANY}
  %8 = nn.relu %x {{note = 1 : i64}} : {ANY}
  func.return
}}""")
    assert None not in found
    assert found[0] == found[1] and len(set(found)) == len(found) - 1


def test_negative_an_op_that_carries_options_is_like_no_other():
    option = (
        "layout.options = [#layout.option<ins = [#layout.tag<nchw>], outs = [#layout.tag<nchw>], cost = 1>]"
    )
    found = _classes(f"""func.func @f(%x : {ANY}) {{
  %0 = nn.relu %x {{{option}}} : {ANY}
  %1 = nn.relu %x {{{option}}} : {ANY}
  func.return
}}""")
    assert found == [None, None]


def _encoded(fmt: str) -> Attribute:
    (func,) = parse(f"func.func @f(%x : tensor<1x16x8x8xf32, {fmt}>) {{ func.return }}").ops
    return func.regions[0].block.args[0].type


def test_equal_types_have_one_number_and_negative_names_of_dims_tell_them_apart():
    named, again, others = map(
        _encoded,
        ("#layout.tag<nhwc>", "#layout.tag<nhwc>", "#layout.format<(a, b, c, d) : [a, c, d, b]>"),
    )
    assert named is not again and named == others
    op_classes = OpClasses(target_named("blocked8"))
    assert op_classes.attribute(named) == op_classes.attribute(again) != op_classes.attribute(others)
