"""Convolutions on ONNX Runtime's blocked channels, and batch normalizations, which become such.

    dense        x blocked, weights OIHWBiBo; x in NCHW with weights OIHWBo where it has fewer channels than a block
    depthwise    x blocked, weights OIHWBo
    groups       of whole blocks on both sides, as dense ones; narrower ones are joined to such, zeros between them

All have a blocked result and constant weights. ONNX Runtime puts dense and depthwise ones of a multiple of four
channels into blocks by itself, and groups of whole blocks, with a reorder before and one behind them: nothing is won by
leaving those on plain orders. For others it has plain kernels, and here they may run on blocks, which zeros fill, where
the blocks are there already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, lcm, prod
from typing import TYPE_CHECKING, Any, cast

from layout_ir.passes.onnx.blocked_channels import (
    BLOCKED,
    NCHWC_DOMAIN,
    REORDER_ALIGNMENT,
    is_known,
    packed_weights,
    padded_bias,
    padded_channels,
)
from layout_ir.passes.onnx.graph_output import NodeWriter, set_attribute
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.blocked_model import FLOAT, NOT_LEFT_PLAIN, sized_extents
from layout_ir.passes.onnx.node_models.node_option import COST_PER_NS, NodeOption, option_of
from layout_ir.passes.onnx.orders import Order, Shape, is_same_shape, is_static
from layout_ir.passes.selection.options.conv_kernels import grouped_rate

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

BLOCKED_RATE = 80
"""Operations per nanosecond of the blocked kernels, as of target ort-nchwc."""
PLAIN_RATE = 60
"""Operations per nanosecond of the kernel for NCHW."""


class BlockedConvolution:
    """Conv and FusedConv with constant weights, in blocks of `block` channels."""

    def __init__(self, block: int):
        self.block = block

    def options(self, node: Node, orders: Sequence[Order]) -> Iterator[NodeOption]:
        """A blocked result of a blocked operand, or of a plain one of few channels."""
        if not self._is_possible(node):
            return
        channels, _, group = self._channels(node)
        sums = {3: BLOCKED} if node.input(3) else {}
        yield option_of(node, {0: BLOCKED, **sums}, {0: BLOCKED}, cost=self._blocked_time(node, direct=False))
        if group == 1 and channels < self.block:
            yield option_of(node, sums, {0: BLOCKED}, cost=self._blocked_time(node, direct=True))

    def plain_cost(self, node: Node) -> int:
        """The time of the plain kernel; more than all of it where ONNX Runtime would not leave the node to that."""
        if not self._is_possible(node):
            return 0
        if self.is_taken(node):
            return NOT_LEFT_PLAIN
        channels, outputs, group = self._channels(node)
        rate = PLAIN_RATE
        if group > 1:
            rate = grouped_rate(rate, channels // group, outputs // group)
        return self._time(node, channels // group * outputs, rate)

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node of ONNX Runtime's own domain, its weights packed, its bias padded."""
        proto = writer.copy()
        proto.domain, proto.op_type = NCHWC_DOMAIN, "Conv"
        graph, block = node.graph, self.block
        channels, _, group = self._channels(node)
        dense = option.ins[0] == BLOCKED and not group == channels > 1
        name, joined = node.input(1), self._joined(node)

        def weights() -> NDArray[Any]:
            return packed_weights(joined_groups(graph.elements(name), group, joined), block, inputs=dense)

        proto.input[1] = writer.out.packed(name, ("blocks", dense, group, joined), weights)
        if node.input(2):
            proto.input[2] = writer.out.packed(
                node.input(2), ("bias",), lambda: padded_bias(graph.elements(node.input(2)), block)
            )
        if group == channels > 1:
            set_attribute(proto, "group", padded_channels(channels, block))
        elif joined > 1:
            set_attribute(proto, "group", -(-group // joined))
        return proto

    def _is_possible(self, node: Node) -> bool:
        graph, x, y = node.graph, node.shape(0), node.result_shape()
        if not is_known(x) or not is_known(y) or graph.element_type(node.input(0)) != FLOAT:
            return False
        constants = [node.input(1), *([node.input(2)] if node.input(2) else [])]
        if any(name not in graph.constants or graph.element_type(name) != FLOAT for name in constants):
            return False
        weights = node.shape(1) or ()
        if len(weights) != 4 or not is_static(weights) or 0 in weights:
            return False
        if node.input(2) and node.shape(2) != weights[:1]:
            return False
        if node.input(3) and not is_same_shape(node.shape(3), y):
            return False
        channels, outputs, group = self._channels(node)
        if group < 1 or cast(int, weights[1]) * group != channels or outputs % group:
            return False
        return group == 1 or group == channels == outputs or bool(self._joined(node))

    def _joined(self, node: Node) -> int:
        """How many groups become one, so that it has whole blocks on both sides; 0 where none do, or are depthwise."""
        channels, outputs, group = self._channels(node)
        if group == 1 or group == channels:
            return int(group == 1)
        block, inputs, results = self.block, channels // group, outputs // group
        joined = lcm(block // gcd(block, inputs), block // gcd(block, results))
        groups = -(-group // joined)
        fits = all(
            padded_channels(total, block) == groups * joined * each
            for total, each in ((channels, inputs), (outputs, results))
        )
        return joined if fits else 0

    @staticmethod
    def _channels(node: Node) -> tuple[int, int, int]:
        """The channels of the operand and of the result, and the groups."""
        x, w = cast("tuple[int, ...]", node.shape(0)), cast("tuple[int, ...]", node.shape(1))
        return x[1], w[0], node.int("group", 1)

    def is_taken(self, node: Node) -> bool:
        """Whether ONNX Runtime puts the convolution into blocks by itself."""
        if not self._is_possible(node):
            return False
        channels, _, group = self._channels(node)
        if group not in (1, channels):
            return self._joined(node) == 1
        return channels % REORDER_ALIGNMENT == 0 or (group == 1 and channels < self.block)

    def _blocked_time(self, node: Node, *, direct: bool) -> int:
        """The cost of the blocked kernel, which computes on pads as well; `direct` on an operand in NCHW."""
        channels, outputs, group = self._channels(node)
        read = channels if direct else padded_channels(channels, self.block)
        per_group = 1 if group == channels > 1 else channels // group * self._joined(node)
        if group == 1:
            per_group = read
        return self._time(node, per_group * padded_channels(outputs, self.block), BLOCKED_RATE)

    @staticmethod
    def _time(node: Node, products: int, rate: int) -> int:
        """The cost of so many products of channels, at every place of the result and of the window."""
        places = sized_extents(node)
        window = cast("tuple[int, ...]", node.shape(1))[2:]
        return 2 * products * places[0] * prod(places[2:]) * prod(window) * COST_PER_NS // rate


def joined_groups(weights: NDArray[Any], group: int, joined: int) -> NDArray[Any]:
    """Weights o, i, h, w of `group` groups as those of groups that are `joined` of them, zeros between them and behind.

    There are as many outputs more as the last group lacks.
    """
    import numpy as np

    if joined <= 1:
        return weights
    outputs, inputs, h, w = weights.shape
    each = outputs // group
    found = np.zeros((-(-group // joined) * joined * each, joined * inputs, h, w), weights.dtype)
    for number in range(group):
        first = number % joined * inputs
        rows = slice(number * each, (number + 1) * each)
        found[rows, first : first + inputs] = weights[rows]
    return found


class BlockedBatchNormalization:
    """A batch normalization with constant statistics: a depthwise convolution with windows of one element."""

    def __init__(self, block: int):
        self.block = block

    def options(self, node: Node, orders: Sequence[Order]) -> Iterator[NodeOption]:
        """Blocked operand and result."""
        known = is_known(node.shape(0)) and is_known(node.result_shape())
        names = [node.input(k) for k in range(5)]
        constant = all(name in node.graph.constants for name in names[1:])
        floats = all(node.graph.element_type(name) == FLOAT for name in names)
        inference = sum(map(bool, node.outputs)) == 1 and not node.int("training_mode", 0)
        if BLOCKED in orders and known and constant and floats and inference:
            yield option_of(node, {0: BLOCKED}, {0: BLOCKED})

    def plain_cost(self, node: Node) -> int:
        """The cost of the node on plain channels, 0."""
        return 0

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """A convolution that scales each channel and adds to it."""
        import numpy as np
        import onnx.helper

        graph, block = node.graph, self.block
        names = tuple(node.input(k) for k in range(1, 5))
        attribute = node.attributes.get("epsilon")
        epsilon = 1e-5 if attribute is None else attribute.f

        def factors() -> tuple[NDArray[Any], NDArray[Any]]:
            scale, bias, mean, variance = (graph.elements(name).astype(np.float64) for name in names)
            factor = scale / np.sqrt(variance + epsilon)
            return factor.astype(np.float32), (bias - mean * factor).astype(np.float32)

        def weights() -> NDArray[Any]:
            return packed_weights(factors()[0].reshape(-1, 1, 1, 1), block, inputs=False)

        how = (*names, epsilon)
        packed = writer.out.packed(names[0], ("scale", *how), weights)
        bias = writer.out.packed(names[1], ("bias", *how), lambda: padded_bias(factors()[1], block))
        channels = padded_channels(cast(Shape, node.shape(0))[1], block)
        return onnx.helper.make_node(
            "Conv", [writer.inputs[0], packed, bias], writer.outputs, node.proto.name,
            domain=NCHWC_DOMAIN, group=channels, kernel_shape=[1, 1],
        )  # fmt: skip
