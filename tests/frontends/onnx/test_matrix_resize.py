"""Cubic and antialiased resizing of constants at import."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontends.onnx.models import ints, model, node, ops_of
from tests.frontends.onnx.test_evaluation import compare

X = np.random.default_rng(0).uniform(-1, 1, (1, 2, 7, 5)).astype(np.float32)


@pytest.mark.parametrize(
    ("inputs", "extents", "attributes"),
    [
        ("x - - e", ints(1, 2, 3, 9), {}),
        ("x - e", np.array([1, 1, 1.7, 0.6], np.float32), {"cubic_coeff_a": -0.5, "exclude_outside": 1}),
        ("x - - e", ints(1, 2, 3, 9), {"antialias": 1}),
        ("x - - e", ints(1, 2, 3, 2), {"antialias": 1, "mode": "linear"}),
        ("x - - e", ints(3, 9), {"axes": [2, 3], "coordinate_transformation_mode": "align_corners"}),
    ],
)
def test_a_table_of_positions_is_resized_as_by_onnx_runtime(
    inputs: str, extents: Any, attributes: dict[str, Any]
):
    assert compare([node("Resize", inputs, **{"mode": "cubic"} | attributes)], {"x": X, "e": extents}, 18)


@pytest.mark.parametrize(
    ("inputs", "extents", "attributes"),
    [
        ("x - e", np.array([1, 1, np.inf, 1], np.float32), {}),
        ("x - e", np.array([1, 1, np.nan, 1], np.float32), {}),
        ("x - e", np.array([1, 1, -2, 1], np.float32), {}),
        ("x - - e", ints(1, 2, 1 << 40, 1), {}),
        ("x - - e", ints(1, 2, 3, 9), {"antialias": 1, "keep_aspect_ratio_policy": "not_larger"}),
        ("x - - e", ints(1, 2, 3), {}),
    ],
)
def test_negative_what_costs_too_much_or_is_not_supported_is_not_computed(
    inputs: str, extents: Any, attributes: dict[str, Any]
):
    source = model(
        [node("Resize", inputs, mode="cubic", **attributes)], {}, constants={"x": X, "e": extents}, opset=18
    )
    from layout_ir import LayoutError

    try:
        assert [op.name for op in ops_of(source)] == ["nn.opaque"]
    except LayoutError as error:
        assert "Resize" in str(error) and "foresee" not in str(error)
