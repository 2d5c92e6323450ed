"""What is said of Transposes that are left."""

from __future__ import annotations

from random import Random

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.passes.onnx import order_search
from layout_ir.passes.onnx.order_plan import Plan
from layout_ir.passes.onnx.remaining import are_at_boundary, remaining_transposes
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, transpose, value
from tests.passes.onnx.random_models import random_model

X = (2, 3, 4, 5)


def test_a_transpose_between_an_input_and_a_kernel_is_the_callers():
    nodes = [transpose("x", "t", 0, 3, 1, 2), oh.make_node("Conv", ["t", "w"], ["y"], name="conv")]
    weights = initializer("w", [[[[1.0]]] * 5] * 6)
    model = model_of(nodes, [value("x", *X)], [value("y", 2, 6, 3, 4)], [weights])
    (entry,) = check_optimized(model).remaining
    assert (entry.value, entry.source, entry.target) == ("x", (0, 1, 2, 3), (0, 3, 1, 2))
    assert entry.nbytes == 2 * 4 * 120
    assert (entry.producer, entry.consumers) == ("input 'x'", ("Conv 'conv'",))
    assert entry.removed_by.startswith("--inputs free")
    result = check_optimized(model, inputs="free")
    assert result.remaining == [] and [e.name for e in result.obligations] == ["x"]


def test_a_transpose_before_an_output_is_the_callers():
    nodes = [
        oh.make_node("GlobalMaxPool", ["x"], ["p"]),
        oh.make_node("Add", ["p", "x"], ["a"]),
        transpose("a", "y", 0, 2, 3, 1),
    ]
    model = model_of(nodes, [value("x", *X)], [value("y", 2, 4, 5, 3)])
    (entry,) = check_optimized(model).remaining
    assert entry.consumers == ("output 'y'",)
    assert entry.removed_by.startswith("--outputs free")
    assert check_optimized(model, outputs="free").remaining == []


def test_a_transpose_between_two_kernels_is_theirs():
    nodes = [oh.make_node("GlobalMaxPool", ["x"], ["p"], name="pool"), transpose("p", "t", 1, 0, 2, 3)]
    nodes += [oh.make_node("DepthToSpace", ["t"], ["y"], name="d2s", blocksize=1)]
    (entry,) = check_optimized(model_of(nodes, [value("x", 2, 3, 4, 5)], [value("y", 3, 2, 1, 1)])).remaining
    assert (entry.producer, entry.consumers) == ("GlobalMaxPool 'pool'", ("DepthToSpace 'd2s'",))
    assert "kernel of GlobalMaxPool" in entry.removed_by and "DepthToSpace" in entry.removed_by


def _loop(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    """Carries a value `v` in NHWC through `nodes`, the last of which gives `next`; `s`, a result of a convolution, is
    there as `outer` in NHWC."""
    boolean, integer = onnx.TensorProto.BOOL, onnx.TensorProto.INT64
    body = oh.make_graph(
        [oh.make_node("Identity", ["go"], ["on"]), *nodes], "body",
        [value("i", dtype=integer), value("go", dtype=boolean), value("v", 1, 4, 5, 3)],
        [value("on", dtype=boolean), value("next", 1, 4, 5, 3)],
    )  # fmt: skip
    outside = [oh.make_node("Conv", ["x", "w"], ["s"], name="conv"), transpose("s", "outer", 0, 2, 3, 1)]
    outside += [oh.make_node("Loop", ["times", "", "z"], ["y"], body=body, name="loop")]
    weights = [initializer("times", np.array(3)), initializer("w", np.eye(3)[..., None, None])]
    weights += [initializer("scale", np.ones(3))]
    return model_of(
        outside, [value("x", 1, 3, 4, 5), value("z", 1, 4, 5, 3)], [value("y", 1, 4, 5, 3)], weights
    )


def test_a_transpose_for_a_subgraph_is_not_that_of_an_output():
    model = _loop(
        oh.make_node("Add", ["v", "outer"], ["a"]),
        oh.make_node("LayerNormalization", ["a", "scale"], ["next"]),
    )
    (entry,) = check_optimized(model).remaining
    assert (entry.producer, entry.consumers) == ("Conv 'conv'", ("a subgraph of Loop 'loop'",))
    assert (
        not entry.is_at_boundary
        and entry.removed_by == "a subgraph of Loop that reads it in order (0, 1, 2, 3)"
    )


def test_negative_the_input_of_a_subgraph_is_no_callers():
    model = _loop(
        transpose("v", "t", 0, 3, 1, 2),
        oh.make_node("Conv", ["t", "w"], ["c"], name="inner"),
        oh.make_node("ReduceMax", ["c"], ["most"]),
        oh.make_node("Add", ["v", "most"], ["a"]),
        oh.make_node("LayerNormalization", ["a", "scale"], ["next"]),
    )
    model.graph.node.remove(model.graph.node[1])
    (entry,) = check_optimized(model).remaining
    assert (entry.producer, entry.consumers) == ("input 'v' of a subgraph", ("Conv 'inner'",))
    assert not entry.is_at_boundary
    assert entry.removed_by == "a node around the subgraph that gives it in order (0, 3, 1, 2)"


def test_whether_all_are_the_callers_is_what_is_said_of_each(monkeypatch: pytest.MonkeyPatch):
    answers: list[bool] = []

    def compared(plan: Plan) -> bool:
        found = are_at_boundary(plan)
        assert found == all(entry.is_at_boundary for entry in remaining_transposes(plan))
        answers.append(found)
        return found

    monkeypatch.setattr(order_search, "are_at_boundary", compared)
    random = Random("boundary")
    for _ in range(8):
        li.optimize_onnx(random_model(random, 8)[0])
    assert {True, False} == set(answers)
