"""Types of the results of single nodes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.passes.onnx.graph_construction import graphs_of_model
from layout_ir.passes.onnx.model_graph import Graph
from layout_ir.passes.onnx.node_inference import infer_results, inferred_results
from layout_ir.passes.onnx.value_shapes import shape_of
from tests.passes.onnx.optimized import model_of, value


def _graph(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]] | None = None) -> Graph:
    return graphs_of_model(model, None, shapes or {}, {})[0]


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
    assert infer_results(graph, graph.nodes[0], {"s": np.array([-1, 4, 6])}) == ["y"]
    assert graph.shape("y") == ("batch", 4, 6)
    dims = graph.types["y"].tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", 4, 6]


def test_negative_what_is_inferred_of_a_node_alone_takes_no_name_away():
    graph = _reshaped_to_a_list_of_the_run_time("batch", 4, 6)
    assert infer_results(graph, graph.nodes[0], {"s": np.array([-1, 4, 6])}) == []
    assert graph.shape("y") == ("batch", 4, 6)


def test_a_node_that_differs_in_names_that_were_made_up_has_its_own_in_its_result():
    """And so has one in which other extents are the same."""
    pairs = {"y": ("a", "b"), "z": ("c", "d"), "v": ("a", "d"), "w": ("c", "e")}
    extents = {"a": "unk__0", "b": "unk__0", "c": "unk__1", "d": "unk__1", "e": "n"}
    model = model_of(
        [oh.make_node("Add", [*names], [result]) for result, names in pairs.items()],
        [value(name, 2, extent) for name, extent in extents.items()],
        [oh.make_tensor_value_info(result, onnx.TensorProto.FLOAT, [2, None]) for result in pairs],
    )
    graph = _graph(model)
    for node in graph.nodes:
        graph.set_type(node.outputs[0], (2, None), onnx.TensorProto.FLOAT)
        infer_results(graph, node, {})
    assert [graph.shape(name) for name in pairs] == [(2, "unk__0"), (2, "unk__1"), (2, None), (2, None)]
    assert len(graph.inferred) == 3
    (dim,) = graph.types["z"].tensor_type.shape.dim[1:]
    assert dim.dim_param == "unk__1"


@pytest.mark.parametrize(
    "types",
    [{"a": onnx.TensorProto.FLOAT, "b": onnx.TensorProto.FLOAT16}, {"a": onnx.TensorProto.FLOAT}],
    ids=str,
)
def test_negative_nothing_is_known_of_a_result_whose_operands_do_not_fit_or_are_not_known(
    types: dict[str, int],
):
    """As converters to 16-bit floats leave them that forget a Cast."""
    known = {name: oh.make_tensor_type_proto(number, [2]) for name, number in types.items()}
    assert inferred_results(oh.make_node("Add", ["a", "b"], ["y"]), known, {}, {"": 18}) == {}


@pytest.mark.parametrize("is_own", [False, True])
def test_of_one_node_of_onnx_runtime_types_are_those_of_what_stands_in_for_it(is_own: bool):
    product = oh.make_node("FusedMatMul", ["a", "b"], ["y"], domain="com.microsoft", transB=1)
    known = {name: oh.make_tensor_type_proto(onnx.TensorProto.FLOAT, ["N", 5, 6]) for name in "ab"}
    own = {("com.microsoft", "FusedMatMul")} if is_own else ()  # a function of the model means what that says
    found = inferred_results(product, known, {}, {"": 18, "com.microsoft": 1}, own)
    assert {name: shape_of(type) for name, type in found.items()} == ({} if is_own else {"y": ("N", 5, 5)})
