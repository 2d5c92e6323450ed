"""What is written: names, constants, and Reshapes where only dims of one element move."""

from __future__ import annotations

import numpy as np
import onnx.helper as oh
import pytest

from tests.passes.onnx.optimized import (
    check_optimized,
    initializer,
    model_of,
    op_types,
    random_feeds,
    transpose,
    value,
)


def test_a_constant_is_made_larger_once_for_all_who_need_it():
    nodes = [transpose("x", "b", 0, 2, 3, 1)]
    for number in range(4):
        nodes.append(oh.make_node("Add", ["b" if not number else f"b{number - 1}", "w"], [f"b{number}"]))
    nodes.append(transpose("b3", "y", 0, 3, 1, 2))
    weights = initializer("w", np.ones((64, 64), np.float32))
    model = model_of(nodes, [value("x", 2, 64, 3, 64)], [value("y", 2, 64, 3, 64)], [weights])
    result = check_optimized(model)
    assert result.after.count == 0
    assert [list(t.dims) for t in result.model.graph.initializer if len(t.dims) == 3] == [[64, 1, 64]]


@pytest.mark.parametrize("opset", [11, 18])
def test_dims_of_one_element_move_without_a_transpose(opset: int):
    pool = oh.make_node("GlobalMaxPool", ["x"], ["p"])
    nodes = [pool, transpose("p", "t", 0, 2, 3, 1), oh.make_node("DepthToSpace", ["t"], ["y"], blocksize=1)]
    model = model_of(nodes, [value("x", 2, 3, 4, 5)], [value("y", 2, 1, 1, 3)], opset=opset)
    result = check_optimized(model)
    assert result.after.count == 0 and "Transpose" not in op_types(result.model)
    # With two extents that nobody knows, a Reshape cannot say both.
    model = model_of(nodes, [value("x", "N", "C", 4, 5)], [value("y", "N", 1, 1, "C")], opset=opset)
    assert check_optimized(model, random_feeds(model, N=2, C=3)).after.count == 0


def test_values_in_the_order_of_the_model_keep_their_names():
    nodes = [transpose("x", "a", 1, 0), oh.make_node("Relu", ["a"], ["b"]), transpose("b", "c", 1, 0)]
    nodes += [oh.make_node("CumSum", ["c", "axis"], ["d"]), oh.make_node("Neg", ["d"], ["y"])]
    model = model_of(nodes, [value("x", 2, 3)], [value("y", 2, 3)], [initializer("axis", 1)])
    new = check_optimized(model).model
    assert [list(node.output) for node in new.graph.node] == [["c"], ["d"], ["y"]]


def test_a_transpose_that_stays_keeps_its_name():
    nodes = [transpose("x", "a", 1, 0), transpose("a", "b", 1, 0), transpose("b", "y", 1, 0)]
    nodes[-1].name, nodes[-1].doc_string = "last", "what it is for"
    new = check_optimized(model_of(nodes, [value("x", 2, 3)], [value("y", 3, 2)])).model
    assert [(node.name, node.doc_string) for node in new.graph.node] == [("last", "what it is for")] or len(
        new.graph.node
    ) == 1
