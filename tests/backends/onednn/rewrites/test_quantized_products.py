"""Products of quantized tensors by kernels of ours, beside ONNX Runtime: as on a CPU without instructions for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.onednn.library import Library, library
from layout_ir.dialects.nn.depthwise_products import DEPTHWISE_INTEGER_CONV
from layout_ir.dialects.nn.integer_products import PACKED_INTEGER_CONV
from tests.backends.onednn.quantized_models import (
    Array,
    compare,
    dequantize,
    integers,
    model,
    node,
    quantize,
    steps_of,
    weights,
)
from tests.backends.onednn.small_programs import needs_library

pytestmark = needs_library


@pytest.fixture(autouse=True)
def sums_saturate(monkeypatch: pytest.MonkeyPatch):
    """The library is one that adds products of bytes in 16 bits."""
    monkeypatch.setattr(library(), "sums_bytes_exactly", False)
    assert isinstance(library(), Library)


def dequantized(axis: int) -> list[Any]:
    return [dequantize("x", "s1", "z1", "xf"), dequantize("w", "ws", "wz", "wf", axis=axis)]


def last_step(nodes: list[Any], x: Array, constants: dict[str, Any], **bounds: Any) -> tuple[str, ...]:
    executable = compare(model(nodes, {"x": x}, constants, "y"), {"x": x}, **bounds)
    return steps_of(executable, {"x": x})[-1]


@pytest.mark.parametrize(
    ("shape", "kernel", "windows"),
    [
        ((2, 3, 9, 8), (3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 17, 9, 8), (1, 1), {}),
        ((2, 5, 9, 8), (2, 3), {"pads": [0, 2, 1, 0], "strides": [2, 1]}),
        ((1, 8, 9, 9), (3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2], "strides": [1, 2]}),
        ((2, 4, 13), (5,), {"pads": [2, 2]}),
        ((1, 4, 5, 6, 4), (2, 3, 1), {"pads": [1, 1, 0, 0, 1, 0]}),
    ],
)
@pytest.mark.parametrize("behind", [None, "Relu", "Clip"])
def test_a_convolution_with_what_is_behind_it(
    shape: tuple[int, ...], kernel: tuple[int, ...], windows: dict[str, Any], behind: str | None
):
    constants = weights((19, shape[1], *kernel), 0) | {"low": np.float32(-1), "high": np.float32(2)}
    inputs = {"Relu": ("c",), "Clip": ("c", "low", "high")}
    nodes = [
        *dequantized(0),
        node("Conv", ("xf", "wf", "b"), "c", **windows),
        *([node(behind, inputs[behind], "r")] if behind else []),
        quantize("r" if behind else "c", "s3", "z3", "y"),
    ]
    assert last_step(nodes, integers(shape, 0), constants) == (PACKED_INTEGER_CONV,)


@pytest.mark.parametrize("behind", ["", "Sigmoid"])
def test_a_convolution_whose_sums_are_real_numbers(behind: str):
    nodes = [
        *dequantized(0),
        node("Conv", ("xf", "wf", "b"), "c" if behind else "y"),
        *([node(behind, ("c",), "y")] if behind else []),
    ]
    x = integers((1, 8, 6, 5), 0)
    steps = ("nn.cast", "nn.mul", "nn.add", *(["nn.sigmoid"] if behind else []))
    assert last_step(nodes, x, weights((7, 8, 3, 3), 0)) == steps


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, -2.0)])
def test_a_gemm(transposed: int, alpha: float, beta: float):
    constants = weights((21, 9) if transposed else (9, 21), 1 - transposed)
    nodes = [
        *dequantized(1 - transposed),
        node("Gemm", ("xf", "wf", "b"), "c", transB=transposed, alpha=alpha, beta=beta),
        quantize("c", "s3", "z3", "y"),
    ]
    assert last_step(nodes, integers((5, 9), 0), constants) == (PACKED_INTEGER_CONV,)


def test_a_gemm_with_an_addend_for_each_element():
    constants = weights((9, 6), 1) | {"b": np.random.default_rng(0).uniform(-9, 9, (5, 6)).astype(np.float32)}
    nodes = [
        *dequantized(1),
        node("Gemm", ("xf", "wf", "b"), "c"),
        quantize("c", "s3", "z3", "y"),
    ]
    last_step(nodes, integers((5, 9), 0), constants)


@pytest.mark.parametrize("first", [False, True])
def test_a_product_and_the_addend_behind_it(first: bool):
    nodes = [
        *dequantized(1),
        node("MatMul", ("xf", "wf"), "c"),
        node("Add", ("b", "c") if first else ("c", "b"), "d"),
        quantize("d", "s3", "z3", "y"),
    ]
    assert last_step(nodes, integers((2, 5, 9), 0), weights((9, 21), 1)) == (PACKED_INTEGER_CONV,)


def test_negative_a_product_that_another_reads_too_is_not_quantized_in_its_kernel():
    nodes = [
        *dequantized(1),
        node("MatMul", ("xf", "wf"), "c"),
        quantize("c", "s3", "z3", "q"),
        dequantize("q", "s3", "z3", "qf"),
        node("Add", ("c", "qf"), "y"),
    ]
    x = integers((2, 5, 9), 0)
    made = model(nodes, {"x": x}, weights((9, 6), 1, largest=100), "y")
    assert steps_of(compare(made, {"x": x}), {"x": x})[-1] != (PACKED_INTEGER_CONV,)


def test_unsigned_weights_with_zero_points_take_two_bytes():
    constants = weights((16, 8, 3, 3), 0)
    constants |= {"w": constants["w"].view(np.uint8), "wz": np.arange(16, dtype=np.uint8)}
    nodes = [*dequantized(0), node("Conv", ("xf", "wf"), "c"), quantize("c", "s3", "z3", "y")]
    assert last_step(nodes, integers((1, 8, 6, 5), 0), constants) == (PACKED_INTEGER_CONV,)


@pytest.mark.parametrize(
    ("shape", "kernel", "windows"),
    [
        ((2, 19, 9, 8), (3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 32, 9, 9), (5, 5), {"pads": [0, 2, 1, 0], "strides": [2, 1]}),
        ((2, 6, 13), (5,), {"pads": [2, 2], "dilations": [2]}),
        ((1, 9, 5, 6, 4), (2, 3, 1), {"pads": [1, 1, 0, 0, 1, 0]}),
    ],
)
@pytest.mark.parametrize("behind", [None, "Relu"])
def test_a_depthwise_convolution_with_what_is_behind_it(
    shape: tuple[int, ...], kernel: tuple[int, ...], windows: dict[str, Any], behind: str | None
):
    constants = weights((shape[1], 1, *kernel), 0)
    nodes = [
        *dequantized(0),
        node("Conv", ("xf", "wf", "b"), "c", group=shape[1], **windows),
        *([node(behind, ("c",), "r")] if behind else []),
        quantize("r" if behind else "c", "s3", "z3", "y"),
    ]
    assert last_step(nodes, integers(shape, 0), constants) == (DEPTHWISE_INTEGER_CONV,)


def test_a_depthwise_convolution_whose_sums_are_real_numbers():
    nodes = [*dequantized(0), node("Conv", ("xf", "wf", "b"), "y", group=8)]
    steps = ("nn.cast", "nn.mul", "nn.add")
    assert last_step(nodes, integers((1, 8, 6, 5), 0), weights((8, 1, 3, 3), 0)) == steps


def test_negative_a_depthwise_convolution_of_the_largest_windows_runs_on_floats():
    nodes = [
        *dequantized(0),
        node("Conv", ("xf", "wf"), "c", group=300, pads=[15] * 4),
        quantize("c", "s3", "z3", "y"),
    ]
    constants = weights((300, 1, 31, 31), 0, largest=100)
    assert last_step(nodes, integers((1, 300, 3, 3), 0), constants)[0] == "nn.conv"


@pytest.mark.parametrize("largest", [60, 127])
@pytest.mark.parametrize(
    ("channels", "outputs", "group"), [(8, 6, 2), (12, 12, 3), (8, 24, 8), (10, 5, 5), (34, 68, 2), (6, 6, 2)]
)
def test_groups_of_channels(channels: int, outputs: int, group: int, largest: int):
    constants = weights((outputs, channels // group, 3, 2), 0, largest=largest)
    nodes = [
        *dequantized(0),
        node("Conv", ("xf", "wf", "b"), "c", group=group, pads=[1, 0, 1, 1]),
        quantize("c", "s3", "z3", "y"),
    ]
    known = largest == 60 and channels // group % 4 == outputs // group % 4 == 0
    wanted = ("nn.conv", "layout.reorder") if known else (PACKED_INTEGER_CONV,)
    assert last_step(nodes, integers((2, channels, 6, 5), 0), constants) == wanted


def test_negative_a_picture_with_scales_of_its_channels_runs_on_floats():
    constants = weights((6, 8, 1, 1), 0) | {
        "xs": np.linspace(0.01, 0.1, 8, dtype=np.float32),
        "xz": np.arange(8, dtype=np.uint8),
    }
    nodes = [
        dequantize("x", "xs", "xz", "xf", axis=1),
        dequantize("w", "ws", "wz", "wf", axis=0),
        node("Conv", ("xf", "wf"), "c"),
        quantize("c", "s3", "z3", "y"),
    ]
    assert last_step(nodes, integers((1, 8, 6, 5), 0), constants) == ("nn.conv",)
