"""Elementwise ops, in all their versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from tests.frontends.onnx.models import (
    model,
    node,
    only,
    ops_of,
)
from tests.frontends.onnx.onnxruntime_oracle import check_like_onnx_runtime

X = {"x": (1, 3, 8, 8)}


def test_clip_takes_attributes_then_inputs():
    op = only(model([node("Clip", "x", min=-1.0, max=6.0)], X, opset=10))
    assert (op.min, op.max) == (-1, 6)
    constants = {"lo": np.array(-1, np.float32), "hi": np.array(6, np.float32)}
    op = only(model([node("Clip", "x lo hi")], X, constants=constants, opset=11))
    assert (op.min, op.max) == (-1, 6)
    ops = ops_of(model([node("Clip", "x lo hi")], {**X, "lo": (), "hi": ()}))
    assert [op.name for op in ops] == ["nn.max", "nn.min"]


def test_variadic_ops_are_chains():
    inputs = dict.fromkeys("abc", (2, 3))
    for op_type, names in (
        ("Sum", ["nn.add", "nn.add"]),
        ("Max", ["nn.max", "nn.max"]),
        ("Min", ["nn.min", "nn.min"]),
        ("Mean", ["nn.add", "nn.add", "nn.div"]),
    ):
        assert [op.name for op in ops_of(model([node(op_type, "a b c")], inputs))] == names
    assert ops_of(model([node("Sum", "a")], {"a": (2, 3)})) == []


def test_pow_converts_the_exponent():
    constants = {"e": np.array(2, np.int64)}
    assert [op.name for op in ops_of(model([node("Pow", "x e")], X, constants=constants))] == ["nn.pow"]
    source = model(
        [node("Pow", "x e")], X, constants={"e": np.array(0.5, np.float32)}, element=TensorProto.INT32
    )
    assert [op.name for op in ops_of(source)] == ["nn.cast", "nn.pow", "nn.cast"]


@pytest.mark.parametrize(("x", "slope"), [((2, 1, 3), (1, 4, 1)), ((3,), (2, 4, 3)), ((2, 3, 4), (3, 1))])
def test_a_slope_is_broadcast_and_as_onnx_runtime_takes_it_so_is_x(
    x: tuple[int, ...], slope: tuple[int, ...]
):
    source = model([node("PRelu", "x slope")], {"x": x, "slope": slope}, opset=16)
    numbers = np.random.default_rng(0)
    inputs = {
        name: numbers.standard_normal(shape).astype(np.float32)
        for name, shape in (("x", x), ("slope", slope))
    }
    check_like_onnx_runtime(source, inputs)
    wider = np.broadcast_shapes(x, slope) != x
    assert [op.name for op in ops_of(source)] == ["nn.expand"] * wider + ["nn.prelu"]


def test_negative_a_slope_that_does_not_fit():
    with pytest.raises(OnnxImportError, match=r"PRelu.*2x3.*4x3"):
        from_onnx(model([node("PRelu", "x slope")], {"x": (2, 3), "slope": (4, 3)}))


def test_attributes_are_read_as_the_decimal_they_were_written_as():
    op = only(model([node("LeakyRelu", "x", alpha=0.1)], X))
    assert op.alpha == 0.1
    op = only(model([node("LRN", "x", size=5, alpha=1e-4, beta=0.75, bias=1.0)], X))
    assert "alpha" not in op.properties


def numbers(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Multiples of 1/2, so that some are equal."""
    return (np.random.default_rng(seed).integers(-6, 7, shape) / 2).astype(np.float32)


@pytest.mark.parametrize(
    "op", ["Selu", "Celu", "ThresholdedRelu", "Softsign", "Sign", "Round", "HardSwish", "Mish", "Softplus"]
)
def test_activations_are_those_of_onnx_runtime(op: str):
    source = model([node(op, "x")], {"x": (2, 3, 5)}, opset=18)
    assert only(source).name.startswith("nn.") and only(source).name != "nn.opaque"
    check_like_onnx_runtime(source, {"x": numbers(2, 3, 5)})


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_is_that_of_onnx_runtime(approximate: str):
    source = model([node("Gelu", "x", approximate=approximate)], {"x": (2, 3, 5)}, opset=20)
    assert only(source).approximate == approximate
    check_like_onnx_runtime(source, {"x": numbers(2, 3, 5)}, tolerance=1e-4)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Gelu", "x", {}), ("FastGelu", "x", {}), ("FastGelu", "x b", {}), ("BiasGelu", "x b", {}),
        ("QuickGelu", "x", {}), ("QuickGelu", "x", {"alpha": 0.5}),
    ],
)  # fmt: skip
def test_activations_of_onnx_runtime_itself(op: str, inputs: str, attributes: dict[str, Any]):
    constants = {"b": numbers(5, seed=1)} if "b" in inputs else {}
    source = model(
        [node(op, inputs, domain="com.microsoft", **attributes)],
        {"x": (2, 3, 5)},
        constants=constants,
        opset=18,
    )
    source.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    check_like_onnx_runtime(source, {"x": numbers(2, 3, 5)}, tolerance=1e-4)


@pytest.mark.parametrize("op", ["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"])
@pytest.mark.parametrize("shape", [(2, 4, 5), (4, 1)])
def test_comparisons_and_where_are_those_of_onnx_runtime(op: str, shape: tuple[int, ...]):
    nodes = [node(op, "x k", "c"), node("Not", "c", "n"), node("Where", "n x k")]
    source = model(nodes, {"x": (2, 4, 5), "k": shape}, ["y", "n"], opset=16)
    source.graph.output[1].type.tensor_type.elem_type = TensorProto.BOOL
    assert [entry.name.partition(".")[0] for entry in ops_of(source)] == ["nn"] * 3
    check_like_onnx_runtime(source, {"x": numbers(2, 4, 5), "k": numbers(*shape, seed=1)})


@pytest.mark.parametrize("op", ["And", "Or", "Xor", "Equal"])
def test_functions_of_truth_values_are_those_of_onnx_runtime(op: str):
    nodes = [node("Greater", "x k", "a"), node("Less", "k z", "b"), node(op, "a b")]
    source = model(nodes, dict.fromkeys("xkz", (2, 4, 5)), opset=16)
    source.graph.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    assert not any(entry.name == "nn.opaque" for entry in ops_of(source))
    check_like_onnx_runtime(source, {name: numbers(2, 4, 5, seed=k) for k, name in enumerate("xkz")})


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("And", "x x")], "element type f32 of operand 0 is not supported by nn.and"),
        ([node("Where", "x x x")], "operand 0 of nn.where has element type f32, expected i1"),
    ],
)
def test_negative_numbers_as_truth_values(nodes: list[onnx.NodeProto], message: str):
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(model(nodes, {"x": (2, 3)}))
