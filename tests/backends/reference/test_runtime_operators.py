"""Operators of ONNX Runtime in the reference, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from layout_ir.backends.reference.node_evaluation import NodeEvaluation
from layout_ir.errors import LayoutError
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.frontends.onnx.runtime_nodes import NODES, RuntimeNode, dynamic_lstm, floats, group_query


def _evaluated(node: RuntimeNode) -> list[Any]:
    nodes: list[onnx.NodeProto] = list(node.model().graph.node)
    evaluation = NodeEvaluation(nodes, {"": 17, "com.microsoft": 1, "ai.onnx.ml": 3})
    return list(evaluation({**node.arrays(constant=True), **node.feeds()}))


@pytest.mark.parametrize("name", NODES)
def test_results_are_those_of_onnx_runtime(name: str):
    node = NODES[name]
    for found, wanted in zip(_evaluated(node), session_results(node.model(), node.feeds()), strict=True):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        finite = wanted.astype(float)[np.isfinite(wanted.astype(float))]
        largest = np.abs(finite).max(initial=0)
        tolerance = 1e-5 * largest if wanted.dtype == np.float32 else 0
        np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=0, atol=tolerance)


@pytest.mark.parametrize("lengths", [(7, 3), (4, 7)])
@pytest.mark.parametrize("room", [6, 12])
def test_sentences_of_several_lengths(lengths: tuple[int, int], room: int):
    node = group_query(floats(16, 8), floats(16, 8), lengths=lengths, room=room, do_rotary=1)
    (result, keys, values), wanted = _evaluated(node), session_results(node.model(), node.feeds())
    np.testing.assert_allclose(result, wanted[0], atol=1e-5)
    for number, count in enumerate(lengths):  # what lies behind is not defined
        for ours, theirs in ((keys, wanted[1]), (values, wanted[2])):
            np.testing.assert_allclose(ours[number, :, :count], theirs[number, :, :count], atol=1e-5)


def test_negative_a_use_without_a_function_is_refused():
    node = group_query(kv_num_heads=3)
    with pytest.raises(
        LayoutError, match=r"com\.microsoft::GroupQueryAttention with these inputs and attributes"
    ):
        _evaluated(node)


def test_a_recurrence_of_integers_rounds_the_sequence_and_its_states():
    """As ONNX Runtime does; the standard operator on the same weights gives something else."""
    node = dynamic_lstm("forward", steps=6)
    x, w, r, bias, _, hidden, cell, _, w_scale, w_middle, r_scale, r_middle = node.inputs
    real = [
        ((levels.astype(np.float32) - middle) * scale).astype(np.float32).transpose(0, 2, 1)
        for levels, scale, middle in ((w, w_scale, w_middle), (r, r_scale, r_middle))
    ]
    exact = RuntimeNode("LSTM", [x, *real, bias, None, hidden, cell], (1, 2, 3), 3, {"hidden_size": 6}, "")
    others = session_results(exact.model(), exact.feeds())
    wanted = session_results(node.model(), node.feeds())
    for found, near, other in zip(_evaluated(node), wanted, others, strict=True):
        np.testing.assert_allclose(found, near, rtol=0, atol=1e-5)
        assert np.abs(found - other).max() > 1e-4


def test_what_no_function_is_for_is_left_to_the_package():
    """As labels that are texts."""
    node = RuntimeNode(
        "LabelEncoder", [np.array(["b", "c"], object)],
        attributes={"keys_strings": ["a", "b"], "values_int64s": [3, 4]}, domain="ai.onnx.ml",
    )  # fmt: skip
    [found] = _evaluated(node)
    assert found.tolist() == [4, -1]
