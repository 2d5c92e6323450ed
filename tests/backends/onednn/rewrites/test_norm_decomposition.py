"""Nodes that take norms, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from tests.backends.onednn.node_models import check_alike, compare_node, executed, node_model
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library

X = numbers((2, 3, 7, 6))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("axis", [-1, 1])
def test_rows_divided_by_their_norms_and_rows_of_zeros(order: int, axis: int):
    x = X.copy()
    x[0, :, :, 0], x[1, 2] = 0, 0
    inputs = {"x": x}
    [found] = executed(node_model("LpNormalization", inputs, p=order, axis=axis), inputs)
    norm = np.linalg.norm(x.astype(np.float64), order, axis, keepdims=True)
    check_alike(found, (x / np.where(norm == 0, 1, norm)).astype(np.float32))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(
    "windows",
    [
        {"kernel_shape": [2, 3]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 2]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
        {"kernel_shape": [2, 2], "dilations": [2, 2]},
        {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [0, 0, 1, 1], "ceil_mode": 1},
    ],
)
def test_norms_of_windows(order: int, windows: dict[str, Any]):
    compare_node("LpPool", {"x": X}, p=order, **windows)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_norms_of_channels(order: int):
    compare_node("GlobalLpPool", {"x": X}, opset=17, p=order)


def test_mean_and_variance():
    compare_node("MeanVarianceNormalization", {"x": X})
    compare_node("MeanVarianceNormalization", {"x": X}, axes=[1, 2])


def test_negative_windows_that_do_not_fit_leave_the_program_as_it_is():
    # Shape inference says one window, and there is none.
    made = node_model("LpPool", {"x": X}, kernel_shape=[8, 2], strides=[2, 2])
    assert li.compile(made).fallbacks == {"LpPool": 1}
