"""Constants that nobody uses, and the names that stay."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper

from layout_ir.passes.onnx.names_in_use import drop_constants, unused_constants
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, transpose, value


def _constant(name: str) -> onnx.NodeProto:
    return oh.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(np.ones(1, np.float32)))


def _graph() -> onnx.GraphProto:
    """Of the constants a, used by a node; b, by a subgraph; c, a result; d, which callers may give; e, f by nobody."""
    then, other = (
        oh.make_graph([oh.make_node("Identity", ["b"], [name])], name, [], [value(name, 1)])
        for name in ("then", "other")
    )
    nodes = [
        _constant("f"),
        _constant("b"),
        oh.make_node("Add", ["x", "a"], ["y"]),
        oh.make_node("If", ["is_b"], ["z"], then_branch=then, else_branch=other),
    ]
    inputs = [value("x", 1), value("is_b", dtype=onnx.TensorProto.BOOL), value("d", 1)]
    weights = [initializer(name, np.ones(1, np.float32)) for name in "acde"]
    return model_of(nodes, inputs, [value("y", 1), value("z", 1), value("c", 1)], weights).graph


def test_constants_that_nobody_uses_are_found_and_dropped():
    graph = _graph()
    graph.value_info.extend([value("f", 1), value("b", 1)])
    graph.quantization_annotation.add(tensor_name="e")
    assert unused_constants(graph) == {"e", "f"}
    drop_constants(graph, {"e", "f"})
    assert [tensor.name for tensor in graph.initializer] == ["a", "c", "d"]
    assert [node.output[0] for node in graph.node] == ["b", "y", "z"]
    assert [entry.name for entry in graph.value_info] == ["b"] and not graph.quantization_annotation
    assert not unused_constants(graph)


def test_negative_what_nobody_used_before_stays():
    nodes = [transpose("x", "t", 1, 0), transpose("t", "y", 1, 0)]
    weights = [initializer("spare", np.ones(3, np.float32))]
    result = check_optimized(model_of(nodes, [value("x", 2, 3)], [value("y", 2, 3)], weights))
    assert [tensor.name for tensor in result.model.graph.initializer] == ["spare"]
