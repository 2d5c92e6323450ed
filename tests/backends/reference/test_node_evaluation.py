"""Nodes by the reference implementation of the onnx package, on values of any kind."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.reference.node_evaluation import NodeEvaluation
from layout_ir.errors import LayoutError

onnx = pytest.importorskip("onnx")


def test_texts_and_sequences_come_out_as_they_are():
    joined = NodeEvaluation([onnx.helper.make_node("StringConcat", ["a", "b"], ["c"])], {"": 20})
    [found] = joined({"a": np.array(["x", "y"], object), "b": np.array(["1", "2"], object)})
    assert found.dtype == object and found.tolist() == ["x1", "y2"]
    parts = NodeEvaluation([onnx.helper.make_node("SplitToSequence", ["x"], ["s"], axis=0)], {"": 20})
    [sequence] = parts({"x": np.arange(4.0).reshape(2, 2)})
    assert [part.tolist() for part in sequence] == [[[0, 1]], [[2, 3]]]


def test_negative_an_operator_without_reference_and_values_that_do_not_fit():
    with pytest.raises(LayoutError, match="no reference for Unheard"):
        NodeEvaluation([onnx.helper.make_node("Unheard", ["x"], ["y"])], {"": 20})
    added = NodeEvaluation([onnx.helper.make_node("Add", ["a", "b"], ["c"])], {"": 20})
    with pytest.raises(LayoutError, match="fails on Add"):
        added({"a": np.zeros(2), "b": np.zeros(3)})
