"""Convolutions and pools: N and C first, their spatial dims in any order among themselves."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from layout_ir.passes.onnx.graph_output import NodeWriter, set_attribute
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.node_option import (
    Candidates,
    NodeModel,
    NodeOption,
    distinct,
    option_of,
    ranks_of,
)
from layout_ir.passes.onnx.node_models.same_order import batch_and_channels_first
from layout_ir.passes.onnx.orders import is_identity

if TYPE_CHECKING:
    import onnx

_PER_DIM = ("dilations", "kernel_shape", "output_shape", "output_padding", "strides")


def fit_lists(node: Node, space: int) -> bool:
    """Whether the lists of a node with windows have an entry per spatial dim, of which there are so many."""
    counts = [len(each.ints) for each in node.proto.attribute[:] if each.name in _PER_DIM]
    return all(count in (0, space) for count in counts)


def turn_lists(node: Node, proto: onnx.NodeProto, space: Sequence[int]) -> None:
    """Puts the entries per spatial dim of a node into the order `space` of these dims among themselves."""
    for name in _PER_DIM:
        if values := node.ints(name):
            set_attribute(proto, name, [values[d] for d in space])
    if pads := node.ints("pads"):
        set_attribute(proto, "pads", [pads[d + side] for side in (0, len(space)) for d in space])


class Windows:
    """Operators with a window over the spatial dims of input 0 and, where `weights` says so, weights as input of that
    number in the same order behind two dims of channels."""

    def __init__(self, weights: int | None = None):
        self.weights = weights

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """One option per order of spatial dims that a tensor has, N and C staying where they are."""
        involved = [0] if self.weights is None else [0, self.weights]
        if node.op_type == "FusedConv" and node.input(3):
            involved.append(3)  # what is added to the result
        shape, result = node.shape(0), node.result_shape()
        if shape is None or result is None or any(len(node.shape(k) or ()) != len(shape) for k in involved):
            return
        if len(node.outputs) > 1 and any(node.outputs[1:]):
            return  # indices of a MaxPool count elements in memory
        if not fit_lists(node, len(shape) - 2):
            return
        for order in distinct([*(ins[k] for k in involved), outs[0]]):
            if batch_and_channels_first(node, order):
                yield option_of(node, dict.fromkeys(involved, order), {0: order})

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, whether something is added to the result, and whether the lists fit."""
        rank = len(node.shape(0) or ())
        return ranks_of(node), node.op_type == "FusedConv", fit_lists(node, rank - 2)

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with a list entry per spatial dim in the new order."""
        proto, order = writer.copy(), option.ins[0]
        if is_identity(order):
            return proto
        turn_lists(node, proto, [dim - 2 for dim in order[2:]])
        return proto


WINDOWS: dict[str, NodeModel] = {
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), Windows()),
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose"), Windows(1)),
    "QLinearConv": Windows(3),
    "com.microsoft.FusedConv": Windows(1),
}
