"""Biases of transposed convolutions, and what follows them."""

from __future__ import annotations

from typing import Any

import pytest

from layout_ir.backends.onednn.absorbed_constants import goes_over_windows_again
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.op_group import single_op_group
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import BLOCKED, Program, compare, needs_library, numbers, steps

pytestmark = needs_library


def transposed(layout: str, size: int, activation: Any = None, *, bias: bool = True) -> tuple[Any, bool]:
    """A transposed convolution of 16 channels, and whether the library goes over its result again."""
    program = Program((1, 16, size, size))
    w = program.constant(numbers((16, 16, 3, 3), 1, -0.2, 0.2))
    more = [program.constant(numbers((16,), 2))] if bias else []
    attributes: dict[str, Any] = {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)}
    y = program.add(nn.ConvTransposeOp, program.argument(0, layout), w, *more, **attributes, format=layout)
    descriptor = single_op_group(y.owner, Values(library())).descriptor  # type: ignore[arg-type]
    assert descriptor is not None
    if activation is not None:
        y = program.add(activation, y, format=layout)
    return program.module(y), goes_over_windows_again(descriptor)


@pytest.mark.parametrize("layout", ["nchw", BLOCKED])
@pytest.mark.parametrize("activation", [nn.ReluOp, nn.SigmoidOp])
def test_a_bias_and_an_activation_are_one_loop_behind_it(layout: str, activation: Any):
    module, is_gone_over = transposed(layout, 32, activation)
    assert is_gone_over
    x = numbers((1, 16, 32, 32))
    executable = compare(module, x)
    assert steps(executable, x) == [("nn.conv_transpose",), ("nn.add", activation.name)]


@pytest.mark.parametrize("layout", ["nchw", BLOCKED])
def test_a_bias_alone_is_added_behind_it(layout: str):
    module, _ = transposed(layout, 32)
    x = numbers((1, 16, 32, 32))
    assert steps(compare(module, x), x) == [("nn.conv_transpose",), ("nn.add",)]


def test_negative_small_results_keep_it():
    module, is_gone_over = transposed("nchw", 4)
    assert is_gone_over
    x = numbers((1, 16, 4, 4))
    assert steps(compare(module, x), x) == [("nn.conv_transpose",)]


def test_negative_kernels_that_add_it_to_registers_keep_it():
    module, is_gone_over = transposed("nhwc", 32, nn.ReluOp)
    if is_gone_over:
        pytest.skip("the library has no such kernel for this CPU")
    x = numbers((1, 16, 32, 32))
    assert steps(compare(module, x), x) == [("nn.conv_transpose", "nn.relu")]


@pytest.mark.parametrize("layout", ["nchw", BLOCKED])
def test_negative_without_a_bias_there_is_no_sum(layout: str):
    module, _ = transposed(layout, 32, nn.ReluOp, bias=False)
    x = numbers((1, 16, 32, 32))
    assert steps(compare(module, x), x) == [("nn.conv_transpose",), ("nn.relu",)]
