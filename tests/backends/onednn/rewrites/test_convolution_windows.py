"""Convolutions whose windows reach far beyond the operand, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.rewrites.convolution_windows import shrink_windows
from layout_ir.dialects import nn
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.frontends.onnx import from_onnx
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


def network(
    shape: tuple[int, ...], weights: tuple[int, ...], **attributes: Any
) -> tuple[Any, dict[str, Any]]:
    inputs, given = {"x": numbers(shape)}, {"w": numbers(weights, 1), "b": numbers(weights[:1], 2)}
    return model([node("Conv", ("x", "w", "b"), "y", **attributes)], inputs, given, "y"), inputs


def shrunk(made: Any) -> ModuleOp:
    module = from_onnx(made)
    shrink_windows(module, library())
    module.verify()
    return module


def window_of(made: Any) -> tuple[int, ...]:
    (op,) = (op for op in shrunk(made).walk() if isinstance(op, nn.ConvOp))
    return shape_of(op.w)[2:]


@pytest.mark.parametrize(
    ("shape", "attributes", "window"),
    [
        ((1, 6, 8, 8), {"dilations": [12, 12], "pads": [12, 12, 12, 12]}, (1, 1)),
        ((2, 6, 8, 20), {"dilations": [12, 12], "pads": [12, 12, 12, 12]}, (1, 3)),
        ((1, 6, 4, 5), {"dilations": [4, 3], "pads": [5, 1, 0, 3]}, (3, 2)),
        ((1, 6, 9, 9), {"dilations": [6, 6], "pads": [6, 6, 6, 6], "strides": [9, 2]}, (2, 3)),
        ((1, 6, 7), {"dilations": [9], "pads": [9, 9]}, (1,)),
        ((1, 6, 5, 5), {"pads": [1, 1, 1, 1]}, (3, 3)),
    ],
)
@pytest.mark.parametrize("group", [1, 2])
def test_weights_that_meet_pads_alone_are_left_out(
    shape: tuple[int, ...], attributes: dict[str, Any], window: tuple[int, ...], group: int
):
    weights = (4, 6 // group, *(3 for _ in window))
    made, inputs = network(shape, weights, group=group, **attributes)
    assert window_of(made) == window
    compare(made, inputs)


@pytest.mark.parametrize(("channels", "group"), [(32, 1), (32, 32)])
def test_many_pads_become_elements_of_the_operand(channels: int, group: int):
    attributes: dict[str, Any] = {"dilations": [1, 40], "pads": [1, 40, 1, 40], "group": group}
    made, inputs = network((1, channels, 6, 70), (32, channels // group, 3, 3), **attributes)
    assert any(isinstance(op, nn.PadOp) for op in shrunk(made).walk())
    compare(made, inputs)


def test_negative_a_window_that_meets_nothing_stays_as_it_is():
    made, inputs = network((1, 6, 3, 3), (4, 6, 1, 1), pads=[0, 0, 5, 5], strides=[4, 4])
    assert window_of(made) == (1, 1)
    compare(made, inputs)


def test_negative_few_pads_stay_with_the_convolution():
    made, _ = network((1, 32, 6, 70), (32, 32, 3, 3), pads=[1, 1, 1, 1])
    assert not any(isinstance(op, nn.PadOp) for op in shrunk(made).walk())
