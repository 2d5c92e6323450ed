from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.reference.roi_align import pooled_regions
from layout_ir.dialects.nn.regions import Regions

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")

X = np.random.default_rng(0).standard_normal((2, 3, 20, 24)).astype(np.float32)
BATCHES = np.arange(12) % 2
REGIONS = (
    np.sort(np.random.default_rng(1).uniform(-30, 220, (12, 2, 2)), axis=1).reshape(12, 4).astype(np.float32)
)
REGIONS[3:6] = [[5, 5, 5, 5], [100, 100, 50, 50], [-500, -500, -400, -400]]
"""Beside those that leave the tensor: one of no extent, one that is turned round, and one that lies outside."""


@pytest.mark.parametrize("ratio", [0, 1, 2])
@pytest.mark.parametrize(
    ("opset", "transformation"), [(10, ""), (16, ""), (16, "half_pixel"), (16, "output_half_pixel")]
)
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_as_onnx_runtime_has_them(ratio: int, opset: int, transformation: str, mode: str):
    runtime: Any = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the oracle")
    helper = onnx.helper
    more = {"coordinate_transformation_mode": transformation} if transformation else {}
    node = helper.make_node(
        "RoiAlign", ["x", "r", "b"], ["y"], mode=mode, output_height=3, output_width=4, sampling_ratio=ratio,
        spatial_scale=0.11, **more,
    )  # fmt: skip
    inputs = {"x": X, "r": REGIONS, "b": BATCHES}
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    graph = helper.make_graph([node], "node", values, [helper.make_tensor_value_info("y", 1, (12, 3, 3, 4))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, inputs)
    (found,) = li.run(li.from_onnx(model), [X, REGIONS, BATCHES])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_a_region_that_is_the_tensor():
    """Of four results per dim from four elements, each at its middle, are the elements."""
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    whole = np.array([[0, 0, 4, 4]], np.float32)
    found = pooled_regions(x, whole, np.array([0]), Regions((4, 4), 1, 1.0, half_pixel=True, largest=False))
    np.testing.assert_array_equal(found, x)


def test_negative_a_region_of_no_number_reads_nothing():
    region = np.full((1, 4), np.nan, np.float32)
    for ratio in (0, 2):
        found = pooled_regions(
            X, region, np.array([1]), Regions((2, 2), ratio, 1.0, half_pixel=True, largest=False)
        )
        np.testing.assert_array_equal(found, np.zeros((1, 3, 2, 2)))


def test_regions_of_channels_last():
    from layout_ir.backends.reference.node_evaluation import NodeEvaluation

    values = {"x": X, "r": REGIONS, "b": BATCHES}
    options = {"output_height": 2, "output_width": 3, "spatial_scale": 0.11}
    (expected,) = NodeEvaluation([onnx.helper.make_node("RoiAlign", [*values], ["y"], **options)], {"": 16})(
        values
    )
    node = onnx.helper.make_node("RoiAlign", [*values], ["y"], domain="layout_ir", **options)
    values["x"] = np.moveaxis(X, 1, -1)
    (found,) = NodeEvaluation([node], {"": 16, "layout_ir": 1})(values)
    np.testing.assert_array_equal(found, expected)
