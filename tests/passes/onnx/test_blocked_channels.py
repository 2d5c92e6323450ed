"""Blocked channels as an order of dims, against NumPy and what the installed ONNX Runtime does."""

from __future__ import annotations

import numpy as np
import onnx.helper as oh
import pytest

from layout_ir.passes.onnx.blocked_channels import (
    BLOCKED,
    NCHWC_DOMAIN,
    REORDER_ALIGNMENT,
    blocked_elements,
    can_reorder,
    channels_last,
    channels_second,
    has_same_bytes,
    is_blocked,
    packed_weights,
)
from layout_ir.passes.onnx.consumers import BLOCKED as TARGET
from layout_ir.passes.onnx.consumers import consumer_named
from layout_ir.selection.solver.selection_problem import FORBIDDEN
from tests.passes.onnx import blocked_networks as networks
from tests.passes.onnx.blocked_networks import BLOCK, floats, left, network, session


def _reordered(kind: str, array: np.ndarray, **attributes: int) -> np.ndarray:
    model = network([(kind, ["x"], "y", attributes)], {}, {"x": array.shape}, ["y"])
    model.graph.node[0].domain = NCHWC_DOMAIN
    model.opset_import.append(oh.make_opsetid(NCHWC_DOMAIN, 1))
    networks.runtime()
    return session(model, "ORT_DISABLE_ALL").run(None, {"x": array})[0]


@pytest.mark.parametrize("channels", [4, 12, 16, 20, 32])
@pytest.mark.parametrize("last", [0, 1])
def test_a_blocked_tensor_is_what_reorder_input_makes_and_reorder_output_takes(
    channels: int, last: int
) -> None:
    value = floats(2, channels, 3, 5)
    plain = value.transpose(channels_last(BLOCKED) if last else channels_second(BLOCKED)).copy()
    blocks = blocked_elements(value, BLOCKED, BLOCK)
    np.testing.assert_array_equal(_reordered("ReorderInput", plain, channels_last=last), blocks)
    back = _reordered("ReorderOutput", blocks, channels_last=last, channels=channels)
    np.testing.assert_array_equal(back, plain)


def test_negative_reorder_input_takes_no_channels_that_are_no_multiple_of_its_alignment() -> None:
    shape = (1, REORDER_ALIGNMENT + 2, 3, 3)
    assert not can_reorder(BLOCKED, shape) and can_reorder(BLOCKED, (1, REORDER_ALIGNMENT, 3, 3))
    with pytest.raises(Exception, match="ReorderInput"):
        _reordered("ReorderInput", floats(*shape))
    assert consumer_named(TARGET).reorder_cost((0, 1, 2, 3), BLOCKED, shape, 800) == FORBIDDEN


def test_blocks_of_an_unknown_number_of_channels_are_moved_without_pads():
    consumer = consumer_named(TARGET)
    known = consumer.reorder_cost(BLOCKED, (0, 1, 2, 3), (1, 16, 28, 28), 1 << 20)
    assert consumer.reorder_cost(BLOCKED, (0, 1, 2, 3), (1, "c", 28, 28), 1 << 20) == known
    assert consumer.reorder_cost((0, 1, 2, 3), BLOCKED, (1, "c", 28, 28), 1 << 20) == FORBIDDEN


def test_the_block_of_the_target_is_that_of_the_installed_onnx_runtime() -> None:
    networks.runtime()
    model = network([("Conv", ["x", "w"], "y", {})], {"w": floats(3, 4, 1, 1)}, {"x": (1, 4, 4, 4)}, ["y"])
    feeds = {"x": floats(1, 4, 4, 4)}
    assert "Conv*" in networks.names(left(model))
    blocks = session(networks.optimized(model)[1].model).run(None, feeds)[0]
    np.testing.assert_allclose(blocks, session(model).run(None, feeds)[0], rtol=1e-5, atol=1e-6)
    for other in (8, 16):
        assert consumer_named(f"{TARGET}{other}").block == other


@pytest.mark.parametrize(("shape", "same"), [
    ((2, 32, 1, 1), True), ((2, 20, 1, 1), False), ((2, 32, 1, 2), False), ((2, "c", 1, 1), False),
])  # fmt: skip
def test_whole_blocks_of_one_place_have_the_same_bytes_as_nchw(shape: tuple[int, ...], same: bool) -> None:
    assert has_same_bytes((0, 1, 2, 3), BLOCKED, shape, 16) is same
    assert has_same_bytes(BLOCKED, (0, 2, 3, 1), shape, 16) is same
    if same:
        value = floats(*shape)
        np.testing.assert_array_equal(blocked_elements(value, BLOCKED, 16), value)


def test_an_order_is_blocked_where_it_has_the_dim_of_place_1_twice() -> None:
    assert is_blocked(BLOCKED) and is_blocked((0, 3, 1, 2, 3))
    assert not is_blocked((0, 1, 2, 3)) and not is_blocked((0, 1, 2, 3, 4))


def test_packed_weights_have_each_weight_where_its_blocks_and_places_say() -> None:
    weights = floats(5, 6, 2, 3)
    dense, direct = packed_weights(weights, 4, inputs=True), packed_weights(weights, 4, inputs=False)
    assert dense.shape == (8, 8, 2, 3) and direct.shape == (8, 6, 2, 3)
    dense, direct = dense.reshape(2, 2, 2, 3, 4, 4), direct.reshape(2, 6, 2, 3, 4)
    for o, i, h, w in np.ndindex(8, 8, 2, 3):
        want = weights[o, i, h, w] if o < 5 and i < 6 else 0
        assert dense[o // 4, i // 4, h, w, i % 4, o % 4] == want
        if i < 6:
            assert direct[o // 4, i, h, w, o % 4] == want
