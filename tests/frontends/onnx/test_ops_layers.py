"""Layers, in all versions of their ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.dialects import nn
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from tests.frontends.onnx.models import (
    ints,
    model,
    node,
    only,
    ops_of,
    shape_of,
)
from tests.frontends.onnx.onnxruntime_oracle import check_like_onnx_runtime


@pytest.mark.parametrize(
    ("auto_pad", "extent", "kernel", "stride", "pads"),
    [
        ("SAME_UPPER", 8, 3, 1, (1, 1)),
        ("SAME_UPPER", 8, 3, 2, (0, 1)),
        ("SAME_LOWER", 8, 3, 2, (1, 0)),
        ("SAME_UPPER", 8, 2, 1, (0, 1)),
        ("SAME_LOWER", 8, 2, 1, (1, 0)),
        ("SAME_UPPER", 7, 1, 3, (0, 0)),
        ("VALID", 8, 3, 2, (0, 0)),
    ],
)
def test_auto_pad_is_resolved(auto_pad: str, extent: int, kernel: int, stride: int, pads: tuple[int, int]):
    x = {"x": (1, 3, extent)}
    weight = {"w": np.zeros((2, 3, kernel), np.float32)}
    conv = only(model([node("Conv", "x w", auto_pad=auto_pad, strides=[stride])], x, constants=weight))
    pool = only(model([node("MaxPool", "x", auto_pad=auto_pad, strides=[stride], kernel_shape=[kernel])], x))
    assert conv.pads == pool.pads == pads
    if auto_pad != "VALID":
        assert shape_of(conv)[2] == shape_of(pool)[2] == -(-extent // stride)


def test_softmax_up_to_opset_12_goes_over_all_later_dims():
    source = model([node("Softmax", "x")], {"x": (2, 3, 4)}, opset=12)
    assert [op.name for op in ops_of(source)] == ["layout.reshape", "nn.softmax", "layout.reshape"]
    assert [shape_of(op) for op in ops_of(source)] == [(2, 12), (2, 12), (2, 3, 4)]
    assert only(model([node("Softmax", "x")], {"x": (2, 3, 4)}, opset=13)).axis == 2


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 3), 1), ((2, 1000, 1, 1), 1), ((2, 1, 7), 2), ((2, 1, 1), 1)]
)
def test_softmax_up_to_opset_12_over_one_dim_is_direct(shape: tuple[int, ...], axis: int):
    assert only(model([node("Softmax", "x")], {"x": shape}, opset=9)).axis == axis


def test_reduce_takes_attributes_then_inputs():
    by_attributes = only(model([node("ReduceSum", "x", axes=[-1, 0])], {"x": (2, 5, 3)}, opset=12))
    by_inputs = only(
        model([node("ReduceSum", "x a")], {"x": (2, 5, 3)}, constants={"a": ints(-1, 0)}, opset=13)
    )
    assert by_attributes.axes == by_inputs.axes == (0, 2)
    still_attribute = only(model([node("ReduceMax", "x", axes=[1], keepdims=0)], {"x": (2, 5, 3)}, opset=13))
    assert (still_attribute.axes, still_attribute.keepdims) == ((1,), False)
    assert only(model([node("ReduceMean", "x")], {"x": (2, 5)}, opset=18)).axes == (0, 1)
    assert ops_of(model([node("ReduceMean", "x", noop_with_empty_axes=1)], {"x": (2, 5)}, opset=18)) == []


@pytest.mark.parametrize("op", ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare", "ReduceMax"])
def test_a_reduction_over_no_dims_does_the_rest_to_each_element(op: str):
    source = model([node(op, "x", noop_with_empty_axes=1)], {"x": (2, 5)}, opset=20)
    check_like_onnx_runtime(source, {"x": np.abs(numbers(2, 5)) + 0.5})


def test_the_mean_of_none_is_that_of_onnx_runtime():
    source = model([node("ReduceMean", "x a")], {"x": (0, 3)}, constants={"a": ints(0)}, opset=18)
    check_like_onnx_runtime(source, {"x": numbers(0, 3)})


def test_gemm_broadcasts_c():
    for shape in ((), (5,), (1, 5), (2, 1), (2, 5)):
        op = only(model([node("Gemm", "x b c", transB=1)], {"x": (2, 3), "b": (5, 3), "c": shape}))
        assert shape_of(op) == (2, 5)
    assert len(only(model([node("Gemm", "x b")], {"x": (2, 3), "b": (3, 5)})).operands) == 2


def numbers(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("weight", "attributes"),
    [
        ((6, 4, 3, 3), {}),
        ((6, 4, 3, 2), {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}),
        ((6, 2, 3, 3), {"group": 3, "dilations": [2, 1]}),
        ((6, 1, 3, 3), {"group": 6, "strides": [2, 2]}),
        ((6, 4, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((6, 4, 4, 3), {"strides": [3, 2], "auto_pad": "SAME_LOWER"}),
        ((6, 4, 3, 3), {"strides": [2, 2], "auto_pad": "VALID"}),
        ((6, 4, 3, 3), {"strides": [2, 2], "output_shape": [10, 9]}),
        ((6, 4, 3, 3), {"strides": [3, 2], "output_shape": [14, 8], "auto_pad": "SAME_UPPER"}),
        ((6, 4, 3, 3), {"strides": [2, 2], "output_shape": [12, 9]}),
        ((6, 4, 1, 2), {"strides": [2, 3], "auto_pad": "SAME_UPPER"}),
        ((6, 4, 1, 1), {"kernel_shape": [1, 1]}),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_transposed_convolution_is_that_of_onnx_runtime(
    weight: tuple[int, ...], attributes: dict[str, Any], bias: bool
):
    constants = {"w": numbers(*weight, seed=1)}
    if bias:
        constants["b"] = numbers(weight[1] * attributes.get("group", 1), seed=2)
    source = model(
        [node("ConvTranspose", "x w b" if bias else "x w", **attributes)], {"x": (2, 6, 5, 4)}, constants=constants,
        opset=13,
    )  # fmt: skip
    assert isinstance(only(source), nn.ConvTransposeOp)
    check_like_onnx_runtime(source, {"x": numbers(2, 6, 5, 4)})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"kernel_shape": [2, 2]}, r"kernel_shape \[2, 2\] does not agree with the weight's \[3, 3\]"),
        ({"auto_pad": "SOME"}, "auto_pad = SOME is unknown"),
        ({"strides": [2]}, r"strides \[2\] does not fit 2 spatial dims: 1 != 2"),
        ({"pads": [4, 0, 3, 0]}, "leave nothing of spatial dim 0"),
    ],
)
def test_negative_transposed_convolution(attributes: dict[str, Any], message: str):
    constants = {"w": numbers(6, 4, 3, 3)}
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(
            model([node("ConvTranspose", "x w", **attributes)], {"x": (2, 6, 5, 4)}, constants=constants)
        )


@pytest.mark.parametrize("op", ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"])
@pytest.mark.parametrize("attributes", [{}, {"axes": [1], "keepdims": 0}, {"axes": [-1, 0]}])
def test_reductions_are_those_of_onnx_runtime(op: str, attributes: dict[str, Any]):
    source = model([node(op, "x", **attributes)], {"x": (2, 3, 5)}, opset=13)
    assert isinstance(only(source), nn.ReduceOp)
    check_like_onnx_runtime(source, {"x": np.abs(numbers(2, 3, 5)) + 0.5})
