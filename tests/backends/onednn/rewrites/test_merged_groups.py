"""Convolutions in groups of few channels, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.rewrites.merged_groups import MOST_CHANNELS, merge_groups
from layout_ir.dialects import nn
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.frontends.onnx import from_onnx
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


def network(
    shape: tuple[int, ...], outputs: int, group: int, *, bias: bool = True, **attributes: Any
) -> tuple[Any, dict[str, Any]]:
    window = (3,) * (len(shape) - 2)
    inputs = {"x": numbers(shape)}
    given = {"w": numbers((outputs, shape[1] // group, *window), 1), "b": numbers((outputs,), 2)}
    names = ("x", "w", "b") if bias else ("x", "w")
    nodes = [node("Conv", names, "z", group=group, **attributes), node("Relu", ("z",), "y")]
    return model(nodes, inputs, given, "y"), inputs


def merged(made: Any) -> nn.ConvOp:
    module: ModuleOp = from_onnx(made)
    merge_groups(module, library())
    module.verify()
    (op,) = (op for op in module.walk() if isinstance(op, nn.ConvOp))
    return op


@pytest.mark.parametrize(
    ("shape", "outputs", "group", "attributes"),
    [
        ((1, 64, 14, 14), 64, 16, {"pads": [1, 1, 1, 1]}),
        ((2, 64, 14, 14), 64, 32, {"pads": [1, 1, 1, 1], "bias": False}),
        ((1, 96, 20, 15), 96, 32, {"strides": [2, 1]}),
        ((1, 96, 28, 28), 96, 16, {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
        ((1, 32, 14, 14), 64, 8, {"pads": [0, 1, 2, 1]}),
        ((1, 64, 40), 64, 16, {"pads": [1, 1]}),
        ((1, 32, 6, 7, 8), 32, 8, {"pads": [1, 1, 1, 1, 1, 1]}),
    ],
)
def test_what_is_merged_computes_the_same(
    shape: tuple[int, ...], outputs: int, group: int, attributes: dict[str, Any]
):
    made, inputs = network(shape, outputs, group, **attributes)
    compare(made, inputs)
    op = merged(made)
    assert group % op.group == 0
    assert shape_of(op.w)[:2] == (outputs, shape[1] // op.group)
    assert op.group == group or max(outputs, shape[1]) // op.group <= MOST_CHANNELS


def test_groups_of_four_channels_are_merged():
    if not library().instruction_set.startswith("avx2"):
        pytest.skip("other instructions have other kernels")
    made, _ = network((1, 128, 56, 56), 128, 32, pads=[1, 1, 1, 1])
    assert merged(made).group < 32


@pytest.mark.parametrize(
    ("channels", "group"),
    [(64, 64), (64, 1), (64, 4)],
)
def test_negative_where_there_is_a_kernel_groups_stay(channels: int, group: int):
    made, _ = network((1, channels, 14, 14), channels, group, pads=[1, 1, 1, 1])
    assert merged(made).group == group


def test_negative_a_prime_number_of_groups_stays():
    made, inputs = network((1, 35, 14, 14), 35, 7, pads=[1, 1, 1, 1])
    assert merged(made).group == 7
    compare(made, inputs)


def test_negative_weights_that_are_computed_stay():
    inputs = {"x": numbers((1, 64, 14, 14)), "w": numbers((64, 4, 3, 3), 1)}
    made = model([node("Conv", ("x", "w"), "y", group=16)], inputs, {}, "y")
    assert merged(made).group == 16
    compare(made, inputs)
