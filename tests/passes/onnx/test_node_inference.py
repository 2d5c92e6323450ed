"""Types of the results of single nodes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh

from layout_ir.passes.onnx.graph_construction import graphs_of_model
from layout_ir.passes.onnx.model_graph import Graph
from layout_ir.passes.onnx.node_inference import infer_results
from tests.passes.onnx.optimized import model_of, value


def _graph(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]] | None = None) -> Graph:
    return graphs_of_model(model, None, shapes or {}, {})[0]


def _reshaped_to_a_list_of_the_run_time(*known: int | str) -> Graph:
    """A Reshape by an input, with a result that is known to have this shape."""
    inputs = [value("x", "batch", 24), value("s", 3, dtype=onnx.TensorProto.INT64)]
    graph = _graph(
        model_of([oh.make_node("Reshape", ["x", "s"], ["y"])], inputs, [value("y", "a", "b", "c")])
    )
    graph.set_type("y", known, onnx.TensorProto.FLOAT)
    return graph


def test_what_is_inferred_of_a_node_alone_adds_to_what_is_known():
    graph = _reshaped_to_a_list_of_the_run_time("batch", 4, "unk__7")
    assert infer_results(graph, graph.nodes[0], {"s": np.array([-1, 4, 6])}) == ["y"]
    assert graph.shape("y") == ("batch", 4, 6)
    dims = graph.types["y"].tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", 4, 6]


def test_negative_what_is_inferred_of_a_node_alone_takes_no_name_away():
    graph = _reshaped_to_a_list_of_the_run_time("batch", 4, 6)
    assert infer_results(graph, graph.nodes[0], {"s": np.array([-1, 4, 6])}) == []
    assert graph.shape("y") == ("batch", 4, 6)
