"""What of a graph is imported where the types of some results are not known."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.frontends.onnx import OnnxImportError
from layout_ir.frontends.onnx.model import load
from layout_ir.frontends.onnx.partial_import import import_prefix
from tests.frontends.onnx.models import main_of, model, node

NODES = [
    node("Relu", "x", "a"),
    node("NonZero", "a", "i"),
    node("Transpose", "i", "y"),
    node("Neg", "a", "z"),
]


def test_the_nodes_behind_one_of_unknown_type_are_left_and_what_they_use_is_a_result():
    prefix = import_prefix(load(model(NODES, {"x": (2, 3)}, ("y", "z"))), shapes={})
    assert [each.op_type for each in prefix.rest] == ["NonZero", "Transpose"]
    assert sorted(prefix.names) == ["a", "z"] and not prefix.constants
    assert prefix.module is not None
    assert [op.name for op in main_of(prefix.module).body.ops if op.name.startswith("nn.")] == [
        "nn.relu",
        "nn.neg",
    ]


def test_constants_that_the_rest_uses_are_values_and_no_results():
    nodes = [node("Add", "c c", "d"), node("NonZero", "x", "i"), node("Gather", "d i", "y")]
    constants = {"c": np.array([1, 2, 3], np.float32)}
    prefix = import_prefix(load(model(nodes, {"x": (2, 3)}, ("y",), constants)), shapes={})
    assert prefix.module is None and [each.op_type for each in prefix.rest] == ["NonZero", "Gather"]
    assert prefix.constants["d"].tolist() == [2, 4, 6]


def test_a_value_that_is_not_known_yet_stops_what_uses_it():
    prefix = import_prefix(load(model(NODES, {"x": (2, 3)}, ("z",))), shapes={}, unknown=("s",))
    assert not prefix.rest
    nodes = [node("Relu", "x", "a"), node("Add", "a s", "z")]
    prefix = import_prefix(load(model(nodes, {"x": (2, 3)}, ("z",))), shapes={}, unknown=("s",))
    assert [each.op_type for each in prefix.rest] == ["Add"] and list(prefix.names) == ["a"]


def test_negative_another_mistake_is_an_error():
    nodes = [node("NonZero", "x", "i"), node("MatMul", "x x", "z")]
    with pytest.raises(OnnxImportError, match="MatMul"):
        import_prefix(load(model(nodes, {"x": (2, 3)}, ("i", "z"))), shapes={})
