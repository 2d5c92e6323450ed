"""Extents that are picked of those of a tensor on other dims, compared in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from tests.passes.onnx.optimized import check_optimized, initializer, model_of, op_types, transpose, value


def _picking(index: Any, *, is_constant: bool = True, has_shape: bool = False) -> onnx.ModelProto:
    """A Relu between two Transposes, and extents of its operand that are picked by a Gather."""
    array = np.array(index)
    nodes = [
        transpose("x", "a", 2, 0, 1),
        oh.make_node("Relu", ["a"], ["b"]),
        transpose("b", "y", 1, 2, 0),
        oh.make_node("Shape", ["a"], ["s"]),
        oh.make_node("Gather", ["s", "index"], ["e"], axis=0),
    ]
    integer = onnx.TensorProto.INT64
    inputs = [value("x", "N", "L", 3)] + [value("index", *array.shape, dtype=integer)] * (not is_constant)
    outputs = [value("y", "N", "L", 3), value("e", *array.shape, dtype=integer)]
    outputs += [value("s", 3, dtype=integer)] * has_shape
    return model_of(nodes, inputs, outputs, [initializer("index", array)] * is_constant)


def _optimized(model: onnx.ModelProto, index: Any) -> list[str]:
    feeds = {"x": np.random.default_rng(0).standard_normal((4, 5, 3)).astype(np.float32)}
    if len(model.graph.input) > 1:
        feeds["index"] = np.array(index)
    result = check_optimized(model, feeds)
    assert result.after.count == 0
    return op_types(result.model)


@pytest.mark.parametrize("index", [1, -1, [2, 0], [[1], [-3]]], ids=str)
def test_an_extent_is_picked_where_it_lies_now(index: Any):
    assert _optimized(_picking(index), index).count("Gather") == 1


@pytest.mark.parametrize("how", [{"is_constant": False}, {"has_shape": True}], ids=str)
def test_negative_extents_are_put_in_order_for_whoever_else_needs_them(how: dict[str, bool]):
    assert _optimized(_picking([0, 2], **how), [0, 2]).count("Gather") == 2
