"""Biases of transposed convolutions, and what follows them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn.absorbed_constants import takes_post_ops
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.op_group import single_op_group
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.dialects import nn
from layout_ir.passes.selection.options.onednn_query import vector_extension
from tests.backends.onednn.small_programs import BLOCKED, Program, compare, needs_library, numbers, steps

pytestmark = needs_library


def transposed(layout: str, size: int, activation: Any = None, *, bias: bool = True) -> tuple[Any, bool]:
    """A transposed convolution of 16 channels, and whether the library goes over its result again, as it does with AVX2
    and row-major: what kernels there are for blocks of 16 is its own affair."""
    program = Program((1, 16, size, size))
    w = program.constant(numbers((16, 16, 3, 3), 1, -0.2, 0.2))
    more = [program.constant(numbers((16,), 2))] if bias else []
    attributes: dict[str, Any] = {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)}
    y = program.add(nn.ConvTransposeOp, program.argument(0, layout), w, *more, **attributes, format=layout)
    descriptor = single_op_group(y.owner, Values(library())).descriptor  # type: ignore[arg-type]
    assert descriptor is not None
    is_gone_over = not takes_post_ops(descriptor)
    assert is_gone_over or (layout == BLOCKED and vector_extension() != "avx2")
    if activation is not None:
        y = program.add(activation, y, format=layout)
    return program.module(y), is_gone_over


@pytest.mark.parametrize("layout", ["nchw", BLOCKED])
@pytest.mark.parametrize("activation", [nn.ReluOp, nn.SigmoidOp])
def test_a_bias_and_an_activation_are_one_loop_behind_it(layout: str, activation: Any):
    module, is_gone_over = transposed(layout, 32, activation)
    x = numbers((1, 16, 32, 32))
    apart = [("nn.conv_transpose",), ("nn.add", activation.name)]
    wanted = apart if is_gone_over else [("nn.conv_transpose", activation.name)]
    assert steps(compare(module, x), x) == wanted


@pytest.mark.parametrize("layout", ["nchw", BLOCKED])
def test_a_bias_alone_is_added_behind_it(layout: str):
    module, is_gone_over = transposed(layout, 32)
    x = numbers((1, 16, 32, 32))
    added = [("nn.add",)] if is_gone_over else []
    assert steps(compare(module, x), x) == [("nn.conv_transpose",), *added]


def test_negative_small_results_keep_it():
    module, _ = transposed("nchw", 4)
    x = numbers((1, 16, 4, 4))
    assert steps(compare(module, x), x) == [("nn.conv_transpose",)]


@pytest.mark.parametrize(("channels", "rank"), [(384, 3), (1024, 2), (8, 3)])
@pytest.mark.parametrize("is_computed", [True, False])
@pytest.mark.parametrize("fuse", [True, False])
def test_a_bias_is_added_once_to_sums_over_many_channels(
    channels: int, rank: int, is_computed: bool, fuse: bool
):
    """Channels last, where the library adds it to partial sums."""
    layout = {2: "nhwc", 3: "ndhwc"}[rank]
    x, b = numbers((1, channels, *(3,) * rank)), numbers((8,), 2, 5, 9)
    program = Program(x.shape, *([b.shape] if is_computed else []))
    w = program.constant(numbers((channels, 8, *(3,) * rank), 1, -0.2, 0.2))
    bias = program.argument(1) if is_computed else program.constant(b)
    attributes: dict[str, Any] = {"strides": (2,) * rank, "pads": (1,) * 2 * rank}
    y = program.add(nn.ConvTransposeOp, program.argument(0, layout), w, bias, **attributes, format=layout)
    module = program.module(program.add(nn.ReluOp, y, format=layout))
    given = [x, b] if is_computed else [x]
    (wanted,), (found,) = li.run(module, given), li.compile(module, fuse=fuse)(given)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("layout", ["nchw", BLOCKED])
def test_negative_without_a_bias_there_is_no_sum(layout: str):
    module, is_gone_over = transposed(layout, 32, nn.ReluOp, bias=False)
    x = numbers((1, 16, 32, 32))
    apart = [("nn.conv_transpose",), ("nn.relu",)]
    assert steps(compare(module, x), x) == (apart if is_gone_over else [("nn.conv_transpose", "nn.relu")])
