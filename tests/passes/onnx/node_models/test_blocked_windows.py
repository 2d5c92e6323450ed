"""Pools and upsampling on blocked channels, run in ONNX Runtime beside the plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from layout_ir.passes.onnx.consumers import BLOCKED
from layout_ir.passes.onnx.optimize_model import optimize_orders
from tests.passes.onnx.blocked_networks import BLOCK, Op, X, floats, left, names, network, optimized, runtime


def _chain(
    op: Op, channels: int, constants: dict[str, Any] | None = None, opset: int = 17
) -> onnx.ModelProto:
    """A node from p to q between two convolutions."""
    weights = {"u": floats(channels, 2 * BLOCK, 1, 1), "w": floats(4, channels, 1, 1), **(constants or {})}
    ops: list[Op] = [("Conv", ["x", "u"], "p", {}), op, ("Conv", ["q", "w"], "y", {})]
    return network(ops, weights, X, ["y"], opset)


def _between(op: Op, channels: int, constants: dict[str, Any] | None = None, opset: int = 17) -> list[str]:
    """The operators for the node of such a chain, without the convolutions and the reorders around them."""
    found, _ = optimized(_chain(op, channels, constants, opset))
    assert found[:2] == ["ReorderInput*", "Conv*"] and found[-2:] == ["Conv*", "ReorderOutput*"]
    return found[2:-2]


@pytest.mark.parametrize("channels", [2 * BLOCK, BLOCK + 4])
@pytest.mark.parametrize(("kind", "attributes"), [
    ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 2]}),
    ("MaxPool", {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
    ("AveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
    ("AveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
    ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("GlobalAveragePool", {}),
    ("GlobalMaxPool", {}),
])  # fmt: skip
def test_a_pool_runs_on_blocked_channels(kind: str, attributes: dict[str, Any], channels: int) -> None:
    assert _between((kind, ["p"], "q", attributes), channels) == [f"{kind}*"]


def test_negative_windows_that_count_pads_and_go_beyond_them_stay_plain() -> None:
    window = {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
    pool: Op = ("AveragePool", ["p"], "q", window)
    runtime()
    if "AveragePool*" in names(left(_chain(pool, 2 * BLOCK))):
        pytest.skip("this ONNX Runtime puts it into blocks itself, where it computes something else")
    assert _between(pool, 2 * BLOCK) == [
        "ReorderOutput*",
        "AveragePool",
        "ReorderInput*",
    ]


def test_negative_a_pool_without_a_result_stays_plain() -> None:
    # The blocked kernel of ONNX Runtime 1.32 divides by the extents of its result, and ends the process: not run here.
    runtime()
    pool: Op = ("MaxPool", ["p"], "q", {"kernel_shape": [8, 7], "strides": [2, 2], "ceil_mode": 1})
    assert "MaxPool" in names(optimize_orders(_chain(pool, 2 * BLOCK), BLOCKED).model.graph.node)


def test_onnx_runtime_leaves_a_global_pool_plain_behind_a_plain_node() -> None:
    pool: Op = ("GlobalAveragePool", ["r"], "y", {})
    model = network([("Relu", ["x"], "r", {}), pool], {}, X, ["y"])
    assert optimized(model)[0] == names(left(model)) == ["Relu", "GlobalAveragePool"]


def test_negative_it_puts_one_of_an_input_into_blocks() -> None:
    model = network([("GlobalAveragePool", ["x"], "y", {})], {}, X, ["y"])
    found, _ = optimized(model)
    assert "GlobalAveragePool*" in found and "GlobalAveragePool*" in names(left(model))


@pytest.mark.parametrize("opset", [17, 18])
def test_a_mean_over_both_spatial_dims_is_a_global_pool(opset: int) -> None:
    axes = {"axes": [-1, 2]} if opset < 18 else {}
    names = ["p"] if opset < 18 else ["p", "a"]
    op = ("ReduceMean", names, "q", axes)
    constants = {} if opset < 18 else {"a": np.array([-1, 2])}
    assert _between(op, 2 * BLOCK, constants, opset) == ["GlobalAveragePool*"]


def test_negative_a_mean_over_channels_is_none() -> None:
    weights = {"w": floats(BLOCK, 2 * BLOCK, 1, 1)}
    ops: list[Op] = [("Conv", ["x", "w"], "p", {}), ("ReduceMean", ["p"], "y", {"axes": [1, 2]})]
    found, _ = optimized(network(ops, weights, X, ["y"]))
    assert found == ["ReorderInput*", "Conv*", "ReorderOutput*", "ReduceMean"]


@pytest.mark.parametrize(("mode", "coordinates"), [
    ("nearest", "asymmetric"), ("linear", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"),
])  # fmt: skip
@pytest.mark.parametrize("by_sizes", [False, True])
def test_whole_factors_are_an_upsample(mode: str, coordinates: str, by_sizes: bool) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}
    factors = np.array([1, 1, 2, 3], np.float32)
    sizes = np.array([1, BLOCK + 4, 12, 15])
    op = ("Resize", ["p", "", "", "s"] if by_sizes else ["p", "", "s"], "q", attributes)
    assert _between(op, BLOCK + 4, {"s": sizes if by_sizes else factors}) == ["Upsample*"]


@pytest.mark.parametrize(("factors", "nearest_mode"), [
    ([1, 1, 1.5, 2], "floor"), ([1, 1, 2, 2], "ceil"), ([1, 1, 0.5, 1], "floor"),
])  # fmt: skip
def test_negative_other_factors_and_roundings_stay_plain(factors: list[float], nearest_mode: str) -> None:
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": nearest_mode}
    op = ("Resize", ["p", "", "s"], "q", attributes)
    found = _between(op, 2 * BLOCK, {"s": np.array(factors, np.float32)})
    assert found == ["ReorderOutput*", "Resize", "ReorderInput*"]


@pytest.mark.parametrize(("mode", "factor"), [("linear", 16), ("nearest", 7)])
def test_channels_are_enlarged_in_blocks_even_where_pads_make_the_reorder_behind_larger(
    mode: str, factor: int
) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    constants = {
        "w": floats(BLOCK // 2 + 1, 2 * BLOCK, 1, 1),
        "s": np.array([1, 1, factor, factor], np.float32),
    }
    ops: list[Op] = [
        ("Conv", ["x", "w"], "p", {}),
        ("Resize", ["p", "", "s"], "q", attributes),
        ("Transpose", ["q"], "y", {"perm": [0, 2, 3, 1]}),
    ]
    model = network(ops, constants, {"x": (1, 2 * BLOCK, 8, 8)}, ["y"])
    assert (
        optimized(model)[0] == ["ReorderInput*", "Conv*", "Upsample*", "ReorderOutput*"] == names(left(model))
    )
