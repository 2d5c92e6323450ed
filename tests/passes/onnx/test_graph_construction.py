"""Graphs of models, and of those that are written in their place."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh

from layout_ir.passes.onnx.graph_construction import graphs_of_model, rewritten_graph
from layout_ir.passes.onnx.model_graph import Graph
from tests.passes.onnx.optimized import initializer, model_of, transpose, value


def _graph(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]] | None = None) -> Graph:
    return graphs_of_model(model, None, shapes or {}, {})[0]


def test_a_graph_that_was_rewritten_has_the_types_that_inference_finds():
    nodes = [
        transpose("x", "a", 1, 0),
        oh.make_node("Relu", ["a"], ["b"]),
        oh.make_node("Add", ["b", "w"], ["y"]),
    ]
    constant = initializer("w", np.ones((3, 2)))
    before = _graph(model_of(nodes, [value("x", 2, 3)], [value("y", 3, 2)], [constant]))
    # The same, its Transpose behind the Relu.
    nodes = [
        oh.make_node("Relu", ["x"], ["c"]),
        transpose("c", "b", 1, 0),
        oh.make_node("Add", ["b", "w"], ["y"]),
    ]
    model = model_of(nodes, [value("x", 2, 3)], [value("y", 3, 2)], [constant])
    places = {"x": ("x", (0, 1)), "c": ("b", (1, 0)), "b": ("b", (0, 1)), "y": ("y", (0, 1))}
    graph, inferred = rewritten_graph(model, before, places), _graph(model)
    for name in ("x", "c", "b", "y", "w"):
        assert graph.shape(name) == inferred.shape(name)
        assert graph.element_type(name) == inferred.element_type(name) == onnx.TensorProto.FLOAT
        assert graph.nbytes(name) == inferred.nbytes(name)
    assert graph.fresh("a") != "a"  # a name that the graph had before is not given to something else


def test_a_node_that_is_as_it_was_is_not_read_again():
    model = model_of(
        [transpose("x", "a", 1, 0), oh.make_node("Relu", ["a"], ["y"])],
        [value("x", 2, 3)],
        [value("y", 3, 2)],
    )
    before = _graph(model)
    places = {name: (name, (0, 1)) for name in ("x", "a", "y")}
    changed, kept = rewritten_graph(model, before, places, [None, before.nodes[1]]).nodes
    assert changed.origin is None and kept.origin is before.nodes[1]
    read = rewritten_graph(model, before, places).nodes[1]
    for name in ("op_type", "domain", "inputs", "outputs", "captures", "plain_orders", "opset"):
        assert getattr(kept, name) == getattr(read, name)
    assert kept.proto == read.proto and kept.result_shape() == (3, 2)


def test_negative_initializers_that_callers_may_replace_are_no_constants_of_a_rewritten_graph():
    default = initializer("w", np.ones((3, 2)))
    model = model_of(
        [oh.make_node("Add", ["x", "w"], ["y"])],
        [value("x", 3, 2), value("w", 3, 2)],
        [value("y", 3, 2)],
        [default],
    )
    graph = rewritten_graph(
        model, _graph(model), {"x": ("x", (0, 1)), "w": ("w", (0, 1)), "y": ("y", (0, 1))}
    )
    assert "w" not in graph.constants and graph.shape("w") == (3, 2)
