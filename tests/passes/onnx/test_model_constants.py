"""Constants of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.helper as oh

from layout_ir.passes.onnx.graph_construction import graphs_of_model
from tests.passes.onnx.optimized import model_of, value


def test_every_kind_of_constant():
    attributes: list[dict[str, Any]] = [
        {"value_int": 3},
        {"value_ints": [3, 4]},
        {"value_float": 0.5},
        {"value_floats": [0.5, 1.5]},
    ]
    nodes = [oh.make_node("Constant", [], [f"c{k}"], **a) for k, a in enumerate(attributes)]
    nodes.append(oh.make_node("Constant", [], ["text"], value_string="no number"))
    graph = graphs_of_model(
        model_of([*nodes, oh.make_node("Relu", ["x"], ["y"])], [value("x", 2)], [value("y", 2)]), None, {}, {}
    )[0]
    for number, wanted in enumerate((3, [3, 4], 0.5, [0.5, 1.5])):
        found = graph.small_constant(f"c{number}")
        assert found is not None
        np.testing.assert_array_equal(found, np.array(wanted, found.dtype))
    assert graph.small_constant("text") is None and graph.small_constant("x") is None
