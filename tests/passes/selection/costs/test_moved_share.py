"""Ops cost what they move: concats and slices nothing where the executor joins and splits by placement, elementwise
ops behind others their other operands."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import layout_ir as li
from layout_ir.algebra.format import Format
from layout_ir.backends.onednn.library import unavailable
from layout_ir.dialects import nn
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.costs.measured_costs import MeasuredCosts
from layout_ir.passes.selection.costs.moved_share import moved_share
from tests.passes.selection.costs.priced_problems import SOURCE
from tests.programs import parse

JOINS = """
#F = #layout.tag<FORMAT>
func.func @main(%x : tensor<BATCHx16x4x3xf32, #F>) -> tensor<BATCHx48x4x3xf32, #F> {
  %a = nn.exp %x : tensor<BATCHx16x4x3xf32, #F>
  %b = nn.exp %a : tensor<BATCHx16x4x3xf32, #F>
  %0 = nn.concat OPERANDS axis = 1 : (tensor<BATCHx16x4x3xf32, #F>, tensor<BATCHx16x4x3xf32, #F>, tensor<BATCHx16x4x3xf32, #F>) -> tensor<BATCHx48x4x3xf32, #F>
  func.return %0 : tensor<BATCHx48x4x3xf32, #F>
}
"""  # noqa: E501


def _text(tag: str, operands: str, batch: int = 1) -> str:
    return JOINS.replace("FORMAT", tag).replace("OPERANDS", operands).replace("BATCH", str(batch))


def _share(text: str, kind: type[nn.NNOp], tag: str) -> Fraction:
    (op,) = [op for op in parse(text).walk() if isinstance(op, kind)]
    fmt = Format.from_tag(tag)
    return moved_share(op, LayoutOption((fmt,) * len(op.operands), (fmt,), 1000))


def test_negative_options_that_say_nothing_of_operands_move_all():
    """The layouts of the op are fixed, and only its result takes part in the choice."""
    (op,) = [op for op in parse(_text("nchw", "%a, %b, %x")).walk() if isinstance(op, nn.ConcatOp)]
    assert moved_share(op, LayoutOption((), (Format.from_tag("nchw"),), 0)) == 1


def test_a_concat_of_fixed_layouts_in_front_of_one_that_is_chosen():
    text = _text("nchw", "%a, %b, %x").replace(
        "  func.return %0 : tensor<1x48x4x3xf32, #F>",
        """  %1 = layout.reorder %0 : tensor<1x48x4x3xf32, #F> -> tensor<1x48x4x3xf32, #layout.any>
  %2 = nn.relu %1 : tensor<1x48x4x3xf32, #layout.any>
  %3 = layout.reorder %2 : tensor<1x48x4x3xf32, #layout.any> -> tensor<1x48x4x3xf32, #F>
  func.return %3 : tensor<1x48x4x3xf32, #F>""",
    )
    module = parse(text)
    li.optimize(module, target="host", costs=MeasuredCosts({}, SOURCE))
    assert not [op for op in module.walk() if op.name == "layout.reorder"]


@pytest.mark.parametrize(
    ("tag", "batch", "operands", "share"),
    [
        ("nchw", 1, "%a, %b, %x", Fraction(1, 3)),  # an argument lies where the caller has it
        ("nChw8c", 1, "%a, %b, %x", Fraction(1, 3)),
        ("nChw8c", 1, "%a, %a, %b", Fraction(1, 3)),  # %a lies in one of its two places
        ("nhwc", 1, "%a, %b, %x", Fraction(1)),
        ("nchw", 2, "%a, %b, %x", Fraction(1)),
    ],
)
def test_what_lies_like_a_tensor_of_its_own_is_not_moved(
    tag: str, batch: int, operands: str, share: Fraction
):
    text = _text(tag, operands, batch)
    assert _share(text, nn.ConcatOp, tag) == share
    costs, shapes = MeasuredCosts({}, SOURCE), [(batch, 16, 4, 3)] * 3 + [(batch, 48, 4, 3)]
    (op,) = [op for op in parse(text).walk() if isinstance(op, nn.ConcatOp)]
    fmt = Format.from_tag(tag)
    option = LayoutOption((fmt,) * 3, (fmt,), 1000)
    assert costs.for_op(op, option, shapes) == int(share * costs.base.op("nn.concat", option, shapes))


SLICE = """
func.func @main(%x : tensor<1x16x4x3xf32, #layout.tag<FORMAT>>) -> tensor<1x8x4x3xf32, #layout.tag<FORMAT>> {
  %0 = nn.slice %x starts = [0, 8, 0, 0] sizes = [1, 8, 4, 3] : (tensor<1x16x4x3xf32, #layout.tag<FORMAT>>) -> tensor<1x8x4x3xf32, #layout.tag<FORMAT>>
  func.return %0 : tensor<1x8x4x3xf32, #layout.tag<FORMAT>>
}
"""  # noqa: E501


@pytest.mark.parametrize(("tag", "share"), [("nchw", 0), ("nChw8c", 0), ("nhwc", 1)])
def test_a_slice_is_read_where_it_lies(tag: str, share: int):
    assert _share(SLICE.replace("FORMAT", tag), nn.SliceOp, tag) == share


def test_negative_other_ops_are_paid_whole():
    text = "func.func @main(%x : tensor<1x16x4x3xf32>) { %0 = nn.exp %x : tensor<1x16x4x3xf32> func.return }"
    assert _share(text, nn.ExpOp, "nchw") == 1


@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
@pytest.mark.parametrize("tag", ["nchw", "nhwc", "nChw8c"])
@pytest.mark.parametrize("batch", [1, 2])
def test_the_executor_moves_nothing_where_nothing_is_paid(tag: str, batch: int):
    text = _text(tag, "%a, %b, %c", batch).replace(
        "%0 =", "%c = nn.exp %b : tensor<BATCHx16x4x3xf32, #F>\n  %0 ="
    )
    module = parse(text.replace("BATCH", str(batch)))
    (op,) = [op for op in module.walk() if isinstance(op, nn.ConcatOp)]
    fmt = Format.from_tag(tag)
    share = moved_share(op, LayoutOption((fmt,) * 3, (fmt,), 1000))
    x = np.ones((batch, 16, 4, 3), np.float32)
    steps = li.compile(module, threads=1).profile([x])
    assert ("nn.concat" in [name for step in steps for name in step.ops]) == (share > 0)


BEHIND = """
#F = #layout.tag<nchw>
func.func @main(%x : tensor<1x16x4x3xf32, #F>, %w : tensor<16x16x1x1xf32, #layout.tag<oihw>>) -> tensor<1x16x4x3xf32, #F> {
  %a = nn.conv %x, %w : (tensor<1x16x4x3xf32, #F>, tensor<16x16x1x1xf32, #layout.tag<oihw>>) -> tensor<1x16x4x3xf32, #F>
  %0 = OP : tensor<1x16x4x3xf32, #F>
  func.return RESULT : tensor<1x16x4x3xf32, #F>
}
"""  # noqa: E501


def _share_of_elementwise(op: str, result: str = "%0") -> Fraction:
    (found,) = [
        each
        for each in parse(BEHIND.replace("OP", op).replace("RESULT", result)).walk()
        if isinstance(each, nn.ElementwiseOp)
    ]
    fmt = Format.from_tag("nchw")
    return moved_share(found, LayoutOption((fmt,) * len(found.operands), (fmt,), 1000))


@pytest.mark.parametrize(
    ("op", "share"),
    [("nn.relu %a", Fraction(0)), ("nn.add %a, %x", Fraction(1, 3)), ("nn.mul %x, %a", Fraction(1, 3))],
)
def test_an_elementwise_op_behind_a_convolution_moves_its_other_operands(op: str, share: Fraction):
    assert _share_of_elementwise(op) == share


@pytest.mark.parametrize("op", ["nn.relu %x", "nn.add %x, %x", "nn.tanh %a", "nn.add %a, %a"])
def test_negative_elementwise_ops_that_join_nothing_or_compute_for_long(op: str):
    assert _share_of_elementwise(op) == 1


PRODUCT = """
#F = #layout.tag<TAG>
func.func @main(%x : tensor<2x8x16xf32, #layout.tag<abc>>, %w : tensor<16x24xf32, #layout.tag<ab>>, %z : tensor<2x8x24xf32, #F>) -> tensor<2x8x24xf32, #F> {
  %a = nn.matmul %x, %w : (tensor<2x8x16xf32, #layout.tag<abc>>, tensor<16x24xf32, #layout.tag<ab>>) -> tensor<2x8x24xf32, #F>
  %c = nn.constant dense<0.5> : tensor<SHAPExf32, #layout.tag<LETTERS>>
  %0 = OP
  func.return %0 : tensor<2x8x24xf32, #F>
}
"""  # noqa: E501
ROW = "nn.add %a, %c : (tensor<2x8x24xf32, #F>, tensor<SHAPExf32, #layout.tag<LETTERS>>) -> tensor<2x8x24xf32, #F>"


@pytest.mark.parametrize(
    ("tag", "op", "shape", "share"),
    [
        ("abc", ROW, (24,), Fraction(0)),
        ("acb", ROW, (24,), Fraction(1)),
        ("acb", ROW, (1,), Fraction(0)),
        ("acb", "nn.relu %a : tensor<2x8x24xf32, #F>", (24,), Fraction(0)),
        ("acb", "nn.add %a, %z : tensor<2x8x24xf32, #F>", (24,), Fraction(1, 3)),
    ],
)
def test_a_row_joins_a_product_where_its_rows_are_dense(
    tag: str, op: str, shape: tuple[int, ...], share: Fraction
):
    text = PRODUCT.replace("OP", op).replace("TAG", tag)
    text = text.replace("SHAPE", "x".join(map(str, shape))).replace("LETTERS", "abc"[: len(shape)])
    (found,) = [each for each in parse(text).walk() if isinstance(each, nn.ElementwiseOp)]
    fmt, last = Format.from_tag(tag), Format.from_tag("a")
    ins = tuple(fmt if operand in found.formatted_operands() else last for operand in found.operands)
    assert moved_share(found, LayoutOption(ins, (fmt,), 1000)) == share


def test_negative_what_others_need_too_is_written():
    assert _share_of_elementwise("nn.relu %a", "%a") == 1
