"""Ops without an operator: which nodes they are, and that these compute the op where a shorter way does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.api.onnx_export import to_onnx
from tests.exits.onnx.models import check, evaluate, with_opset
from tests.programs import parse

NORM_NODES = ["ReduceMean", "Sub", "Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"]


def program(op: str, *, x: str = "2x4x3x5xf32", factors: str = "", result: str | None = None) -> Any:
    """One op on %x and on %s and %t, of the type `factors`."""
    types = [x, *([factors] * 2 if factors else [])]
    arguments = ", ".join(f"%{name}: tensor<{type}>" for name, type in zip("xst", types, strict=False))
    operands = ", ".join(f"%{name}" for name in "xst"[: len(types)])
    name, _, rest = op.partition(" ")
    ins, out = ", ".join(f"tensor<{type}>" for type in types), f"tensor<{result or x}>"
    body = f"%y = {name} {operands} {rest} : ({ins}) -> {out} func.return %y : {out}"
    return parse(f"func.func @main({arguments}) -> {out} {{ {body} }}")


def nodes_of(module: Any, opset: int) -> list[str]:
    """The operators of the model, in a version that is kept."""
    model = to_onnx(with_opset(module, opset))
    check(model)
    assert model.opset_import[0].version == opset
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize(
    ("op", "options", "opset", "expected"),
    [
        ("nn.swish", {}, 24, ["Swish"]),
        ("nn.swish", {}, 23, ["Sigmoid", "Mul"]),
        ("nn.swish alpha = 2.0", {}, 13, ["Mul", "Sigmoid", "Mul"]),
        ("nn.celu", {}, 12, ["Celu"]),
        ("nn.celu", {}, 11, ["Min", "Div", "Exp", "Sub", "Mul", "Relu", "Add"]),
        ("nn.celu", {"x": "2x3xf16"}, 12, ["Min", "Div", "Exp", "Sub", "Mul", "Relu", "Add"]),
        ("nn.layer_norm", {"factors": "5xf32"}, 17, ["LayerNormalization"]),
        ("nn.layer_norm axes = [2, 3]", {"factors": "3x5xf32"}, 17, ["LayerNormalization"]),
        ("nn.layer_norm", {"factors": "1x1x5xf32"}, 17, ["Reshape", "Reshape", "LayerNormalization"]),
        ("nn.layer_norm", {"factors": "5xf32"}, 13, NORM_NODES),
        ("nn.layer_norm", {"factors": "3x5xf32"}, 17, NORM_NODES),
        ("nn.layer_norm axes = [1]", {"factors": "4x1x1xf32"}, 17, NORM_NODES),
        ("nn.layer_norm", {"x": "2x5xf16", "factors": "5xf16"}, 13, ["Cast", *NORM_NODES[:-2], "Cast", "Mul", "Add"]),
        ("nn.rms_norm", {"factors": "5xf32"}, 23, ["RMSNormalization", "Add"]),
        ("nn.rms_norm", {"factors": "5xf32"}, 20, NORM_NODES[2:]),
        ("nn.group_norm groups = 4", {"factors": "4xf32"}, 9, ["InstanceNormalization"]),
        ("nn.group_norm groups = 2", {"factors": "4xf32"}, 21, ["GroupNormalization"]),
        (
            "nn.group_norm groups = 2",
            {"factors": "4xf32"},
            20,
            ["Reshape", "InstanceNormalization", "Reshape", "Reshape", "Reshape", "Mul", "Add"],
        ),
    ],
)  # fmt: skip
def test_which_nodes_an_op_is(op: str, options: dict[str, str], opset: int, expected: list[str]):
    assert sorted(nodes_of(program(op, **options), opset)) == sorted(expected)


@pytest.mark.parametrize(
    ("pads", "more", "extent", "expected"),
    [
        ([0, 0], 1, 15, ["ConvTranspose"]),
        ([0, 3], 2, 13, ["ConvTranspose"]),
        ([0, 1], 4, 17, ["ConvTranspose", "Pad"]),
    ],
)
@pytest.mark.parametrize("opset", [9, 13])
def test_a_longer_transposed_convolution(
    pads: list[int], more: int, extent: int, expected: list[str], opset: int
):
    text = f"""func.func @main(%x: tensor<2x3x5xf32>, %w: tensor<3x4x6xf32>) -> tensor<2x4x{extent}xf32> {{
      %y = nn.conv_transpose %x, %w strides = [2] pads = {pads} output_padding = [{more}]
        : (tensor<2x3x5xf32>, tensor<3x4x6xf32>) -> tensor<2x4x{extent}xf32>
      func.return %y : tensor<2x4x{extent}xf32>
    }}"""
    assert nodes_of(parse(text), opset) == expected
    module = with_opset(parse(text), opset)
    x, w = (np.random.default_rng(3).standard_normal(s).astype(np.float32) for s in ((2, 3, 5), (3, 4, 6)))
    np.testing.assert_allclose(evaluate(to_onnx(module), [x, w])[0], li.run(module, [x, w])[0], atol=1e-5)


@pytest.mark.parametrize("op", ["nn.layer_norm axes = [1]", "nn.rms_norm axes = [1]"])
def test_squares_of_half_precision_numbers_do_not_overflow(op: str):
    module = with_opset(program(op, x="2x8xf16", factors="8xf16"), 13)
    x = (np.arange(16).reshape(2, 8) * 500 - 4000).astype(np.float16)
    ones, zeros = np.ones(8, np.float16), np.zeros(8, np.float16)
    (got,), (want,) = evaluate(to_onnx(module), [x, ones, zeros]), li.run(module, [x, ones, zeros])
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=4e-3)


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("alpha", [0.01, 1.0, 3.0])
def test_a_celu_of_large_numbers_is_finite(dtype: str, alpha: float):
    module = with_opset(program(f"nn.celu alpha = {alpha}", x=f"5x{dtype}"), 11)
    x = np.array([-4000, -1, 0, 2, 4000], {"f16": "<f2", "f32": "<f4", "f64": "<f8"}[dtype])
    (got,), (want,) = evaluate(to_onnx(module), [x]), li.run(module, [x])
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=4e-3)
