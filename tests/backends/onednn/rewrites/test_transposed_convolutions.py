"""Transposed convolutions with strides of 1, beside ONNX Runtime."""

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


@pytest.mark.parametrize("attributes", [{"strides": [2, 1]}, {"pads": [3, 0, 0, 0]}])
def test_negative_others_stay_as_they_are(attributes: dict[str, Any]):
    made, inputs = transposed((1, 8, 6, 5), (8, 6, 3, 3), **attributes)
    executable = compare(made, inputs)
    assert "nn.conv_transpose" in [op for ops in steps_of(executable, inputs) for op in ops]


def test_negative_computed_weights_stay_as_they_are():
    made, inputs = transposed((1, 8, 6, 5), (8, 6, 3, 3), constant=False)
    assert "nn.conv" not in [op for time in li.compile(made).profile(inputs) for op in time.ops]
