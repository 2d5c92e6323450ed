"""What is known of a graph: constants, sizes, names."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.gc_pause import gc_paused
from layout_ir.passes.onnx import model_graph as model_graph_module
from layout_ir.passes.onnx.inferred_types import inferred_types
from layout_ir.passes.onnx.model_graph import (
    UNKNOWN_EXTENT,
    Graph,
    Node,
    bits_of,
    graphs_of_model,
    rewritten_graph,
    transpose_perm,
)
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


def test_inner_extents_count_as_what_follows_from_those_of_the_inputs():
    nodes = [
        oh.make_node("Conv", ["x", "w"], ["c"], strides=[2, 4], pads=[1, 1, 1, 1]),
        transpose("c", "t", 0, 2, 3, 1),
        oh.make_node("Reshape", ["t", "s"], ["y"]),
        oh.make_node("MatMul", ["y", "m"], ["z"]),
    ]
    constants = [
        *(initializer("w", np.ones((8, 3, 3, 3))), initializer("m", np.ones((8, 5)))),
        initializer("s", [0, -1, 8]),
    ]
    model = model_of(nodes, [value("x", "N", 3, "H", "W")], [value("z", "N", "P", 5)], constants)
    graph = _graph(model)
    assert graph.nbytes("c") == graph.nbytes("y") == 4 * 8 * 32 * 16
    assert graph.nbytes("z") == 4 * 5 * 32 * 16


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


@pytest.mark.parametrize(("strides", "own"), [([1, 1], False), ([2, 1], True)])
def test_types_are_inferred_for_a_size_only_where_values_have_extents_of_their_own(
    strides: list[int], own: bool, monkeypatch: pytest.MonkeyPatch
):
    nodes = [oh.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1, 1], strides=strides)]
    shape = ("N", 8, 16, 16) if not own else ("N", 8, "H", 16)
    sizes: list[Any] = []

    def counted(*arguments: Any, shapes: Any, **named: Any) -> Any:
        sizes.append(shapes)
        return inferred_types(*arguments, shapes=shapes, **named)

    monkeypatch.setattr(model_graph_module, "inferred_types", counted)
    graph = _graph(model_of(nodes, [value("x", *shape)], [value("y", *"abcd")]))
    assert bool(graph.extents_of_its_own()) == own
    assert sizes == ([{}, {"x": [1, 8, 64, 16]}] if own else [{}])
    assert graph.nbytes("y") == 4 * 8 * (32 if own else 16) * 16


def test_negative_a_value_of_unknown_rank_has_an_extent_of_its_own():
    nodes = [oh.make_node("Reshape", ["x", "s"], ["y"])]
    unknown = oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    shape = oh.make_tensor_value_info("s", onnx.TensorProto.INT64, ["n"])
    assert _graph(model_of(nodes, [value("x", 2, 3), shape], [unknown])).extents_of_its_own() == {None}


def test_negative_extents_of_a_size_that_does_not_fit_count_as_any_others():
    nodes = [
        oh.make_node("Add", ["x", "b"], ["a"]),
        oh.make_node("NonZero", ["a"], ["y"]),
    ]
    model = model_of(
        nodes, [value("x", "N", "H")], [value("y", 2, "M", dtype=7)], [initializer("b", np.ones(7))]
    )
    graph = _graph(model)
    assert graph.nbytes("y") == 8 * 2 * UNKNOWN_EXTENT


@pytest.mark.parametrize(
    ("word", "bits"),
    [("FLOAT", 32), ("BFLOAT16", 16), ("FLOAT8E5M2", 8), ("UINT4", 4), ("BOOL", 8), ("COMPLEX128", 128)],
)
def test_bits_of_elements(word: str, bits: int):
    assert bits_of(onnx.TensorProto.DataType.Value(word)) == bits


def test_every_kind_of_constant():
    attributes: list[dict[str, Any]] = [
        {"value_int": 3},
        {"value_ints": [3, 4]},
        {"value_float": 0.5},
        {"value_floats": [0.5, 1.5]},
    ]
    nodes = [oh.make_node("Constant", [], [f"c{k}"], **a) for k, a in enumerate(attributes)]
    nodes.append(oh.make_node("Constant", [], ["text"], value_string="no number"))
    graph = _graph(model_of([*nodes, oh.make_node("Relu", ["x"], ["y"])], [value("x", 2)], [value("y", 2)]))
    for number, wanted in enumerate((3, [3, 4], 0.5, [0.5, 1.5])):
        found = graph.small_constant(f"c{number}")
        assert found is not None
        np.testing.assert_array_equal(found, np.array(wanted, found.dtype))
    assert graph.small_constant("text") is None and graph.small_constant("x") is None


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


def test_a_graph_that_was_rewritten_has_the_types_that_inference_finds():
    nodes = [
        transpose("x", "a", 1, 0),
        oh.make_node("Relu", ["a"], ["b"]),
        oh.make_node("Add", ["b", "w"], ["y"]),
    ]
    constant = initializer("w", np.ones((3, 2)))
    before = _graph(model_of(nodes, [value("x", 2, 3)], [value("y", 3, 2)], [constant]))
    # The same, its Transpose behind the Relu.
    nodes = [
        oh.make_node("Relu", ["x"], ["c"]),
        transpose("c", "b", 1, 0),
        oh.make_node("Add", ["b", "w"], ["y"]),
    ]
    model = model_of(nodes, [value("x", 2, 3)], [value("y", 3, 2)], [constant])
    places = {"x": ("x", (0, 1)), "c": ("b", (1, 0)), "b": ("b", (0, 1)), "y": ("y", (0, 1))}
    graph, inferred = rewritten_graph(model, before, places), _graph(model)
    for name in ("x", "c", "b", "y", "w"):
        assert graph.shape(name) == inferred.shape(name)
        assert graph.element_type(name) == inferred.element_type(name) == onnx.TensorProto.FLOAT
        assert graph.nbytes(name) == inferred.nbytes(name)
    assert graph.fresh("a") != "a"  # a name that the graph had before is not given to something else


def test_a_node_that_is_as_it_was_is_not_read_again():
    model = model_of(
        [transpose("x", "a", 1, 0), oh.make_node("Relu", ["a"], ["y"])],
        [value("x", 2, 3)],
        [value("y", 3, 2)],
    )
    before = _graph(model)
    places = {name: (name, (0, 1)) for name in ("x", "a", "y")}
    changed, kept = rewritten_graph(model, before, places, [None, before.nodes[1]]).nodes
    assert changed.origin is None and kept.origin is before.nodes[1]
    read = rewritten_graph(model, before, places).nodes[1]
    for name in ("op_type", "domain", "inputs", "outputs", "captures", "plain_orders", "opset"):
        assert getattr(kept, name) == getattr(read, name)
    assert kept.proto == read.proto and kept.result_shape() == (3, 2)


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


def test_negative_initializers_that_callers_may_replace_are_no_constants_of_a_rewritten_graph():
    default = initializer("w", np.ones((3, 2)))
    model = model_of(
        [oh.make_node("Add", ["x", "w"], ["y"])],
        [value("x", 3, 2), value("w", 3, 2)],
        [value("y", 3, 2)],
        [default],
    )
    graph = rewritten_graph(
        model, _graph(model), {"x": ("x", (0, 1)), "w": ("w", (0, 1)), "y": ("y", (0, 1))}
    )
    assert "w" not in graph.constants and graph.shape("w") == (3, 2)


def _reshaped_to_a_list_of_the_run_time(*known: int | str) -> Graph:
    """A Reshape by an input, with a result that is known to have this shape."""
    inputs = [value("x", "batch", 24), value("s", 3, dtype=onnx.TensorProto.INT64)]
    graph = _graph(
        model_of([oh.make_node("Reshape", ["x", "s"], ["y"])], inputs, [value("y", "a", "b", "c")])
    )
    graph.set_type("y", known, onnx.TensorProto.FLOAT)
    return graph


def test_what_is_inferred_of_a_node_alone_adds_to_what_is_known():
    graph = _reshaped_to_a_list_of_the_run_time("batch", 4, "unk__7")
    assert graph.infer_results(graph.nodes[0], {"s": np.array([-1, 4, 6])}) == ["y"]
    assert graph.shape("y") == ("batch", 4, 6)
    dims = graph.types["y"].tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", 4, 6]


def test_negative_what_is_inferred_of_a_node_alone_takes_no_name_away():
    graph = _reshaped_to_a_list_of_the_run_time("batch", 4, 6)
    assert graph.infer_results(graph.nodes[0], {"s": np.array([-1, 4, 6])}) == []
    assert graph.shape("y") == ("batch", 4, 6)
