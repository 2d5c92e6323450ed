"""Convolutions and batch normalizations on blocked channels, run in ONNX Runtime beside the plain ones."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.passes.onnx.node_models.blocked_convolutions import joined_groups
from tests.passes.onnx.blocked_networks import BLOCK, Op, X, floats, moves, network, optimized

B = BLOCK


@pytest.mark.parametrize(("inputs", "outputs", "group"), [
    (3, 20, 1), (B, B, 1), (B + 4, 3 * B + 2, 1), (2 * B, 2 * B, 2), (B + 4, B + 4, B + 4), (4 * B, 2 * B, 2),
])  # fmt: skip
@pytest.mark.parametrize("biased", [False, True])
def test_a_convolution_that_onnx_runtime_blocks_is_blocked(
    inputs: int, outputs: int, group: int, biased: bool
) -> None:
    constants = {"w": floats(outputs, inputs // group, 3, 3), "b": floats(outputs)}
    names = ["x", "w", "b"] if biased else ["x", "w"]
    attributes = {"group": group, "pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}
    model = network([("Conv", names, "y", attributes)], constants, {"x": (2, inputs, 9, 8)}, ["y"])
    ops, _ = optimized(model)
    direct = group == 1 and inputs < B
    assert ops == ["Conv*", "ReorderOutput*"] if direct else ["ReorderInput*", "Conv*", "ReorderOutput*"]


@pytest.mark.parametrize(("channels", "group"), [(2 * B - 2, 1), (B + 2, B + 2), (2 * B, 4), (3 * B, 6)])
def test_one_that_onnx_runtime_leaves_plain_is_blocked_between_blocked_ones(
    channels: int, group: int
) -> None:
    constants = {
        "u": floats(channels, B, 1, 1),
        "v": floats(channels, channels // group, 3, 3),
        "b": floats(channels),
        "w": floats(B, channels, 1, 1),
    }
    ops: list[Op] = [
        ("Conv", ["x", "u"], "p", {}),
        ("Conv", ["p", "v", "b"], "q", {"group": group, "pads": [1, 1, 1, 1]}),
        ("Conv", ["q", "w"], "y", {}),
    ]
    model = network(ops, constants, {"x": (1, B, 6, 6)}, ["y"])
    assert optimized(model)[0] == ["ReorderInput*", "Conv*", "Conv*", "Conv*", "ReorderOutput*"]


def test_negative_alone_it_stays_plain() -> None:
    for channels, group in ((B + 2, 1), (2 * B, 4)):
        weights = {"w": floats(channels, channels // group, 3, 3)}
        model = network(
            [("Conv", ["x", "w"], "y", {"group": group})], weights, {"x": (1, channels, 6, 6)}, ["y"]
        )
        assert optimized(model)[0] == ["Conv"]


def test_negative_weights_that_are_computed_are_not_packed() -> None:
    model = network([("Conv", ["x", "w"], "y", {})], {}, {**X, "w": (B, 2 * B, 1, 1)}, ["y"])
    assert optimized(model)[0] == ["Conv"]


def test_negative_one_spatial_dim_stays_plain() -> None:
    model = network([("Conv", ["x", "w"], "y", {})], {"w": floats(B, B, 3)}, {"x": (1, B, 9)}, ["y"])
    assert optimized(model)[0] == ["Conv"]


def test_an_activation_of_a_fused_convolution_is_kept() -> None:
    attributes = {"activation": "LeakyRelu", "activation_params": [0.25]}
    ops: list[Op] = [("FusedConv", ["x", "w"], "y", attributes)]
    model = network(ops, {"w": floats(B, 2 * B, 1, 1)}, X, ["y"])
    assert optimized(model)[0] == ["ReorderInput*", "Conv*", "ReorderOutput*"]


def test_weights_of_two_convolutions_are_packed_once() -> None:
    ops: list[Op] = [("Conv", ["x", "w"], "p", {}), ("Conv", ["p", "w"], "y", {"pads": [1, 1, 1, 1]})]
    model = network(ops, {"w": floats(2 * B, 2 * B, 1, 1)}, X, ["y"])
    _, result = optimized(model)
    assert len(result.model.graph.initializer) == 1


def test_open_extents_of_batch_and_space_are_left_open() -> None:
    ops: list[Op] = [("Conv", ["x", "w"], "p", {}), ("Conv", ["p", "w"], "y", {"pads": [1, 1, 1, 1]})]
    model = network(ops, {"w": floats(B, B, 3, 3)}, {"x": ("n", B, "h", "w")}, ["y"])
    assert moves(optimized(model, {"x": (3, B, 7, 5)})[0]) == 2


def test_channels_that_the_input_leaves_open_are_those_of_the_weights() -> None:
    model = network([("Conv", ["x", "w"], "y", {})], {"w": floats(B, B, 1, 1)}, {"x": (1, "c", 4, 4)}, ["y"])
    assert optimized(model, {"x": (1, B, 4, 4)})[0] == ["ReorderInput*", "Conv*", "ReorderOutput*"]


@pytest.mark.parametrize("channels", [2 * B, B + 4])
def test_a_batch_normalization_between_convolutions_scales_blocked_channels(channels: int) -> None:
    statistics = {name: floats(channels, seed=k) for k, name in enumerate("sbm")}
    constants = {"w": floats(channels, 2 * B, 1, 1), "u": floats(B, channels, 1, 1), **statistics}
    constants["v"] = floats(channels, seed=9) ** 2 + 0.5
    ops: list[Op] = [
        ("Conv", ["x", "w"], "p", {}),
        ("Relu", ["p"], "r", {}),
        ("BatchNormalization", ["r", "s", "b", "m", "v"], "n", {"epsilon": 0.01}),
        ("Relu", ["n"], "q", {}),
        ("Conv", ["q", "u"], "y", {}),
    ]
    assert optimized(network(ops, constants, X, ["y"]))[0] == [
        "ReorderInput*", "Conv*", "Conv*", "Conv*", "ReorderOutput*",
    ]  # fmt: skip


def test_joined_groups_compute_what_the_groups_do() -> None:
    weights, x = floats(10, 3, 1, 1), floats(15)
    joined = joined_groups(weights, 5, 2)
    assert joined.shape == (12, 6, 1, 1)
    want = [weights[o, :, 0, 0] @ x[o // 2 * 3 :][:3] for o in range(10)]
    padded = np.pad(x, (0, 3))
    found = [joined[o, :, 0, 0] @ padded[o // 4 * 6 :][:6] for o in range(12)]
    np.testing.assert_allclose(np.array(found), np.array([*want, 0, 0]), rtol=1e-6)
