"""GridSample nodes as gathers, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.rewrites.test_node_decomposition import opaque_nodes
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


def network(
    extents: tuple[int, ...], places: tuple[int, ...], opset: int = 20, **attributes: Any
) -> tuple[Any, dict[str, Any]]:
    """A node that samples two pictures of three channels, at positions of which some are outside."""
    inputs = {"x": numbers((2, 3, *extents)), "grid": numbers((2, *places, len(extents)), 1, -1.7, 1.7)}
    # Positions of 1/2 pixel and on the borders have neighbours that rounding decides: these are none.
    inputs["grid"] = np.round(inputs["grid"], 3) + np.float32(0.0003)
    old = {"linear": "bilinear", "cubic": "bicubic"}
    made_for = dict(attributes, mode=old.get(attributes["mode"], attributes["mode"]))
    made = model([node("GridSample", ("x", "grid"), "y", **made_for)], inputs, {}, "y")
    if opset == 20:
        made.opset_import[0].version = opset
        made.graph.node[0].CopyFrom(node("GridSample", ("x", "grid"), "y", **attributes))
    return made, inputs


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_pictures_sampled(mode: str, padding: str, corners: int, opset: int):
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    made, inputs = network((7, 9), (4, 5), opset, **attributes)
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_pictures_of_one_row(padding: str):
    made, inputs = network((1, 6), (3, 4), mode="linear", padding_mode=padding, align_corners=1)
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_positions_that_are_none_read_nothing_outside(value: float, padding: str):
    import layout_ir as li

    made, inputs = network((7, 9), (4, 5), mode="linear", padding_mode=padding)
    executable = li.compile(made, checked=True)
    (before,) = executable(inputs)
    inputs["grid"][0, 1, 2] = value
    (after,) = executable(inputs)
    others = np.ones((4, 5), bool)
    others[1, 2] = False
    np.testing.assert_array_equal(after[0][:, others], before[0][:, others])
    np.testing.assert_array_equal(after[1], before[1])


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_cubic_interpolation(padding: str, corners: int):
    made, inputs = network((7, 9), (4, 5), mode="cubic", padding_mode=padding, align_corners=corners)
    assert not opaque_nodes(made)
    compare(made, inputs)


def test_negative_cubic_interpolation_of_three_dims_stays_opaque():
    made, _ = network((3, 4, 5), (2, 3, 4), mode="cubic")
    assert opaque_nodes(made) == ["GridSample"]


def test_negative_a_mode_that_there_is_not_stays_opaque():
    made, _ = network((7, 9), (4, 5), mode="linear")
    made.graph.node[0].attribute[0].s = b"sharp"
    assert opaque_nodes(made) == ["GridSample"]
