"""Nodes that compare indices, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from tests.backends.onednn.node_models import compare_node, executed, node_model
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize(
    ("indices", "values"), [("int64", "float32"), ("int32", "float32"), ("float32", "int64")]
)
def test_one_hot_at_indices_from_both_ends_and_outside(axis: int, indices: str, values: str):
    inputs = {
        "indices": np.array([[0, 3, -1], [-4, 4, -5]], indices),
        "depth": np.array(4),
        "values": np.array([2, 5], values),
    }
    made = node_model("OneHot", inputs, constants=["depth"], axis=axis)
    index = np.where(inputs["indices"] < 0, inputs["indices"] + 4, inputs["indices"])
    expected = np.where(
        np.expand_dims(index, axis) == np.moveaxis(np.arange(4).reshape(4, 1, 1), 0, axis), 5, 2
    )
    np.testing.assert_array_equal(executed(made, inputs)[0], expected.astype(values))


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_hard_max_takes_the_first_largest_element(axis: int):
    x = np.random.default_rng(0).integers(0, 3, (4, 5, 6)).astype(np.float32)
    compare_node("Hardmax", {"x": x}, axis=axis)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_hard_max_goes_over_all_dims_from_its_axis_on_before_opset_13(axis: int):
    x = np.random.default_rng(1).integers(0, 3, (4, 5, 6)).astype(np.float32)
    compare_node("Hardmax", {"x": x}, opset=11, axis=axis)


@pytest.mark.parametrize("k", [0, 2, -1])
def test_the_diagonal_of_a_matrix(k: int):
    [found] = executed(node_model("EyeLike", {"x": numbers((3, 5))}, k=k, dtype=7), {"x": numbers((3, 5))})
    np.testing.assert_array_equal(found, np.eye(3, 5, k, dtype=np.int64))


@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
def test_sequences_reversed_up_to_their_lengths(time: int, batch: int):
    lengths = np.array([1, 4, 2, 3])
    shape = (4, 4, 3) if time else (5, 4, 3)
    compare_node(
        "ReverseSequence", {"x": numbers(shape), "lengths": lengths}, time_axis=time, batch_axis=batch
    )


def test_dropout_keeps_all_at_inference():
    inputs: dict[str, Any] = {"x": numbers((3, 4)), "ratio": np.array(0.5, np.float32)}
    compare_node("Dropout", inputs, constants=["ratio"], outputs=2)


def test_negative_dropout_in_training_runs_by_the_reference():
    inputs = {"x": numbers((3, 4)), "ratio": np.array(0.5, np.float32), "training": np.array(True)}
    made = node_model("Dropout", inputs, constants=["ratio", "training"], outputs=2)
    assert li.compile(made).fallbacks == {"Dropout": 1}


def test_negative_a_length_beyond_the_sequence_is_an_error():
    inputs = {"x": numbers((4, 3)), "lengths": np.array([9, 1, 2])}
    executable = li.compile(node_model("ReverseSequence", inputs, time_axis=0, batch_axis=1))
    assert not executable.fallbacks
    with pytest.raises(li.LayoutError, match="index"):
        executable(inputs)
