"""DeformConv as gathers and a product, beside the reference of the onnx package."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import layout_ir as li
from tests.backends.onednn.rewrites.test_node_decomposition import opaque_nodes
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library

CASES: list[tuple[dict[str, Any], int, bool, bool]] = [
    ({}, 1, False, False),
    ({"pads": [1, 1, 1, 1], "strides": [2, 1]}, 1, True, True),
    ({"pads": [1, 0, 2, 1], "dilations": [2, 1], "offset_group": 2}, 1, True, False),
    ({"group": 2, "offset_group": 2}, 2, False, True),
]


def deformed(
    attributes: dict[str, Any], group: int, bias: bool, mask: bool
) -> tuple[onnx.ModelProto, dict[str, np.ndarray[Any, Any]]]:
    window, channels, extents = (3, 2), 4, (6, 7)
    pads, strides, gaps = (
        attributes.get(name, default)
        for name, default in (("pads", [0, 0, 0, 0]), ("strides", [1, 1]), ("dilations", [1, 1]))
    )
    counts = tuple(
        (extents[d] + pads[d] + pads[2 + d] - (window[d] - 1) * gaps[d] - 1) // strides[d] + 1
        for d in range(2)
    )
    each = attributes.get("offset_group", 1) * 6
    inputs = {
        "x": numbers((2, channels, *extents)),
        "offset": 2 * numbers((2, 2 * each, *counts), 1),
        **({"mask": np.abs(numbers((2, each, *counts), 2))} if mask else {}),
    }
    constants = {
        "w": numbers((6, channels // group, *window), 3),
        **({"b": numbers((6,), 4)} if bias else {}),
    }
    names = ["x", "w", "offset", "b" if bias else "", "mask" if mask else ""]
    while not names[-1]:
        names.pop()
    node = helper.make_node("DeformConv", names, ["y"], kernel_shape=window, **attributes)
    values = [helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, v.shape) for k, v in inputs.items()]
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (2, 6, *counts))
    stored = [onnx.numpy_helper.from_array(v, k) for k, v in constants.items()]
    graph = helper.make_graph([node], "deformed", values, [result], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), inputs


@pytest.mark.parametrize(("attributes", "group", "bias", "mask"), CASES)
def test_windows_read_where_their_offsets_say(attributes: dict[str, Any], group: int, bias: bool, mask: bool):
    made, inputs = deformed(attributes, group, bias, mask)
    assert not opaque_nodes(made)
    evaluator: Any = ReferenceEvaluator(made)
    [expected] = evaluator.run(None, inputs)
    executable = li.compile(made, checked=True)
    assert not executable.fallbacks
    np.testing.assert_allclose(executable(inputs)[0], expected, rtol=1e-4, atol=1e-4)


def test_negative_a_convolution_of_doubles_stays_opaque():
    made, _ = deformed({}, 1, False, False)
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    [w] = made.graph.initializer
    w.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(w).astype(np.float64), "w"))
    assert opaque_nodes(made) == ["DeformConv"]
