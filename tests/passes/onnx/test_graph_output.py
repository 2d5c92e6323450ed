"""Nodes, attributes and small constants that are written."""

from __future__ import annotations

import onnx
import onnx.helper as oh

from layout_ir.passes.onnx.graph_construction import graphs_of_model
from layout_ir.passes.onnx.graph_output import GraphOutput, NodeWriter, set_attribute, set_input
from tests.passes.onnx.optimized import model_of, value


def _output() -> GraphOutput:
    taken: set[str] = set()

    def fresh(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    return GraphOutput(fresh)


def test_lists_of_integers_are_made_once():
    out = _output()
    assert out.ints([1, -2]) == out.ints([1, -2]) != out.ints([1, 2])
    assert out.ints([1], ()) != out.ints([1])
    found = {t.name: (list(t.dims), onnx.numpy_helper.to_array(t).ravel().tolist()) for t in out.initializers}
    assert sorted(found.values()) == [([], [1]), ([1], [1]), ([2], [1, -2]), ([2], [1, 2])]


def test_attributes_and_inputs_are_replaced():
    node = oh.make_node("Slice", ["x", "a", "b"], ["y"], axis=1, other=2)
    set_attribute(node, "axis", 3)
    set_input(node, 1, "c")
    set_input(node, 4, "d")
    assert list(node.input) == ["x", "c", "b", "", "d"]
    assert {a.name: a.i for a in node.attribute} == {"axis": 3, "other": 2}


def test_a_copy_of_a_node_is_on_the_tensors_that_it_has_now():
    node = oh.make_node("Clip", ["x", "", "high"], ["y"], "name", doc_string="text")
    model = model_of([node], [value("x", 2), value("high")], [value("y", 2)])
    (graph,) = graphs_of_model(model, None, {}, {})
    writer = NodeWriter(graph.nodes[0], _output(), ["z", "", "high"], ["y_moved"], lambda number, axes: None)
    wanted = oh.make_node("Clip", ["z", "", "high"], ["y_moved"], "name", doc_string="text")
    assert writer.copy() == wanted
    assert model.graph.node[0] == node
