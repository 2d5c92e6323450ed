"""Transposed convolutions, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import pytest

import layout_ir as li
from tests.backends.onednn.quantized_models import compare, model, node, steps_of
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


def transposed(
    shape: tuple[int, ...], weights: tuple[int, ...], *, constant: bool = True, **attributes: Any
) -> tuple[Any, dict[str, Any]]:
    inputs = {"x": numbers(shape)}
    given = {"w": numbers(weights, 1), "b": numbers((weights[1] * attributes.get("group", 1),), 2)}
    if not constant:
        inputs["w"] = given.pop("w")
    nodes = [node("ConvTranspose", ("x", "w", "b"), "z", **attributes), node("Relu", ("z",), "y")]
    return model(nodes, inputs, given, "y"), inputs


@pytest.mark.parametrize(
    ("shape", "weights", "attributes"),
    [
        ((1, 8, 6, 5), (8, 6, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 8, 6, 5), (8, 3, 3, 2), {"group": 2, "pads": [0, 1, 2, 0]}),
        ((1, 4, 9), (4, 5, 3), {"dilations": [2]}),
        ((1, 4, 3, 4, 5), (4, 1, 2, 3, 1), {"group": 4}),
    ],
)
def test_a_network(shape: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any]):
    made, inputs = transposed(shape, weights, **attributes)
    executable = compare(made, inputs)
    computed = [op for ops in steps_of(executable, inputs) for op in ops]
    assert "nn.conv" in computed and "nn.conv_transpose" not in computed


@pytest.mark.parametrize(
    ("shape", "weights", "attributes"),
    [
        ((1, 8, 6, 5), (8, 1, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((2, 8, 6, 5), (8, 1, 2, 2), {"strides": [2, 2]}),
        (
            (1, 6, 7, 5),
            (6, 2, 3, 3),
            {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1], "group": 3},
        ),
        ((1, 6, 7, 5), (6, 1, 3, 5), {"strides": [2, 3], "group": 6}),
        ((1, 4, 3, 4), (4, 1, 16, 4), {"strides": [8, 1], "pads": [4, 0, 4, 0]}),
        ((1, 4, 9), (4, 1, 5), {"strides": [3], "pads": [1, 1]}),
        ((1, 4, 3, 4, 5), (4, 1, 2, 3, 4), {"strides": [2, 1, 2]}),
        ((1, 4, 5, 5), (4, 1, 3, 3), {"strides": [2, 2], "pads": [0, 1, 1, 0]}),
        ((1, 32, 6, 5), (32, 8, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 2}),
    ],
)
def test_groups_with_strides_are_a_convolution_per_phase(
    shape: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any]
):
    given: dict[str, Any] = {"group": shape[1], **attributes}
    made, inputs = transposed(shape, weights, **given)
    executable = compare(made, inputs)
    computed = [op for ops in steps_of(executable, inputs) for op in ops]
    assert "nn.conv" in computed and "nn.conv_transpose" not in computed


@pytest.mark.parametrize(
    ("weights", "attributes"),
    [
        ((8, 1, 1, 1), {"strides": [2, 2]}),  # phases without weights
        ((8, 1, 3, 3), {"strides": [2, 2], "dilations": [2, 2]}),
        ((8, 1, 4, 4), {"strides": [2, 2], "pads": [4, 4, 4, 4]}),  # elements of x that nothing takes
        ((8, 1, 16, 16), {"strides": [16, 16]}),  # too many
    ],
)
def test_negative_what_has_no_such_phases_stays(weights: tuple[int, ...], attributes: dict[str, Any]):
    made, inputs = transposed((1, 8, 6, 6), weights, group=8, **attributes)
    executable = compare(made, inputs)
    assert "nn.conv_transpose" in [op for ops in steps_of(executable, inputs) for op in ops]


@pytest.mark.parametrize("attributes", [{"strides": [2, 1]}, {"pads": [3, 0, 0, 0]}])
def test_negative_others_stay_as_they_are(attributes: dict[str, Any]):
    made, inputs = transposed((1, 8, 6, 5), (8, 6, 3, 3), **attributes)
    executable = compare(made, inputs)
    assert "nn.conv_transpose" in [op for ops in steps_of(executable, inputs) for op in ops]


def test_negative_computed_weights_stay_as_they_are():
    made, inputs = transposed((1, 8, 6, 5), (8, 6, 3, 3), constant=False)
    assert "nn.conv" not in [op for time in li.compile(made).profile(inputs) for op in time.ops]
