"""Pools and reductions, in several layouts, beside the reference."""

from __future__ import annotations

from typing import Any

import pytest

from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import LAYOUTS, Program, compare, needs_library, numbers

pytestmark = needs_library


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        (nn.MaxPoolOp, {"kernel": (3, 2), "strides": (2, 2), "pads": (1, 0, 1, 1)}),
        (nn.MaxPoolOp, {"kernel": (3, 3), "strides": (2, 2), "ceil_mode": True}),
        (nn.AvgPoolOp, {"kernel": (3, 3), "pads": (1, 1, 1, 1)}),
        (nn.AvgPoolOp, {"kernel": (3, 3), "pads": (1, 1, 1, 1), "count_include_pad": True}),
        (nn.AvgPoolOp, {"kernel": (2, 2), "strides": (2, 2), "ceil_mode": True}),
        (nn.GlobalAvgPoolOp, {}),
        (nn.GlobalMaxPoolOp, {}),
    ],
)
def test_a_pool(layout: str, op: Any, attributes: dict[str, Any]):
    program = Program((2, 17, 7, 8))
    y = program.add(op, program.argument(0, layout), format=layout, **attributes)
    compare(program.module(y), numbers((2, 17, 7, 8)))


@pytest.mark.parametrize("op", [nn.MaxPoolOp, nn.AvgPoolOp])
def test_a_window_larger_than_what_it_is_of(op: Any):
    program = Program((1, 17, 1, 4))
    y = program.add(op, program.argument(0), kernel=(2, 3), strides=(2, 2), ceil_mode=True)
    compare(program.module(y), numbers((1, 17, 1, 4)))


@pytest.mark.parametrize("channels", [4, 8])
@pytest.mark.parametrize("op", [nn.MaxPoolOp, nn.AvgPoolOp])
def test_a_window_of_all_in_blocks_writes_no_pads_where_the_result_has_none(op: Any, channels: int):
    """One row of channels lies in blocks as in any order, but for the pads, for which there is no memory."""
    program = Program((1, channels, 2, 2))
    y = program.add(op, program.argument(0, "nChw8c"), format="nchw", kernel=(2, 2))
    z = program.add(nn.ReluOp, y, format="nchw")
    compare(program.module(y, z), numbers((1, channels, 2, 2)))


@pytest.mark.parametrize("format", ["nchw", "nhwc", "nChw8c"])
def test_what_ceil_mode_adds_to_a_counted_pad_is_no_primitive_but_a_loop(format: str):
    program = Program((1, 8, 6, 6))
    attributes: dict[str, Any] = {
        "kernel": (3, 3),
        "strides": (2, 2),
        "pads": (1, 1, 1, 1),
        "ceil_mode": True,
    }
    x = program.argument(0, format)
    y = program.add(nn.AvgPoolOp, x, count_include_pad=True, format=format, **attributes)
    compare(program.module(y), numbers((1, 8, 6, 6)))


@pytest.mark.parametrize(
    "op", [nn.ReduceSumOp, nn.ReduceMeanOp, nn.ReduceMaxOp, nn.ReduceMinOp, nn.ReduceProdOp]
)
@pytest.mark.parametrize(("axes", "keepdims"), [((3,), True), ((2, 3), False), ((1,), True)])
def test_a_reduction(op: Any, axes: tuple[int, ...], keepdims: bool):
    program = Program((2, 6, 4, 5))
    y = program.add(op, program.argument(0), axes=axes, keepdims=keepdims)
    compare(program.module(y), numbers((2, 6, 4, 5), low=0.5, high=1.5))


def test_negative_a_reduction_that_the_library_lacks_runs_by_a_loop():
    program = Program((2, 6, 4, 5))
    y = program.add(nn.ReduceLogSumOp, program.argument(0), axes=(3,))
    compare(program.module(y), numbers((2, 6, 4, 5), low=0.5))
