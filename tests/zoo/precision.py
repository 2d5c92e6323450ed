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


def activation_channels(model: onnx.ModelProto, samples: Samples) -> onnx.ModelProto:
    """QuantizeLinear and DequantizeLinear with a scale per channel behind every ReLU on pictures."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    ranges = _channel_ranges(model, [n.output[0] for n in graph.node if n.op_type == "Relu"], samples)
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        nodes.append(node)
        name = node.output[0]
        if node.op_type != "Relu" or name not in ranges:
            continue
        scale = numpy_helper.from_array((ranges[name] / 255 + 1e-6).astype(np.float32), f"{name}/scale")
        zero = numpy_helper.from_array(np.zeros(scale.dims[0], np.uint8), f"{name}/zero")
        graph.initializer.extend([scale, zero])
        node.output[0] = f"{name}/exact"
        for kind, source, target in (
            ("QuantizeLinear", f"{name}/exact", f"{name}/quantized"),
            ("DequantizeLinear", f"{name}/quantized", name),
        ):
            nodes.append(helper.make_node(kind, [source, scale.name, zero.name], [target], axis=1))
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return result


def _channel_ranges(model: onnx.ModelProto, names: list[str], samples: Samples) -> dict[str, NDArray[Any]]:
    """The largest number of each channel, for those of the values that have four dims."""
    runtime: Any = import_module("onnxruntime")
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    known = {value.name for value in model.graph.output}
    for name in names:
        if name not in known:
            watched.graph.output.add().name = name
    session = runtime.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    found: dict[str, NDArray[Any]] = {}
    for sample in samples:
        for name, array in zip(names, session.run(names, sample), strict=True):
            if array.ndim == 4:
                found[name] = np.maximum(found.get(name, 0.0), array.max((0, 2, 3)))
    return found


def tensorflow_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The quantized weights of convolutions as TensorFlow keeps them: height, width, inputs, outputs, scaled along the
    last dim, and transposed behind their DequantizeLinear."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    of_convolutions = {node.input[1] for node in graph.node if node.op_type == "Conv"}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        nodes.append(node)
        name = node.output[0]
        if node.op_type != "DequantizeLinear" or name not in of_convolutions or node.input[0] not in weights:
            continue
        tensor = weights[node.input[0]]
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(numpy_helper.from_array(array.transpose(2, 3, 1, 0), tensor.name))
        for attribute in node.attribute:
            if attribute.name == "axis":
                attribute.i = (3, 2, 0, 1)[attribute.i % 4]
        node.output[0] = f"{name}/hwio"
        nodes.append(helper.make_node("Transpose", [f"{name}/hwio"], [name], perm=[3, 2, 0, 1]))
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return result


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
