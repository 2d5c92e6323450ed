"""QuantizeLinear and DequantizeLinear of models that run, as conversions or as nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import layout_ir as li
from layout_ir.frontends.onnx import from_onnx, to_run
from tests.backends.onednn.small_programs import needs_library, numbers

CHANNELS = np.array([0.5, 0.25, 0.125], np.float32)


def model(
    op: str,
    x: np.ndarray[Any, Any],
    constants: dict[str, np.ndarray[Any, Any]],
    opset: int = 21,
    **attributes: Any,
) -> Any:
    node = helper.make_node(op, ["x", *constants], ["y"], **attributes)
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    plain = np.zeros((), np.int16 if "output_dtype" in attributes else np.uint8)
    point = constants.get("zero_point", plain)
    made = np.dtype(np.float32) if op == "DequantizeLinear" else point.dtype
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(made), x.shape)
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "graph", [given], [result], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def scales(scale: Any, zero_point: Any) -> dict[str, np.ndarray[Any, Any]]:
    return {"scale": np.asarray(scale, np.float32), "zero_point": zero_point}


def ops(module: Any) -> list[str]:
    return [
        op.name
        for op in module.walk()
        if op.name in ("nn.opaque", "layout.reorder") and op.results[0].name_hint == "y"
    ]


X = 3 * numbers((2, 3, 4))
STORED = np.arange(-12, 12, dtype=np.int8).reshape(2, 3, 4)
CASES: list[tuple[str, np.ndarray[Any, Any], dict[str, np.ndarray[Any, Any]], dict[str, int]]] = [
    ("QuantizeLinear", X, scales(0.1, np.uint8(7)), {}),
    ("QuantizeLinear", X, {"scale": np.array([0.1], np.float32)}, {}),
    ("QuantizeLinear", X, scales(CHANNELS, np.array([1, -2, 3], np.int8)), {"axis": -2}),
    ("DequantizeLinear", STORED, scales(0.1, np.int8(7)), {}),
    ("DequantizeLinear", STORED, scales(CHANNELS, np.array([1, -2, 3], np.int8)), {"axis": 1}),
]


@needs_library
@pytest.mark.parametrize(("op", "x", "constants", "attributes"), CASES)
def test_conversions_give_what_onnx_runtime_gives(op: str, x: Any, constants: Any, attributes: Any):
    runtime = pytest.importorskip("onnxruntime")
    made = model(op, x, constants, **attributes)
    assert ops(to_run(made)) == ["layout.reorder"]
    assert ops(from_onnx(made, keep_quantized=True)) == ["nn.opaque"]  # which can go out again
    [theirs] = runtime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    [ours] = li.compile(made)([x])
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


NEGATIVE = np.array([0.1, -0.2, -0.05])
POINTS = np.array([1, -2, 3], np.int8)


@needs_library
@pytest.mark.parametrize(
    ("op", "x", "constants", "attributes"),
    [
        ("QuantizeLinear", X, scales(-0.1, np.uint8(7)), {}),
        ("QuantizeLinear", X, scales(NEGATIVE, POINTS), {"axis": -2}),
        ("DequantizeLinear", STORED, scales(-0.1, np.int8(7)), {}),
        ("DequantizeLinear", STORED, scales(NEGATIVE, POINTS), {"axis": 1}),
    ],
)
def test_negative_scales_are_magnitudes_and_signs(op: str, x: Any, constants: Any, attributes: Any):
    """NNCF writes them: the number of largest magnitude becomes -128."""
    made = model(op, x, constants, **attributes)
    executable = li.compile(made)
    evaluator: Any = ReferenceEvaluator(made)
    np.testing.assert_array_equal(executable([x])[0], evaluator.run(None, {"x": x})[0])
    assert not executable.fallbacks


@needs_library
def test_weights_with_negative_scales_are_numbers_before_the_first_call():
    weights = np.arange(-12, 12, dtype=np.int8).reshape(8, 3)
    made = model("DequantizeLinear", weights, scales(NEGATIVE, POINTS), axis=1)
    made.graph.initializer.append(numpy_helper.from_array(weights, "x"))
    made.graph.input[0].CopyFrom(helper.make_tensor_value_info("a", TensorProto.FLOAT, (2, 8)))
    made.graph.node.append(helper.make_node("MatMul", ["a", "y"], ["z"]))
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("z", TensorProto.FLOAT, (2, 3)))
    a = numbers((2, 8))
    executable = li.compile(made)
    evaluator: Any = ReferenceEvaluator(made)
    np.testing.assert_allclose(executable([a])[0], evaluator.run(None, {"a": a})[0], rtol=1e-5, atol=1e-5)
    assert len(executable.profile([a])) == 1


@needs_library
@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
def test_sixteen_bits_in_the_domain_of_onnx_runtime(dtype: Any):
    """Its quantizer writes them so up to opset 20."""
    runtime = pytest.importorskip("onnxruntime")
    made = model("QuantizeLinear", X, scales(0.001, dtype(9)), 17, domain="com.microsoft")
    back = helper.make_node("DequantizeLinear", ["y", "scale", "zero_point"], ["z"], domain="com.microsoft")
    made.graph.node.append(back)
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("z", TensorProto.FLOAT, X.shape))
    made.opset_import.add(domain="com.microsoft", version=1)
    [theirs] = runtime.InferenceSession(made.SerializeToString()).run(None, {"x": X})
    executable = li.compile(made)
    np.testing.assert_allclose(executable([X])[0], theirs, rtol=0, atol=1e-6)
    assert not executable.fallbacks


BLOCKS = scales(np.full((2, 3, 2), 0.5), np.zeros((2, 3, 2), np.int8))


@pytest.mark.parametrize(
    ("op", "x", "constants", "attributes"),
    [
        ("QuantizeLinear", X, BLOCKS, {"axis": 2, "block_size": 2}),
        ("DequantizeLinear", STORED, BLOCKS, {"axis": 2, "block_size": 2}),
        ("QuantizeLinear", X, {"scale": np.array(0.1, np.float32)}, {"output_dtype": TensorProto.INT16}),
        ("DequantizeLinear", STORED, scales(0.0, np.int8(7)), {}),
        ("DequantizeLinear", STORED, scales(np.inf, np.int8(7)), {}),
        ("QuantizeLinear", X, scales(np.nan, np.int8(7)), {}),
    ],
)  # fmt: skip
def test_negative_what_no_conversion_says_stays_a_node(op: str, x: Any, constants: Any, attributes: Any):
    assert ops(to_run(model(op, x, constants, **attributes))) == ["nn.opaque"]


def test_negative_a_zero_point_of_other_elements_is_refused():
    with pytest.raises(li.LayoutError, match="DequantizeLinear"):
        to_run(model("DequantizeLinear", STORED, scales(0.1, np.uint8(7))))


def test_negative_scales_that_are_no_channels_are_refused_or_left_to_the_reference():
    made = model("DequantizeLinear", STORED, scales(CHANNELS, np.zeros(3, np.int8)), axis=2)
    assert ops(to_run(made)) in ([], ["nn.opaque"])
