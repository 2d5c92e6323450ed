"""Boxes selected by machine code, beside NumPy; that beside ONNX Runtime is in `tests/backends/reference`."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.llvm.loops.box_selection import select_boxes
from layout_ir.backends.reference.non_max_suppression import selected_boxes


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(12))
def test_boxes_as_numpy_selects_them(seed: int):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 150))
    boxes, scores = rng.random((2, count, 4), np.float32), rng.random((2, 3, count), np.float32).round(2)
    if seed % 3 == 0:
        boxes = boxes.round(1)  # many are equal, or have no area
    if seed % 4 == 0:
        boxes[rng.random(boxes.shape) < 0.05] = rng.choice([np.nan, np.inf, -np.inf, 0, -3e38, 3e38])
        scores[rng.random(scores.shape) < 0.1] = np.nan
    for most in (0, 3, 1000):
        for overlap in (0.0, 0.1, 0.5, 1.0):
            for least in (None, 0.3):
                expected, found = (
                    selected_boxes(
                        boxes, scores, most, overlap, least, by_centers=seed % 2 == 0, selection=selection
                    )
                    for selection in (None, select_boxes)
                )
                np.testing.assert_array_equal(found, expected)


def test_many_boxes_side_by_side():
    rng = np.random.default_rng(0)
    corners = rng.random((3000, 2)) * 50 + np.repeat(np.arange(10), 300)[:, None] * 70
    boxes = np.concatenate([corners, corners + rng.random((3000, 2)) * 20], axis=1).astype(np.float32)[None]
    scores = rng.random((1, 1, 3000), np.float32)
    found = selected_boxes(boxes, scores, 3000, 0.3, None, selection=select_boxes)
    np.testing.assert_array_equal(found, selected_boxes(boxes, scores, 3000, 0.3, None))
    assert 300 < len(found) < 2900
