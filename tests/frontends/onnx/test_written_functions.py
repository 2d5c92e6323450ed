"""Functions in place of nodes, for all sizes, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.frontends.onnx.importer import import_values
from layout_ir.frontends.onnx.model import load
from layout_ir.frontends.onnx.written_functions import has_function, with_functions
from tests.api.language_model import decoder, first_inputs, next_inputs


def written(model: Any, shapes: dict[str, tuple[int, ...]], *names: str) -> list[Any]:
    """The nodes of a model with functions for those that give these values."""
    loaded = load(model)
    values = import_values(loaded, shapes=shapes)
    return [call.proto for call in with_functions(loaded, values, names).calls]


def test_the_function_of_an_attention_holds_for_all_lengths():
    runtime = pytest.importorskip("onnxruntime")
    model = decoder()
    inputs = first_inputs(1, 3)
    nodes = written(model, {name: array.shape for name, array in inputs.items()}, "a0")
    assert not any(node.op_type == "GroupQueryAttention" for node in nodes)
    other = onnx.ModelProto()
    other.CopyFrom(model)
    del other.graph.node[:]
    other.graph.node.extend(nodes)
    session, standard = (runtime.InferenceSession(each.SerializeToString()) for each in (model, other))
    for batch in (1, 2):
        inputs = first_inputs(batch, 4)
        for _ in range(2):
            wanted = session.run(None, inputs)
            for found, each in zip(standard.run(None, inputs), wanted, strict=True):
                np.testing.assert_allclose(found, each, rtol=0, atol=1e-5 * np.max(np.abs(each)))
            inputs = next_inputs(inputs, wanted)


def test_names_of_a_function_are_new_and_other_nodes_stay():
    model = decoder(2)
    shapes = {name: array.shape for name, array in first_inputs(1, 3, 2).items()}
    before = [node.output[0] for node in model.graph.node]
    nodes = written(model, shapes, "a1")
    assert sum(node.op_type == "GroupQueryAttention" for node in nodes) == 1
    made = [name for node in nodes for name in node.output if name]
    assert len(made) == len(set(made)) and set(before) <= set(made)


def test_negative_a_function_that_needs_an_extent_that_is_open_is_not_written():
    values = oh.make_tensor_value_info
    node = oh.make_node(
        "GroupQueryAttention", ["x", "", "", "", "", "last", "total"], ["y"], domain="com.microsoft",
        num_heads=2, kv_num_heads=1,
    )  # fmt: skip
    inputs = [values("x", 1, [1, "n", "m"]), values("last", 6, [1]), values("total", 6, [1])]
    graph = oh.make_graph([node], "net", inputs, [values("y", 1, None)])
    opsets = [oh.make_opsetid("", 18), oh.make_opsetid("com.microsoft", 1)]
    model = load(oh.make_model(graph, opset_imports=opsets, ir_version=9))
    assert has_function(node) and not has_function(oh.make_node("Relu", ["x"], ["y"]))
    assert [call.proto for call in with_functions(model, {}, ["y"]).calls] == [model.calls[0].proto]
