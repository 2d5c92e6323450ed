"""What Transposes say of their operands, in models that inference alone knows too little of."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.passes.onnx.transposed_operands import ranks_by_perms
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.passes.onnx.optimized import FLOAT, initializer, model_of, transpose, value

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
UNRANKED = oh.make_tensor_value_info("x", FLOAT, None)
RESULT = oh.make_tensor_value_info("y", FLOAT, None)
SQUEEZED = oh.make_node("Squeeze", ["x"], ["a"])
"""Takes out whatever has extent 1."""


def _between_transposes(*before: onnx.NodeProto, inputs: list[onnx.ValueInfoProto]) -> onnx.ModelProto:
    """A Relu of the last dim first, of what `before` makes."""
    (source,) = before[-1].output if before else ("x",)
    nodes = [
        transpose(source, "t", 2, 0, 1),
        oh.make_node("Relu", ["t"], ["r"]),
        transpose("r", "y", 1, 2, 0),
    ]
    return model_of([*before, *nodes], inputs, [RESULT])


@pytest.mark.parametrize("model", [
    _between_transposes(inputs=[UNRANKED]),
    _between_transposes(SQUEEZED, inputs=[value("x", "a", "b", "c")]),
    _between_transposes(
        oh.make_node("SequenceConstruct", ["x"], ["s"]), oh.make_node("SequenceAt", ["s", "k"], ["a"]),
        inputs=[UNRANKED, value("k", dtype=onnx.TensorProto.INT64)],
    ),
], ids=["input", "squeeze", "element of a sequence"])  # fmt: skip
def test_a_value_of_unknown_rank_has_the_dims_that_a_perm_names(model: onnx.ModelProto):
    feeds = {"x": X, "k": np.array(0)}
    feeds = {each.name: feeds[each.name] for each in model.graph.input}
    (wanted,) = session_results(model, feeds)
    better = li.optimize_onnx(model, "onnx")
    assert better.after.count == 0
    (found,) = session_results(better.model, feeds)
    assert np.array_equal(found, wanted)
    assert li.optimize_onnx(better.model, "onnx").model == better.model


def test_a_rank_that_extents_contradict_where_they_count_as_agreed_is_kept():
    extents = value("s", "count", dtype=onnx.TensorProto.INT64)
    model = _between_transposes(oh.make_node("Reshape", ["x", "s"], ["a"]), inputs=[value("x", 24), extents])
    for stated in ([], [value("a", "p", "q", "r")]):
        model.graph.value_info.extend(stated)
        better = li.optimize_onnx(model, "onnx")
        assert better.after.count == 0
        feeds = {"x": X.ravel(), "s": np.array([2, 3, 4])}
        (found,) = session_results(better.model, feeds)
        assert np.array_equal(found, np.maximum(X, 0))


def _types(**shapes: tuple[int, ...] | None) -> dict[str, onnx.TypeProto]:
    return {name: oh.make_tensor_type_proto(FLOAT, shape) for name, shape in shapes.items()}


def test_negative_perms_of_different_lengths_say_nothing():
    nodes = [transpose("x", "a", 1, 0), transpose("x", "b", 2, 1, 0), transpose("z", "c", 1, 0)]
    assert [*ranks_by_perms(nodes, _types(x=None, z=None), ())] == ["z"]


@pytest.mark.parametrize("node", [
    oh.make_node("Transpose", ["x"], ["y"]),
    transpose("x", "y", 0, 2),
    transpose("known", "y", 1, 0),
    transpose("of another graph", "y", 1, 0),
    oh.make_node("Transpose", ["x"], ["y"], domain="my", perm=[1, 0]),
])  # fmt: skip
def test_negative_other_nodes_say_nothing(node: onnx.NodeProto):
    assert not ranks_by_perms([node], _types(x=None, known=(2, 3)), ())


def test_negative_a_branch_that_may_not_run_says_nothing_of_values_around_it():
    def branch(name: str, *perm: int) -> onnx.GraphProto:
        result = oh.make_tensor_value_info(name, FLOAT, None)
        return oh.make_graph([transpose("a", name, *perm)], name, [], [result])

    choice = oh.make_node("If", ["c"], ["i"], then_branch=branch("p", 2, 0, 1), else_branch=branch("q", 1, 0))
    nodes = [SQUEEZED, choice, oh.make_node("Relu", ["i"], ["y"])]
    inputs = [value("x", "a", "b", "c"), value("c", dtype=onnx.TensorProto.BOOL)]
    model = model_of(nodes, inputs, [RESULT], [initializer("unused", [1.0])])
    better = li.optimize_onnx(model, "onnx")
    for taken, x in ((True, X), (False, X[:1])):
        feeds = {"x": x, "c": np.array(taken)}
        assert np.array_equal(session_results(better.model, feeds)[0], session_results(model, feeds)[0])
