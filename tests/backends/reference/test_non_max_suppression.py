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


def test_negative_scores_of_other_boxes_are_an_error():
    with pytest.raises(LayoutError, match="do not fit"):
        selected_boxes(np.zeros((1, 5, 4), np.float32), np.zeros((1, 1, 6), np.float32), 1, 0.5, None)
