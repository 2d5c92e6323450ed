"""As many nodes as one wants: one block again and again, to see how time grows with size."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, WIDE, HEIGHT, WIDTH = 6, 22, 10, 14
"""No two are equal, and none is the batch or a part of the kernel."""


def blocks(count: int) -> onnx.ModelProto:
    """`count` residual blocks with squeeze-and-excitation, each of 15 nodes; every fourth also joins two branches."""
    random = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def add(kind: str, *inputs: str, **attributes: Any) -> str:
        result = f"v{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [result], **attributes))
        return result

    def weight(*shape: int, scale: float = 1.0) -> str:
        fan = int(np.prod(shape[1:])) or 1
        array = (scale * random.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)
        weights.append(numpy_helper.from_array(array, f"w{len(weights)}"))
        return weights[-1].name

    def conv(x: str, inputs: int, outputs: int, kernel: int = 1, group: int = 1) -> str:
        pads = [kernel // 2] * 4
        shape = (outputs, inputs // group, kernel, kernel)
        return add("Conv", x, weight(*shape), weight(outputs, scale=0.1), pads=pads, group=group)

    x = "x"
    for index in range(count):
        y = add("Relu", conv(x, CHANNELS, WIDE))
        y = conv(y, WIDE, WIDE, 3, WIDE)
        y = add("Mul", y, add("HardSigmoid", y))
        gate = add("Relu", conv(add("GlobalAveragePool", y), WIDE, 5))
        y = add("Mul", y, add("Sigmoid", conv(gate, 5, WIDE)))
        y = conv(y, WIDE, CHANNELS)
        if index % 4 == 3:
            pooled = add("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            y = conv(add("Concat", y, pooled, axis=1), 2 * CHANNELS, CHANNELS)
        # A mean of both, so that numbers stay in range through any depth.
        x = add("Mul", add("Add", x, y), "half")
    nodes[-1].output[0] = "y"
    weights.append(numpy_helper.from_array(np.float32(0.5).reshape(1), "half"))
    value = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, CHANNELS, HEIGHT, WIDTH]) for name in "xy"
    ]
    graph = helper.make_graph(nodes, "blocks", value[:1], value[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
