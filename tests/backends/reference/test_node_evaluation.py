"""Nodes by the reference implementation of the onnx package, on values of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.reference.node_evaluation import NodeEvaluation
from layout_ir.errors import LayoutError

onnx = pytest.importorskip("onnx")


def test_texts_and_sequences_come_out_as_they_are():
    joined = NodeEvaluation([onnx.helper.make_node("StringConcat", ["a", "b"], ["c"])], {"": 20})
    [found] = joined({"a": np.array(["x", "y"], object), "b": np.array(["1", "2"], object)})
    assert found.dtype == object and found.tolist() == ["x1", "y2"]
    parts = NodeEvaluation([onnx.helper.make_node("SplitToSequence", ["x"], ["s"], axis=0)], {"": 20})
    [sequence] = parts({"x": np.arange(4.0).reshape(2, 2)})
    assert [part.tolist() for part in sequence] == [[[0, 1]], [[2, 3]]]


def test_negative_an_operator_without_reference_and_values_that_do_not_fit():
    with pytest.raises(LayoutError, match="no reference for Unheard"):
        NodeEvaluation([onnx.helper.make_node("Unheard", ["x"], ["y"])], {"": 20})
    added = NodeEvaluation([onnx.helper.make_node("Add", ["a", "b"], ["c"])], {"": 20})
    with pytest.raises(LayoutError, match="fails on Add"):
        added({"a": np.zeros(2), "b": np.zeros(3)})


def _cases() -> list[Any]:
    from onnx.backend.test.loader import load_model_tests

    with np.errstate(all="ignore"):
        return load_model_tests(kind="node")


def _check_without_types(model: Any, feeds: dict[str, Any]) -> bool:
    """Whether nodes are evaluated, and to the same with their types looked at and without."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    nodes, outputs = list(model.graph.node), [value.name for value in model.graph.output]
    try:
        checking, plain = (NodeEvaluation(nodes, versions, outputs, types_fit=fit) for fit in (False, True))
        wanted: list[Any] = list(checking(feeds))
    except LayoutError:
        return False
    for found, each in zip(plain(feeds), wanted, strict=True):
        assert type(found) is type(each)
        if type(each) is np.ndarray:
            assert found.dtype == each.dtype
            np.testing.assert_array_equal(found, each)
    return True


def test_operators_give_the_same_where_types_are_known_to_fit():
    """Those that have subgraphs, that are functions, that give scalars, or whose class in the package differs."""
    helper = onnx.helper
    branch = helper.make_graph(
        [helper.make_node("Neg", ["y"], ["n"])], "b", [], [helper.make_tensor_value_info("n", 1, [2, 3])]
    )
    nodes = [
        helper.make_node("LogSoftmax", ["x"], ["y"], axis=0),
        helper.make_node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
        helper.make_node("Max", ["x", "i", "y"], ["m"]),
        helper.make_node("Clip", ["m", "", "h"], ["k"]),
        helper.make_node("ReduceSum", ["k"], ["s"], keepdims=0),
        helper.make_node("Gelu", ["s"], ["g"]),
        helper.make_node("Split", ["k"], ["a", "b"], axis=0, num_outputs=2),
    ]
    outputs = [helper.make_tensor_value_info(name, 1, None) for name in "ygab"]
    graph = helper.make_graph(nodes, "net", [], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    assert _check_without_types(model, {"x": x, "c": np.array(True), "h": np.array(1, np.float32)})


@pytest.mark.deep
def test_the_cases_of_the_standard_give_the_same_where_types_are_known_to_fit():
    compared = 0
    for case in _cases():
        graph = case.model.graph
        kinds = {value.type.WhichOneof("value") for value in (*graph.input, *graph.output)}
        operators = {node.op_type for node in graph.node}
        if kinds != {"tensor_type"} or any("Random" in name or name == "Bernoulli" for name in operators):
            continue
        feeds = dict(zip([value.name for value in graph.input], case.data_sets[0][0], strict=True))
        compared += _check_without_types(case.model, feeds)
    assert compared > 1000
