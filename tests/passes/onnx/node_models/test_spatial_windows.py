"""Convolutions and pools: all that is per spatial dim moves along."""

from __future__ import annotations

import numpy as np
import onnx.helper as oh
import pytest

from tests.passes.onnx.optimized import check_optimized, initializer, model_of, transpose, value

SWAP = (0, 1, 3, 2)


@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_pads_that_are_found_by_rule(pad: str, target: str):
    op = oh.make_node("Conv", ["t", "w"], ["c"], auto_pad=pad, strides=[2, 1])
    nodes = [transpose("x", "t", *SWAP), op, transpose("c", "y", *SWAP)]
    weights = initializer("w", np.arange(36, dtype=np.float32).reshape(2, 3, 2, 3))
    space = [7, 5] if pad != "VALID" else [5, 4]
    model = model_of(nodes, [value("x", 1, 3, 7, 9)], [value("y", 1, 2, *space)], [weights])
    assert check_optimized(model, target=target).after.count == 0


def test_what_is_added_to_a_fused_convolution_lies_as_its_result():
    op = oh.make_node("FusedConv", ["t", "w", "b", "z2"], ["c"], domain="com.microsoft", activation="Relu")
    nodes = [transpose("x", "t", *SWAP), transpose("z", "z2", *SWAP), op, transpose("c", "y", *SWAP)]
    weights = [
        initializer("w", np.arange(72, dtype=np.float32).reshape(4, 3, 2, 3)),
        initializer("b", np.ones(4, np.float32)),
    ]
    model = model_of(
        nodes, [value("x", 1, 3, 7, 5), value("z", 1, 4, 5, 4)], [value("y", 1, 4, 5, 4)], weights
    )
    model.graph.value_info.append(value("c", 1, 4, 4, 5))
    assert check_optimized(model, target="ort-cpu").after.count == 0


def test_negative_indices_of_a_pool_count_elements_in_memory():
    op = oh.make_node("MaxPool", ["t"], ["c", "i"], kernel_shape=[2, 3])
    nodes = [transpose("x", "t", *SWAP), op, transpose("c", "y", *SWAP)]
    outputs = [value("y", 1, 3, 5, 8), value("i", 1, 3, 8, 5, dtype=7)]
    assert check_optimized(model_of(nodes, [value("x", 1, 3, 7, 9)], outputs)).after.count == 2


def test_negative_channels_stay_in_their_place():
    weights = initializer("w", np.ones((2, 3, 1, 1), np.float32))
    nodes = [
        transpose("x", "t", 0, 3, 1, 2),
        oh.make_node("Conv", ["t", "w"], ["c"]),
        transpose("c", "y", 0, 2, 3, 1),
    ]
    model = model_of(nodes, [value("x", 1, 4, 5, 3)], [value("y", 1, 4, 5, 2)], [weights])
    assert check_optimized(model).after.count == 2
