"""Sums and activations taken into blocked convolutions, run in ONNX Runtime beside the nodes that they were."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.passes.onnx.blocked_fusion import activations
from tests.passes.onnx.blocked_networks import BLOCK, Op, X, floats, network, optimized

W = {"w": floats(2 * BLOCK, 2 * BLOCK, 1, 1), "v": floats(2 * BLOCK, 2 * BLOCK, 1, 1, seed=2)}
START: tuple[Op, ...] = (("Conv", ["x", "w"], "p", {}), ("Conv", ["p", "v"], "q", {}))


def _nodes(*ops: Op, outputs: tuple[str, ...] = ("y",)) -> tuple[list[str], list[int]]:
    """The operators, and how many inputs the convolutions have."""
    found, result = optimized(network([*START, *ops], W, X, list(outputs)))
    convolutions = [node for node in result.model.graph.node if node.op_type == "Conv"]
    return found, [len(node.input) for node in convolutions]


def test_a_sum_is_the_fourth_input_and_an_activation_an_attribute() -> None:
    found, inputs = _nodes(("Add", ["p", "q"], "s", {}), ("Relu", ["s"], "y", {}))
    assert found == ["ReorderInput*", "Conv*", "Conv*", "ReorderOutput*"] and inputs == [2, 4]


@pytest.mark.parametrize(("kind", "attributes"), [
    ("LeakyRelu", {"alpha": 0.3}), ("LeakyRelu", {}), ("HardSigmoid", {"alpha": 0.4}), ("Sigmoid", {}), ("Tanh", {}),
])  # fmt: skip
def test_activations_keep_their_parameters(kind: str, attributes: dict[str, float]) -> None:
    found, _ = _nodes((kind, ["q"], "y", attributes))
    assert found == ["ReorderInput*", "Conv*", "Conv*", "ReorderOutput*"]


def test_the_sum_of_two_convolutions_is_in_the_one_that_stands_behind_the_other() -> None:
    found, _ = _nodes(("Conv", ["p", "w"], "r", {}), ("Add", ["q", "r"], "y", {}))
    assert found == ["ReorderInput*", "Conv*", "Conv*", "Conv*", "ReorderOutput*"]


def test_two_sums_one_behind_the_other_are_one_fusion_and_an_add() -> None:
    found, _ = _nodes(("Add", ["q", "p"], "s", {}), ("Add", ["s", "p"], "y", {}))
    assert found.count("Add") == 1 and found.count("Conv*") == 2


def test_negative_a_result_that_somebody_else_uses_is_not_taken() -> None:
    found, _ = _nodes(("Relu", ["q"], "r", {}), ("Add", ["q", "r"], "y", {}))
    assert "Relu" in found
    found, _ = _nodes(("Relu", ["q"], "y", {}), outputs=("q", "y"))
    assert "Relu" in found


def test_negative_a_tensor_plus_itself_and_a_second_activation_are_not_taken() -> None:
    assert "Add" in _nodes(("Add", ["q", "q"], "y", {}))[0]
    assert "Tanh" in _nodes(("Relu", ["q"], "r", {}), ("Tanh", ["r"], "y", {}))[0]


def test_negative_a_sum_with_a_scalar_is_none() -> None:
    constants = {**W, "c": floats(1)}
    ops: list[Op] = [*START, ("Relu", ["q"], "r", {}), ("Add", ["r", "c"], "y", {})]
    assert "Add" in optimized(network(ops, constants, X, ["y"]))[0]


def test_hard_swish_is_an_activation_in_one_piece_and_in_two() -> None:
    gate: Op = ("HardSigmoid", ["q"], "h", {"alpha": 1 / 6, "beta": 0.5})
    spelled: list[list[Op]] = [
        [("HardSwish", ["q"], "y", {})],
        [gate, ("Mul", ["q", "h"], "y", {})],
        [gate, ("Mul", ["h", "q"], "y", {})],
    ]
    for ops in spelled:
        found = _nodes(*ops)[0]
        if "HardSwish" in activations():
            assert found == ["ReorderInput*", "Conv*", "Conv*", "ReorderOutput*"]
        else:  # the installed ONNX Runtime has no such activation
            assert len(found) > 4


_OTHER_GATES: list[list[Op]] = [
    [("HardSigmoid", ["q"], "h", {"alpha": 0.2, "beta": 0.5}), ("Mul", ["q", "h"], "y", {})],
    [("HardSigmoid", ["q"], "h", {"alpha": 1 / 6, "beta": 0.4}), ("Mul", ["q", "h"], "y", {})],
    [
        ("HardSigmoid", ["q"], "h", {"alpha": 1 / 6, "beta": 0.5}),
        ("Mul", ["p", "h"], "r", {}),
        ("Mul", ["r", "q"], "y", {}),
    ],
]


@pytest.mark.parametrize("ops", _OTHER_GATES)
def test_negative_other_gates_are_none(ops: list[Op]) -> None:
    assert "HardSigmoid" in _nodes(*ops)[0]


def test_negative_a_gate_that_somebody_else_uses_stays() -> None:
    gate: Op = ("HardSigmoid", ["q"], "h", {"alpha": 1 / 6, "beta": 0.5})
    product: Op = ("Mul", ["q", "h"], "y", {})
    assert "HardSigmoid" in _nodes(gate, product, outputs=("y", "h"))[0]
    assert "HardSigmoid" in _nodes(gate, product, ("Tanh", ["h"], "z", {}), outputs=("y", "z"))[0]


@pytest.mark.parametrize(("bounds", "opset"), [
    (["low", "high"], 17), (["low"], 17), (["", "high"], 17), ([], 17), ([], 10),
])  # fmt: skip
def test_the_bounds_of_a_clip_are_parameters(bounds: list[str], opset: int) -> None:
    constants = {**W, "low": np.array(-0.25, np.float32), "high": np.array(0.5, np.float32)}
    attributes = {"min": -0.25, "max": 0.5} if opset < 11 else {}
    ops: list[Op] = [*START, ("Add", ["p", "q"], "s", {}), ("Clip", ["s", *bounds], "y", attributes)]
    model = network(ops, {key: constants[key] for key in (*W, *filter(None, bounds))}, X, ["y"], opset)
    assert optimized(model)[0] == ["ReorderInput*", "Conv*", "Conv*", "ReorderOutput*"]


def test_negative_a_bound_that_is_computed_is_none() -> None:
    ops: list[Op] = [*START, ("Add", ["p", "q"], "s", {}), ("Clip", ["s", "low"], "y", {})]
    assert "Clip" in optimized(network(ops, W, {**X, "low": ()}, ["y"]))[0]
