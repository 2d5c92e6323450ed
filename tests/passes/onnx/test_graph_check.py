"""Graphs in which a name stands for nothing, for two values, or for one that is made later."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.errors import LayoutError
from layout_ir.passes.onnx.graph_check import check_names, check_shapes
from tests.passes.onnx.optimized import FLOAT, initializer, model_of, transpose, value

X, Y = value("x", 2, 3), value("y", 3, 2)


def _relu(x: str, y: str) -> onnx.NodeProto:
    return oh.make_node("Relu", [x], [y])


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([transpose("b", "a", 1, 0), _relu("a", "b"), _relu("b", "y")], "node 0 'a' .* uses 'b' before node 1"),
        ([transpose("a", "a", 1, 0), transpose("x", "y", 1, 0)], "uses 'a' before node 0"),
        ([_relu("x", "a"), _relu("x", "a"), transpose("a", "y", 1, 0)], "'a' is defined twice: by node 0 and"),
        ([_relu("x", "x"), transpose("x", "y", 1, 0)], "value 'x' is defined twice: by input 0 and by node 0"),
        ([transpose("none", "y", 1, 0)], "uses 'none', which nothing computes"),
        ([transpose("x", "a", 1, 0)], "has the output 'y', which nothing computes"),
    ],
)  # fmt: skip
def test_negative_graphs_that_are_not_in_order(nodes: list[onnx.NodeProto], message: str):
    with pytest.raises(LayoutError, match=message):
        li.optimize_onnx(model_of(nodes, [X], [Y]))


def test_negative_subgraphs_that_are_not_in_order():
    for name, message in (
        ("later", "uses 'later' before"),
        ("none", r"node 0 'r' \(If\) uses 'none', which nothing"),
    ):
        branch = oh.make_graph([_relu("x" if name == "later" else name, "b")], "g", [], [value("b", 2, 3)])
        if name == "later":
            branch.node[0].input[0] = "later"
        test = value("c", dtype=onnx.TensorProto.BOOL)
        nodes = [oh.make_node("If", ["c"], ["r"], then_branch=branch, else_branch=branch)]
        nodes += [_relu("r", "later"), transpose("r", "y", 1, 0)]
        with pytest.raises(LayoutError, match=message):
            li.optimize_onnx(model_of(nodes, [X, test], [Y]))


def test_negative_names_that_are_no_text():
    model = model_of([_relu("x", "QQ"), transpose("QQ", "y", 1, 0)], [X], [Y])
    with pytest.raises(LayoutError, match="not UTF-8"):
        li.optimize_onnx(model.SerializeToString().replace(b"QQ", b"\xff\xfe"))


def test_defaults_of_inputs_and_names_of_outer_values_are_in_order():
    body = [oh.make_node("Identity", ["go"], ["on"]), _relu("x", "next")]
    inputs = [value("i", dtype=7), value("go", dtype=9), value("x", 2, 3)]
    inner = oh.make_graph(body, "body", inputs, [value("on", dtype=9), value("next", 2, 3)])
    nodes = [oh.make_node("Loop", ["n", "", "x"], ["r"], body=inner), transpose("r", "y", 1, 0)]
    n = initializer("n", 3)
    check_names(model_of(nodes, [X, value("n", dtype=7)], [Y], [n]).graph)


def test_shapes_of_inputs():
    graph = oh.make_graph([], "g", [value("x", "N", 3), oh.make_tensor_value_info("u", FLOAT, None)], [])
    check_shapes(graph, {"x": (7, 3), "u": (1, 2, 3)})
    with pytest.raises(LayoutError, match=r"input 'x' the shape 7x4, the model says \?x3"):
        check_shapes(graph, {"x": (7, 4)})
    graph.input.append(oh.make_tensor_sequence_value_info("s", FLOAT, None))
    with pytest.raises(LayoutError, match="'s', which is no tensor"):
        check_shapes(graph, {"s": (1,)})


@pytest.mark.parametrize("perm", [{"type": 7}, {"type": 3, "s": b"turn"}], ids=["none", "a text"])
def test_negative_a_transpose_whose_perm_does_not_fit_stays(perm: dict[str, Any]):
    nodes = [transpose("x", "t", 1, 0), _relu("t", "r"), transpose("r", "y", 1, 0)]
    nodes[0].attribute[0].CopyFrom(onnx.AttributeProto(name="perm", **perm))
    assert nodes[0] in li.optimize_onnx(model_of(nodes, [X], [Y])).model.graph.node


def test_an_extent_below_0_is_not_known():
    nodes = [transpose("x", "t", 1, 0), _relu("t", "r"), transpose("r", "y", 1, 0)]
    optimized = li.optimize_onnx(model_of(nodes, [value("x", -3, 3)], [value("y", "N", 3)]))
    assert [node.op_type for node in optimized.model.graph.node] == ["Relu"]


def test_negative_functions_that_call_themselves_stay():
    function = oh.make_function(
        "my", "F", ["p"], ["q"], [oh.make_node("F", ["p"], ["q"], domain="my")], [oh.make_opsetid("my", 1)]
    )
    model = model_of([oh.make_node("F", ["x"], ["y"], domain="my")], [X], [Y])
    model.opset_import.append(oh.make_opsetid("my", 1))
    model.functions.append(function)
    assert li.optimize_onnx(model).model.functions == [function]
