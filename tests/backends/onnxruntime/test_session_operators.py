"""Nodes that the onnx package has no reference for, or a slow one: by ONNX Runtime in compiled models, and named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn.node_kernels import node_kernels
from layout_ir.backends.onnxruntime import session_operators
from layout_ir.backends.onnxruntime.session_operators import session_operator
from layout_ir.backends.reference.node_evaluation import NodeEvaluation
from tests.backends.onednn.small_programs import needs_library

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

needs_runtime = pytest.mark.skipif(
    session_operator("ai.onnx.ml", "SVMRegressor") is None,
    reason=f"needs ONNX Runtime {'.'.join(map(str, session_operators.OLDEST))}",
)

VERSIONS = {"": 19, "ai.onnx.ml": 3, "com.microsoft": 1}


def _trees() -> Any:
    """The sum of two trees of one split each, on feature 0 and on feature 1."""
    return onnx.helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0, 1, 1, 1],
        nodes_nodeids=[0, 1, 2, 0, 1, 2],
        nodes_featureids=[0, 0, 0, 1, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
        nodes_values=[0.5, 0, 0, -1.0, 0, 0],
        nodes_truenodeids=[1, 0, 0, 1, 0, 0],
        nodes_falsenodeids=[2, 0, 0, 2, 0, 0],
        target_treeids=[0, 0, 1, 1],
        target_nodeids=[1, 2, 1, 2],
        target_ids=[0] * 4,
        target_weights=[1.0, 2.0, 10.0, 20.0],
    )


def _three_classes() -> Any:
    """Support vectors of three classes with probabilities, which the package computes wrongly."""
    return onnx.helper.make_node(
        "SVMClassifier",
        ["x"],
        ["label", "y"],
        domain="ai.onnx.ml",
        classlabels_ints=[0, 1, 2],
        coefficients=[1.0, -1.0, 0.5, 0.5, -1.0, 1.0],
        kernel_params=[0.5, 0.0, 3.0],
        kernel_type="RBF",
        prob_a=[-1.0] * 3,
        prob_b=[0.0] * 3,
        rho=[0.1, 0.2, 0.3],
        support_vectors=[0.0, 1, 1, 0, 1, 1],
        vectors_per_class=[1, 1, 1],
    )


def _model(node: Any, extent: int | str) -> Any:
    """A model of a node on rows of two numbers, so many of them or as many as come, with its last result doubled."""
    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [node, helper.make_node("Add", ["y", "y"], ["twice"])],
        "rows",
        [helper.make_tensor_value_info("x", number, [extent, 2])],
        [helper.make_tensor_value_info("twice", number, None)],
    )
    imports = [helper.make_opsetid(*entry) for entry in VERSIONS.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


@needs_runtime
@needs_library
@pytest.mark.parametrize("extent", [3, "rows"])
def test_trees_are_computed_by_it_and_named(extent: int | str):
    x = np.array([[0, 0], [1, 0], [0, -2]], np.float32)
    executable = li.compile(_model(_trees(), extent), threads=1)
    (found,) = executable({"x": x})
    assert found.tolist() == [[42], [44], [22]]
    assert executable.fallbacks == {"ai.onnx.ml::TreeEnsembleRegressor (ONNX Runtime)": 1}


@needs_runtime
@needs_library
@pytest.mark.parametrize("extent", [2, "rows"])
def test_what_the_package_refuses_does_not_refuse_the_model(extent: int | str):
    (found,) = li.compile(_model(_three_classes(), extent), threads=1)({"x": np.eye(2, dtype=np.float32)})
    np.testing.assert_allclose(found.sum(axis=1), 2, rtol=1e-6)


@needs_runtime
def test_an_operator_that_the_package_does_not_know_is_computed_on_texts():
    node = onnx.helper.make_node(
        "Tokenizer",
        ["s"],
        ["t"],
        domain="com.microsoft",
        mark=0,
        mincharnum=1,
        pad_value="#",
        separators=[" "],
    )
    lower = onnx.helper.make_node("StringConcat", ["t", "t"], ["twice"])
    evaluation = NodeEvaluation([node, lower], {**VERSIONS, "": 20}, ["twice"], kernels=node_kernels(1))
    (found,) = evaluation({"s": np.array(["a b", "c"], object)})
    assert found.tolist() == [["aa", "bb"], ["cc", "##"]]
    assert evaluation.operators == ["Tokenizer (ONNX Runtime)", "StringConcat"]


@needs_runtime
def test_a_node_takes_the_element_types_that_come():
    classes = NodeEvaluation([_three_classes()], VERSIONS, ["y"], kernels=node_kernels(1))
    (single,), (double,) = (classes({"x": np.eye(2, dtype=kind)}) for kind in (np.float32, np.float64))
    np.testing.assert_allclose(single, double, rtol=1e-6)


@needs_runtime
def test_inputs_and_outputs_that_a_node_leaves_out():
    from onnx.reference import ReferenceEvaluator

    helper = onnx.helper
    node = helper.make_node("LSTM", ["x", "w", "r", "", "", "h"], ["", "last"], hidden_size=2)
    random = np.random.default_rng(0)
    shapes = {"x": (3, 1, 4), "w": (1, 8, 4), "r": (1, 8, 2), "h": (1, 1, 2)}
    feeds = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in feeds],
        [helper.make_tensor_value_info("last", onnx.TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    operators: list[Any] = [session_operator("", "LSTM")]
    evaluator: Any = ReferenceEvaluator(model, new_ops=operators)
    (found,) = evaluator.run(None, feeds)
    (want,) = NodeEvaluation([node], {"": 19}, ["last"])(feeds)
    np.testing.assert_allclose(found, want, rtol=1e-5)


@needs_runtime
@pytest.mark.parametrize(
    ("attribute", "numbers"),
    [
        ("nodes_featureids", [-(10**8), 0, 0, 1, 0, 0]),
        ("nodes_truenodeids", [77, 0, 0, 1, 0, 0]),
        ("target_ids", [10**8, 0, 0, 0]),
        ("target_weights", [1.0]),
        ("n_targets", 1 << 40),
    ],
)
def test_negative_a_node_that_it_fails_on_is_named_with_who_failed(attribute: str, numbers: Any):
    node = _trees()
    for entry in node.attribute:
        if entry.name == attribute:
            entry.CopyFrom(onnx.helper.make_attribute(attribute, numbers))
    evaluation = NodeEvaluation([node], VERSIONS, kernels=node_kernels(1))
    with pytest.raises(li.LayoutError, match=r"^ONNX Runtime \S+ fails on TreeEnsembleRegressor: "):
        evaluation({"x": np.zeros((1, 2), np.float32)})


def test_negative_versions_that_read_outside_of_attributes_compute_nothing(monkeypatch: pytest.MonkeyPatch):
    class Old:
        __version__ = "1.29.9"

    monkeypatch.setattr(session_operators, "onnxruntime", Old)
    assert not session_operators._known_operators.__wrapped__()  # pyright: ignore[reportPrivateUsage]


def test_negative_without_it_the_package_computes_what_it_can(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_operators, "_known_operators", frozenset[tuple[str, str]])
    assert session_operator("ai.onnx.ml", "TreeEnsembleRegressor") is None
    evaluation = NodeEvaluation([_trees()], VERSIONS, kernels=node_kernels(1))
    assert evaluation({"x": np.zeros((1, 2), np.float32)})[0].tolist() == [[21]]
    assert evaluation.operators == ["TreeEnsembleRegressor"]
    unknown = onnx.helper.make_node("Tokenizer", ["s"], ["t"], domain="com.microsoft")
    with pytest.raises(li.LayoutError, match="has no reference for Tokenizer"):
        NodeEvaluation([unknown], VERSIONS, kernels=node_kernels(1))


def test_negative_an_operator_that_nobody_has_is_refused_before_it_is_called():
    node = onnx.helper.make_node("Unheard", ["x"], ["y"], domain="far.away")
    with pytest.raises(li.LayoutError, match="has no reference for Unheard"):
        NodeEvaluation([node], {**VERSIONS, "far.away": 1}, kernels=node_kernels(1))


def test_negative_maps_stay_with_the_package():
    assert session_operator("ai.onnx.ml", "ZipMap") is None
