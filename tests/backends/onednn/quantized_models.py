"""ONNX models with quantized tensors, and what ONNX Runtime and the executor make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import layout_ir as li

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]

SCALES: dict[str, Any] = {
    "s1": np.float32(0.03), "z1": np.uint8(120), "s2": np.float32(0.05), "z2": np.uint8(7),
    "s3": np.float32(0.06), "z3": np.uint8(100), "signed": np.int8(-3), "symmetric": np.int8(0),
}  # fmt: skip
"""Scales and zero points, by the names that nodes use."""


def node(op: str, inputs: Sequence[str], output: str, **attributes: Any) -> Any:
    """A node with one output."""
    return onnx.helper.make_node(op, list(inputs), [output], **attributes)


def dequantize(x: str, scale: str, zero: str, output: str, **attributes: Any) -> Any:
    """A DequantizeLinear."""
    return node("DequantizeLinear", (x, scale, zero), output, **attributes)


def quantize(x: str, scale: str, zero: str, output: str) -> Any:
    """A QuantizeLinear."""
    return node("QuantizeLinear", (x, scale, zero), output)


def integers(shape: Sequence[int], seed: int, dtype: Any = np.uint8) -> Array:
    """Random integers of all values of a type of 8 bits."""
    return np.random.default_rng(seed).integers(0, 256, tuple(shape)).astype(np.uint8).view(dtype)


def weights(shape: Sequence[int], outputs: int, seed: int = 1, *, largest: int = 127) -> dict[str, Any]:
    """Symmetric weights `w`, with scales `ws` along dim `outputs`, zero points `wz`, and a bias `b`.

    Those of at most 64 are multiplied as integers on every CPU; by larger ones ONNX Runtime, too, is exact only where
    the CPU has VNNI, or where the node is a Conv, Gemm or MatMul of real numbers."""
    draw = np.random.default_rng(seed)
    count = shape[outputs]
    return {
        "w": draw.integers(-largest, largest + 1, tuple(shape)).astype(np.int8),
        "ws": draw.uniform(0.002, 0.01, count).astype(np.float32),
        "wz": np.zeros(count, np.int8),
        "b": draw.uniform(-1, 1, count).astype(np.float32),
    }


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Array],
    constants: Mapping[str, Any],
    output: str,
    domain: str = "",
    *,
    opset: int = 17,
) -> Any:
    """A checked model of one output, whose inputs are like these arrays."""
    helper = onnx.helper
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    used = {name for one in nodes for name in one.input}
    tensors = [
        onnx.numpy_helper.from_array(np.asarray(array), name)
        for name, array in {**SCALES, **constants}.items()
        if name in used
    ]
    result = onnx.ValueInfoProto(name=output)
    graph = helper.make_graph(list(nodes), "quantized", values, [result], tensors)
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    made = helper.make_model(graph, opset_imports=imports, ir_version=9 if opset < 21 else 10)
    session = _session(made, inputs)
    kind = session.get_outputs()[0]
    type = {"tensor(uint8)": 2, "tensor(int8)": 3, "tensor(int32)": 6, "tensor(float)": 1}[kind.type]
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info(output, type, kind.shape))
    return made


def _session(made: Any, inputs: Mapping[str, Array]) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


def compare(made: Any, inputs: Mapping[str, Array], *, steps: int = 1, share: float = 0.001) -> li.Executable:
    """Runs a model by the library, on memory full of NaN, and by ONNX Runtime node by node.

    Integers differ by at most `steps`, and at most the part `share` of them differs at all; floats differ by
    1e-5 of the largest. Returns the executable."""
    (expected,) = _session(made, inputs).run(None, dict(inputs))
    executable = li.compile(made, checked=True)
    assert not executable.fallbacks
    for _ in range(2):
        (found,) = executable(dict(inputs))
        assert found.shape == expected.shape and found.dtype == expected.dtype
        difference = np.abs(found.astype(np.float64) - expected.astype(np.float64))
        if expected.dtype.kind == "f":
            assert difference.max() <= 1e-5 * max(np.abs(expected).max(), 1e-3)
        else:
            assert difference.max() <= steps
            assert np.count_nonzero(difference) <= share * difference.size
    return executable


def steps_of(executable: li.Executable, inputs: Mapping[str, Array]) -> list[tuple[str, ...]]:
    """The ops of each step, without steps that only move or convert."""
    times = executable.profile(dict(inputs))
    return [time.ops for time in times if time.implementation != "reorder"]
