"""What ONNX's shape inference gets wrong, against what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.frontends.onnx.shape_inference import infer_shapes, with_defaults
from layout_ir.frontends.onnx.subgraphs import nodes_within
from tests.frontends.onnx.onnxruntime_oracle import session_results

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def _spectrum(**attributes: Any) -> onnx.ModelProto:
    """The spectra of a signal, in windows of 16 elements every 4; frequencies in front of windows."""
    nodes = [
        oh.make_node("STFT", ["x", "step", "window"], ["s"], **attributes),
        oh.make_node("Transpose", ["s"], ["y"], perm=[0, 2, 1, 3]),
    ]
    graph = oh.make_graph(
        nodes,
        "g",
        [oh.make_tensor_value_info("x", FLOAT, [2, 64, 1])],
        [oh.make_tensor_value_info("y", FLOAT, None)],
        [
            oh.make_tensor("step", INT64, [], [4]),
            oh.make_tensor("window", FLOAT, [16], np.hanning(16).astype(np.float32)),
        ],
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9)


def _shape(model: onnx.ModelProto) -> tuple[int, ...]:
    (result,) = infer_shapes(model).graph.output
    return tuple(dim.dim_value for dim in result.type.tensor_type.shape.dim)


@pytest.mark.parametrize("attributes", [{}, {"onesided": 1}, {"onesided": 0}], ids=str)
def test_a_spectrum_has_the_shape_that_it_comes_with(attributes: dict[str, int]):
    model = _spectrum(**attributes)
    given = model.SerializeToString(deterministic=True)
    x = np.random.default_rng(0).standard_normal((2, 64, 1)).astype(np.float32)
    (wanted,) = session_results(model, {"x": x})
    assert _shape(model) == wanted.shape
    assert model.SerializeToString(deterministic=True) == given
    (found,) = session_results(li.optimize_onnx(model).model, {"x": x})
    np.testing.assert_array_equal(found, wanted)
    (computed,) = li.run(li.from_onnx(model), [x])
    assert computed.shape == wanted.shape
    np.testing.assert_allclose(computed, wanted, atol=1e-4)


def test_a_spectrum_in_a_subgraph_too():
    body = _spectrum().graph
    del body.input[:]
    graph = oh.make_graph(
        [oh.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)],
        "outer",
        [oh.make_tensor_value_info("x", FLOAT, [2, 64, 1]), oh.make_tensor_value_info("c", BOOL, [])],
        [oh.make_tensor_value_info("z", FLOAT, None)],
    )
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9)
    assert _shape(model) == (2, 9, 13, 2)


def test_negative_what_states_its_attribute_or_is_another_operator_stays():
    for node in (oh.make_node("STFT", ["x"], ["y"], onesided=0), oh.make_node("DFT", ["x"], ["y"])):
        assert with_defaults(node) is node
    node = oh.make_node("STFT", ["x"], ["y"])
    assert [(each.name, each.i) for each in with_defaults(node).attribute] == [("onesided", 1)]
    assert not node.attribute


def _branch(name: str, factor: int) -> onnx.GraphProto:
    """A branch that repeats the outer value x, with names that every branch has; its result is named `name`."""
    nodes = [
        oh.make_node("Shape", ["x"], ["extents"]),
        oh.make_node("Concat", ["front", "extents"], ["wanted"], axis=0),
        oh.make_node("Expand", ["x", "wanted"], [name]),
    ]
    front = [oh.make_tensor("front", INT64, [1], [factor])]
    return oh.make_graph(nodes, name, [], [oh.make_tensor_value_info(name, FLOAT, None)], front)


def test_branches_may_use_the_same_names():
    inner = oh.make_node("If", ["c"], ["r"], then_branch=_branch("p", 2), else_branch=_branch("q", 2))
    around = oh.make_graph([inner], "around", [], [oh.make_tensor_value_info("r", FLOAT, None)])
    node = oh.make_node("If", ["c"], ["y"], then_branch=around, else_branch=_branch("s", 2))
    inputs = [oh.make_tensor_value_info("x", FLOAT, [3, 4]), oh.make_tensor_value_info("c", BOOL, [])]
    graph = oh.make_graph([node], "g", inputs, [oh.make_tensor_value_info("y", FLOAT, None)])
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9)
    given = model.SerializeToString(deterministic=True)
    assert _shape(model) == (2, 3, 4)
    assert model.SerializeToString(deterministic=True) == given
    (found,) = infer_shapes(model).graph.node
    assert [[*n.input, *n.output] for n in nodes_within(found)] == [
        [*n.input, *n.output] for n in nodes_within(node)
    ]


_TAKES_TYPED = (
    ("EyeLike", "", {"dtype": INT64}),
    ("RegexFullMatch", "", {"pattern": "a"}),
    ("LabelEncoder", "ai.onnx.ml", {"keys_strings": ["a"], "values_int64s": [1]}),
    ("DictVectorizer", "ai.onnx.ml", {"int64_vocabulary": [1, 2]}),
)
"""Operators on whose nodes without the type of an input ONNX's own inference crashes, with their attributes."""


def _of_one_node(node: onnx.NodeProto, given: onnx.ValueInfoProto) -> onnx.ModelProto:
    """The node behind an operator that nobody knows, in the graph and in a function that it calls."""
    unknown = oh.make_node("Unknown", ["x"], ["a"], domain="nowhere")
    imports = [oh.make_opsetid(*each) for each in (("", 20), ("ai.onnx.ml", 4), ("nowhere", 1), ("here", 1))]
    function = oh.make_function("here", "F", ["x"], ["y"], [unknown, node], imports[:3])
    call = oh.make_node("F", ["x"], ["z"], domain="here")
    graph = oh.make_graph([unknown, node, call], "g", [given], [onnx.ValueInfoProto(name=n) for n in "yz"])
    return oh.make_model(graph, functions=[function], opset_imports=imports, ir_version=9)


@pytest.mark.parametrize(("op", "domain", "attributes"), _TAKES_TYPED, ids=lambda each: str(each)[:14])
@pytest.mark.parametrize("source", ["a", ""], ids=["untyped", "missing"])
def test_negative_a_node_that_lacks_the_type_it_needs_gets_none(
    op: str, domain: str, attributes: dict[str, Any], source: str
):
    node = oh.make_node(op, [source], ["y"], domain=domain, **attributes)
    model = _of_one_node(node, oh.make_tensor_value_info("x", FLOAT, [2, 2]))
    found = infer_shapes(model).graph
    assert [each.op_type for each in found.node] == ["Unknown", op, "F"]
    assert not any(value.name == "y" and value.type.WhichOneof("value") for value in found.output)
    li.optimize_onnx(model)


def test_a_node_that_needs_a_type_is_inferred_once_it_has_one():
    node = oh.make_node("EyeLike", ["t"], ["y"])
    model = _of_one_node(node, oh.make_tensor_value_info("x", FLOAT, [2, 3]))
    model.graph.node.insert(0, oh.make_node("Transpose", ["x"], ["t"]))
    model.graph.ClearField("output")
    model.graph.output.append(onnx.ValueInfoProto(name="y"))
    assert _shape(model) == (3, 2)


@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_a_node_of_a_branch_whose_extents_are_open_does_not_crash_what_looks_at_single_nodes(target: str):
    branches = [
        oh.make_graph([oh.make_node(op, ["t"], [f"{op}_result"])], op, [], [
            oh.make_tensor_value_info(f"{op}_result", FLOAT, [None, None])
        ])
        for op in ("Neg", "EyeLike")
    ]  # fmt: skip
    nodes = [
        oh.make_node("Transpose", ["x"], ["t"]),
        oh.make_node("If", ["c"], ["e"], then_branch=branches[0], else_branch=branches[1]),
        oh.make_node("Transpose", ["e"], ["y"]),
    ]
    inputs = [
        oh.make_tensor_value_info("x", FLOAT, ["N", "M"]),
        oh.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
    ]
    graph = oh.make_graph(nodes, "g", inputs, [oh.make_tensor_value_info("y", FLOAT, [None, None])])
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 16)], ir_version=8)
    assert len(li.optimize_onnx(model, target).model.graph.node) == 3


def test_negative_a_model_with_a_node_without_its_input_is_refused():
    node = oh.make_node(
        "LabelEncoder", [""], ["y"], domain="ai.onnx.ml", keys_strings=["a"], values_int64s=[1]
    )
    graph = oh.make_graph([node], "g", [], [oh.make_tensor_value_info("y", INT64, [1])])
    imports = [oh.make_opsetid("", 20), oh.make_opsetid("ai.onnx.ml", 4)]
    model = oh.make_model(graph, opset_imports=imports, ir_version=9)
    with pytest.raises(li.LayoutError, match=r"LabelEncoder.*node is not valid.*input 0 is marked single"):
        li.from_onnx(model)
