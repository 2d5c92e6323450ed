"""What happens to conversions around ops that only move quantized elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.onednn.quantized_values import dequantized, quantizing
from layout_ir.backends.onednn.rewrites.dequantization_sinking import sink_dequantizations
from layout_ir.backends.onednn.rewrites.node_decomposition import decompose_nodes
from layout_ir.dialects.layout import ReorderOp, dtype_of
from layout_ir.frontends.onnx import from_onnx
from tests.backends.onednn.quantized_models import (
    compare,
    dequantize,
    integers,
    model,
    node,
    quantize,
    weights,
)
from tests.backends.onednn.small_programs import needs_library, numbers


def conversions(made: Any) -> list[tuple[str, str]]:
    """The element types of each conversion that is left, in order."""
    module = from_onnx(made, keep_quantized=True)
    decompose_nodes(module)
    sink_dequantizations(module)
    module.verify()
    return [
        (dtype_of(op.input.type), dtype_of(op.result.type))
        for op in module.walk()
        if isinstance(op, ReorderOp) and dtype_of(op.input.type) != dtype_of(op.result.type)
    ]


def moved(op: str, *, scale: str = "s1", zero: str = "z1", **attributes: Any) -> tuple[Any, dict[str, Any]]:
    x = {"x": integers((2, 6, 4, 3), 0)}
    nodes = [
        dequantize("x", "s1", "z1", "f"),
        node("Neg", ("f",), "n"),
        quantize("n", "s1", "z1", "q"),
        dequantize("q", "s1", "z1", "g"),
        node(op, ("g", *attributes.pop("more", ())), "m", **attributes),
        quantize("m", scale, zero, "y"),
    ]
    return model(nodes, x, {"shape": np.array([3, 2, 24])}, "y"), x


@needs_library
@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Transpose", {"perm": [0, 2, 3, 1]}),
        ("Reshape", {"more": ("shape",)}),
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]}),
    ],
)
def test_moves_are_made_with_integers(op: str, attributes: dict[str, Any]):
    made, x = moved(op, **attributes)
    assert conversions(made) == [("ui8", "f32"), ("f32", "ui8")]  # those around the negation
    compare(made, x)


@needs_library
def test_other_parameters_behind_a_move_are_one_conversion_of_integers():
    made, x = moved("Transpose", scale="s3", zero="z3", perm=[0, 2, 3, 1])
    assert conversions(made) == [("ui8", "f32"), ("f32", "ui8")]
    compare(made, x)


def test_negative_an_average_is_computed_on_floats():
    made, _ = moved("AveragePool", kernel_shape=[2, 2])
    assert len(conversions(made)) == 4


@needs_library
@pytest.mark.parametrize("scale", ["s1", "s3"])
def test_parts_of_a_concatenation_are_quantized_before_it(scale: str):
    inputs = {"x": integers((2, 6, 4), 0), "v": integers((2, 5, 4), 1)}
    nodes = [
        dequantize("x", "s1", "z1", "xf"),
        dequantize("v", "s2", "z2", "vf"),
        node("Concat", ("xf", "vf"), "c", axis=1),
        quantize("c", scale, "z1", "y"),
    ]
    made = model(nodes, inputs, {}, "y")
    assert not conversions(made)  # from u8 to u8 is none of the element type
    compare(made, inputs)


@needs_library
def test_weights_that_are_transposed_behind_their_dequantization_are_constants_of_integers():
    x, given = {"x": integers((1, 8, 6, 5), 0)}, weights((3, 3, 8, 16), 3, largest=64)
    nodes = [
        dequantize("x", "s1", "z1", "xf"),
        dequantize("w", "ws", "wz", "wf", axis=3),
        node("Transpose", ("wf",), "t", perm=[3, 2, 0, 1]),
        node("Conv", ("xf", "t", "b"), "c"),
        quantize("c", "s3", "z3", "y"),
    ]
    made = model(nodes, x, given, "y")
    executable = compare(made, x)
    times = [time.ops for time in executable.profile(x) if time.implementation != "reorder"]
    assert times == [("nn.conv", "layout.reorder")]


def test_what_is_dequantized_and_quantized_says_its_parameters():
    made = model(
        [quantize("x", "s1", "z1", "q"), node("Transpose", ("q",), "t"), dequantize("t", "s1", "z1", "y")],
        {"x": numbers((2, 3))}, {}, "y",
    )  # fmt: skip
    module = from_onnx(made, keep_quantized=True)
    decompose_nodes(module)
    first, second = (op for op in module.walk() if isinstance(op, ReorderOp) and op.scale is not None)
    assert quantizing(first) == (np.float32(0.03), 120) and quantizing(second) is None
    found = dequantized(second.result)
    assert found is not None and found.is_per_tensor and found.scale == (np.float32(0.03),)
    assert found.is_stored_as(found) and dequantized(first.result) is None
