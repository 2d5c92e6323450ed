"""RoiAlign beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from tests.backends.onednn.node_models import check_alike, compare_node, executed, node_model

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 19, 9, 11)).astype(np.float32)
REGIONS = np.sort(RNG.uniform(-30, 140, (12, 2, 2)), axis=1).reshape(12, 4).astype(np.float32)
BATCHES = RNG.integers(0, 2, 12)


@pytest.mark.parametrize(
    ("opset", "transformation"), [(10, ""), (16, "half_pixel"), (21, "output_half_pixel")]
)
@pytest.mark.parametrize(("ratio", "mode"), [(0, "avg"), (2, "avg"), (3, "max")])
def test_regions(ratio: int, mode: str, opset: int, transformation: str):
    more: dict[str, Any] = {"coordinate_transformation_mode": transformation} if transformation else {}
    compare_node(
        "RoiAlign", {"x": X, "regions": REGIONS, "batches": BATCHES}, opset=opset, mode=mode, output_height=3,
        output_width=4, sampling_ratio=ratio, spatial_scale=0.11, **more,
    )  # fmt: skip


def test_regions_of_doubles():
    inputs = {"x": X.astype(np.float64), "regions": REGIONS.astype(np.float64), "batches": BATCHES}
    compare_node("RoiAlign", inputs, opset=16, output_height=2, output_width=2, spatial_scale=0.11)


def test_regions_of_half_floats_are_computed_in_f32():
    """The oracle computes the same numbers in f32, and rounds the result."""
    runtime = pytest.importorskip("onnxruntime")
    inputs = {"x": X.astype(np.float16), "regions": REGIONS.astype(np.float16), "batches": BATCHES}
    options: dict[str, Any] = {"output_height": 2, "output_width": 3, "spatial_scale": 0.11}
    [found] = executed(node_model("RoiAlign", inputs, opset=16, **options), inputs)
    wide = {name: x.astype(np.float32) if x.dtype == np.float16 else x for name, x in inputs.items()}
    made = node_model("RoiAlign", wide, opset=16, **options)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    check_alike(found, session.run(None, wide)[0].astype(np.float16), 1e-3)


def test_no_regions():
    inputs = {"x": X, "regions": REGIONS[:0], "batches": BATCHES[:0]}
    [found] = executed(node_model("RoiAlign", inputs, opset=16, output_height=2, output_width=5), inputs)
    assert found.shape == (0, 19, 2, 5)


@pytest.mark.parametrize("batch", [-1, 2])
def test_negative_a_batch_that_is_not_there(batch: int):
    inputs = {"x": X, "regions": REGIONS, "batches": np.where(np.arange(12) == 5, batch, 0)}
    executable = li.compile(node_model("RoiAlign", inputs, opset=16))
    assert not executable.fallbacks
    with pytest.raises(li.LayoutError, match=f"index {batch} of .* is outside of its dim"):
        executable(inputs)


def test_threads_share_regions():
    inputs = {"x": X, "regions": REGIONS, "batches": BATCHES}
    made = node_model("RoiAlign", inputs, opset=16, output_height=3, output_width=2)
    (one,), (two,) = (li.compile(made, threads=threads)(inputs) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
