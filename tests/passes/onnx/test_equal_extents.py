"""Extents of the run time that are equal: those that ONNX Runtime has for a shape are so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.passes.onnx.equal_extents import name_equal_extents
from layout_ir.passes.onnx.graph_construction import graphs_of_model
from tests.passes.onnx.blocked_networks import BLOCK, Op, floats, moves, network, optimized

B = BLOCK
_TO_NEAREST = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def _shape(*ops: Op) -> Any:
    constants = {"w": floats(B, B, 3, 3), "c": floats(B, 1, 1)}
    model = network(ops, constants, {"x": ("n", B, "h", "k")}, ["y"])
    (graph,) = graphs_of_model(model, None, {}, {})
    name_equal_extents(graph)
    return graph.shape("y")


@pytest.mark.parametrize(("attributes", "equal"), [
    ({"pads": [1, 1, 1, 1]}, "hk"), ({"pads": [2, 2, 2, 2], "dilations": [2, 2]}, "hk"),
    ({"auto_pad": "SAME_UPPER"}, "hk"), ({"pads": [2, 0, 0, 0]}, "h"),
    ({"pads": [1, 1, 1, 1], "strides": [1, 2]}, "h"), ({}, ""), ({"auto_pad": "VALID"}, ""),
])  # fmt: skip
def test_padded_windows_with_steps_of_one_keep_their_extents(attributes: dict[str, Any], equal: str) -> None:
    shape = _shape(("Conv", ["x", "w"], "y", attributes))
    assert shape[:2] == ("n", B)
    assert "".join(name for name, found in zip("hk", shape[2:], strict=True) if found == name) == equal


def test_sums_have_the_extents_of_their_operands() -> None:
    conv: Op = ("Conv", ["x", "w"], "p", {"pads": [1, 1, 1, 1]})
    assert _shape(conv, ("Add", ["p", "x"], "s", {}), ("Mul", ["s", "c"], "y", {})) == ("n", B, "h", "k")


def test_negative_operands_of_different_extents_leave_the_result_open() -> None:
    conv: Op = ("Conv", ["x", "w"], "p", {})
    shape = _shape(conv, ("Add", ["p", "x"], "y", {}))
    assert shape[2] != "h" and not isinstance(shape[2], int)


@pytest.mark.parametrize(("scales", "kept"), [((1, 1, 2, 2), "n"), ((1, 1, 1, 2), "nh"), ((2, 1, 2, 1), "k")])
def test_resizing_keeps_the_extents_whose_scale_is_one(scales: tuple[int, ...], kept: str) -> None:
    (graph,) = graphs_of_model(_resized(scales), None, {}, {})
    name_equal_extents(graph)
    shape = graph.shape("y")
    assert shape is not None and "".join(name for name in "nhk" if name in shape) == kept


def _resized(scales: tuple[int, ...]) -> Any:
    ops: list[Op] = [
        ("Conv", ["x", "w"], "p", {"pads": [1, 1, 1, 1]}),
        ("Resize", ["p", "", "s"], "y", _TO_NEAREST),
    ]
    constants = {"w": floats(B, B, 3, 3), "s": np.array(scales, np.float32)}
    return network(ops, constants, {"x": ("n", B, "h", "k")}, ["y"])


def test_a_resize_of_an_open_batch_stays_in_blocks() -> None:
    ops: list[Op] = [
        ("Conv", ["x", "w"], "p", {"pads": [1, 1, 1, 1]}),
        ("Resize", ["p", "", "s"], "r", _TO_NEAREST),
        ("Conv", ["r", "w"], "y", {}),
    ]
    constants = {"w": floats(B, B, 3, 3), "s": np.array([1, 1, 2, 2], np.float32)}
    model = network(ops, constants, {"x": ("n", B, 9, 7)}, ["y"])
    assert moves(optimized(model, {"x": (2, B, 9, 7)})[0]) == 2


def test_residual_blocks_of_open_extents_stay_in_blocks() -> None:
    ops: list[Op] = [
        ("Conv", ["x", "w"], "p", {"pads": [1, 1, 1, 1]}),
        ("Conv", ["p", "w"], "q", {"pads": [1, 1, 1, 1]}),
        ("Add", ["q", "p"], "s", {}),
        ("Conv", ["s", "w"], "y", {}),
    ]
    model = network(ops, {"w": floats(B, B, 3, 3)}, {"x": ("n", B, "h", "k")}, ["y"])
    assert moves(optimized(model, {"x": (2, B, 9, 7)})[0]) == 2


def test_negative_what_may_be_broadcast_at_run_time_meets_nchw() -> None:
    ops: list[Op] = [
        ("Conv", ["x", "w"], "p", {"pads": [1, 1, 1, 1]}),
        ("Conv", ["z", "w"], "q", {"pads": [1, 1, 1, 1]}),
        ("Add", ["p", "q"], "s", {}),
        ("Conv", ["s", "w"], "y", {"pads": [1, 1, 1, 1]}),
    ]
    inputs = {"x": (1, B, "h", "k"), "z": (1, B, "one", "other")}
    model = network(ops, {"w": floats(B, B, 3, 3)}, inputs, ["y"])
    found, _ = optimized(model, {"x": (1, B, 9, 7), "z": (1, B, 1, 1)})
    assert found.index("Add") > found.index("ReorderOutput*")
