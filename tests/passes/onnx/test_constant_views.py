"""Nodes on constants that are computed without the reference of the onnx package: it is what they are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from layout_ir.passes.onnx.constant_views import constant_view
from layout_ir.passes.onnx.graph_construction import graphs_of_model
from tests.passes.onnx.optimized import initializer, model_of
from tests.processes import run_python

X = np.arange(24).reshape(2, 1, 3, 4, 1)
ONE_SEVENTH = onnx.numpy_helper.from_array(np.array([1 / 7], np.float16))


def viewed(op: str, *arrays: NDArray[Any] | None, opset: int = 21, **attributes: Any) -> NDArray[Any] | None:
    """The result of a node on `arrays`, which is what the reference gives where it is not None."""
    names = ["" if array is None else f"x{k}" for k, array in enumerate(arrays)]
    node = oh.make_node(op, names, ["y"], **attributes)
    weights = [initializer(f"x{k}", array) for k, array in enumerate(arrays) if array is not None]
    model = model_of([node], [], [oh.make_tensor_value_info("y", 0, None)], weights, opset=opset)
    (graph,) = graphs_of_model(model, None, {}, {})
    result = constant_view(graph.nodes[0], arrays)
    if result is not None:
        evaluator: Any = ReferenceEvaluator(model)
        (expected,) = evaluator.run(None, {})
        np.testing.assert_array_equal(result, expected, strict=True)
    return result


@pytest.mark.parametrize(
    ("op", "others", "shape"),
    [
        ("Unsqueeze", [[0]], (1, 2, 1, 3, 4, 1)),
        ("Unsqueeze", [[-1, 0, 3]], (1, 2, 1, 1, 3, 4, 1, 1)),
        ("Squeeze", [[1]], (2, 3, 4, 1)),
        ("Squeeze", [[-1, 1]], (2, 3, 4)),
        ("Reshape", [[0, -1, 4]], (2, 3, 4)),
        ("Reshape", [[24]], (24,)),
        ("Slice", [[1], [9], [3]], (2, 1, 3, 3, 1)),
        ("Slice", [[-1, 0], [-9, 1], [-2, 0], [-2, 1]], (1, 1, 3, 2, 1)),
        ("Slice", [[0, 0, 1, 1, 0], [1, 1, 2, 2, 0]], (1, 1, 1, 1, 0)),
    ],
)
def test_a_view_is_that_of_the_reference(op: str, others: list[list[int]], shape: tuple[int, ...]):
    result = viewed(op, X, *map(np.array, others))
    assert result is not None and result.shape == shape


@pytest.mark.parametrize(
    ("op", "others"),
    [
        ("Unsqueeze", [[7]]),
        ("Unsqueeze", [[0, 0]]),
        ("Unsqueeze", [0]),
        ("Squeeze", [[0]]),
        ("Reshape", [[5, 5]]),
        ("Reshape", [[24, 1, 1, 1, 1, 0]]),
        ("Slice", [[0], [1], [0], [0]]),
        ("Slice", [[0], [1], [5]]),
        ("Slice", [[0, 0], [1], [0]]),
        ("Relu", []),
    ],
)
def test_negative_what_does_not_fit_is_left_to_the_reference(op: str, others: list[Any]):
    assert viewed(op, X, *map(np.array, others)) is None


def test_squeezing_all_dims_of_one_element_is_left_to_the_reference():
    assert viewed("Squeeze", X) is None


def test_a_reshape_may_take_zeros_for_extents():
    assert viewed("Reshape", X[:0], np.array([4, 0]), allowzero=1) is not None
    assert viewed("Reshape", X, np.array([0, 12]), allowzero=1) is None


@pytest.mark.parametrize(("op", "shape"), [("Unsqueeze", (2, 1, 1, 1, 3, 4, 1)), ("Squeeze", (2, 3, 4, 1))])
def test_axes_of_old_versions_are_attributes(op: str, shape: tuple[int, ...]):
    axes = [1, 2] if op == "Unsqueeze" else [1]
    result = viewed(op, X, opset=11, axes=axes)
    assert result is not None and result.shape == shape


def test_negative_axes_of_old_versions_that_do_not_ascend():
    # One version takes them one by one, where the second is an axis of what the first made.
    assert viewed("Unsqueeze", X, opset=11, axes=[2, 1]) is None
    assert viewed("Unsqueeze", X, opset=11, axes=[-1]) is None
    assert viewed("Unsqueeze", X, np.array([0]), opset=11) is None


def test_a_constant_of_a_shape():
    zeros = viewed("ConstantOfShape", np.array([2, 3]))
    assert zeros is not None and zeros.dtype == np.float32 and not zeros.any()
    filled = viewed("ConstantOfShape", np.array([2]), value=ONE_SEVENTH)
    assert filled is not None and filled.dtype == np.float16 and filled[0] == np.float16(1 / 7)


def test_negative_a_constant_of_an_impossible_shape():
    assert viewed("ConstantOfShape", np.array([-1])) is None
    assert viewed("ConstantOfShape", np.array([[1]])) is None
    assert viewed("ConstantOfShape", np.array([1.0])) is None


def test_extents_are_followed_without_xdsl_and_the_reference():
    # To import the two takes several times as long as to optimize most models.
    program = """
import sys
import numpy as np
import onnx.helper as oh
import onnx.numpy_helper
import layout_ir as li
nodes = [oh.make_node("Shape", ["x"], ["s"])]
nodes += [oh.make_node("Gather", ["s", f"i{k}"], [f"n{k}"]) for k in (0, 1)]
nodes += [oh.make_node("Div", ["n1", "two"], ["h"])]
nodes += [oh.make_node("Unsqueeze", [name, "axes"], [name + "u"]) for name in ("n0", "h")]
nodes += [oh.make_node("Concat", ["n0u", "pair", "hu"], ["t"], axis=0), oh.make_node("Reshape", ["x", "t"], ["r"])]
nodes += [oh.make_node("Transpose", ["r"], ["a"], perm=[0, 2, 1]), oh.make_node("Relu", ["a"], ["b"])]
nodes += [oh.make_node("Transpose", ["b"], ["y"], perm=[0, 2, 1])]
weights = {"i0": 0, "i1": 1, "two": 2, "axes": [0], "pair": [2]}
x, y = (oh.make_tensor_value_info(name, 1, shape) for name, shape in (("x", ["n", 6]), ("y", ["n", 2, 3])))
weights = [onnx.numpy_helper.from_array(np.array(numbers), name) for name, numbers in weights.items()]
model = oh.make_model(oh.make_graph(nodes, "graph", [x], [y], weights), opset_imports=[oh.make_opsetid("", 18)])
result = li.optimize_onnx(model, "ort-cpu")
assert result.before.count == 2 and result.after.count == 0
assert "layout_ir.frontends.onnx.folding" in sys.modules
sys.exit(", ".join({"onnx.reference", "xdsl.ir"} & sys.modules.keys()) or None)
"""
    run_python("-c", program)
