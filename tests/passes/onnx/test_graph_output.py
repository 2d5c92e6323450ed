"""Nodes, attributes and small constants that are written."""

from __future__ import annotations

import onnx
import onnx.helper as oh

from layout_ir.passes.onnx.graph_output import GraphOutput, set_attribute, set_input


def _output() -> GraphOutput:
    taken: set[str] = set()

    def fresh(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    return GraphOutput(fresh)


def test_lists_of_integers_are_made_once():
    out = _output()
    assert out.ints([1, -2]) == out.ints([1, -2]) != out.ints([1, 2])
    assert out.ints([1], ()) != out.ints([1])
    found = {t.name: (list(t.dims), onnx.numpy_helper.to_array(t).ravel().tolist()) for t in out.initializers}
    assert sorted(found.values()) == [([], [1]), ([1], [1]), ([2], [1, -2]), ([2], [1, 2])]


def test_attributes_and_inputs_are_replaced():
    node = oh.make_node("Slice", ["x", "a", "b"], ["y"], axis=1, other=2)
    set_attribute(node, "axis", 3)
    set_input(node, 1, "c")
    set_input(node, 4, "d")
    assert list(node.input) == ["x", "c", "b", "", "d"]
    assert {a.name: a.i for a in node.attribute} == {"axis": 3, "other": 2}
