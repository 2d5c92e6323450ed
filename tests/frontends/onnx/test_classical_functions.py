"""Operators of ai.onnx.ml as functions of standard ones, and what ONNX Runtime says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.frontends.onnx.classical_functions import MOST_KEYS
from layout_ir.frontends.onnx.runtime_functions import function_nodes
from tests.backends.onednn.small_programs import needs_library
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.frontends.onnx.runtime_nodes import NODES, RuntimeNode, floats
from tests.frontends.onnx.test_runtime_functions import types_of

CLASSICAL = [name for name, node in NODES.items() if node.domain == "ai.onnx.ml"]


@needs_library
@pytest.mark.parametrize("name", CLASSICAL)
def test_results_are_those_of_onnx_runtime(name: str):
    node = NODES[name]
    model, feeds = node.model(), node.feeds()
    executable = li.compile(model)
    for ours, theirs in zip(executable(feeds), session_results(model, feeds), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert not executable.fallbacks


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Normalizer", {"norm": "MAX"}),
        ("LinearRegressor", {"coefficients": [1.0, 2.0]}),
        ("LinearRegressor", {"coefficients": [1.0, 2.0, 3.0], "post_transform": "PROBIT"}),
        ("LinearClassifier", {"coefficients": [1.0, 2.0, 3.0], "intercepts": [0.0], "classlabels_ints": [0, 1]}),
        ("LinearClassifier", {"coefficients": [1.0] * 6, "intercepts": [0.0] * 2, "classlabels_strings": ["a", "b"]}),
        ("LabelEncoder", {"keys_int64s": [1], "values_int64s": [2]}),
        ("Scaler", {"scale": [1, 2, 3]}),
    ],
)  # fmt: skip
def test_negative_other_uses_have_no_function(op_type: str, attributes: dict[str, Any]):
    node = RuntimeNode(op_type, [floats(4, 3)], attributes=attributes, domain="ai.onnx.ml")
    (proto,) = node.model().graph.node
    assert function_nodes(proto, types_of(node).__getitem__) is None


@pytest.mark.parametrize(("count", "has_function"), [(MOST_KEYS, True), (MOST_KEYS + 1, False)])
def test_labels_of_many_keys_are_not_compared_with_each(count: int, has_function: bool):
    labels = list(range(count))
    node = RuntimeNode(
        "LabelEncoder",
        [np.arange(4, dtype=np.int64)],
        attributes={"keys_int64s": labels, "values_int64s": labels[::-1]},
        domain="ai.onnx.ml",
    )
    (proto,) = node.model().graph.node
    assert (function_nodes(proto, types_of(node).__getitem__) is not None) == has_function
