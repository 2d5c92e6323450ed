"""What is said of the subgraphs of nodes."""

from __future__ import annotations

import onnx
import onnx.helper as oh

from layout_ir.frontends.onnx.subgraphs import has_subgraphs
from tests.passes.onnx.optimized import model_of, value


def _around(node: onnx.NodeProto) -> onnx.GraphProto:
    nodes = [oh.make_node("Softmax", ["x"], ["s"], axis=1), node]
    return model_of(nodes, [value("x", 2, 3)], [value("y", 2, 3)]).graph


def test_a_node_of_any_operator_may_have_a_subgraph():
    inner = oh.make_graph([oh.make_node("Relu", ["s"], ["r"])], "inner", [], [value("r", 2, 3)])
    assert has_subgraphs(_around(oh.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)))
    assert has_subgraphs(_around(oh.make_node("Apply", ["s"], ["y"], domain="org.example", bodies=[inner])))
    unstated = oh.make_node("Apply", ["s"], ["y"], domain="org.example", body=inner)
    unstated.attribute[0].ClearField("type")
    assert has_subgraphs(_around(unstated))


def test_negative_attributes_that_are_no_graphs():
    assert not has_subgraphs(_around(oh.make_node("Relu", ["s"], ["y"])))
    assert not has_subgraphs(_around(oh.make_node("Transpose", ["s"], ["y"], perm=[0, 1])))
