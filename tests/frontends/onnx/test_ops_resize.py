"""Resize and Upsample in all their versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontends.onnx.models import (
    ints,
    model,
    node,
    only,
)
from tests.frontends.onnx.onnxruntime_oracle import check_like_onnx_runtime

X = {"x": (1, 3, 8, 8)}


def test_resize_in_all_its_versions():
    scales = np.array([1, 1, 2, 2], np.float32)
    old = only(model([node("Upsample", "x s", mode="nearest")], X, constants={"s": scales}, opset=9))
    assert (old.coordinates, old.nearest_mode, old.scales) == ("asymmetric", "floor", (1, 1, 2, 2))
    old = only(model([node("Resize", "x s", mode="linear")], X, constants={"s": scales}, opset=10))
    assert (old.coordinates, old.mode) == ("asymmetric", "linear")
    old = only(model([node("Resize", "x s")], X, constants={"s": 1 / scales}, opset=10))
    assert (old.coordinates, old.nearest_mode) == ("asymmetric", "ceil")
    new = only(model([node("Resize", "x - s")], X, constants={"s": scales}, opset=13))
    assert (new.coordinates, new.nearest_mode, new.scales) == (
        "half_pixel",
        "round_prefer_floor",
        (1, 1, 2, 2),
    )
    attributes: dict[str, Any] = {
        "mode": "linear",
        "coordinate_transformation_mode": "align_corners",
        "axes": [3, 2],
    }
    new = only(model([node("Resize", "x - - z", **attributes)], X, constants={"z": ints(5, 7)}, opset=18))
    assert (new.coordinates, new.mode, new.sizes) == ("align_corners", "linear", (1, 3, 7, 5))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 3), (1, 1, 0.5, 0.5), (1, 1, 4, 1)])
def test_tf_half_pixel_for_nn_is_that_of_onnx_runtime(mode: str, scales: tuple[float, ...]):
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": "tf_half_pixel_for_nn",
        "nearest_mode": "floor",
    }
    source = model(
        [node("Resize", "x r s", **attributes)],
        {"x": (1, 2, 4, 6)},
        constants={"r": np.zeros(0, np.float32), "s": np.array(scales, np.float32)},
        opset=11,
    )
    check_like_onnx_runtime(
        source, {"x": np.random.default_rng(0).normal(0, 1, (1, 2, 4, 6)).astype(np.float32)}
    )
