"""Names of the model survive, and every other one is unique."""

from __future__ import annotations

import numpy as np
import pytest

import layout_ir as li
from layout_ir.api.onnx_export import to_onnx
from layout_ir.exits.onnx.graph_names import GraphNames
from tests.exits.onnx.models import check
from tests.frontends.onnx.models import model, node
from tests.programs import parse


def test_names_of_nodes_and_values_are_those_that_came():
    source = model(
        [
            node("Conv", "x layer/w", "/a/Conv_output_0", name="/a/Conv"),
            node("Relu", "/a/Conv_output_0", "17", name=""),
            node("TopK", "17 k", "best index", name="top", axis=1),
            node("Neg", "best", "out/y:0", name="0"),
        ],
        {"x": [1, 4, 5, 5]},
        ("out/y:0", "index"),
        constants={"layer/w": np.ones((4, 4, 1, 1), np.float32), "k": np.array([2])},
    )
    source.graph.output[1].type.tensor_type.elem_type = 7
    went = to_onnx(li.from_onnx(source))
    check(went)
    assert [n.name for n in went.graph.node] == ["/a/Conv", "17", "top", "0"]
    assert [list(n.output) for n in went.graph.node] == [
        ["/a/Conv_output_0"],
        ["17"],
        ["best", "index"],
        ["out/y:0"],
    ]
    assert next(list(n.input) for n in went.graph.node) == ["x", "layer/w"]
    assert [value.name for value in (*went.graph.input, *went.graph.output)] == ["x", "out/y:0", "index"]


def test_a_node_that_became_several_names_the_one_that_computes():
    source = model([node("Softmax", "x", "y", name="soft", axis=1)], {"x": [2, 3, 4]}, opset=11)
    went = to_onnx(li.from_onnx(source))
    names = {n.op_type: n.name for n in went.graph.node}
    assert names["Softmax"] == "soft"
    assert len({n.name for n in went.graph.node}) == 3


def test_values_of_a_written_program_have_the_names_of_its_text():
    text = """
    func.func @main(%data: tensor<2xf32>) -> tensor<2xf32> {
      %left = nn.neg %data : tensor<2xf32>
      %0 = nn.exp %left : tensor<2xf32>
      %sum = nn.add %0, %left : tensor<2xf32>
      func.return %sum : tensor<2xf32>
    }
    """
    went = to_onnx(parse(text))
    assert [list(n.output) for n in went.graph.node] == [["left"], ["exp"], ["sum"]]


def test_a_name_is_given_once():
    names = GraphNames({"a_1"})
    assert [names.fresh("a") for _ in range(3)] == ["a", "a_2", "a_3"]
    assert names.take("b") == "b"
    assert names.take("b") is None
    assert names.fresh("b") == "b_1"


def test_negative_two_arguments_of_one_name():
    text = """
    func.func @main(%a: tensor<2xf32> {"onnx.name" = "x"}, %b: tensor<2xf32> {"onnx.name" = "x"}) -> tensor<2xf32> {
      func.return %a : tensor<2xf32>
    }
    """
    with pytest.raises(li.LayoutError, match="the name 'x' is that of two arguments"):
        to_onnx(parse(text))
