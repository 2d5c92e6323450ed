"""Nodes that ONNX Runtime and its quantizer write, as ops: the same numbers as ONNX Runtime gives for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.rewrites.node_decomposition import decompose_nodes
from layout_ir.dialects import nn
from layout_ir.frontends.onnx import from_onnx
from tests.backends.onednn.quantized_models import (
    Array,
    compare,
    dequantize,
    integers,
    model,
    node,
    quantize,
    weights,
)
from tests.backends.onednn.small_programs import needs_library, numbers

onnx = pytest.importorskip("onnx")

pytestmark = needs_library

MICROSOFT = "com.microsoft"


def opaque_nodes(made: Any) -> list[str]:
    """The nodes of a model that stay such; not those that the executor makes of them."""
    module = from_onnx(made, keep_quantized=True)
    decompose_nodes(module)
    module.verify()
    nodes = [op for op in module.walk() if isinstance(op, nn.OpaqueOp)]
    return [op.title for op in nodes if op.domain.data != "layout_ir"]


@pytest.mark.parametrize(
    "windows", [{"pads": [1, 1, 1, 1]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"auto_pad": "VALID"}]
)
def test_a_qlinear_conv(windows: dict[str, Any]):
    x, given = integers((2, 8, 6, 5), 0), weights((6, 8, 3, 3), 0, largest=64)
    given |= {"c": np.arange(-300, 300, 100).astype(np.int32)}
    inputs = ("x", "s1", "z1", "w", "ws", "wz", "s3", "z3", "c")
    made = model([node("QLinearConv", inputs, "y", **windows)], {"x": x}, given, "y")
    assert not opaque_nodes(made)
    compare(made, {"x": x})


@pytest.mark.parametrize("constant", [False, True])
def test_a_qlinear_matmul(constant: bool):
    x, given = integers((2, 5, 9), 0), weights((9, 6), 1, largest=64)
    given |= {"ws": np.float32(0.01), "wz": np.int8(0)}
    inputs = {"x": x} if constant else {"x": x, "w": given.pop("w")}
    made = model(
        [node("QLinearMatMul", ("x", "s1", "z1", "w", "ws", "wz", "s3", "z3"), "y")], inputs, given, "y"
    )
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize("group", [1, 4, 8])
@pytest.mark.parametrize("zero", ["", "z1", "z"])
def test_products_of_integers_are_exact(zero: str, group: int):
    """The zero point is left out, a constant, or computed."""
    given = weights((8, 8 // group, 3, 3), 0) | {"m": integers((9, 6), 2, np.int8)}
    more = {"z": np.array(77, np.uint8)} if zero == "z" else {}
    x, y = {"x": integers((1, 8, 6, 5), 0), **more}, {"x": integers((2, 5, 9), 1), **more}
    conv = model(
        [node("ConvInteger", ("x", "w", *([zero] if zero else [])), "y", group=group)], x, given, "y"
    )
    product = model([node("MatMulInteger", ("x", "m", *([zero] if zero else [])), "y")], y, given, "y")
    for made, inputs in ((conv, x), (product, y)):
        assert not opaque_nodes(made)
        compare(made, inputs, steps=0, share=0)


@pytest.mark.parametrize("shape", [(3, 1, 5), (3, 1, 1), (1, 1, 5), (5,)])
@pytest.mark.parametrize("matrices", [(3, 8, 5), (3, 8, 3)])
def test_zero_points_of_each_matrix_and_column(shape: tuple[int, ...], matrices: tuple[int, ...]):
    """Those of each matrix are no parameters of a primitive, even where there are as many as columns."""
    shape = tuple(matrices[2] if extent == 5 else extent for extent in shape)
    given = {"m": integers(matrices, 2, np.int8), "z": np.uint8(7), "c": integers(shape, 3, np.int8)}
    inputs = {"x": integers((3, 4, 8), 0)}
    made = model([node("MatMulInteger", ("x", "m", "z", "c"), "y")], inputs, given, "y")
    assert bool(opaque_nodes(made)) == (len(shape) == 3)
    (found,) = li.compile(made)(inputs)
    expected = (inputs["x"].astype(np.int64) - 7) @ (given["m"].astype(np.int64) - given["c"])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("zero", ["", "c", "z"])
@pytest.mark.parametrize("depth", [1200, 3000])
def test_products_of_more_integers_than_f32_counts_are_sums(depth: int, zero: str):
    # Of 7 bits, of which no two products saturate where the library adds them in 16.
    given: dict[str, Any] = {"m": integers((depth, 3), 1, np.int8) >> 1, "c": np.uint8(200)}
    given["m"][:, 0] = 63
    inputs = {"x": integers((2, 5, depth), 0)} | ({"z": np.array(99, np.uint8)} if zero == "z" else {})
    inputs["x"][0] = 255
    made = model([node("MatMulInteger", ("x", "m", *([zero] if zero else [])), "y")], inputs, given, "y")
    assert not opaque_nodes(made)
    (found,) = li.compile(made)(inputs)
    point = {"": 0, "c": 200, "z": 99}[zero]
    # Not ONNX Runtime, which saturates such sums on processors without instructions for them.
    expected = (inputs["x"].astype(np.int64) - point) @ given["m"].astype(np.int64)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("has_vnni", [False, True])
def test_convolutions_of_more_integers_than_f32_counts_are_exact(
    has_vnni: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(library(), "sums_bytes_exactly", has_vnni)
    x = integers((1, 1024, 2, 2), 0)
    given = {"w": np.full((2, 1024, 1, 1), 127, np.int8)}
    made = model([node("ConvInteger", ("x", "w"), "y")], {"x": x}, given, "y")
    assert not opaque_nodes(made)
    expected = np.einsum("oi,nihw->nohw", given["w"][:, :, 0, 0].astype(np.int64), x.astype(np.int64))
    np.testing.assert_array_equal(li.compile(made)([x])[0], expected)


def test_negative_depthwise_convolutions_without_a_kernel_run_on_floats_where_those_are_exact():
    inputs = {"x": integers((1, 300, 3, 3), 0)}
    given = {"w": np.full((300, 1, 31, 31), 2, np.int8)}
    made = model([node("ConvInteger", ("x", "w"), "y", group=300, pads=[15] * 4)], inputs, given, "y")
    assert not opaque_nodes(made)
    assert opaque_nodes(model(list(made.graph.node), inputs, {"w": given["w"] * 60}, "y")) == ["ConvInteger"]


@pytest.mark.parametrize("numbers_of", ["mixed", "positive", "negative", "zero"])
@pytest.mark.parametrize("shape", [(3, 50), (200,), ()])
@pytest.mark.parametrize("result", ["real", "scale", "zero"])
def test_a_tensor_quantized_by_its_own_range(shape: tuple[int, ...], numbers_of: str, result: str):
    x = np.asarray(numbers(shape, 1, -3, 5), np.float32)
    x = {"mixed": x, "positive": abs(x) + 1, "negative": -abs(x) - 1, "zero": 0 * x}[numbers_of]
    x = np.asarray(x, np.float32)
    nodes = [
        onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("Cast", ("q",), "quantized", to=1),
        node("Cast", ("z",), "zero", to=1),
        node("Sub", ("quantized", "zero"), "steps"),
        node("Mul", ("steps", "s"), "real"),
        node("Neg", ("s",), "scale"),
    ]
    made = model(nodes, {"x": x}, {}, result)
    assert not opaque_nodes(made)
    compare(made, {"x": x})


def test_a_tensor_without_elements_has_the_range_of_zeros():
    x = np.ones((0, 3), np.float32)
    nodes = [onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "y", "z"])]
    made = model(nodes, {"x": x}, {}, "y")
    assert not opaque_nodes(made)
    compare(made, {"x": x})


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("QLinearAdd", ("x", "s1", "z1", "v", "s2", "z2", "s3", "z3"), {}),
        ("QLinearMul", ("x", "s1", "z1", "v", "s2", "z2", "s3", "z3"), {}),
        ("QLinearConcat", ("s3", "z3", "x", "s1", "z1", "v", "s2", "z2"), {"axis": 1}),
        ("QLinearGlobalAveragePool", ("x", "s1", "z1", "s2", "z2"), {}),
        ("QLinearAveragePool", ("x", "s1", "z1", "s2", "z2"), {"kernel_shape": [2, 3]}),
        ("QLinearSigmoid", ("x", "s1", "z1", "s2", "z2"), {}),
        ("QLinearLeakyRelu", ("x", "s1", "z1", "s2", "z2"), {"alpha": 0.1}),
        ("QLinearSoftmax", ("x", "s1", "z1", "s2", "z2"), {"axis": 1, "opset": 13}),
        ("QLinearSoftmax", ("x", "s1", "z1", "s2", "z2"), {"axis": 3, "opset": 12}),
    ],
)
def test_quantized_ops_of_onnx_runtime(op: str, inputs: tuple[str, ...], attributes: dict[str, Any]):
    given = {"x": integers((2, 5, 4, 3), 0)} | ({"v": integers((2, 5, 4, 3), 1)} if "v" in inputs else {})
    made = model([node(op, inputs, "y", domain=MICROSOFT, **attributes)], given, {}, "y", MICROSOFT)
    assert not opaque_nodes(made)
    compare(made, given, share=0.1)


def test_a_quantized_pool_of_channels_last_has_a_function():
    x = {"x": integers((2, 5, 4, 3), 0)}
    pool = node(
        "QLinearGlobalAveragePool", ("x", "s1", "z1", "s2", "z2"), "y", domain=MICROSOFT, channels_last=1
    )
    made = model([pool], x, {}, "y", MICROSOFT)
    assert not opaque_nodes(made)
    compare(made, x, share=0.1)


def test_a_quantized_softmax_over_all_dims_behind_its_axis_has_a_function():
    x = {"x": integers((2, 5, 4, 3), 0)}
    inputs = ("x", "s1", "z1", "s2", "z2")
    softmax = node("QLinearSoftmax", inputs, "y", domain=MICROSOFT, axis=1, opset=12)
    made = model([softmax], x, {}, "y", MICROSOFT)
    assert not opaque_nodes(made)
    compare(made, x, share=0.1)


@pytest.mark.parametrize("quantized", [False, True])
def test_a_qgemm(quantized: bool):
    x, given = integers((5, 9), 0), weights((6, 9), 0, largest=64)
    given |= {"c": np.arange(-300, 300, 100).astype(np.int32)}
    inputs = ("x", "s1", "z1", "w", "ws", "wz", "c", *(("s3", "z3") if quantized else ()))
    nodes = [node("QGemm", inputs, "y", domain=MICROSOFT, transB=1, alpha=1.0)]
    made = model(nodes, {"x": x}, given, "y", MICROSOFT)
    assert not opaque_nodes(made)
    compare(made, {"x": x})


def test_convolutions_and_products_with_what_onnx_runtime_fuses():
    x = {"x": numbers((2, 8, 6, 5))}
    given = {"w": numbers((6, 8, 3, 3), 1), "b": numbers((6,), 2), "v": numbers((2, 6, 4, 3), 3)}
    conv = node(
        "FusedConv",
        ("x", "w", "b", "v"),
        "y",
        domain=MICROSOFT,
        activation="LeakyRelu",
        activation_params=[0.1],
    )
    product = node("FusedMatMul", ("x", "m"), "y", domain=MICROSOFT, transB=1, transA=1, alpha=0.5)
    gemm = node("FusedGemm", ("a", "n", "b"), "y", domain=MICROSOFT, transB=1, activation="Relu")
    rows = {"a": numbers((5, 8))}
    for made, inputs in (
        (model([conv], x, given, "y", MICROSOFT), x),
        (model([product], x, {"m": numbers((4, 6), 1)}, "y", MICROSOFT), x),
        (model([gemm], rows, given | {"n": numbers((6, 8), 1)}, "y", MICROSOFT), rows),
    ):
        assert not opaque_nodes(made)
        compare(made, inputs)


@pytest.mark.parametrize("flags", [(1, 0, 0, 1), (1, 1, 1, 0)])
def test_a_product_of_operands_whose_first_dim_lies_behind_others(flags: tuple[int, ...]):
    names = ("transA", "transBatchA", "transB", "transBatchB")
    shapes = {"a": [2, 3, 4, 5], "c": [2, 3, 5, 6]}
    for value, transposed, batch in (("a", *flags[:2]), ("c", *flags[2:])):
        if transposed:
            shapes[value][2:] = shapes[value][:1:-1]
        if batch:
            first, second, rows, columns = shapes[value]
            shapes[value] = [rows, first, second, columns]
    inputs = {name: numbers(shape, seed) for seed, (name, shape) in enumerate(shapes.items())}
    product = node("FusedMatMul", ("a", "c"), "y", domain=MICROSOFT, **dict(zip(names, flags, strict=True)))
    made = model([product], inputs, {}, "y", MICROSOFT)
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("divisor", [7, -7, 1])
def test_remainders_of_integers(divisor: int, fmod: int, dtype: Any):
    inputs = {"x": np.arange(-30, 30, dtype=dtype).reshape(6, 10)}
    nodes = [node("Mod", ("x", "d"), "rest", fmod=fmod), node("Cast", ("rest",), "y", to=1)]
    made = model(nodes, inputs, {"d": np.array(divisor, dtype)}, "y")
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize("divisor", [np.array([3, 0]), np.array([2.5, 1.0], np.float32), None])
def test_negative_remainders_by_zero_and_of_floats_stay_opaque(divisor: Array | None):
    inputs = {"x": np.ones((4, 2), np.int64 if divisor is None else divisor.dtype)}
    inputs |= {} if divisor is not None else {"d": np.array([3, 4])}
    given = {} if divisor is None else {"d": np.maximum(divisor, 1)}
    nodes = [node("Mod", ("x", "d"), "rest", fmod=1), node("Cast", ("rest",), "y", to=1)]
    made = model(nodes, inputs, given, "y")
    if divisor is not None:
        (tensor,) = made.graph.initializer
        tensor.CopyFrom(onnx.numpy_helper.from_array(divisor, "d"))
    assert opaque_nodes(made) == ["Mod"]


@pytest.mark.parametrize(
    ("shape", "axis", "largest"),
    [((3, 40), -1, 1), ((3, 40), 0, 0), ((2, 5, 30), 1, 1), ((2, 3, 5, 6), 2, 0)],
)
@pytest.mark.parametrize("result", ["v", "i"])
def test_the_largest_elements_are_found_by_a_loop(
    shape: tuple[int, ...], axis: int, largest: int, result: str
):
    inputs = {"x": numbers(shape)}
    nodes = [
        onnx.helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis, largest=largest),
        node("Cast", (result,), "y", to=1),
    ]
    compare(model(nodes, inputs, {"k": np.array([3])}, "y"), inputs)


def per_channel(zero: Array) -> Any:
    x = {"x": numbers((2, 3, 4))}
    constants = {"s": np.array([0.02, 0.5, 0.1], np.float32), "z": zero}
    return model([quantize("x", "s", "z", "q"), dequantize("q", "s", "z", "y")], x, constants, "y"), x


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_tensors_are_quantized_per_channel(dtype: Any):
    made, x = per_channel(np.array([1, 0, 100], dtype))
    assert not opaque_nodes(made)
    compare(made, x)


def test_negative_scales_that_are_computed_stay_with_their_node():
    inputs = {"x": numbers((2, 3)), "s": np.array(0.1, np.float32)}
    made = model([quantize("x", "s", "z1", "y")], inputs, {}, "y")
    assert opaque_nodes(made) == ["QuantizeLinear"]
    (found,) = li.compile(made)(inputs)
    (expected,) = li.run(from_onnx(made), inputs)
    assert np.array_equal(found, expected)
