"""Channels that are scaled, or have something added, as depthwise convolutions with windows of one element.

ONNX Runtime does so with a product by a constant per channel: its kernel for this takes a vector of channels at a time,
where a broadcast operand in the shape n, blocks, places, block is read anew for each. The weights of such a convolution
are a vector of channels, so a scale that is computed at run time, [n, c, 1, 1] in blocks, are weights as it is; for
more than one n, n and c count as channels together, which they lie side by side for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from layout_ir.passes.onnx.blocked_channels import NCHWC_DOMAIN, padded_bias, padded_channels
from layout_ir.passes.onnx.graph_output import NodeWriter
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.orders import Order, Shape

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Scaling:
    """A node as y = x * factor, or y = x + addend: the numbers of its inputs."""

    data: int
    per_channel: int
    is_constant: bool
    batch: int
    """The extent of n; 1 where the factor is the same for all n."""

    @property
    def more_nodes(self) -> int:
        """How many Reshapes it needs besides."""
        if self.is_constant:
            return 0
        return 1 if self.batch == 1 else 3


def scaling(node: Node, order: Order) -> Scaling | None:
    """What a node does to channels with a result in blocked `order`; None where that is something else."""
    if node.op_type not in ("Add", "Mul", "Sub") or len(node.inputs) != 2:
        return None
    result = node.result_shape() or ()
    for data, other in ((0, 1), (1, 0)):
        shape = node.shape(other)
        if shape is None or shape == result or len(shape) > 4 or node.shape(data) != result:
            continue
        if node.op_type == "Sub" and other == 0:
            continue
        if node.input(other) not in node.graph.constants and None in shape:
            continue
        full = (*([1] * (4 - len(shape))), *shape)
        if [full[d] for d in order[1:4]] != [result[order[1]], 1, 1]:
            continue
        batch, all_batches = full[order[0]], result[order[0]]
        if node.input(other) in node.graph.constants:
            return Scaling(data, other, True, 1) if batch == 1 else None
        if node.op_type == "Mul" and len(shape) == 4 and isinstance(batch, int) and batch == all_batches:
            return Scaling(data, other, False, batch)
    return None


def write_scaling(node: Node, found: Scaling, order: Order, block: int, writer: NodeWriter) -> onnx.NodeProto:
    """The convolution that does what the node does."""
    import onnx.helper

    channels = cast(int, cast(Shape, node.result_shape())[order[1]])
    padded, out, data = padded_channels(channels, block), writer.out, writer.inputs[found.data]
    if found.is_constant:
        weights, bias = _constants(node, found, channels, block, writer)
        return _convolution([data, weights, *bias], writer.outputs[0], padded, node.proto.name)
    factor = writer.inputs[found.per_channel]
    weights = out.add(
        "Reshape", [factor, out.ints([found.batch * padded, 1, 1, 1])], out.fresh(f"{factor}_weights")
    )
    if found.batch == 1:
        return _convolution([data, weights], writer.outputs[0], padded, node.proto.name)
    joined = out.add(
        "Reshape", [data, out.ints([1, found.batch * padded, 0, 0])], out.fresh(f"{data}_joined")
    )
    scaled = out.fresh(f"{writer.outputs[0]}_joined")
    out.nodes.append(_convolution([joined, weights], scaled, found.batch * padded, node.proto.name))
    name = out.fresh(f"Reshape_{writer.outputs[0]}")
    shape = out.ints([found.batch, padded, 0, 0])
    return onnx.helper.make_node("Reshape", [scaled, shape], writer.outputs, name)


def _convolution(inputs: list[str], output: str, channels: int, name: str) -> onnx.NodeProto:
    import onnx.helper

    return onnx.helper.make_node(
        "Conv", inputs, [output], name, domain=NCHWC_DOMAIN, group=channels, kernel_shape=[1, 1]
    )


def _constants(
    node: Node, found: Scaling, channels: int, block: int, writer: NodeWriter
) -> tuple[str, list[str]]:
    """The names of the weights and, where the node adds something, of the bias."""
    import numpy as np

    name, kind = node.input(found.per_channel), node.op_type

    def elements() -> NDArray[Any]:
        vector = node.graph.elements(name).reshape(channels)
        return -vector if kind == "Sub" else vector

    def weights() -> NDArray[Any]:
        return padded_bias(elements(), block).reshape(-1, 1, 1, 1)

    def ones() -> NDArray[Any]:
        return np.ones((padded_channels(channels, block), 1, 1, 1), np.float32)

    if kind == "Mul":
        return writer.out.packed(name, ("scale",), weights), []
    bias = writer.out.packed(name, ("addend", kind), lambda: padded_bias(elements(), block))
    return writer.out.packed("ones", (padded_channels(channels, block),), ones), [bias]
