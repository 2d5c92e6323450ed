"""The types of nodes that are kept as they are."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
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


def _looped(
    nodes: list[onnx.NodeProto], stated: list[str | int], rows: list[str | int], trips: int = 3
) -> onnx.ModelProto:
    """A Loop that carries x, which its body calls `h` and states as `stated`, and stacks `r`, stated as `rows`."""
    value, floats = oh.make_tensor_value_info, onnx.TensorProto.FLOAT
    body = oh.make_graph(
        [oh.make_node("Identity", ["going"], ["still"]), *nodes],
        "body",
        [value("trip", 7, []), value("going", 9, []), value("h", floats, stated)],
        [value("still", 9, []), value("next", floats, stated), value("r", floats, rows)],
    )
    graph = oh.make_graph(
        [oh.make_node("Loop", ["trips", "", "x"], ["y", "all"], body=body)],
        "g",
        [value("x", floats, [2, 3])],
        [value("y", floats, None), value("all", floats, None)],
        [
            onnx.numpy_helper.from_array(np.array(trips), "trips"),
            onnx.numpy_helper.from_array(np.ones(1, np.float32), "one"),
        ],
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9)


def test_rows_of_a_loop_have_the_dims_of_what_it_carries():
    """TensorFlow's recurrent layers state the batch of their bodies as unknown."""
    nodes = [oh.make_node("Add", ["h", "one"], ["next"]), oh.make_node("Tanh", ["h"], ["r"])]
    module = from_onnx(_looped(nodes, ["batch", 3], ["other", 3]))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    last, rows = li.run(module, [x])
    np.testing.assert_array_equal(last, x + 3)
    np.testing.assert_allclose(rows, np.tanh(np.stack([x, x + 1, x + 2])), rtol=1e-6)


def test_negative_rows_of_a_loop_that_carries_what_grows():
    nodes = [oh.make_node("Concat", ["h", "h"], ["next"], axis=0), oh.make_node("Tanh", ["h"], ["r"])]
    with pytest.raises(li.LayoutError, match="output 0 'y' has no static type"):
        from_onnx(_looped(nodes, ["batch", 3], ["batch", 3]))


def test_a_subgraph_that_states_scalars_makes_vectors():
    """As Paddle's exporter writes conditions and counters."""
    branches = [
        oh.make_graph([oh.make_node("Mul", ["one", "one"], [name])], name, [],
                      [oh.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [])])
        for name in ("p", "q")
    ]  # fmt: skip
    nodes = [
        oh.make_node("Identity", ["h"], ["next"]),
        oh.make_node("If", ["going"], ["step"], then_branch=branches[0], else_branch=branches[1]),
        oh.make_node("Add", ["h", "step"], ["r"]),
    ]
    module = from_onnx(_looped(nodes, [2, 3], [2, 3], trips=2))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(li.run(module, [x])[1], np.stack([x + 1, x + 1]))


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("stated", [[], [1]])
def test_branches_that_state_scalars_make_vectors(condition: bool, stated: list[int]):
    """As Paddle's exporter writes sums, which are scalars there, in branches."""
    value, floats = oh.make_tensor_value_info, onnx.TensorProto.FLOAT
    branches = [
        oh.make_graph(
            [
                oh.make_node(op, ["x"], [f"{op}.whole"], keepdims=0),
                oh.make_node("Reshape", [f"{op}.whole", f"{op}.shape"], [f"{op}.row"]),
            ],
            op,
            [],
            [value(f"{op}.row", floats, [])],
            [onnx.numpy_helper.from_array(np.array([1]), f"{op}.shape")],
        )
        for op in ("ReduceSum", "ReduceMax")
    ]
    node = oh.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inputs = [value("x", floats, [2, 3]), value("c", onnx.TensorProto.BOOL, [])]
    graph = oh.make_graph([node], "g", inputs, [value("y", floats, stated)])
    module = from_onnx(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 13)], ir_version=8))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (found,) = li.run(module, [x, np.array(condition)])
    np.testing.assert_array_equal(found, [15 if condition else 5])
