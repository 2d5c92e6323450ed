"""NonMaxSuppression beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.reference.non_max_suppression import selected_boxes
from layout_ir.errors import LayoutError
from tests.backends.onednn.node_models import node_model


@pytest.mark.parametrize("by_centers", [False, True])
@pytest.mark.parametrize(
    ("most", "overlap", "least"), [(3, 0.5, None), (100, 0.2, 0.4), (0, 0.5, None), (2, 1.0, 0.99)]
)
def test_the_boxes_that_onnx_runtime_selects(
    by_centers: bool, most: int, overlap: float, least: float | None
):
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(most)
    boxes, scores = (
        rng.random((2, 40, 4), np.float32),
        rng.random((2, 3, 40), np.float32).round(1),
    )  # some equal
    inputs = {
        "boxes": boxes,
        "scores": scores,
        "most": np.array([most]),
        "overlap": np.array([overlap], np.float32),
        "least": None if least is None else np.array([least], np.float32),
    }
    made = node_model("NonMaxSuppression", inputs, opset=11, center_point_box=int(by_centers))
    session = runtime.InferenceSession(made.SerializeToString())
    [expected] = session.run(None, {name: array for name, array in inputs.items() if array is not None})
    found = selected_boxes(boxes, scores, most, overlap, least, by_centers=by_centers)
    np.testing.assert_array_equal(found, expected)


def test_boxes_of_classes_that_are_shifted_apart_drop_those_of_their_class_alone():
    rng = np.random.default_rng(0)
    corner = rng.random((60, 2), np.float32)
    boxes = np.concatenate([corner, corner + rng.random((60, 2), np.float32)], axis=1)
    scores = rng.random((1, 2, 60), np.float32)
    apart = selected_boxes(
        boxes[None] + np.repeat(np.arange(2), 30)[None, :, None] * 8, scores, 60, 0.3, None
    )
    alone: list[tuple[int, ...]] = []
    for number in range(2):
        for part in (slice(0, 30), slice(30, 60)):
            found = selected_boxes(boxes[None, part], scores[:, number : number + 1, part], 60, 0.3, None)
            alone += [(0, number, part.start + box) for _, _, box in found.tolist()]
    assert 4 < len(apart) < 120
    assert {tuple(row) for row in apart.tolist()} == set(alone)


def test_a_box_that_is_no_number_drops_none_and_is_dropped_by_none():
    boxes = np.array([[0, 0, 1, 1], [0, np.nan, 1, 1], [0, 0, 1, 0.9], [0, 0, 1, np.nan]], np.float32)
    found = selected_boxes(boxes[None], np.array([[[0.5, 0.9, 0.8, 0.1]]], np.float32), 4, 0.5, None)
    assert found[:, 2].tolist() == [1, 2, 3]


def test_negative_scores_of_other_boxes_are_an_error():
    with pytest.raises(LayoutError, match="do not fit"):
        selected_boxes(np.zeros((1, 5, 4), np.float32), np.zeros((1, 1, 6), np.float32), 1, 0.5, None)
