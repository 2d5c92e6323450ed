"""What is known of a graph: constants, sizes, names."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.gc_pause import gc_paused
from layout_ir.passes.onnx.graph_construction import graphs_of_model
from layout_ir.passes.onnx.model_graph import Graph, Node, transpose_perm
from layout_ir.passes.onnx.value_shapes import UNKNOWN_EXTENT
from tests.passes.onnx.optimized import initializer, model_of, transpose, value


def _graph(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]] | None = None) -> Graph:
    return graphs_of_model(model, None, shapes or {}, {})[0]


def test_sizes_count_unknown_extents_alike_in_every_order():
    nodes = [transpose("x", "t", 2, 1, 0), oh.make_node("Reshape", ["t", "s"], ["y"])]
    model = model_of(nodes, [value("x", "N", 3, "H")], [value("y", "L")], [initializer("s", [-1])])
    graph = _graph(model)
    assert {graph.nbytes(name) for name in "xty"} == {4 * 3 * 64}
    sized = _graph(model, {"x": (2, 3, 5)})
    assert {sized.nbytes(name) for name in "xty"} == {4 * 30}
    assert sized.shape("x") == ("N", 3, "H")


def test_a_view_of_what_is_not_known_has_its_own_size():
    extents = value("e", 3, dtype=onnx.TensorProto.INT64)
    nodes = [
        oh.make_node("Expand", ["x", "e"], ["r"]),
        oh.make_node("Reshape", ["r", "s"], ["y"]),
        oh.make_node("Reshape", ["r", "t"], ["z"]),
    ]
    constants = [initializer("s", [8, 16]), initializer("t", [-1, 16])]
    model = model_of(
        nodes, [value("x", "N", "L", 1), extents], [value("y", 8, 16), value("z", "P", 16)], constants
    )
    graph = _graph(model)
    assert graph.nbytes("r") == 4 * UNKNOWN_EXTENT**3
    assert graph.nbytes("y") == 4 * 8 * 16
    assert graph.nbytes("z") == 4 * UNKNOWN_EXTENT * 16


def test_negative_a_value_of_unknown_rank_has_an_extent_of_its_own():
    nodes = [oh.make_node("Reshape", ["x", "s"], ["y"])]
    unknown = oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    shape = oh.make_tensor_value_info("s", onnx.TensorProto.INT64, ["n"])
    assert _graph(model_of(nodes, [value("x", 2, 3), shape], [unknown])).extents_of_its_own() == {None}


def test_fresh_names_are_in_no_graph_of_the_model():
    branch = oh.make_graph([oh.make_node("Neg", ["x"], ["n"], name="n_2")], "g", [], [value("n", 2)])
    nodes = [oh.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    graphs = graphs_of_model(
        model_of(nodes, [value("x", 2), value("c", dtype=9)], [value("y", 2)]), None, {}, {}
    )
    assert [graphs[0].fresh("n"), graphs[1].fresh("n"), graphs[0].fresh("new")] == ["n_3", "n_4", "new"]


def test_fresh_names_are_in_no_model_without_subgraphs():
    nodes = [
        oh.make_node("Neg", ["x"], ["n"], name="n_2"),
        oh.make_node("Add", ["n", "w"], ["y"], name="sum"),
    ]
    model = model_of(nodes, [value("x", 2)], [value("y", 2)], [initializer("w", np.ones(2))])
    names = ("n", "n", "x", "y", "w", "sum", "new")
    graph = _graph(model)
    assert graph.is_alone
    assert [graph.fresh(n) for n in names] == ["n_3", "n_4", "x_2", "y_2", "w_2", "sum_2", "new"]


def test_negative_a_graph_with_a_subgraph_in_a_foreign_node_is_not_alone():
    inner = oh.make_graph([oh.make_node("Neg", ["x"], ["n"])], "g", [], [value("n", 2)])
    node = oh.make_node("Own", ["c"], ["y"], domain="my", body=inner)
    model = model_of([node], [value("x", 2), value("c", dtype=9)], [value("y", 2)])
    graphs = graphs_of_model(model, None, {}, {})
    assert [graph.is_alone for graph in graphs] == [False, False]
    assert list(graphs[0].nodes[0].captures) == ["x"] and graphs[0].fresh("n") == "n_2"


@pytest.mark.parametrize(
    ("attributes", "perm"),
    [
        ({"perm": [1, 2, 0]}, (1, 2, 0)),
        ({}, (2, 1, 0)),
        ({"perm": [1, 0]}, None),
        ({"perm": [0, 0, 1]}, None),
        ({"perm": [0, 1, 3]}, None),
    ],
)
def test_the_perm_of_a_transpose(attributes: dict[str, Any], perm: tuple[int, ...] | None):
    node = oh.make_node("Transpose", ["x"], ["t"], **attributes)
    graph = _graph(
        model_of([node, oh.make_node("Relu", ["t"], ["y"])], [value("x", 2, 3, 4)], [value("y", 4, 3, 2)])
    )
    assert transpose_perm(graph.nodes[0]) == perm
    assert transpose_perm(graph.nodes[1]) is None
    for broken in (
        oh.make_node("Transpose", [], ["t"]),
        oh.make_node("Transpose", ["x"], [""]),
        oh.make_node("Transpose", ["x"], []),
    ):
        assert transpose_perm(Node(broken, graph)) is None


def test_negative_a_size_is_asked_for_again_once_more_is_known_of_a_shape():
    model = model_of([oh.make_node("Relu", ["x"], ["y"])], [value("x", 2, "W")], [value("y", 2, "W")])
    graph = _graph(model)
    assert graph.nbytes("y") == graph.nbytes("y") == 4 * 2 * UNKNOWN_EXTENT
    graph.set_shape("y", (2, 5), "y")
    assert graph.nbytes("y") == 4 * 10


def test_graphs_that_are_released_need_no_garbage_collector():
    model = model_of([oh.make_node("Relu", ["x"], ["y"])], [value("x", 2)], [value("y", 2)])
    with gc_paused():
        graph = _graph(model)
        node = weakref.ref(graph.nodes[0])
        graph.release()
        assert node() is None


_ALONG = (
    ("LpNormalization", {"axis": 0}),
    ("Concat", {"axis": 0}),
    ("Softmax", {"axis": 0}),
    ("ReduceMax", {"axes": [0]}),
    ("CumSum", None),
    ("Unsqueeze", None),
    ("LayerNormalization", {"axis": 0}),
)
"""Operators that work along a dim, with the attribute that names it; None where input 1 does."""


@pytest.mark.parametrize(("op", "attributes"), _ALONG, ids=[op for op, _ in _ALONG])
@pytest.mark.parametrize("axis", [-4, -1, 3, 100, -6, 1 << 32, (1 << 63) - 1])
def test_an_axis_names_a_dim_or_the_node(op: str, attributes: dict[str, Any] | None, axis: int):
    """One that there is not is never taken for another, which would make the model that goes out valid."""
    constants = {"CumSum": initializer("k", axis), "Unsqueeze": initializer("k", [axis])}
    given = [constants[op]] if op in constants else []
    if op == "LayerNormalization":
        given = [oh.make_tensor("k", onnx.TensorProto.FLOAT, [1], [1.0])]
    named: dict[str, Any] = {
        name: [axis] if isinstance(one, list) else axis for name, one in (attributes or {}).items()
    }
    nodes = [
        transpose("x", "t", 0, 2, 3, 1),
        oh.make_node(op, ["t", "k"] if given else ["t"], ["u"], **named),
        oh.make_node("Relu", ["u"], ["y"]),
    ]
    model = model_of(nodes, [value("x", 2, 3, 4, 5)], [onnx.ValueInfoProto(name="y")], given)
    graph = _graph(model)
    node = graph.nodes[1]
    rank = 5 if op == "Unsqueeze" else 4
    if -rank <= axis < rank:
        assert node.dim(axis, rank) == range(rank)[axis]
        li.optimize_onnx(model)
        return
    with pytest.raises(OnnxImportError, match=rf"{op} 'u': axis {axis} is not in -{rank}..{rank - 1}"):
        node.dim(axis, rank)
    try:
        better = li.optimize_onnx(model)
    except OnnxImportError as error:
        assert f"axis {axis} is not in" in str(error)
    else:  # of what has no shape, nothing is moved
        assert better.model.graph.node[1] == model.graph.node[1]
