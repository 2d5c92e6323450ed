"""Scaled channels as depthwise convolutions, run in ONNX Runtime beside the products."""

from __future__ import annotations

import pytest

from tests.passes.onnx.blocked_networks import BLOCK, Op, floats, moves, network, optimized

B = BLOCK


def _gated(batch: int | str, channels: int, *more: Op) -> list[str]:
    """The operators for a network whose channels are scaled by a function of their means."""
    constants = {
        "u": floats(channels, B, 1, 1),
        "v": floats(channels, channels, 1, 1),
        "w": floats(4, channels, 3, 3),
    }
    ops: list[Op] = [
        ("Conv", ["x", "u"], "p", {}),
        ("GlobalAveragePool", ["p"], "m", {}),
        ("Conv", ["m", "v"], "g", {}),
        ("Sigmoid", ["g"], "s", {}),
        ("Mul", ["s", "p"], "q", {}),
        *more,
        ("Conv", ["q", "w"], "y", {}),
    ]
    model = network(ops, constants, {"x": (batch, B, 40, 30)}, ["y"])
    return optimized(model, {"x": (3, B, 40, 30)} if isinstance(batch, str) else None)[0]


@pytest.mark.parametrize("channels", [2 * B, B + 4])
def test_a_scale_of_the_run_time_is_weights(channels: int) -> None:
    found = _gated(1, channels)
    assert found.count("Conv*") == 4 and "Mul" not in found and moves(found) == 2
    assert found.count("Reshape") == 1


@pytest.mark.parametrize("channels", [2 * B, B + 4])
def test_for_several_images_batch_and_channels_are_channels(channels: int) -> None:
    found = _gated(3, channels)
    assert found.count("Conv*") == 4 and "Mul" not in found and moves(found) == 2
    assert found.count("Reshape") == 3


def test_negative_for_a_batch_that_the_run_time_knows_it_stays_a_product() -> None:
    found = _gated("n", 2 * B)
    assert found.count("Conv*") == 3 and "Mul" in found and moves(found) == 2


@pytest.mark.parametrize("channels", [2 * B, 2 * B - 4])
def test_constants_that_scale_and_add_are_one_convolution(channels: int) -> None:
    constants = {
        "u": floats(channels, B, 1, 1),
        "w": floats(B, channels, 1, 1),
        "s": floats(channels, 1, 1),
        "a": floats(1, channels, 1, 1),
        "d": floats(channels, 1, 1, seed=5),
    }
    ops: list[Op] = [
        ("Conv", ["x", "u"], "p", {}),
        ("Tanh", ["p"], "t", {}),
        ("Mul", ["t", "s"], "m", {}),
        ("Add", ["a", "m"], "n", {}),
        ("Sub", ["n", "d"], "o", {}),
        ("Relu", ["o"], "q", {}),
        ("Conv", ["q", "w"], "y", {}),
    ]
    found, _ = optimized(network(ops, constants, {"x": (2, B, 6, 5)}, ["y"]))
    assert found == ["ReorderInput*", "Conv*", "Conv*", "Conv*", "ReorderOutput*"]


def test_negative_a_constant_minus_channels_is_no_sum() -> None:
    constants = {"u": floats(2 * B, B, 1, 1), "w": floats(B, 2 * B, 1, 1), "s": floats(2 * B, 1, 1)}
    ops: list[Op] = [
        ("Conv", ["x", "u"], "p", {}),
        ("Sub", ["s", "p"], "q", {}),
        ("Conv", ["q", "w"], "y", {}),
    ]
    found, _ = optimized(network(ops, constants, {"x": (2, B, 6, 5)}, ["y"]))
    assert "Sub" in found and moves(found) == 2
