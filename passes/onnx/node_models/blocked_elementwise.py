"""Elementwise operators on blocked channels.

On tensors of one shape, and with scalars, they are what they are. What scales channels is a convolution
(`blocked_scaling.py`). Any other operand that is broadcast meets the blocks in the shape n, blocks, places, block: a
Reshape of dense memory there and back, which moves nothing.

Pads are computed on like all elements. Whatever does that must make finite numbers of them: convolutions multiply pads
by zero. So where there are pads, operators that could give infinities for zero are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from layout_ir.passes.onnx.blocked_channels import blocked_elements, channels_second, padded_channels
from layout_ir.passes.onnx.blocked_fusion import activations, gates_hard_swish
from layout_ir.passes.onnx.graph_output import NodeWriter
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.blocked_convolutions import BlockedConvolution
from layout_ir.passes.onnx.node_models.blocked_model import FLOAT, sized_extents
from layout_ir.passes.onnx.node_models.blocked_scaling import scaling, write_scaling
from layout_ir.passes.onnx.node_models.node_option import (
    COST_PER_BYTE,
    COST_PER_NS,
    RUNTIME_NODE,
    NodeOption,
    option_of,
)
from layout_ir.passes.onnx.node_models.same_order import ELEMENTWISE
from layout_ir.passes.onnx.orders import Extent, Order, Shape, identity, is_same_shape

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

BLOCKED_ELEMENTWISE = (
    *ELEMENTWISE, "Dropout", "com.microsoft.FastGelu", "com.microsoft.Gelu", "com.microsoft.QuickGelu",
)  # fmt: skip
_FINITE = {
    "Abs", "Add", "Atan", "Celu", "Ceil", "Clip", "Cos", "Dropout", "Elu", "Erf", "FastGelu", "Floor", "Gelu",
    "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Max", "Mean", "Min", "Mish", "Mul", "Neg", "PRelu",
    "QuickGelu", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sub", "Sum",
    "Swish", "Tanh", "ThresholdedRelu",
}  # fmt: skip
"""Operators that give moderate numbers for moderate ones."""
_SLOW = {"Atan", "Cos", "Mish", "Sin", "Softplus"}
BROADCAST_NS = 0.5
"""Nanoseconds per element by which an operand that is broadcast to blocks is slower than one in NCHW (0.45 to 0.65 were
measured for PRelu, Mul, Add and Div): vectors end with the block there, and with all places here."""
SLOW_NS = 10
"""Nanoseconds per element of a function without a vectorized kernel (Softplus: 11); others take less than one."""


class BlockedElementwise:
    """Operators that broadcast their inputs against one another."""

    def __init__(self, block: int):
        self.block = block
        self._convolutions = BlockedConvolution(block)

    def options(self, node: Node, orders: Sequence[Order]) -> Iterator[NodeOption]:
        """One option per blocked order that some tensor has."""
        result = node.result_shape()
        if result is None or len(result) != 4 or any(node.outputs[1:]):
            return
        if node.op_type == "FastGelu" and node.input(1):
            return
        names = [name for name in node.inputs if name]
        floats = [name for name in (*names, node.outputs[0]) if node.graph.shape(name) not in ((), (1,))]
        if any(node.graph.element_type(name) != FLOAT for name in floats):
            return
        for order in orders:
            channels = result[order[1]]
            if not isinstance(channels, int) or not channels:
                continue
            if channels % self.block and not self._is_finite(node):
                continue
            mine = [self._input_order(node, k, order) for k in range(len(node.inputs))]
            if any(o is None for o in mine):
                continue
            scales = scaling(node, order)
            views = scales is None and self._is_broadcast(node)
            if views and sum(not isinstance(result[d], int) for d in order[2:4]) > 1:
                continue
            ins = {k: o for k, o in enumerate(mine) if o is not None}
            constants = node.graph.constants
            reshaped = [k for k, o in ins.items() if o and node.input(k) not in constants]
            more = (1 + len(reshaped)) * views if scales is None else scales.more_nodes
            pads = 0 if self._convolution(node) else self._pads(node, order)
            cost = RUNTIME_NODE * more + pads * COST_PER_NS * (SLOW_NS if node.op_type in _SLOW else 1)
            if views:
                cost += int(prod(sized_extents(node)) * COST_PER_NS * BROADCAST_NS)
            yield option_of(node, ins, {0: order}, cost=cost)

    def _pads(self, node: Node, order: Order) -> int:
        """How many pads a result has."""
        extents = sized_extents(node)
        channels = extents[order[1]]
        return prod(extents) // channels * (padded_channels(channels, self.block) - channels)

    @staticmethod
    def _is_finite(node: Node) -> bool:
        if node.op_type == "Div":
            return node.input(1) in node.graph.constants  # its pads are ones
        return node.op_type in _FINITE

    def _input_order(self, node: Node, number: int, order: Order) -> Order | None:
        """The order in which the node takes an input beside a result in `order`; None where it cannot."""
        shape, result = node.shape(number), node.result_shape() or ()
        if shape is None:
            return None if node.input(number) else ()
        plain = identity(len(shape))
        if is_same_shape(shape, result) or (shape == result and len(node.inputs) == 1):
            return order
        if all(extent == 1 for extent in shape) and len(shape) <= 4:
            return plain
        full = (*([1] * (4 - len(shape))), *shape)
        channels, spatial = full[order[1]], [full[d] for d in order[2:4]]
        if any(mine is None or mine not in (1, theirs) for mine, theirs in zip(full, result, strict=True)):
            return None
        if spatial != [1, 1] and spatial != [result[d] for d in order[2:4]]:
            return None
        if node.input(number) in node.graph.constants:
            return plain  # `write` packs it
        if len(shape) < 4:
            return None
        return order if channels == result[order[1]] else channels_second(order)

    @staticmethod
    def _is_broadcast(node: Node) -> bool:
        shapes = [node.shape(k) for k, name in enumerate(node.inputs) if name]
        result = node.result_shape()
        return any(s != result and any(extent != 1 for extent in s or ()) for s in shapes)

    def _convolution(self, node: Node) -> Node | None:
        """The convolution into which a node vanishes where both are blocked."""
        graph, shape = node.graph, node.result_shape()
        if node.op_type == "Add":
            if (
                not all(is_same_shape(node.shape(k), shape) for k in (0, 1))
                or node.inputs[0] == node.inputs[1]
            ):
                return None
        elif node.op_type == "Mul":
            return self._behind_gate(node)
        elif node.op_type == "Clip":
            if any(name and name not in graph.constants for name in node.inputs[1:]):
                return None
        elif node.op_type not in activations():
            return None
        for name in node.inputs:
            maker = graph.makers.get(name) if graph.uses[name] == 1 and shape is not None else None
            if maker is not None and maker.op_type == "Add" != node.op_type:
                maker = self._convolution(maker)
            if maker is not None and maker.op_type == "Conv":
                return maker
        return None

    @staticmethod
    def _behind_gate(node: Node) -> Node | None:
        """The convolution into which a product of its result and of a HardSigmoid of that vanishes."""
        graph, one, other = node.graph, node.input(0), node.input(1)
        for gate, data in ((one, other), (other, one)):
            maker, convolution = graph.makers.get(gate), graph.makers.get(data)
            if maker is None or maker.input(0) != data:
                continue
            if convolution is None or convolution.op_type != "Conv":
                continue
            if graph.uses[gate] == 1 and graph.uses[data] == 2 and gates_hard_swish(maker.proto):
                return convolution
        return None

    def plain_cost(self, node: Node) -> int:
        """The time of a node that a blocked convolution would do along with its own work.

        Those that may stay plain take it in as well then, which ONNX Runtime does behind its choice of layouts.
        """
        maker = self._convolution(node)
        if maker is None or not self._convolutions.is_taken(maker):
            return 0
        return RUNTIME_NODE + 2 * node.graph.nbytes(node.outputs[0]) * COST_PER_BYTE

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node; a convolution, or between Reshapes, where an operand is broadcast."""
        proto = writer.copy()
        if not self._is_broadcast(node):
            return proto
        order, out, result = option.outs[0], writer.out, node.result_shape() or ()
        scales = scaling(node, order)
        if scales is not None:
            return write_scaling(node, scales, order, self.block, writer)
        padded = padded_channels(result[order[1]], self.block)
        for k, name in enumerate(node.inputs):
            shape = node.shape(k)
            if not name or shape is None or all(extent == 1 for extent in shape):
                continue
            if name in node.graph.constants and shape != result:
                proto.input[k] = self._constant(node, k, order, writer)
                continue
            has_channels = shape[order[1]] == result[order[1]]
            joined = 1 if all(shape[d] == 1 for d in order[2:4]) else -1
            digits = [padded // self.block, joined, self.block] if has_channels else [1, joined, 1]
            proto.input[k] = out.add(
                "Reshape", [writer.inputs[k], out.ints([0, *digits])], out.fresh(f"{writer.inputs[k]}_blocks")
            )
        extents = [0, padded, *(_known(result[d]) for d in order[2:4])]
        proto.output[0] = out.fresh(f"{writer.outputs[0]}_blocks")
        out.nodes.append(proto)
        out.add("Reshape", [proto.output[0], out.ints(extents)], writer.outputs[0])
        return out.nodes.pop()

    def _constant(self, node: Node, number: int, order: Order, writer: NodeWriter) -> str:
        """A constant that is broadcast, in the shape n, blocks, places, block."""
        block, name = self.block, node.input(number)
        result: Shape = node.result_shape() or ()
        fill = 1.0 if node.op_type == "Div" and number == 1 else 0.0

        def elements() -> NDArray[Any]:
            array = node.graph.elements(name)
            array = array.reshape((1,) * (4 - array.ndim) + array.shape)
            n, c, h, w = (array.shape[d] for d in order[:4])
            if c != result[order[1]]:
                return array.transpose(channels_second(order)).reshape(n, 1, h * w, 1)
            blocks = blocked_elements(array, order, block, fill)
            return blocks.reshape(n, -1, h * w, block)

        return writer.out.packed(name, ("broadcast", order, result[order[1]], fill), elements)


def _known(extent: Extent) -> int:
    return extent if isinstance(extent, int) else -1
