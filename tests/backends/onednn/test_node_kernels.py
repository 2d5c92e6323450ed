"""Operators of detectors evaluated with compiled code, beside the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.onednn.node_kernels import node_kernels
from layout_ir.backends.reference.node_evaluation import NodeEvaluation
from layout_ir.backends.reference.node_operators import NodeKernels
from layout_ir.errors import LayoutError

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")

RNG = np.random.default_rng(0)


def evaluated(op: str, inputs: dict[str, Any], kernels: NodeKernels | None, **attributes: Any) -> Any:
    node = onnx.helper.make_node(op, list(inputs), ["y"], **attributes)
    [found] = NodeEvaluation([node], {"": 16}, kernels=kernels)(inputs)
    return found


def test_boxes_are_selected_by_compiled_code(monkeypatch: pytest.MonkeyPatch):
    inputs = {
        "boxes": RNG.random((1, 90, 4), np.float32),
        "scores": RNG.random((1, 2, 90), np.float32),
        "most": np.array([50]),
        "overlap": np.array([0.3], np.float32),
    }
    expected = evaluated("NonMaxSuppression", inputs, None)
    # By NumPy there is nothing left to run.
    monkeypatch.delattr("layout_ir.backends.reference.non_max_suppression._selected")
    np.testing.assert_array_equal(evaluated("NonMaxSuppression", inputs, node_kernels()), expected)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("count", [0, 5])
def test_regions(count: int, dtype: str):
    inputs = {
        "x": RNG.standard_normal((2, 3, 8, 9)).astype(dtype),
        "regions": RNG.uniform(0, 9, (count, 4)).astype(dtype),
        "batches": RNG.integers(0, 2, count),
    }
    options = {"output_height": 2, "output_width": 3, "mode": "max"}
    found = evaluated("RoiAlign", inputs, node_kernels(), **options)
    np.testing.assert_allclose(found, evaluated("RoiAlign", inputs, None, **options), rtol=0, atol=1e-5)


def test_negative_regions_of_a_batch_that_is_not_there():
    inputs = {
        "x": np.ones((2, 3, 8, 9), np.float32),
        "regions": np.ones((2, 4), np.float32),
        "batches": np.array([0, 2]),
    }
    for kernels in (None, node_kernels()):
        with pytest.raises(LayoutError, match="outside"):
            evaluated("RoiAlign", inputs, kernels)


@pytest.mark.parametrize("shape", [(2, 5), (3, 4)])
def test_negative_regions_that_do_not_fit(shape: tuple[int, ...]):
    inputs = {
        "x": np.ones((2, 3, 8, 9), np.float32),
        "regions": np.ones(shape, np.float32),
        "batches": np.zeros(2, np.int64),
    }
    for kernels in (None, node_kernels()):
        with pytest.raises(LayoutError, match="do not fit"):
            evaluated("RoiAlign", inputs, kernels)
