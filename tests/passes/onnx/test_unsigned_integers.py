"""Signed integers that Transposes move become unsigned, and stand for the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.passes.onnx.unsigned_integers import make_moved_integers_unsigned
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.passes.onnx.optimized import initializer, model_of, op_types, transpose, value

INT8, UINT8 = onnx.TensorProto.INT8, onnx.TensorProto.UINT8


def _moved(
    zero_point: Any, *more: onnx.NodeProto, outputs: tuple[str, ...] = ("y",), axis: int = 1
) -> onnx.ModelProto:
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis),
        transpose("q", "t", 2, 0, 1),
        oh.make_node("DequantizeLinear", ["t", "s", "z"], ["y"], axis=[1, 2, 0][axis]),
        *more,
    ]
    scales = np.full(np.shape(zero_point), 0.01, np.float32)
    results = [value(name, 5, 2, 3) for name in outputs]
    constants = [initializer("s", scales), initializer("z", zero_point)]
    return model_of(nodes, [value("x", 2, 3, 5)], results, constants)


def _zero_points(model: onnx.ModelProto) -> list[int]:
    kinds = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    return [kinds[node.input[2]] for node in model.graph.node if node.op_type.endswith("Linear")]


@pytest.mark.parametrize("zero_point", [np.int8(-128), np.int8(3), np.array([-128, 0, 127], np.int8)])
def test_integers_that_a_transpose_moves_are_unsigned_and_the_same_numbers(zero_point: Any):
    before, after = _moved(zero_point), _moved(zero_point)
    after.graph.value_info.append(value("q", 2, 3, 5, dtype=INT8))
    make_moved_integers_unsigned(after)
    assert _zero_points(after) == [UINT8, UINT8]
    assert [tensor.name for tensor in after.graph.initializer] == ["s", "z_unsigned"]
    onnx.checker.check_model(after, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    # Some are saturated.
    feeds = {"x": 2 * np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32)}
    (wanted,), (found,) = session_results(before, feeds), session_results(after, feeds)
    np.testing.assert_array_equal(found, wanted)


def test_zero_points_that_nodes_give():
    model = _moved(np.int8(3))
    zero_point = model.graph.initializer.pop()
    model.graph.node.insert(0, oh.make_node("Constant", [], ["z"], value=zero_point))
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32)}
    (wanted,) = session_results(model, feeds)
    make_moved_integers_unsigned(model)
    assert _zero_points(model) == [UINT8, UINT8] and "Constant" not in op_types(model)
    (found,) = session_results(model, feeds)
    np.testing.assert_array_equal(found, wanted)


def test_what_others_use_besides_stays():
    model = _moved(np.int8(3), oh.make_node("QuantizeLinear", ["y", "s", "z"], ["r"]), outputs=("r",))
    model.graph.output[0].type.tensor_type.elem_type = INT8
    make_moved_integers_unsigned(model)
    assert _zero_points(model) == [UINT8, UINT8, INT8]
    onnx.checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType]


def test_integers_in_a_subgraph_are_made_unsigned():
    branch = _moved(np.int8(3)).graph
    del branch.input[:]
    node = oh.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    flag = value("c", dtype=onnx.TensorProto.BOOL)
    model = model_of([node], [value("x", 2, 3, 5), flag], [value("y", 5, 2, 3)])
    make_moved_integers_unsigned(model)
    for attribute in model.graph.node[0].attribute:
        assert "z_unsigned" in attribute.g.initializer[1].name


def _unchanged() -> list[Any]:
    plain = _moved(np.int8(3))
    del plain.graph.node[1]
    plain.graph.node[1].input[0] = "q"
    given = _moved(np.int8(3))
    given.graph.output.append(value("t", 5, 2, 3, dtype=INT8))
    computed = _moved(np.int8(3))
    computed.graph.input.append(value("z", dtype=INT8))
    return [
        pytest.param(plain, id="nothing is moved"),
        pytest.param(_moved(np.uint8(3)), id="they are unsigned"),
        pytest.param(given, id="the integers are a result"),
        pytest.param(
            _moved(np.int8(3), oh.make_node("Neg", ["t"], ["n"])), id="somebody computes on the integers"
        ),
        pytest.param(computed, id="callers give the zero point"),
    ]


@pytest.mark.parametrize("model", _unchanged())
def test_negative_all_others_stay_as_they_are(model: onnx.ModelProto):
    before = model.SerializeToString()
    make_moved_integers_unsigned(model)
    assert model.SerializeToString() == before
