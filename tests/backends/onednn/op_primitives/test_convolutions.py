"""Convolutions and transposed convolutions, in several layouts, beside the reference."""

from __future__ import annotations

from typing import Any

import pytest

import layout_ir as li
from layout_ir.backends.onednn.plan_steps import PrimitiveStep
from layout_ir.backends.onednn.primitives import Argument
from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import LAYOUTS, Program, compare, needs_library, numbers

pytestmark = needs_library


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "attributes"),
    [
        (17, 19, (3, 3), {"pads": (1, 1, 1, 1)}),
        (16, 32, (1, 1), {}),
        (3, 16, (5, 3), {"strides": (2, 1), "pads": (2, 0, 1, 2)}),
        (16, 16, (3, 3), {"dilations": (2, 1), "pads": (2, 1, 2, 1)}),
    ],
)
def test_a_convolution(layout: str, channels: int, outputs: int, kernel: Any, attributes: dict[str, Any]):
    program = Program((2, channels, 9, 8))
    x = program.argument(0, layout)
    w = program.constant(numbers((outputs, channels, *kernel), 1))
    b = program.constant(numbers((outputs,), 2))
    y = program.add(nn.ConvOp, x, w, b, format=layout, **attributes)
    compare(program.module(y), numbers((2, channels, 9, 8)))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(("group", "per_group", "outputs"), [(4, 4, 8), (16, 1, 16), (8, 1, 16), (2, 8, 10)])
def test_a_grouped_convolution(layout: str, group: int, per_group: int, outputs: int):
    program = Program((2, group * per_group, 7, 6))
    w = program.constant(numbers((outputs, per_group, 3, 3), 1))
    y = program.add(nn.ConvOp, program.argument(0, layout), w, format=layout, group=group, pads=(1, 1, 1, 1))
    compare(program.module(y), numbers((2, group * per_group, 7, 6)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("group", [1, 16])
@pytest.mark.parametrize("attributes", [{}, {"strides": (2, 3)}, {"dilations": (3, 1), "pads": (2, 0, 1, 0)}])
def test_a_picture_whose_rows_are_one_element_is_one_row(layout: str, group: int, attributes: dict[str, Any]):
    shape = (2, 16, 24, 1)
    program = Program(shape)
    w, b = program.constant(numbers((16, 16 // group, 5, 1), 1)), program.constant(numbers((16,), 2))
    y = program.add(nn.ConvOp, program.argument(0, layout), w, b, format=layout, group=group, **attributes)
    y = program.add(nn.AddOp, y, program.constant(numbers((16, 1, 1), 3)), format=layout)
    y = program.add(nn.AddOp, program.add(nn.ReluOp, y, format=layout), y, format=layout)
    module = program.module(y)
    compare(module, numbers(shape))
    steps = [step for step in li.compile(module).plan.steps if isinstance(step, PrimitiveStep)]
    [source] = (
        argument.descriptor.blocking().dims
        for step in steps
        if "nn.conv" in step.text.ops
        for argument in step.arguments
        if argument.number == Argument.SRC
    )
    assert source == (2, 16, 1, 24)


def test_a_convolution_whose_weights_are_no_constant():
    program = Program((1, 8, 5, 5), (6, 8, 3, 3))
    y = program.add(nn.ConvOp, program.argument(0), program.argument(1))
    compare(program.module(y), numbers((1, 8, 5, 5)), numbers((6, 8, 3, 3), 1))


def test_such_a_convolution_on_channels_last_runs_in_another_order():
    program = Program((1, 8, 5, 5), (6, 8, 3, 3))
    y = program.add(nn.ConvOp, program.argument(0, "nhwc"), program.argument(1), format="nhwc")
    compare(program.module(y), numbers((1, 8, 5, 5)), numbers((6, 8, 3, 3), 1))


def test_a_convolution_between_orders_brings_its_operand_into_that_of_the_result():
    program = Program((1, 8, 5, 5))
    w = program.constant(numbers((6, 8, 3, 3), 1))
    y = program.add(nn.ConvOp, program.argument(0), w, format="nhwc")
    compare(program.module(y), numbers((1, 8, 5, 5)))


@pytest.mark.parametrize("channels", [4, 8])
@pytest.mark.parametrize("source", ["nchw", "nhwc"])
def test_a_row_of_channels_is_brought_into_blocks_where_those_have_pads(source: str, channels: int):
    """It lies in blocks as in any order, but for the pads, for which there is no memory."""
    program = Program((1, channels, 1, 1))
    x = program.add(nn.ReluOp, program.argument(0, source), format=source)
    w = program.constant(numbers((channels, channels, 1, 1), 1))
    y = program.add(nn.ConvOp, x, w, format="nChw8c")
    compare(program.module(program.reordered(y, "nchw")), numbers((1, channels, 1, 1)))


@pytest.mark.parametrize(("shape", "kernel"), [((2, 5, 20), (4,)), ((1, 4, 5, 6, 4), (2, 3, 1))])
def test_a_convolution_over_one_or_three_dims(shape: tuple[int, ...], kernel: tuple[int, ...]):
    program = Program(shape)
    w = program.constant(numbers((7, shape[1], *kernel), 1))
    compare(program.module(program.add(nn.ConvOp, program.argument(0), w)), numbers(shape))


@pytest.mark.parametrize(
    ("group", "attributes"),
    [
        (1, {"strides": (2, 2), "pads": (1, 1, 0, 1)}),
        (2, {"strides": (2, 1), "output_padding": (1, 0)}),
        (1, {"dilations": (2, 2)}),
    ],
)
def test_a_transposed_convolution(group: int, attributes: dict[str, Any]):
    program = Program((2, 8, 5, 4))
    w = program.constant(numbers((8, 6, 3, 3), 1))
    b = program.constant(numbers((6 * group,), 2))
    y = program.add(nn.ConvTransposeOp, program.argument(0), w, b, group=group, **attributes)
    compare(program.module(y), numbers((2, 8, 5, 4)))


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("order", [None, "(n, c, h, w) : [c, n, h, w]"])
def test_a_transposed_convolution_with_computed_weights(group: int, order: str | None):
    program = Program((2, 8, 5, 4), (8, 6, 3, 2))
    x, w = program.argument(0), program.argument(1, order)
    y = program.add(nn.ConvTransposeOp, x, w, group=group, strides=(2, 1), pads=(1, 0, 1, 1))
    compare(program.module(y), numbers((2, 8, 5, 4)), numbers((8, 6, 3, 2), 1))


@pytest.mark.parametrize("source", ["nhwc", "nChw8c"])
@pytest.mark.parametrize("kernel", [(2, 2), (3, 1)])
def test_a_transposed_convolution_of_disjoint_windows_is_a_product(source: str, kernel: tuple[int, int]):
    shape = 2, 16, 5, 4
    program = Program(shape)
    w = program.constant(numbers((16, 8, *kernel), 1))
    b = program.constant(numbers((8,), 2))
    # Eight channels in nChw8c are channels last.
    y = program.add(nn.ConvTransposeOp, program.argument(0, source), w, b, strides=kernel, format=source)
    executable = compare(program.module(program.add(nn.ReluOp, y, format=source)), numbers(shape))
    [step] = [s for s in executable.profile([numbers(shape)]) if s.implementation != "reorder"]
    assert step.ops == ("nn.conv_transpose", "nn.relu") and "conv" not in step.implementation


@pytest.mark.parametrize(("shape", "kernel"), [((3, 6, 5), (4,)), ((1, 6, 3, 4, 5), (2, 1, 3))])
def test_disjoint_windows_over_one_or_three_dims(shape: tuple[int, ...], kernel: tuple[int, ...]):
    program = Program(shape)
    last = "nwc" if len(shape) == 3 else "ndhwc"
    w = program.constant(numbers((6, 7, *kernel), 1))
    y = program.add(nn.ConvTransposeOp, program.argument(0, last), w, strides=kernel, format=last)
    compare(program.module(y), numbers(shape))


@pytest.mark.parametrize(
    "attributes",
    [{"strides": (2, 2), "pads": (0, 1, 0, 0)}, {"strides": (3, 3)}, {"strides": (2, 1)},
     {"strides": (2, 2), "group": 2}, {"strides": (2, 2), "output_padding": (1, 0)},
     {"strides": (2, 2), "dilations": (2, 2)}],
)  # fmt: skip
def test_negative_windows_that_are_no_product(attributes: dict[str, Any]):
    program = Program((2, 8, 5, 4))
    w = program.constant(numbers((8, 6, 2, 2), 1))
    y = program.add(nn.ConvTransposeOp, program.argument(0, "nhwc"), w, format="nhwc", **attributes)
    compare(program.module(y), numbers((2, 8, 5, 4)))


@pytest.mark.parametrize(("source", "result"), [("nhwc", "nChw8c"), ("nChw8c", "nhwc")])
def test_a_transposed_convolution_between_orders_brings_its_operand_into_that_of_the_result(
    source: str, result: str
):
    program = Program((1, 16, 6, 5))
    w = program.constant(numbers((16, 8, 2, 2), 1))
    y = program.add(nn.ConvTransposeOp, program.argument(0, source), w, strides=(2, 2), format=result)
    compare(program.module(y), numbers((1, 16, 6, 5)))
