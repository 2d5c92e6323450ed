"""Extents of what counts to an extent of the run time, against the lengths that ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
import pytest

from layout_ir.passes.onnx.graph_construction import graphs_of_model
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, transpose, value


def _with_positions(start: Any, step: Any, limit: Any = None) -> onnx.ModelProto:
    """Rows of a matrix, to which their numbers are added between two Transposes."""
    kind = oh.np_dtype_to_tensor_dtype(np.dtype(start.dtype))
    nodes = [
        oh.make_node("Shape", ["x"], ["extents"]),
        oh.make_node("Gather", ["extents", "row"], ["s"]),
        oh.make_node("Cast", ["s"], ["rows"], to=kind),
        oh.make_node("Range", ["start", "rows" if limit is None else "limit", "step"], ["p"]),
        oh.make_node("Cast", ["p"], ["f"], to=onnx.TensorProto.FLOAT),
        oh.make_node("Unsqueeze", ["f", "one"], ["u"]),
        transpose("x", "a", 1, 0),
        transpose("u", "b", 1, 0),
        oh.make_node("Add", ["a", "b"], ["c"]),
        transpose("c", "y", 1, 0),
    ]
    constants = [initializer("row", np.int64(0)), initializer("one", [1])]
    constants += [
        onnx.numpy_helper.from_array(np.asarray(array), name)
        for name, array in (("start", start), ("step", step), ("limit", limit))
        if array is not None
    ]
    return model_of(nodes, [value("x", "rows", 6)], [value("y", "N", 6)], constants)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_a_range_to_an_extent_has_that_extent(dtype: type):
    model = _with_positions(dtype(0), dtype(1))
    graph = graphs_of_model(model, None, {}, {})[0]
    assert (graph.shape("p"), graph.shape("c")) == (("rows",), (6, "rows"))
    assert graph.element_type("p") == oh.np_dtype_to_tensor_dtype(np.dtype(dtype))
    feeds = {"x": np.random.default_rng(0).random((5, 6), np.float32)}
    assert session_results(model, feeds)[0].shape == (5, 6)
    assert check_optimized(model, feeds).after.count == 0


@pytest.mark.parametrize(
    ("start", "step", "limit", "length"),
    [
        (np.int64(1), np.int64(1), None, 4),
        (np.int64(0), np.int64(2), None, 3),
        (np.float32(0), np.float32(1), None, 5),
        (np.int64(0), np.int64(1), np.int64(5), 5),
        (np.int64(-5), np.int64(1), np.int64(0), 5),
    ],
)
def test_negative_other_ranges_are_left_to_inference(start: Any, step: Any, limit: Any, length: int):
    model = _with_positions(start, step, limit)
    graph = graphs_of_model(model, None, {}, {})[0]
    assert graph.shape("p") != ("rows",)
    del model.graph.node[4:]
    model.graph.output[0].CopyFrom(value("p", "n", dtype=graph.element_type("p")))
    (found,) = session_results(model, {"x": np.zeros((5, 6), np.float32)})
    assert found.shape == (length,)
    assert limit is None or graph.shape("p") == (length,)
