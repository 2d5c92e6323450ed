"""Elementwise operators on blocked channels, run in ONNX Runtime beside the plain ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.passes.onnx.blocked_networks import BLOCK, Op, floats, moves, network, optimized

B = BLOCK
LARGE = {"x": (1, 2 * B, 40, 30)}
"""So large that a few Reshapes take less than a reorder."""


def _between(
    ops: Sequence[Op], channels: int, constants: dict[str, Any] | None = None, opset: int = 20
) -> list[str]:
    """The operators for nodes from p to q between two convolutions."""
    weights = {"u": floats(channels, 2 * B, 1, 1), "w": floats(B, channels, 1, 1), **(constants or {})}
    nodes: list[Op] = [("Conv", ["x", "u"], "p", {}), *ops, ("Conv", ["q", "w"], "y", {})]
    return optimized(network(nodes, weights, LARGE, ["y"], opset))[0]


@pytest.mark.parametrize("channels", [2 * B, B + 4])
@pytest.mark.parametrize(
    "kind", ["Abs", "Elu", "Erf", "Gelu", "HardSwish", "LeakyRelu", "Neg", "QuickGelu", "Softsign", "Tanh"]
)
def test_one_operand_is_computed_on_where_it_is(kind: str, channels: int) -> None:
    assert moves(_between([(kind, ["p"], "q", {})], channels)) == 2


@pytest.mark.parametrize(("kind", "channels", "blocked"), [
    ("Exp", 2 * B, True), ("Exp", B + 4, False), ("Reciprocal", B + 4, False), ("Cosh", B + 4, False),
])  # fmt: skip
def test_negative_pads_are_not_given_to_what_may_make_infinities_of_them(
    kind: str, channels: int, blocked: bool
) -> None:
    ops: list[Op] = [("Relu", ["p"], "r", {}), ("Add", ["r", "one"], "s", {}), (kind, ["s"], "q", {})]
    found = _between(ops, channels, {"one": np.float32(1)})
    assert (moves(found) == 2) is blocked


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1)])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Max"])
def test_a_scalar_is_an_operand_as_it_is(kind: str, shape: tuple[int, ...]) -> None:
    constants = {"s": np.full(shape, 0.75, np.float32)}
    assert moves(_between([(kind, ["p", "s"], "q", {})], B + 4, constants)) == 2


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Max"])
def test_two_blocked_operands_stay_blocked(kind: str) -> None:
    ops: list[Op] = [("Conv", ["p", "v"], "r", {}), (kind, ["r", "p"], "q", {})]
    assert moves(_between(ops, B + 4, {"v": floats(B + 4, B + 4, 1, 1)})) == 2


def test_a_constant_of_the_whole_shape_is_put_into_blocks_now() -> None:
    found = _between([("Add", ["p", "c"], "q", {})], B + 4, {"c": floats(1, B + 4, 40, 30)})
    assert moves(found) == 2


@pytest.mark.parametrize("channels", [2 * B, 2 * B - 4])
@pytest.mark.parametrize(("kind", "shape"), [
    ("Mul", (1, 1, 40, 30)), ("Add", (40, 30)), ("Div", (-1, 1, 1)), ("Max", (1, -1, 1, 1)), ("PRelu", (-1, 1, 1)),
    ("Sub", (1, 40, 30)),
])  # fmt: skip
def test_a_constant_that_is_broadcast_meets_the_blocks_in_their_shape(
    kind: str, shape: tuple[int, ...], channels: int
) -> None:
    constant = floats(*(channels if extent < 0 else extent for extent in shape)) + 2
    assert moves(_between([(kind, ["p", "c"], "q", {})], channels, {"c": constant})) == 2


def test_a_map_of_one_channel_that_is_computed_scales_all() -> None:
    ops: list[Op] = [
        ("ReduceMax", ["x", "one"], "m", {}),
        ("Mul", ["p", "m"], "q", {}),
    ]
    found = _between(ops, 2 * B, {"one": np.array([1])})
    assert moves(found) == 2 and found.count("Reshape") == 3


def test_negative_a_row_that_is_broadcast_along_the_other_spatial_dim_meets_nchw() -> None:
    found = _between([("Mul", ["p", "c"], "q", {})], 2 * B, {"c": floats(1, 1, 1, 30)})
    assert moves(found) == 4


def test_an_operator_between_transposes_runs_on_blocks_of_its_last_dim() -> None:
    ops: list[Op] = [
        ("Transpose", ["p"], "l", {"perm": [0, 2, 3, 1]}),
        ("Abs", ["l"], "a", {}),
        ("Add", ["a", "c"], "s", {}),
        ("Transpose", ["s"], "q", {"perm": [0, 3, 1, 2]}),
    ]
    found = _between(ops, 2 * B, {"c": floats(2 * B)})
    assert moves(found) == 2 and "Transpose" not in found


def test_negative_integers_and_comparisons_stay_plain() -> None:
    ops: list[Op] = [
        ("Greater", ["p", "zero"], "g", {}),
        ("Where", ["g", "p", "zero"], "q", {}),
    ]
    assert moves(_between(ops, 2 * B, {"zero": np.float32(0)})) == 4
