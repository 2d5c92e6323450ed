"""MaxPool with indices, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.elements.numpy_types import Array
from tests.backends.onednn.quantized_models import model, node, onnxruntime
from tests.backends.onednn.rewrites.test_node_decomposition import opaque_nodes
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library

CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 8, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ((2, 3, 9, 7), {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1]}),
    ((1, 3, 9, 8), {"kernel_shape": [3, 3], "dilations": [2, 2], "pads": [1, 0, 2, 2]}),
    ((1, 2, 7, 7), {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ((1, 2, 6, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 6, 8), {"kernel_shape": [2, 3], "storage_order": 1}),
    ((2, 4, 11), {"kernel_shape": [3], "strides": [2]}),
    ((1, 2, 5, 6, 4), {"kernel_shape": [2, 2, 2], "strides": [1, 2, 2]}),
]


def _model(x: Array, attributes: dict[str, Any]) -> Any:
    made = model([node("MaxPool", ("x",), "y", **attributes)], {"x": x}, {}, "y")
    made.graph.node[0].output.append("places")
    places = made.graph.output.add(name="places")
    places.type.tensor_type.elem_type = 7
    return made


@pytest.mark.parametrize(
    ("shape", "attributes"), CASES, ids=[str(shape) + str(number) for number, (shape, _) in enumerate(CASES)]
)
@pytest.mark.parametrize("is_flat", [False, True], ids=["", "equal elements"])
def test_elements_and_places_are_those_of_onnx_runtime(
    shape: tuple[int, ...], attributes: dict[str, Any], is_flat: bool
):
    x = np.round(numbers(shape) * 2) if is_flat else numbers(shape)
    made = _model(x, attributes)
    assert not opaque_nodes(made)
    found = li.compile(made)([x])
    session: Any = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(found, session.run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_negative_windows_that_are_all_in_pads_stay_with_the_reference():
    windows = {"kernel_shape": [2, 2], "dilations": [5, 5], "pads": [1, 1, 1, 1]}
    assert opaque_nodes(_model(numbers((1, 1, 4, 4)), windows)) == ["MaxPool"]
