"""Concat, Split and Slice of blocked channels: where each cut is at a multiple of the block, they move whole blocks.

The tensor has its channels, pads included, as dim 1: the operators are ONNX's own, at that axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from layout_ir.passes.onnx.blocked_channels import padded_channels
from layout_ir.passes.onnx.graph_output import NodeWriter, set_attribute, set_input
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.blocked_model import FLOAT
from layout_ir.passes.onnx.node_models.node_option import NodeOption, option_of
from layout_ir.passes.onnx.orders import Extent, Order, Shape

if TYPE_CHECKING:
    import onnx


def _has_blocks(node: Node, names: Sequence[str], order: Order) -> bool:
    """Whether all these values are of four dims of floats, with a known number of channels where `order` has them."""
    graph = node.graph
    shapes = [graph.shape(name) for name in names]
    return all(name and graph.element_type(name) == FLOAT for name in names) and all(
        shape is not None and len(shape) == 4 and _is_positive(shape[order[1]]) for shape in shapes
    )


def _is_positive(extent: Extent) -> bool:
    return isinstance(extent, int) and extent > 0


class BlockedConcat:
    """Values behind one another: all but the last of them are whole blocks."""

    def __init__(self, block: int):
        self.block = block

    def options(self, node: Node, orders: Sequence[Order]) -> Iterator[NodeOption]:
        """Blocked operands and result, joined at the channels or at the batch."""
        for order in orders:
            if not _has_blocks(node, (*node.inputs, node.outputs[0]), order):
                continue
            axis = node.axis(0, 4)
            parts = [node.graph.shape(name) or () for name in node.inputs]
            if axis == order[0] or (axis == order[1] and _are_whole(parts[:-1], axis, self.block)):
                yield option_of(node, dict.fromkeys(range(len(parts)), order), {0: order})

    def plain_cost(self, node: Node) -> int:
        """The cost of the node on plain channels, 0."""
        return 0

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with the place of its axis."""
        proto = writer.copy()
        set_attribute(proto, "axis", option.outs[0].index(node.axis(0, 4)))
        return proto


def _are_whole(shapes: Sequence[Shape], axis: int, block: int) -> bool:
    extents = [shape[axis] for shape in shapes]
    return all(isinstance(extent, int) and extent % block == 0 for extent in extents)


class BlockedSplit:
    """Channels in parts, all but the last of them whole blocks."""

    def __init__(self, block: int):
        self.block = block

    def options(self, node: Node, orders: Sequence[Order]) -> Iterator[NodeOption]:
        """Blocked operand and results."""
        for order in orders:
            if not _has_blocks(node, (node.input(0), *node.outputs), order):
                continue
            parts = [node.graph.shape(name) or () for name in node.outputs]
            axis = node.axis(0, 4)
            if axis == order[1] and _are_whole(parts[:-1], axis, self.block):
                yield option_of(node, {0: order}, dict.fromkeys(range(len(parts)), order))

    def plain_cost(self, node: Node) -> int:
        """The cost of the node on plain channels, 0."""
        return 0

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node at dim 1, with the channels of whole blocks."""
        proto = writer.copy()
        channel = option.ins[0][1]
        parts = [
            padded_channels((node.graph.shape(name) or ())[channel], self.block) for name in node.outputs
        ]
        kept = [a for a in proto.attribute if a.name not in ("axis", "split", "num_outputs")]
        del proto.attribute[:]
        proto.attribute.extend(kept)
        set_attribute(proto, "axis", 1)
        if node.opset < 13:
            set_attribute(proto, "split", parts)
        else:
            set_input(proto, 1, writer.out.ints(parts))
        return proto


class BlockedSlice:
    """Channels from the first one of a block to the last one of another, or to the last one of all."""

    def __init__(self, block: int):
        self.block = block

    def options(self, node: Node, orders: Sequence[Order]) -> Iterator[NodeOption]:
        """Blocked operand and result."""
        for order in orders:
            if _has_blocks(node, (node.input(0), node.outputs[0]), order) and self._blocks(node, order):
                yield option_of(node, {0: order}, {0: order})

    def _blocks(self, node: Node, order: Order) -> tuple[int, int] | None:
        """The channels [start, end) that the node takes, of whole blocks; None where it takes others, or other dims."""
        if node.opset < 10:
            return None
        starts, ends = node.known_ints(1), node.known_ints(2)
        steps = node.known_ints(4) if node.input(4) else (1,)
        axes = node.known_ints(3)
        if starts is None or ends is None or axes is None or steps is None or set(steps) != {1}:
            return None
        if not len(starts) == len(ends) == len(axes) == 1 or node.dim(axes[0], 4) != order[1]:
            return None
        shape = node.shape(0) or ()
        channels = shape[order[1]]
        assert isinstance(channels, int)
        start, end, _ = slice(starts[0], ends[0]).indices(channels)
        if start % self.block or (end % self.block and end != channels):
            return None
        return start, padded_channels(end, self.block)

    def plain_cost(self, node: Node) -> int:
        """The cost of the node on plain channels, 0."""
        return 0

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node at dim 1, with the channels of whole blocks."""
        import onnx.helper

        found = self._blocks(node, option.ins[0])
        assert found is not None
        bounds = [writer.out.ints([value]) for value in (*found, 1)]
        return onnx.helper.make_node("Slice", [writer.inputs[0], *bounds], writer.outputs, node.proto.name)
