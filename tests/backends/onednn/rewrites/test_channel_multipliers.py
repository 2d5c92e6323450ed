"""Convolutions with several output channels per channel, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


def convolved(
    shape: tuple[int, ...], multiplier: int, *, bias: bool = True, **attributes: Any
) -> tuple[Any, dict[str, Any]]:
    channels, window = shape[1], (3,) * (len(shape) - 2)
    inputs = {"x": numbers(shape)}
    given = {"w": numbers((channels * multiplier, 1, *window), 1), "b": numbers((channels * multiplier,), 2)}
    names = ("x", "w", "b") if bias else ("x", "w")
    nodes = [node("Conv", names, "z", group=channels, **attributes), node("Relu", ("z",), "y")]
    return model(nodes, inputs, given, "y"), inputs


@pytest.mark.parametrize(
    ("shape", "multiplier", "attributes"),
    [
        ((1, 16, 9, 8), 2, {"pads": [1, 1, 1, 1]}),
        ((2, 5, 9, 8), 3, {"strides": [2, 1], "bias": False}),
        ((1, 4, 12), 2, {"dilations": [2]}),
        ((1, 3, 5, 6, 7), 2, {"pads": [0, 1, 1, 1, 0, 1]}),
    ],
)
def test_a_convolution(shape: tuple[int, ...], multiplier: int, attributes: dict[str, Any]):
    made, inputs = convolved(shape, multiplier, **attributes)
    executable = compare(made, inputs)
    convolutions = [time for time in executable.profile(inputs) if "nn.conv" in time.ops]
    taps = 3 if len(shape) == 5 else 1  # of a volume, each plane of the window is one of its own
    assert len(convolutions) == multiplier * taps


def test_negative_weights_that_are_computed_stay_in_one():
    inputs = {"x": numbers((1, 4, 6, 6)), "w": numbers((8, 1, 3, 3), 1)}
    made = model([node("Conv", ("x", "w"), "y", group=4)], inputs, {}, "y")
    from layout_ir import compile

    executable = compile(made)
    assert [time.ops for time in executable.profile(inputs) if "nn.conv" in time.ops] == [("nn.conv",)]
