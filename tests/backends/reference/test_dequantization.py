"""DequantizeLinear in all its versions, beside the onnx package, which has the later ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest
from onnx.reference import ReferenceEvaluator

import layout_ir as li
from layout_ir.backends.reference.dequantization import dequantized
from layout_ir.backends.reference.node_evaluation import NodeEvaluation


@pytest.mark.parametrize("opset", [10, 13, 17, 21])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_one_scale_for_all(opset: int, dtype: Any):
    node = oh.make_node("DequantizeLinear", ["x", "s", "z"], ["y"])
    x = np.arange(12).astype(dtype).reshape(3, 4)
    [found] = NodeEvaluation([node], {"": opset})({"x": x, "s": np.float32(0.25), "z": np.array(3, dtype)})
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, (x.astype(np.float32) - 3) / 4)


@pytest.mark.parametrize(("axis", "block"), [(1, 0), (-1, 0), (1, 2), (0, 3)])
@pytest.mark.parametrize("with_zero_point", [False, True])
def test_scales_along_a_dim(axis: int, block: int, with_zero_point: bool):
    rng = np.random.default_rng(0)
    shape = (2, 4, 3)
    count = (
        [extent if d != axis else -(-extent // block) for d, extent in enumerate(shape)]
        if block
        else [shape[axis]]
    )
    given: dict[str, Any] = {
        "x": rng.integers(-9, 9, shape).astype(np.int8), "s": rng.random(count).astype(np.float32),
    }  # fmt: skip
    if with_zero_point:
        given["z"] = rng.integers(-3, 3, count).astype(np.int8)
    options: dict[str, Any] = {"axis": axis, **({"block_size": block} if block else {})}
    node = oh.make_node("DequantizeLinear", list(given), ["y"], **options)
    opset = 21 if block else 19
    inputs = [
        oh.make_tensor_value_info(n, oh.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given.items()
    ]
    graph = oh.make_graph(
        [node], "g", inputs, [oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)]
    )
    evaluator: Any = ReferenceEvaluator(oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset)]))
    [found] = NodeEvaluation([node], {"": opset})(given)
    np.testing.assert_allclose(found, evaluator.run(None, given)[0], rtol=1e-6)


def test_large_integers_are_moved_before_they_are_rounded():
    found = dequantized(
        np.array([2**30 + 1], np.int32), np.ones((), np.float32), np.array(2**30, np.int32), 0, 0
    )
    assert found == [1]


def test_negative_scales_that_do_not_fit():
    x = np.zeros((2, 4), np.int8)
    for scale, axis, reason in (
        (np.ones(3, np.float32), 1, r"of shape \(3,\) do not fit a tensor of \(2, 4\)"),
        (np.ones(4, np.float32), 2, "axis 2 of a tensor with 2 dims"),
    ):
        with pytest.raises(li.LayoutError, match=reason):
            dequantized(x, scale, None, axis, 0)
