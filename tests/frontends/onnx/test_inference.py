"""The types of nodes that are kept as they are."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.frontends.onnx import from_onnx


def _branch(name: str, operand: str) -> onnx.GraphProto:
    """A branch that adds an outer value to x."""
    result = oh.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
    return oh.make_graph([oh.make_node("Add", ["x", operand], [name])], name, [], [result])


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_that_is_not_taken_may_be_for_other_shapes(condition: bool):
    """As in a decoder, whose mask is longer than its input only where there is a cache."""
    node = oh.make_node("If", ["c"], ["y"], then_branch=_branch("p", "a"), else_branch=_branch("q", "b"))
    shapes = {"x": [2, 3], "a": [2, 3 if condition else 5], "b": [2, 5 if condition else 3]}
    inputs = [oh.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in shapes.items()]
    inputs.append(oh.make_tensor_value_info("c", onnx.TensorProto.BOOL, []))
    outputs = [oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3])]
    graph = oh.make_graph([node], "g", inputs, outputs)
    module = from_onnx(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9))
    x, a, b = (np.full(shape, k, np.float32) for k, shape in enumerate(shapes.values()))
    (found,) = li.run(module, [x, a, b, np.array(condition)])
    np.testing.assert_array_equal(found, x + (a if condition else b))
