"""Operators whose tensors lie in one order: operands that broadcast, and those that do not."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, transpose, value


def test_the_type_of_another_tensor_is_taken_whatever_its_rank():
    like = value("z", 2, 3, 4, dtype=onnx.TensorProto.INT32)
    nodes = [
        transpose("x", "a", 1, 0),
        oh.make_node("CastLike", ["a", "z"], ["c"]),
        transpose("c", "y", 1, 0),
    ]
    model = model_of(nodes, [value("x", 2, 3), like], [value("y", 2, 3, dtype=onnx.TensorProto.INT32)])
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "z": np.zeros((2, 3, 4), np.int32)}
    assert check_optimized(model, feeds).after.count == 0


@pytest.mark.parametrize("op_type", ["Relu", "ReduceSum", "Size"])
def test_scalars_have_one_order(op_type: str):
    nodes = [oh.make_node("Transpose", ["x"], ["t"]), oh.make_node(op_type, ["t"], ["y"])]
    model = model_of(nodes, [value("x")], [value("y", dtype=7 if op_type == "Size" else 1)])
    assert check_optimized(model, {"x": np.array(2, np.float32)}).after.count == 0


def test_negative_axes_and_pads_that_the_run_time_decides():
    integer = onnx.TensorProto.INT64
    axes = value("a", 1, dtype=integer)
    nodes = [
        transpose("x", "t", 0, 2, 1),
        oh.make_node("ReduceSum", ["t", "a"], ["r"]),
        transpose("r", "y", 0, 2, 1),
    ]
    model = model_of(nodes, [value("x", 2, 3, 4), axes], [value("y", "p", "q", "r")])
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in (0, 1, 2):
        check_optimized(model, {"x": x, "a": np.array([axis])}, compares_bytes=False)
    # Pads are a list with entries for every dim: a Gather puts them into the new order.
    nodes[1] = oh.make_node("Pad", ["t", "p"], ["r"])
    model = model_of(nodes, [value("x", 2, 3, 4), value("p", 6, dtype=integer)], [value("y", "p", "q", "r")])
    result = check_optimized(model, {"x": x, "p": np.array([0, 1, 2, 1, 0, 3])}, compares_bytes=False)
    assert result.after.count == 0


def test_negative_dropout_in_training_keeps_the_order_of_its_random_numbers():
    weights = [initializer("r", np.float32(0.5)), initializer("m", np.array(True))]
    nodes = [transpose("x", "t", 1, 0), oh.make_node("Dropout", ["t", "r", "m"], ["d"], seed=1)]
    nodes.append(transpose("d", "y", 1, 0))
    model = model_of(nodes, [value("x", 2, 3)], [value("y", 2, 3)], weights)
    assert li.optimize_onnx(model).after.count == 2
