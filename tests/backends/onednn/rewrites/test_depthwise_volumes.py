"""Depthwise convolutions over volumes, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import pytest

import layout_ir as li
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


def convolved(
    shape: tuple[int, ...], window: tuple[int, ...], **attributes: Any
) -> tuple[Any, dict[str, Any]]:
    channels = shape[1]
    inputs = {"x": numbers(shape)}
    given = {"w": numbers((channels, 1, *window), 1), "b": numbers((channels,), 2)}
    nodes = [node("Conv", ("x", "w", "b"), "z", group=channels, **attributes), node("Relu", ("z",), "y")]
    return model(nodes, inputs, given, "y"), inputs


def ops_of(executable: li.Executable, inputs: dict[str, Any]) -> list[tuple[str, ...]]:
    return [time.ops for time in executable.profile(inputs)]


@pytest.mark.parametrize(
    ("shape", "window", "attributes"),
    [
        ((1, 8, 6, 7, 9), (3, 3, 3), {"pads": [1] * 6}),
        ((2, 8, 6, 7, 9), (3, 3, 3), {"pads": [1, 0, 1, 2, 1, 0]}),
        ((1, 16, 9, 8, 7), (3, 3, 3), {"strides": [2, 2, 2], "pads": [1] * 6}),
        ((1, 8, 9, 8, 7), (2, 3, 1), {"dilations": [3, 1, 1]}),
        ((2, 5, 6, 7, 8), (1, 3, 3), {"strides": [3, 1, 2]}),
        ((1, 8, 4, 5, 6), (5, 5, 5), {"pads": [2] * 6}),
    ],
)
def test_a_convolution_of_volumes(
    shape: tuple[int, ...], window: tuple[int, ...], attributes: dict[str, Any]
):
    made, inputs = convolved(shape, window, **attributes)
    executable = compare(made, inputs)
    assert not executable.fallbacks
    convolutions = [ops for ops in ops_of(executable, inputs) if "nn.conv" in ops]
    assert len(convolutions) == window[0]


def test_each_convolution_is_added_to_those_before():
    """No more than two of them are in memory at a time, and the activation joins the last."""
    shape = 1, 16, 8, 8, 8
    made, inputs = convolved(shape, (5, 3, 3), pads=[2, 1, 1, 2, 1, 1])
    executable = compare(made, inputs)
    convolutions = [ops for ops in ops_of(executable, inputs) if "nn.conv" in ops]
    first, *middle, last = convolutions
    assert first == ("nn.conv",) and middle == 3 * [("nn.conv", "nn.add")]
    assert last == ("nn.conv", "nn.add", "nn.relu")


@pytest.mark.parametrize(("groups", "depth"), [(4, 2), (1, 8)])
def test_negative_other_groups_are_one_convolution(groups: int, depth: int):
    inputs = {"x": numbers((1, 8, 5, 6, 7))}
    nodes = [node("Conv", ("x", "w"), "y", group=groups, pads=[1] * 6)]
    made = model(nodes, inputs, {"w": numbers((8, depth, 3, 3, 3), 1)}, "y")
    executable = compare(made, inputs)
    assert [ops for ops in ops_of(executable, inputs) if "nn.conv" in ops] == [("nn.conv",)]


def test_negative_weights_that_are_computed_stay_in_one():
    inputs = {"x": numbers((1, 8, 5, 6, 7)), "w": numbers((8, 1, 3, 3, 3), 1)}
    executable = li.compile(model([node("Conv", ("x", "w"), "y", group=8)], inputs, {}, "y"))
    assert [ops for ops in ops_of(executable, inputs) if "nn.conv" in ops] == [("nn.conv",)]


def test_negative_planes_stay_one_convolution():
    made, inputs = convolved((1, 8, 6, 7), (3, 3), pads=[1] * 4)
    executable = compare(made, inputs)
    assert [ops for ops in ops_of(executable, inputs) if "nn.conv" in ops] == [("nn.conv", "nn.relu")]
