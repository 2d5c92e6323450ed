"""Models whose nodes stand behind nodes that use what they make."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.checker
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.node_order import with_sorted_nodes
from tests.frontends.onnx.models import model, node

X = {"x": (2, 3)}
DATA = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def _branch(uses: str) -> onnx.GraphProto:
    """A subgraph whose second node makes what its first uses, from a value around it."""
    nodes = [node("Neg", "inner", "b"), node("Abs", uses, "inner")]
    return oh.make_graph(
        nodes, "branch", [], [oh.make_tensor_value_info("b", onnx.TensorProto.FLOAT, (2, 3))]
    )


def _valid(proto: onnx.ModelProto) -> None:
    """Has the onnx package check a model, which wants shapes of outputs."""
    checked = onnx.ModelProto()
    checked.CopyFrom(proto)
    checked.graph.output[0].CopyFrom(oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (2, 3)))
    onnx.checker.check_model(checked)  # pyright: ignore[reportUnknownMemberType]


def _names(proto: onnx.ModelProto) -> list[str]:
    return [node.output[0] for node in proto.graph.node]


def test_what_is_in_order_is_the_same_model():
    proto = model([node("Relu", "x", "a"), node("Exp", "a")], X)
    assert with_sorted_nodes(proto) is proto


def test_nodes_move_in_front_of_the_first_that_uses_them_and_the_model_given_stays():
    nodes = [node("Add", "b a"), node("Exp", "x", "e"), node("Relu", "x", "a"), node("Abs", "a", "b")]
    proto = model(nodes, X)
    assert _names(with_sorted_nodes(proto)) == ["a", "b", "y", "e"]
    assert _names(proto) == ["y", "e", "a", "b"]


def test_subgraphs_are_sorted_and_wait_for_what_they_use():
    condition = node("Greater", "s zero", "c")
    nodes = [
        node("If", "c", then_branch=_branch("later"), else_branch=_branch("x")),
        condition,
        node("ReduceSum", "x", "s", keepdims=0),
        node("Exp", "x", "later"),
    ]
    proto = model(nodes, X, constants={"zero": np.zeros((), np.float32)})
    result = with_sorted_nodes(proto)
    assert _names(result) == ["s", "c", "later", "y"]
    for attribute in result.graph.node[-1].attribute:
        assert [inner.output[0] for inner in attribute.g.node] == ["inner", "b"]
    _valid(result)


def test_functions_are_sorted():
    body = [node("Neg", "b", "r"), node("Abs", "a", "b")]
    proto = model([oh.make_node("F", ["x"], ["y"], domain="own")], X)
    opset = proto.opset_import[0]
    proto.functions.append(oh.make_function("own", "F", ["a"], ["r"], body, [opset]))
    proto.opset_import.append(oh.make_opsetid("own", 1))
    (function,) = with_sorted_nodes(proto).functions
    assert [inner.output[0] for inner in function.node] == ["b", "r"]
    (y,) = li.run(li.from_onnx(proto), [DATA])
    np.testing.assert_array_equal(y, -np.abs(DATA))


def test_models_in_no_order_are_imported_and_optimized():
    nodes = [
        node("Transpose", "h", "t", perm=[1, 0]),
        node("Transpose", "t", perm=[1, 0]),
        node("Exp", "x", "h"),
    ]
    proto = model(nodes, X)
    (y,) = li.run(li.from_onnx(proto), [DATA])
    np.testing.assert_allclose(y, np.exp(DATA), rtol=1e-6)
    optimized = li.optimize_onnx(proto)
    assert (optimized.before.count, optimized.after.count) == (2, 0)
    _valid(optimized.model)


def test_a_long_chain_that_stands_backwards():
    count = 3000
    nodes = [node("Relu", f"v{number}", f"v{number + 1}") for number in range(count)]
    proto = model([*reversed(nodes)], {"v0": (2, 3)}, [f"v{count}"])
    assert _names(with_sorted_nodes(proto)) == [f"v{number + 1}" for number in range(count)]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Exp", "b")], "uses 'b' before"),
        ([node("Add", "x y")], "uses 'y' before"),
        ([node("Relu", "a"), node("Relu", "x", "a"), node("Exp", "x", "a")], "uses 'a' before|defined twice"),
    ],
)
def test_negative_nodes_that_wait_for_one_another_and_values_of_two_makers(
    nodes: list[onnx.NodeProto], message: str
):
    proto = model(nodes, X)
    assert _names(with_sorted_nodes(proto)) == _names(proto)
    for read in (li.from_onnx, li.optimize_onnx):
        with pytest.raises(LayoutError, match=message):
            read(proto)
