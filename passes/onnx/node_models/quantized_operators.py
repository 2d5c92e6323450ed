"""Operators on integers that ONNX Runtime's quantizer writes: tensors with scales and zero points as inputs beside."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from layout_ir.passes.onnx.graph_output import NodeWriter, drop_attribute, set_attribute
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.node_option import (
    COST_PER_BYTE,
    Candidates,
    NodeModel,
    NodeOption,
    distinct,
    option_of,
    ranks_of,
)
from layout_ir.passes.onnx.node_models.product_labels import found_options, has_swapped, plain_products
from layout_ir.passes.onnx.node_models.products import is_constant
from layout_ir.passes.onnx.node_models.same_order import (
    Elementwise,
    SameOrder,
    axis,
    batch_and_channels_first,
    keeps_behind,
)
from layout_ir.passes.onnx.node_models.spatial_windows import WINDOWS, fit_lists, turn_lists
from layout_ir.passes.onnx.orders import Order

if TYPE_CHECKING:
    import onnx

_MICROSOFT = "com.microsoft"
_BYTES = (2, 3)
"""Elements of 8 bits, as TensorProto numbers element types."""


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


class QuantizedMatMul:
    """x, w and the result, each with its scale and zero point behind it: as MatMul, without flags.

    Operands are swapped where both have elements of one type, for there are no products of signed x and unsigned w, and
    where w is no constant, which runtimes pack once where it is on the right.
    """

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """The products that some order leads to; none where an operand has several scales, along one of its dims."""
        if not self._has_one_scale_each(node):
            return
        is_swappable = self._is_swappable(node)
        for _, option in found_options(node, ins, outs, plain_products, _RIGHT):
            if is_swappable or not has_swapped(node, option, _RIGHT):
                yield option

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, whether there is one scale each, and whether operands may be swapped."""
        return ranks_of(node), self._has_one_scale_each(node), self._is_swappable(node)

    @staticmethod
    def _has_one_scale_each(node: Node) -> bool:
        return all(node.shape(k) in ((), (1,)) for k in (1, 2, 4, 5, 6, 7))

    @staticmethod
    def _is_swappable(node: Node) -> bool:
        kinds = {node.graph.element_type(node.input(k)) for k in (0, _RIGHT)}
        return len(kinds) == 1 and not is_constant(node, _RIGHT)

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node, its operands swapped with their scales and zero points where the result is there transposed."""
        proto = writer.copy()
        if has_swapped(node, option, _RIGHT):
            left, right, behind = proto.input[:_RIGHT], proto.input[_RIGHT:6], proto.input[6:]
            del proto.input[:]
            proto.input.extend([*right, *left, *behind])
        return proto


_RIGHT = 3
"""The input of a QLinearMatMul that is its right operand."""


@dataclass(frozen=True)
class Named:
    """An operator that has its channels second, or last."""

    op_type: str
    domain: str = ""
    says: bool = False
    """Whether it says in an attribute `channels_last` where they are."""


class QuantizedWindows:
    """Windows over tensors of bytes, for which there are kernels with the channels second and with the channels last;
    the spatial dims in any order. Weights, where there are any, are those of a convolution."""

    def __init__(self, second: Named, last: Named, weights: int | None = None):
        self.second, self.last, self.weights = second, last, weights

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """One option per such order that a tensor has."""
        shape, result = node.shape(0), node.result_shape()
        if shape is None or result is None or len(shape) != len(result) or len(shape) < 3:
            return
        if self.weights is not None and len(node.shape(self.weights) or ()) != len(shape):
            return
        if node.graph.element_type(node.inputs[0]) not in _BYTES or any(node.outputs[1:]):
            return
        if not fit_lists(node, len(shape) - 2):
            return
        channels = self._channels(node, len(shape))
        orders = [ins[0], outs[0]]
        if self.weights is not None:
            orders.append(
                [self._outer(order, channels) for order in ins[self.weights] if order[:2] == (0, 1)]
            )
        for order in distinct(orders):
            if order[0] == 0 and channels in (order[1], order[-1]):
                mine = {0: order}
                if self.weights is not None:
                    mine[self.weights] = (0, 1, *(2 + place for place in _space(order, channels)))
                yield option_of(node, mine, {0: order})

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The operator for this place of the channels, with a list entry per spatial dim in the new order."""
        proto, order = writer.copy(), option.ins[0]
        channels = self._channels(node, len(order))
        is_last = order[1] != channels
        made = self.last if is_last else self.second
        proto.op_type, proto.domain = made.op_type, made.domain
        if made.says and (is_last or self._is_last(node)):
            set_attribute(proto, "channels_last", int(is_last))
        if made.op_type == "NhwcMaxPool":
            drop_attribute(proto, "storage_order")  # it is of the indices, which this one does not give
        turn_lists(node, proto, _space(order, channels))
        return proto

    def _is_last(self, node: Node) -> bool:
        if self.last.says:
            return bool(node.int("channels_last", 0))
        return (node.op_type, node.domain) == (self.last.op_type, self.last.domain)

    def _channels(self, node: Node, rank: int) -> int:
        """The dim of the channels as the node has it."""
        return rank - 1 if self._is_last(node) else 1

    @staticmethod
    def _outer(order: Order, channels: int) -> Order:
        """The order of the tensor that has its spatial dims as weights in `order` have theirs, its channels second."""
        space = _spatial(len(order), channels)
        return (0, channels, *(space[dim - 2] for dim in order[2:]))


def _spatial(rank: int, channels: int) -> list[int]:
    return [dim for dim in range(rank) if dim not in (0, channels)]


def _space(order: Order, channels: int) -> list[int]:
    """The order of the spatial dims among themselves."""
    space = _spatial(len(order), channels)
    return [space.index(dim) for dim in order if dim in space]


def _softmax_admits(node: Node, order: Order) -> bool:
    """Before opset 13, which it says itself, a QLinearSoftmax works along all dims from its axis on at once."""
    return node.int("opset", 1) >= 13 or keeps_behind(order, node.axis(-1, len(order)))


def _softmax_adjust(writer: NodeWriter, proto: onnx.NodeProto, order: Order) -> None:
    """The axis, which before opset 13 says how many dims are in front."""
    if writer.node.int("opset", 1) >= 13:
        axis(-1)(writer, proto, order)


def _says(op_type: str, weights: int | None = None) -> QuantizedWindows:
    """An operator that says where its channels are."""
    named = Named(op_type, _MICROSOFT, says=True)
    return QuantizedWindows(named, named, weights)


_CONVOLUTION = _says("QLinearConv", weights=3)
_POOL = QuantizedWindows(Named("MaxPool"), Named("NhwcMaxPool", _MICROSOFT))

QUANTIZED: dict[str, NodeModel] = {
    "QLinearMatMul": QuantizedMatMul(),
    "com.microsoft.NhwcMaxPool": _POOL,
    "com.microsoft.QLinearAveragePool": _says("QLinearAveragePool"),
    "com.microsoft.QLinearConcat": QuantizedConcat(),
    "com.microsoft.QLinearConv": _CONVOLUTION,
    "com.microsoft.QLinearGlobalAveragePool": _says("QLinearGlobalAveragePool"),
    "com.microsoft.QLinearSoftmax": SameOrder(_softmax_adjust, admits=_softmax_admits),
    **dict.fromkeys((f"com.microsoft.QLinear{each}" for each in ("Add", "Mul", "Where")), Elementwise()),
}


class _ChannelsLastVariant:
    """A standard operator, or on bytes its variant in ONNX Runtime that has the channels last."""

    def __init__(self, plain: NodeModel, other: QuantizedWindows):
        self.plain, self.other = plain, other

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterable[NodeOption]:
        """The options of both models, each once."""
        return dict.fromkeys([*self.plain.options(node, ins, outs), *self.other.options(node, ins, outs)])

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The standard node where it can be."""
        order = option.ins[0]
        model = self.plain if batch_and_channels_first(node, order) else self.other
        return model.write(node, option, writer)


class _InternalTranspose:
    """A convolution of bytes in ONNX Runtime, which runs with its channels last: where they are second, it transposes
    operand and result inside, unless what is around it has them last as well."""

    def __init__(self, model: NodeModel, part: int):
        self.model, self.part = model, part

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """The options of the convolution; those with the channels second cost two moves."""
        plain = option_of(node, {}, {})
        for option in dict.fromkeys([plain, *self.model.options(node, ins, outs)]):
            yield option if _is_last(node, option.ins[0]) else option._replace(cost=self._cost(node))

    def _cost(self, node: Node) -> int:
        nbytes = sum(map(node.graph.nbytes, (node.inputs[0], node.outputs[0])))
        return -(-2 * nbytes * COST_PER_BYTE // self.part)

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """Writes the convolution."""
        return self.model.write(node, option, writer)


def _is_last(node: Node, order: Order) -> bool:
    """Whether a convolution has its channels last where its operand lies in this order."""
    return bool(order) and order[-1] == (len(order) - 1 if node.int("channels_last", 0) else 1)


def runtime_windows(part: int) -> dict[str, NodeModel]:
    """Operators on bytes for which ONNX Runtime has kernels with the channels last, and of what others move inside, the
    part that counts: one of so many."""
    return {
        "MaxPool": _MAX_POOL,
        "QLinearConv": _InternalTranspose(_ChannelsLastVariant(WINDOWS["QLinearConv"], _CONVOLUTION), part),
        "com.microsoft.QLinearConv": _InternalTranspose(_CONVOLUTION, part),
    }


_MAX_POOL = _ChannelsLastVariant(WINDOWS["MaxPool"], _POOL)
