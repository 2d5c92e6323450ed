"""Models as naive converters from NHWC frameworks write them.

Every tensor of four dims flows in NHWC, the model's inputs and outputs too. Ops that ONNX defines for NCHW alone
(convolutions, pools, norms, resizes) stand between two transposes; for all others axes, pads and constants are
rewritten. Where that cannot be done (reshapes, products of matrices), the value is transposed back first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

TO_LAST = (0, 2, 3, 1)
TO_FIRST = (0, 3, 1, 2)

_SPATIAL = {
    *(
        "Conv",
        "ConvTranspose",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "LpPool",
        "LRN",
    ),
    *("BatchNormalization", "InstanceNormalization", "GroupNormalization", "Resize", "GridSample"),
    *("DepthToSpace", "SpaceToDepth"),
}
"""Ops that are defined for NCHW, by their first input."""

_ELEMENTWISE = {
    *("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Sum", "Mean", "Where", "PRelu", "Mod", "Clip"),
    *("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And", "Or", "Xor", "Not"),
    *("Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Softplus"),
    *(
        "Exp",
        "Log",
        "Sqrt",
        "Reciprocal",
        "Neg",
        "Abs",
        "Erf",
        "Gelu",
        "Mish",
        "Floor",
        "Ceil",
        "Round",
        "Sign",
    ),
    *("Sin", "Cos", "Cast", "Identity", "Dropout"),
}
"""Ops that broadcast their inputs, or have one; what they do does not depend on the order of dims."""

_REDUCTIONS = {f"Reduce{kind}" for kind in ("Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "LogSumExp")}
_ALONG_AN_AXIS = {"Concat", "Split", "Softmax", "LogSoftmax"}


def channels_last(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in NHWC, which takes and gives every tensor of four dims in that order."""
    return _Rewrite(model).run()


def tensorflow_style(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model as it comes back from TensorFlow: in NHWC, pads before convolutions and pools are ops of their own,
    global pools are means over two axes, batch normalizations a product and a sum; what is computed is the same."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    values = (*inferred.graph.input, *inferred.graph.output, *inferred.graph.value_info)
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []

    def constant(stem: str, array: NDArray[Any]) -> str:
        name = f"{stem}/{len(graph.initializer)}"
        graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    for node in graph.node:
        attributes = {a.name: a for a in node.attribute}
        picture = bool(node.input) and ranks.get(node.input[0]) == 4
        if picture and node.op_type in ("Conv", "MaxPool") and any(attributes["pads"].ints):
            top, left, bottom, right = attributes["pads"].ints
            pads = constant(node.output[0], np.array([0, 0, top, left, 0, 0, bottom, right]))
            # A maximum takes the least number there is for nothing.
            lowest = float(np.finfo(np.float32).min) if node.op_type == "MaxPool" else 0.0
            padded = f"{node.output[0]}/padded"
            filler = constant(node.output[0], np.array(lowest, np.float32))
            nodes.append(helper.make_node("Pad", [node.input[0], pads, filler], [padded]))
            node.input[0] = padded
            attributes["pads"].ints[:] = [0] * 4
            nodes.append(node)
        elif picture and node.op_type == "GlobalAveragePool":
            nodes.append(helper.make_node("ReduceMean", node.input, node.output, axes=[2, 3], keepdims=1))
        elif picture and node.op_type == "BatchNormalization":
            scale, bias, mean, variance = (weights[name] for name in node.input[1:])
            epsilon = attributes["epsilon"].f if "epsilon" in attributes else 1e-5
            factor = scale / np.sqrt(variance + epsilon)
            product = f"{node.output[0]}/product"
            by, plus = (
                constant(node.output[0], array.reshape(-1, 1, 1).astype(np.float32))
                for array in (factor, bias - mean * factor)
            )
            nodes.append(helper.make_node("Mul", [node.input[0], by], [product]))
            nodes.append(helper.make_node("Add", [product, plus], node.output[:1]))
        else:
            nodes.append(node)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return channels_last(result)


class _Rewrite:
    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        graph = self.model.graph
        values = (*graph.input, *graph.output, *graph.value_info)
        self.ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        self.ranks |= {name: array.ndim for name, array in self.constants.items()}
        self.nodes: list[onnx.NodeProto] = []
        self.last: dict[str, str] = {}
        """Values that exist in NHWC, and their names there."""
        self.count = 0

    def run(self) -> onnx.ModelProto:
        graph = self.model.graph
        for value in graph.input:
            if self._ranked(value.name):
                self.last[value.name] = value.name
        for node in graph.node:
            self._node(node)
        for value in graph.output:
            if not self._ranked(value.name):
                continue
            # The value itself needs another name now, since the output keeps its own.
            inner = (
                self.last.pop(value.name)
                if value.name in self.last
                else self._transposed(value.name, TO_LAST)
            )
            plain = f"{value.name}/plain"
            for node in self.nodes:
                node.input[:] = [plain if name == value.name else name for name in node.input]
                node.output[:] = [plain if name == value.name else name for name in node.output]
            inner = plain if inner == value.name else inner
            self.nodes.append(helper.make_node("Identity", [inner], [value.name]))
        result = onnx.ModelProto()
        result.CopyFrom(self.model)
        del result.graph.node[:], result.graph.initializer[:], result.graph.value_info[:]
        for value in (*result.graph.input, *result.graph.output):
            if self._ranked(value.name):
                dims = list(value.type.tensor_type.shape.dim)
                moved = [dims[axis] for axis in TO_LAST]
                del value.type.tensor_type.shape.dim[:]
                value.type.tensor_type.shape.dim.extend(moved)
        for index, node in enumerate(self.nodes):
            node.name = f"{node.op_type}_{index}"
        used = {name for node in self.nodes for name in node.input}
        result.graph.node.extend(self.nodes)
        result.graph.initializer.extend(
            numpy_helper.from_array(array, name) for name, array in self.constants.items() if name in used
        )
        return result

    def _node(self, node: onnx.NodeProto) -> None:
        if any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute):
            raise NotImplementedError(f"{node.op_type} has a graph of its own")
        kind = node.op_type
        if kind == "Constant":
            (attribute,) = node.attribute
            value = helper.get_attribute_value(attribute)
            array = numpy_helper.to_array(value) if attribute.name == "value" else np.array(value)
            self.constants[node.output[0]] = array.astype(np.float32) if array.dtype == np.float64 else array
            self.ranks[node.output[0]] = array.ndim
            return
        if kind in _SPATIAL and self._ranked(node.input[0]):
            self._wrapped(node)
            return
        if any(name in self.last for name in node.input):
            if kind in _ELEMENTWISE:
                inputs = self._broadcast(node)
                if inputs is not None:
                    self._kept(node, inputs)
                    return
            rewrite = self._rewriter(kind)
            if rewrite is not None:
                changed = rewrite(node)
                if changed is not None:
                    self._kept(changed, list(changed.input))
                    return
        self._plain(node)

    def _rewriter(self, kind: str) -> Callable[[onnx.NodeProto], onnx.NodeProto | None] | None:
        if kind in _ALONG_AN_AXIS:
            return self._along_an_axis
        if kind in _REDUCTIONS:
            return self._reduction
        return {
            "Pad": self._pad,
            "Slice": self._slice,
            "QuantizeLinear": self._quantization,
            "DequantizeLinear": self._quantization,
        }.get(kind)

    def _ranked(self, name: str) -> bool:
        return self.ranks.get(name) == 4

    def _name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}/{self.count}"

    def _constant(self, stem: str, array: NDArray[Any]) -> str:
        name = self._name(stem)
        self.constants[name] = array
        return name

    def _transposed(self, name: str, order: tuple[int, ...]) -> str:
        result = self._name(name)
        self.nodes.append(helper.make_node("Transpose", [name], [result], perm=order))
        return result

    def _in_first(self, name: str) -> str:
        return self._transposed(self.last[name], TO_FIRST) if name in self.last else name

    def _in_last(self, name: str) -> str | None:
        """The operand of an elementwise op in NHWC; None where only a reshape would bring it there."""
        if name in self.last or not name:
            return self.last.get(name, name)
        if name in self.constants:
            array = self.constants[name]
            if array.ndim <= 1 and array.size == 1:
                return name
            return self._constant(
                name, array.reshape((1,) * (4 - array.ndim) + array.shape).transpose(TO_LAST)
            )
        if self._ranked(name):
            return self._transposed(name, TO_LAST)
        return name if self.ranks.get(name) == 0 else None

    def _plain(self, node: onnx.NodeProto) -> None:
        """The node as it was, on values in NCHW."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [self._in_first(name) for name in node.input]
        self.nodes.append(copy)

    def _wrapped(self, node: onnx.NodeProto) -> None:
        """The node between two transposes. Only its first input and output are pictures."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for name in node.input[:1]:
            if name not in self.last:
                self.last[name] = self._transposed(name, TO_LAST)
        copy.input[:] = [self._in_first(name) for name in node.input]
        copy.output[0] = self._name(node.output[0])
        self.nodes.append(copy)
        self.nodes.append(helper.make_node("Transpose", [copy.output[0]], [node.output[0]], perm=TO_LAST))
        self.last[node.output[0]] = node.output[0]

    def _kept(self, node: onnx.NodeProto, inputs: list[str]) -> None:
        """The node on values in NHWC, results too."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = inputs
        self.nodes.append(copy)
        self.last |= {name: name for name in node.output if name}

    def _broadcast(self, node: onnx.NodeProto) -> list[str] | None:
        if not self._ranked(node.output[0]):
            return None
        inputs: list[str] = []
        for name in node.input:
            moved = self._in_last(name)
            if moved is None:
                return None
            inputs.append(moved)
        return inputs

    def _moved(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """A copy that reads its inputs in NHWC."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [self.last.get(name, name) for name in node.input]
        return copy

    def _along_an_axis(self, node: onnx.NodeProto) -> onnx.NodeProto | None:
        if not self._ranked(node.input[0]):
            return None
        copy = self._moved(node)
        if node.op_type == "Concat":
            moved = [self._in_last(name) for name in node.input]
            if None in moved:
                return None
            copy.input[:] = [name for name in moved if name is not None]
        axis = next((a for a in copy.attribute if a.name == "axis"), None)
        if axis is None:
            default = 0 if node.op_type == "Split" else -1
            axis = helper.make_attribute("axis", default)
            copy.attribute.append(axis)
            axis = copy.attribute[-1]
        axis.i = TO_LAST.index(axis.i % 4)
        return copy

    def _reduction(self, node: onnx.NodeProto) -> onnx.NodeProto | None:
        attributes = {a.name: a for a in node.attribute}
        if "keepdims" in attributes and not attributes["keepdims"].i:
            return None
        copy = self._moved(node)
        if len(node.input) > 1:
            if node.input[1] not in self.constants:
                return None
            axes = [TO_LAST.index(int(axis) % 4) for axis in self.constants[node.input[1]]]
            copy.input[1] = self._constant(node.input[1], np.array(axes, np.int64))
        else:
            (axis,) = [a for a in copy.attribute if a.name == "axes"]
            axis.ints[:] = [TO_LAST.index(value % 4) for value in axis.ints]
        return copy

    def _pad(self, node: onnx.NodeProto) -> onnx.NodeProto | None:
        pads = self.constants.get(node.input[1])
        if pads is None or pads.size != 8:
            return None
        copy = self._moved(node)
        copy.input[1] = self._constant(node.input[1], pads.reshape(2, 4)[:, TO_LAST].reshape(8))
        return copy

    def _quantization(self, node: onnx.NodeProto) -> onnx.NodeProto | None:
        if node.input[0] not in self.last:
            return None
        copy = self._moved(node)
        axis = next((a for a in copy.attribute if a.name == "axis"), None)
        if self.ranks.get(node.input[1]) == 1:
            if axis is None:
                copy.attribute.append(helper.make_attribute("axis", 1))
                axis = copy.attribute[-1]
            axis.i = TO_LAST.index(axis.i % 4)
        return copy

    def _slice(self, node: onnx.NodeProto) -> onnx.NodeProto | None:
        if len(node.input) < 4 or node.input[3] not in self.constants:
            return None
        copy = self._moved(node)
        axes = [TO_LAST.index(int(axis) % 4) for axis in self.constants[node.input[3]]]
        copy.input[3] = self._constant(node.input[3], np.array(axes, np.int64))
        return copy
