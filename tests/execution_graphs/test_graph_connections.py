"""What a graph says of its values behind views and copies, and which of its ops are alike."""

from __future__ import annotations

from layout_ir.execution_graphs.graph_connections import Connections
from tests.execution_graphs.graphs import graph

LINES = (
    ("input", "", "x", "abcd"), ("conv", "x", "a", "abcd"), ("reorder", "a", "b", "acdb"), ("pool", "b", "c", "acdb"),
    ("conv", "c", "d", "acdb"), ("relu", "d", "e", "acdb"),
)  # fmt: skip


def test_copies_are_looked_through_to_who_made_a_value_and_who_uses_it():
    g = graph(*LINES, outputs="e")
    view = Connections(g)
    names = [node.name for node in g.nodes]
    (copy,) = view.copies
    assert names[copy] == "to_b"
    origin = view.origin(g.nodes[copy].outputs[0])
    assert origin is not None and names[origin] == "to_a"
    assert [names[user] for user in view.users(g.nodes[copy].inputs[0].value)] == ["to_c"]


def test_ops_that_compute_the_same_are_alike_and_those_that_read_one_layout_are_told():
    g = graph(*LINES, outputs="e")
    view, names = Connections(g), [node.name for node in g.nodes]
    first = names.index("to_a")
    assert [node.name for node in view.alike(first)] == ["to_d"]
    layout = g.values[g.nodes[names.index("to_d")].inputs[0].value].layout
    assert layout is not None
    assert [node.name for node in view.alike_reading(first, "0", layout, "f32")] == ["to_d"]
    assert list(view.alike(names.index("to_c"))) == []
