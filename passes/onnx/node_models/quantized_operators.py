"""Operators on integers that ONNX Runtime's quantizer writes: tensors with scales and zero points as inputs beside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from layout_ir.passes.onnx.graph_output import NodeWriter, set_attribute
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.node_option import (
    Candidates,
    NodeModel,
    NodeOption,
    distinct,
    option_of,
)
from layout_ir.passes.onnx.node_models.same_order import Elementwise, SameOrder, axis
from layout_ir.passes.onnx.orders import Order

if TYPE_CHECKING:
    import onnx


class QuantizedConcat:
    """Scale and zero point of the result, then each tensor before its own."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """One option per order that some tensor has."""
        tensors = range(2, len(node.inputs), 3)
        shapes = [*(node.shape(k) for k in tensors), node.result_shape()]
        if any(not shape or len(shape) != len(shapes[0] or ()) for shape in shapes):
            return
        for order in distinct([*(ins[k] for k in tensors), outs[0]]):
            yield option_of(node, dict.fromkeys(tensors, order), {0: order})

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with its axis renumbered."""
        proto = writer.copy()
        axis(0)(writer, proto, option.outs[0])
        return proto


class QuantizedPool:
    """Pools whose channels are the second dim or the last, as an attribute says, with the others in any order."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """One option per such order."""
        shape, result = node.shape(0), node.result_shape()
        if shape is None or result is None or len(shape) != len(result) or len(shape) < 3:
            return
        space = len(shape) - 2
        if any(
            len(node.ints(name) or shape[2:]) != space for name in ("dilations", "kernel_shape", "strides")
        ):
            return
        channels = _channels(node, len(shape))
        for order in distinct([ins[0], outs[0]]):
            if order[0] == 0 and channels in (order[1], order[-1]):
                yield option_of(node, {0: order}, {0: order})

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node that says where the channels are, with a list entry per spatial dim in the new order."""
        proto, order = writer.copy(), option.ins[0]
        channels = _channels(node, len(order))
        if (is_last := order[1] != channels) != bool(node.int("channels_last", 0)):
            set_attribute(proto, "channels_last", int(is_last))
        before = [dim for dim in range(len(order)) if dim not in (0, channels)]
        space = [before.index(dim) for dim in order if dim not in (0, channels)]
        for name in ("dilations", "kernel_shape", "strides"):
            if values := node.ints(name):
                set_attribute(proto, name, [values[d] for d in space])
        if pads := node.ints("pads"):
            set_attribute(proto, "pads", [pads[d + side] for side in (0, len(space)) for d in space])
        return proto


def _channels(node: Node, rank: int) -> int:
    return rank - 1 if node.int("channels_last", 0) else 1


def _works_along_one_dim(node: Node, order: Order) -> bool:
    """Whether a QLinearSoftmax is that of opset 13, which it says itself."""
    return node.int("opset", 1) >= 13


QUANTIZED: dict[str, NodeModel] = {
    "com.microsoft.QLinearAveragePool": QuantizedPool(),
    "com.microsoft.QLinearConcat": QuantizedConcat(),
    "com.microsoft.QLinearGlobalAveragePool": QuantizedPool(),
    "com.microsoft.QLinearSoftmax": SameOrder(axis(-1), _works_along_one_dim),
    "com.microsoft.QLinearWhere": Elementwise(),
}
