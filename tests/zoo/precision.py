"""Models in fewer bits: what ONNX Runtime's quantization writes, and half precision."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.zoo.optimized import through_files

Samples = list[dict[str, NDArray[Any]]]
"""Inputs by which the range of each value is measured."""


def static_qdq(model: onnx.ModelProto, samples: Samples) -> onnx.ModelProto:
    """QuantizeLinear and DequantizeLinear around each op, one scale per tensor."""
    return through_files(model, partial(_static, samples, "QDQ", False))


def static_qdq_channels(model: onnx.ModelProto, samples: Samples) -> onnx.ModelProto:
    """The same with one scale per output channel for weights."""
    return through_files(model, partial(_static, samples, "QDQ", True))


def static_qoperator(model: onnx.ModelProto, samples: Samples) -> onnx.ModelProto:
    """QLinearConv, QLinearMatMul and ops of com.microsoft that work on bytes."""
    return through_files(model, partial(_static, samples, "QOperator", False))


def dynamic_integer(model: onnx.ModelProto) -> onnx.ModelProto:
    """MatMulInteger, ConvInteger and DynamicQuantizeLSTM: activations are quantized as they come."""
    return through_files(model, _dynamic)


def _static(samples: Samples, form: str, per_channel: bool, source: Path, target: Path) -> None:
    quantization: Any = import_module("onnxruntime.quantization")
    left = iter(samples)

    def get_next(_: Any) -> dict[str, NDArray[Any]] | None:
        return next(left, None)

    reader = type("Reader", (quantization.CalibrationDataReader,), {"get_next": get_next})
    quantization.quantize_static(
        source, target, reader(), quant_format=quantization.QuantFormat[form], per_channel=per_channel
    )


def _dynamic(source: Path, target: Path) -> None:
    quantization: Any = import_module("onnxruntime.quantization")
    quantization.quantize_dynamic(source, target)


_STAY = {"Resize": (2,), "QuantizeLinear": (1,), "DequantizeLinear": (1,)}
"""Inputs that are float32 whatever the others are."""


def half(model: onnx.ModelProto) -> onnx.ModelProto:
    """All float32 inside the model becomes float16; inputs and outputs stay and are cast."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    del graph.value_info[:]
    stay = {
        node.input[index]
        for node in graph.node
        for index in _STAY.get(node.op_type, ())
        if index < len(node.input)
    }
    for tensor in graph.initializer:
        if tensor.name not in stay:
            tensor.CopyFrom(_halved(tensor))
    for node in graph.node:
        for attribute in node.attribute:
            assert attribute.type != onnx.AttributeProto.GRAPH, "graphs inside of nodes are not converted"
            if attribute.name == "value" and not stay & set(node.output):
                attribute.t.CopyFrom(_halved(attribute.t))
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
    floats = [v.name for v in graph.input if v.type.tensor_type.elem_type == TensorProto.FLOAT]
    results = [v.name for v in graph.output if v.type.tensor_type.elem_type == TensorProto.FLOAT]
    for node in graph.node:
        node.input[:] = [f"{name}/half" if name in floats or name in results else name for name in node.input]
        node.output[:] = [f"{name}/half" if name in results else name for name in node.output]
    before = [helper.make_node("Cast", [name], [f"{name}/half"], to=TensorProto.FLOAT16) for name in floats]
    after = [helper.make_node("Cast", [f"{name}/half"], [name], to=TensorProto.FLOAT) for name in results]
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return result


def _halved(tensor: onnx.TensorProto) -> onnx.TensorProto:
    if tensor.data_type != TensorProto.FLOAT:
        return tensor
    largest = np.finfo(np.float16).max
    array = numpy_helper.to_array(tensor).clip(-largest, largest)
    return numpy_helper.from_array(array.astype(np.float16), tensor.name)
