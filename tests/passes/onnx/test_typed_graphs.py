"""Types of values of a model and its subgraphs, once constants and shapes have decided what they can."""

from __future__ import annotations

import onnx
import onnx.helper as oh

from layout_ir.passes.onnx.model_graph import Graph
from layout_ir.passes.onnx.orders import is_static
from layout_ir.passes.onnx.typed_graphs import typed_graphs
from tests.passes.onnx.optimized import initializer, model_of, value


def _front(parts: str, extent: int | str) -> onnx.GraphProto:
    """The first of so many parts of the rows of `x`, how many these are being computed from its shape."""
    nodes = [
        oh.make_node("Shape", ["x"], ["shape"]),
        oh.make_node("Gather", ["shape", "one"], ["rows"]),
        oh.make_node("Div", ["rows", parts], ["part"]),
        oh.make_node("Slice", ["x", "zero", "part", "one"], ["front"]),
        oh.make_node("Relu", ["front"], ["result"]),
    ]
    return oh.make_graph(nodes, "branch", [], [value("result", 5, extent)])


def _branches(rows: int | str) -> list[Graph]:
    then, other = _front("two", "rows of then"), _front("three", "rows of else")
    node = oh.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    constants = [initializer(name, [n]) for n, name in enumerate(("zero", "one", "two", "three"))]
    inputs = [value("x", 5, rows), value("c", dtype=onnx.TensorProto.BOOL)]
    model = model_of([node], inputs, [value("y", 5, "some")], constants)
    return typed_graphs(model, None, {}, {}, {}, {})


def test_branches_whose_values_have_the_same_names_have_integers_of_their_own():
    _, other, then = _branches(12)  # a node has its attributes by name
    assert [graph.shape("front") for graph in (then, other)] == [(5, 6), (5, 4)]
    assert [graph.shape("result") for graph in (then, other)] == [(5, 6), (5, 4)]


def test_negative_what_an_open_extent_decides_stays_open():
    _, *inner = _branches("N")
    shapes = [graph.shape(name) for graph in inner for name in ("front", "result")]
    assert not any(shape is not None and is_static(shape) for shape in shapes)
