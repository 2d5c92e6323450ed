"""The nine networks that ship inside the `onnx` package, and versions of them with random weights.

Their files hold no weights: each is filled with one number when the model is loaded, which hides a wrong layout (every
channel is like every other). `randomized` replaces them by numbers that keep activations in range.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

NAMES = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)


def folder() -> Path:
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def path(name: str) -> str:
    return str(folder() / f"light_{name}.onnx")


def load(name: str) -> Any:
    """The network as it ships, as a ModelProto."""
    import onnx

    return onnx.ModelProto.FromString(Path(path(name)).read_bytes())


def expected(name: str) -> np.ndarray[Any, Any]:
    """The output that ships with the network, for the input of `shipped_input`."""
    import onnx
    from onnx import numpy_helper

    proto = onnx.TensorProto()
    proto.ParseFromString((folder() / f"light_{name}_output_0.pb").read_bytes())
    return numpy_helper.to_array(proto)


def input_shape(model: Any) -> tuple[str, tuple[int, ...]]:
    """Name and shape of the one input that is no weight."""
    weights = {tensor.name for tensor in model.graph.initializer}
    (value,) = [value for value in model.graph.input if value.name not in weights]
    return value.name, tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def shipped_input(model: Any) -> np.ndarray[Any, Any]:
    """The input that the shipped outputs belong to: a ramp from 0 to 1."""
    _, shape = input_shape(model)
    size = int(np.prod(shape))
    return (np.arange(size, dtype=np.float32) / np.float32(size)).reshape(shape)


_FEWER = {"shufflenet": 1, "bvlc_alexnet": 2}
"""By how much `shrunk` divides numbers of channels, 8 for all others: ShuffleNet's reshapes say how many there are, and
the groups of AlexNet stay whole blocks."""


def shrunk(name: str, side: int) -> Any:
    """The network for images of `side` by `side` with fewer channels, as a ModelProto without weights.

    A pool over more than there is left gets smaller, and the matrices behind the last image get the rows that come to
    them.
    """
    from onnx import helper, numpy_helper

    model = load(name)
    model.ir_version = max(model.ir_version, 4)  # initializers that are no inputs
    graph = model.graph
    image, (batch, channels, *_) = input_shape(model)
    del graph.input[:], graph.value_info[:]
    graph.input.append(helper.make_tensor_value_info(image, 1, [batch, channels, side, side]))
    del graph.output[0].type.tensor_type.shape.dim[:]
    roles = _roles(graph)
    constants = {tensor.name: tensor for tensor in graph.initializer}
    weights = {node.output[0]: node for node in graph.node if node.op_type == "ConstantOfShape"}

    def reshape(node: Any, extents: Any) -> None:
        shape = f"{node.output[0]}_shape_{len(graph.initializer)}"
        graph.initializer.append(numpy_helper.from_array(np.array(list(extents), np.int64), shape))
        node.input[0] = shape

    def fewer(shape: Any) -> list[int]:
        """The shape of a weight; what has as many channels as the image keeps them."""
        by = _FEWER.get(name, 8)
        first = next((k for k, e in enumerate(shape) if e != 1), 0)
        return [e if e <= channels or k > first + 1 else e // by for k, e in enumerate(shape)]

    for value, node in weights.items():
        shape = numpy_helper.to_array(constants[node.input[0]]).tolist()
        reshape(node, fewer(shape) if value in roles else shape)
    for value in roles.keys() & constants.keys():
        array = numpy_helper.to_array(constants[value])
        kept = tuple(slice(extent) for extent in fewer(array.shape))
        constants[value].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array[kept]), value))
    for node in graph.node:
        if node.op_type not in ("MaxPool", "AveragePool", "Reshape", "Gemm"):
            continue
        shapes = _shapes(model)
        if node.op_type in ("MaxPool", "AveragePool"):
            for attribute in node.attribute:
                if attribute.name == "kernel_shape":
                    pads = next((list(a.ints) for a in node.attribute if a.name == "pads"), [0] * 4)
                    extents = shapes[node.input[0]][2:]
                    attribute.ints[:] = [
                        min(k, e + pads[d] + pads[d + 2])
                        for d, (k, e) in enumerate(zip(attribute.ints, extents, strict=True))
                    ]
        elif node.op_type == "Reshape" and len(shapes.get(node.input[0], ())) >= 4:
            extents = numpy_helper.to_array(constants[node.input[1]]).tolist()
            # Of a channel shuffle the image stays, else all behind the batch becomes one.
            kept = [*extents[:-2], *shapes[node.input[0]][-2:]] if len(extents) >= 4 else [batch, -1]
            if node.input[0] in weights:
                kept = shapes[node.input[0]][-len(extents) :]
            constants[node.input[1]].CopyFrom(numpy_helper.from_array(np.array(kept), node.input[1]))
        elif node.op_type == "Gemm" and node.input[1] in weights:
            rows, outputs = shapes[node.input[0]][1], shapes[node.input[1]][0]
            reshape(weights[node.input[1]], (outputs, rows))
    return model


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """The shapes that shape inference knows, by the names of values."""
    import onnx

    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    return {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.value_info, *graph.input, *graph.output)
    }


def randomized(name: str, seed: int = 0, model: Any = None) -> Any:
    """The network, or a `model` of it, with random weights, as a ModelProto.

    What goes into a final softmax is a further output: random weights may drive it so far that the softmax is 1 for
    one class and 0 for all others, which would hide every smaller difference.
    """
    from onnx import TensorProto, helper, numpy_helper

    model = load(name) if model is None else model
    graph = model.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    roles = _roles(graph)
    random = np.random.default_rng(seed)
    nodes: list[Any] = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.output[0] in roles:
            shape = tuple(int(extent) for extent in constants[node.input[0]])
            data = _numbers(random, shape, roles[node.output[0]])
            graph.initializer.append(numpy_helper.from_array(data, node.output[0]))
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    model.ir_version = max(model.ir_version, 4)  # initializers that are no inputs
    last = next(node for node in nodes if node.output[0] == graph.output[0].name)
    if last.op_type == "Softmax":
        graph.output.append(helper.make_tensor_value_info(last.input[0], TensorProto.FLOAT, None))
    return model


def optimized_by_runtime(path: str, level: str, out: str) -> None:
    """Writes what ONNX Runtime makes of the model `path` at optimization level "BASIC" or "ALL" to the file `out`."""
    onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.log_severity_level = 3
    options.optimized_model_filepath = out
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _roles(graph: Any) -> dict[str, str]:
    """What each weight is used as; others (shapes, axes) are missing."""
    roles: dict[str, str] = {}
    for node in graph.node:
        match node.op_type:
            case "Conv" | "Gemm" | "MatMul":
                names = ("data", "weight", "bias")
            case "BatchNormalization":
                names = ("data", "scale", "bias", "mean", "variance")
            case "Mul":
                names = ("scale", "scale")
            case "Add" | "Sum":
                names = ("bias",) * len(node.input)
            case _:
                names = ()
        for value, role in zip(node.input, names, strict=False):
            if role != "data":
                roles[value] = role
    # A weight that passes through a view before it is used has the role of the view's result.
    for node in reversed(graph.node):
        if (
            node.op_type in ("Reshape", "Unsqueeze", "Transpose", "Squeeze", "Identity")
            and node.output[0] in roles
        ):
            roles.setdefault(node.input[0], roles[node.output[0]])
    return roles


def _numbers(random: np.random.Generator, shape: tuple[int, ...], role: str) -> np.ndarray[Any, Any]:
    match role:
        case "weight":
            fan = int(np.prod(shape[1:])) if len(shape) != 2 else max(shape)
            numbers = random.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / max(fan, 1)))
        case "scale" | "variance":
            numbers = random.uniform(0.5, 1.5, shape)
        case _:
            numbers = random.standard_normal(shape) * 0.1
    return numbers.astype(np.float32)
