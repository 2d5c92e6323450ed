"""Concat, Split and Slice of blocked channels, run in ONNX Runtime beside the plain ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.onnx.blocked_networks import BLOCK, Op, X, floats, moves, network, optimized

B = BLOCK


def _concat(first: int, second: int, axis: int) -> list[str]:
    total = first + second if axis == 1 else first
    constants = {
        "u": floats(first, 2 * B, 1, 1),
        "v": floats(second, 2 * B, 1, 1),
        "w": floats(B, total, 1, 1),
    }
    ops: list[Op] = [
        ("Conv", ["x", "u"], "p", {}),
        ("Conv", ["x", "v"], "q", {}),
        ("Concat", ["p", "q"], "c", {"axis": axis}),
        ("Conv", ["c", "w"], "y", {}),
    ]
    return optimized(network(ops, constants, X, ["y"]))[0]


@pytest.mark.parametrize(("first", "second", "axis"), [
    (B, 2 * B, 1), (2 * B, B + 4, 1), (B, 4, -3), (B + 4, B + 4, 0),
])  # fmt: skip
def test_parts_of_whole_blocks_are_joined_where_they_are(first: int, second: int, axis: int) -> None:
    assert moves(_concat(first, second, axis % 4)) == 2


@pytest.mark.parametrize(("first", "second", "axis"), [(B + 4, B, 1), (B, B, 2)])
def test_negative_others_are_joined_in_nchw(first: int, second: int, axis: int) -> None:
    found = _concat(first, second, axis)
    assert moves(found) == 5
    assert found.index("Concat") > found.index("ReorderOutput*")


def _split(parts: list[int], opset: int, axis: int = 1) -> list[str]:
    names = [f"p{k}" for k in range(len(parts))]
    constants = {"u": floats(sum(parts), 2 * B, 1, 1), "s": np.array(parts)}
    attributes = {"axis": axis} if opset >= 13 else {"axis": axis, "split": parts}
    ops: list[Op] = [
        ("Conv", ["x", "u"], "p", {}),
        ("Split", ["p", "s"] if opset >= 13 else ["p"], names, attributes),
    ]
    for k, part in enumerate(parts):
        constants[f"w{k}"] = floats(B, part, 1, 1, seed=k)
        ops.append(("Conv", [f"p{k}", f"w{k}"], f"y{k}", {}))
    return optimized(network(ops, constants, X, [f"y{k}" for k in range(len(parts))], opset))[0]


@pytest.mark.parametrize("parts", [[B, 2 * B], [2 * B, B + 4], [B, B, B]])
@pytest.mark.parametrize("opset", [12, 17])
def test_whole_blocks_are_split_where_they_are(parts: list[int], opset: int) -> None:
    assert moves(_split(parts, opset)) == 1 + len(parts)


def test_an_even_split_without_sizes_is_split_where_it_is() -> None:
    constants = {"u": floats(4 * B, 2 * B, 1, 1)}
    ops: list[Op] = [
        ("Conv", ["x", "u"], "p", {}),
        ("Split", ["p"], ["a", "b"], {"axis": -3, "num_outputs": 2}),
        ("Add", ["a", "b"], "y", {}),
    ]
    assert moves(optimized(network(ops, constants, X, ["y"], 18))[0]) == 2


def test_negative_parts_of_blocks_are_split_in_nchw() -> None:
    found = _split([B + 4, B + 4], 17)
    assert found.index("Split") > found.index("ReorderOutput*")


@pytest.mark.parametrize(("start", "end", "blocked"), [
    (0, B, True), (B, 3 * B, True), (B, 1 << 60, True), (-B - 4, -4, True), (B, 3 * B + 4, True),
    (4, B + 4, False), (0, B + 4, False), (-B, 1 << 60, False),
])  # fmt: skip
def test_whole_blocks_are_sliced_where_they_are(start: int, end: int, blocked: bool) -> None:
    channels = 3 * B + 4
    size = len(range(channels)[start:end])
    constants = {
        "u": floats(channels, 2 * B, 1, 1),
        "w": floats(B, size, 1, 1),
        "s": np.array([start]),
        "e": np.array([end]),
        "a": np.array([1]),
    }
    ops: list[Op] = [
        ("Conv", ["x", "u"], "p", {}),
        ("Slice", ["p", "s", "e", "a"], "q", {}),
        ("Conv", ["q", "w"], "y", {}),
    ]
    assert (moves(optimized(network(ops, constants, X, ["y"]))[0]) == 2) is blocked


def test_negative_a_slice_of_space_or_with_steps_is_taken_of_nchw() -> None:
    for axis, step in ((2, 1), (1, 2)):
        constants = {"u": floats(2 * B, 2 * B, 1, 1), "w": floats(B, 2 * B if axis == 2 else B, 1, 1)}
        lists = {"s": np.array([0]), "e": np.array([2 * B]), "a": np.array([axis]), "t": np.array([step])}
        ops: list[Op] = [
            ("Conv", ["x", "u"], "p", {}),
            ("Slice", ["p", "s", "e", "a", "t"], "q", {}),
            ("Relu", ["q"], "r", {}),
            ("Conv", ["r", "w"], "y", {}),
        ]
        found = optimized(network(ops, {**constants, **lists}, X, ["y"]))[0]
        assert axis == 2 or moves(found) == 4
