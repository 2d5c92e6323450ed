"""Operators whose tensors all lie in one order: elementwise ones, and those that work along axes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from layout_ir.passes.onnx.graph_output import NodeWriter, set_attribute, set_input
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.node_option import (
    COST_PER_BYTE,
    MOVED_INSIDE,
    Candidates,
    NodeModel,
    NodeOption,
    all_of,
    distinct,
    option_of,
    ranks_of,
)
from layout_ir.passes.onnx.orders import Order, Shape, inverse

if TYPE_CHECKING:
    import onnx

_INT32 = 6
"""INT32, as TensorProto numbers element types."""

Adjust = Callable[["NodeWriter", "onnx.NodeProto", Order], None]
"""Rewrites what a node says of its dims for tensors in an order."""
Fits = Callable[[Node], bool]
"""Whether a node can run on tensors in other orders at all."""
Admits = Callable[[Node, Order], bool]
"""Whether a node that can run on tensors in other orders can run in this one."""


def always(node: Node) -> bool:
    """True, whichever the node is."""
    return True


def any_order(node: Node, order: Order) -> bool:
    """Every order is admitted."""
    return True


def unchanged(writer: NodeWriter, proto: onnx.NodeProto, order: Order) -> None:
    """The node says nothing of its dims."""


@dataclass(frozen=True)
class SameOrder:
    """The first `ins` inputs (all, for 0) and the first `outs` outputs (likewise) are tensors of one rank and order."""

    adjust: Adjust = unchanged
    fits: Fits = always
    admits: Admits = any_order
    ins: int = 1
    outs: int = 1

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """One option per order that some tensor has; none where ranks differ."""
        mine = [k for k in range(self.ins or len(node.inputs)) if node.input(k)]
        made = [k for k in range(self.outs or len(node.outputs)) if k < len(node.outputs) and node.outputs[k]]
        shapes = [*(node.shape(k) for k in mine), *(node.result_shape(k) for k in made)]
        if any(not shape or len(shape) != len(shapes[0] or ()) for shape in shapes) or not self.fits(node):
            return
        for order in distinct([*(ins[k] for k in mine), *(outs[k] for k in made)]):
            if self.admits(node, order):
                yield option_of(node, dict.fromkeys(mine, order), dict.fromkeys(made, order))

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, and whether other orders fit; all of the node where it is not the order alone that is admitted."""
        if self.admits in _BY_ORDER_ALONE:
            return ranks_of(node), self.fits(node)
        return all_of(node)

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with its axes renumbered."""
        proto = writer.copy()
        self.adjust(writer, proto, option.ins[0])
        return proto


# Axes -------------------------------------------------------------------------------------------------------------


def axis(default: int) -> Adjust:
    """An attribute `axis`, with its default."""

    def adjust(writer: NodeWriter, proto: onnx.NodeProto, order: Order) -> None:
        place = inverse(order)[writer.node.axis(default, len(order))]
        set_attribute(proto, "axis", place)

    return adjust


def axes_attribute(writer: NodeWriter, proto: onnx.NodeProto, order: Order) -> None:
    """MeanVarianceNormalization: all dims but the second where it does not say."""
    places, axes = inverse(order), writer.node.ints("axes")
    if axes is None:
        axes = (0, 2, 3)
    set_attribute(proto, "axes", [places[writer.node.dim(a, len(order))] for a in axes])


def known_axes(node: Node, since: int) -> tuple[int, ...] | None:
    """The axes of a node, an attribute before opset `since`, then its input 1; () where left out, None where not
    known."""
    if node.opset < since or "axes" in node.attributes:
        return node.ints("axes") or ()
    return node.known_ints(1) if node.input(1) else ()


def axis_as_input(writer: NodeWriter, proto: onnx.NodeProto, order: Order) -> None:
    """CumProd, CumSum: input 1 is the axis."""
    (known,) = writer.node.known_ints(1) or (0,)
    set_input(proto, 1, writer.out.ints([inverse(order)[writer.node.dim(known, len(order))]], ()))


def softmax_admits(node: Node, order: Order) -> bool:
    """Before opset 13, Softmax works along all dims from its axis on at once: those stay behind the others."""
    return node.opset >= 13 or keeps_behind(order, node.axis(1, len(order)))


def keeps_behind(order: Order, split: int) -> bool:
    """Whether the dims from `split` on stay behind those before it."""
    return all(dim < split for dim in order[:split])


def softmax_adjust(writer: NodeWriter, proto: onnx.NodeProto, order: Order) -> None:
    """The axis, which before opset 13 says how many dims are in front."""
    if writer.node.opset >= 13:
        axis(-1)(writer, proto, order)


def quantized_fits(node: Node) -> bool:
    """One scale in all, or one per index of an axis; blocks of an axis lie where they lie."""
    return not node.int("block_size", 0) and node.shape(1) is not None and len(node.shape(1) or ()) <= 1


def quantized_adjust(writer: NodeWriter, proto: onnx.NodeProto, order: Order) -> None:
    """The axis of scales, where there are several."""
    if writer.node.shape(1) not in ((), (1,)):
        axis(1)(writer, proto, order)


# Lists with an entry per dim --------------------------------------------------------------------------------------


def slice_fits(node: Node) -> bool:
    """Axes that are known, or left out where it is known how many there are."""
    if node.opset < 10:
        return True
    return node.known_ints(3) is not None if node.input(3) else known_entries(node, 1) is not None


def known_entries(node: Node, number: int) -> int | None:
    """How many entries a list has, None where that is not known."""
    shape = node.shape(number)
    return shape[0] if shape is not None and len(shape) == 1 and isinstance(shape[0], int) else None


def slice_adjust(writer: NodeWriter, proto: onnx.NodeProto, order: Order) -> None:
    """The axes, which are the first ones where they are left out."""
    node, places = writer.node, inverse(order)
    if node.opset < 10:
        axes = node.ints("axes") or range(len(node.ints("starts") or ()))
        set_attribute(proto, "axes", [places[node.dim(a, len(order))] for a in axes])
        return
    axes = node.known_ints(3) if node.input(3) else range(known_entries(node, 1) or 0)
    assert axes is not None
    mine = writer.out.ints([places[node.dim(a, len(order))] for a in axes])
    if node.graph.element_type(node.input(1)) == _INT32:
        mine = writer.out.add("Cast", [mine], writer.out.fresh(f"{mine}_int32"), to=_INT32)
    set_input(proto, 3, mine)


def pad_fits(node: Node) -> bool:
    """Axes that are known, or left out."""
    return node.opset < 18 or not node.input(3) or node.known_ints(3) is not None


def _pads_of_all(node: Node, rank: int) -> list[int] | None:
    """The pads of a Pad that says them of some axes, of all; None where they are computed.

    Without axes, what is written may lie beside a Transpose: of a Pad with axes in front of one ONNX Runtime (1.32)
    reads the axes as if they were pads, and then out of bounds, from its basic optimizations on.
    """
    pads, axes = node.known_ints(1), node.known_ints(3)
    if pads is None or axes is None or len(pads) != 2 * len(axes):
        return None
    result = [0] * (2 * rank)
    for number, axis in enumerate(axes):
        dim = node.dim(axis, rank)
        result[dim], result[rank + dim] = pads[number], pads[len(axes) + number]
    return result


def pad_adjust(writer: NodeWriter, proto: onnx.NodeProto, order: Order) -> None:
    """Begins and then ends per dim, or per axis."""
    node = writer.node
    both = [*order, *(dim + len(order) for dim in order)]
    if node.opset < 11:
        pads = node.ints("pads") or ()
        set_attribute(proto, "pads", [pads[place] for place in both])
    elif node.input(3) and (pads := _pads_of_all(node, len(order))) is not None:
        set_input(proto, 1, writer.out.ints([pads[place] for place in both]))
        del proto.input[3:]
    elif node.input(3):
        places = inverse(order)
        set_input(
            proto, 3, writer.out.ints([places[node.dim(a, len(order))] for a in node.known_ints(3) or ()])
        )
    else:
        set_input(proto, 1, writer.picked(1, both))


def list_as_input(writer: NodeWriter, proto: onnx.NodeProto, order: Order) -> None:
    """Input 1 has an entry per dim (the repeats of a Tile)."""
    set_input(proto, 1, writer.picked(1, order))


# Places that are fixed --------------------------------------------------------------------------------------------


def channels_second(node: Node, order: Order) -> bool:
    """Batch normalization: channels are dim 1, all others may lie in any order."""
    return len(order) < 2 or order[1] == 1


def batch_and_channels_first(node: Node, order: Order) -> bool:
    """What knows its spatial dims only by number: N and C stay the first two."""
    return order[:2] == (0, 1)[: len(order)]


_BY_ORDER_ALONE = (any_order, channels_second, batch_and_channels_first)
"""What admits an order whatever the node is."""


class BatchNormalization(SameOrder):
    """Channels are dim 1, all others may lie in any order; or channels come first, as those of a single batch."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Orders with the channels second, or first, where the statistics are those that are given."""
        if sum(map(bool, node.outputs)) > 1 or node.int("training_mode", 0):
            return
        for option in super().options(node, ins, outs):
            order = option.ins[0]
            if channels_second(node, order):
                yield option
            elif order[0] == 1:
                yield option._replace(more_nodes=2)

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, and whether it is in training."""
        return ranks_of(node), node.int("training_mode", 0)

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node; with a batch of one in front of channels that come first, which its result loses again."""
        proto = writer.copy()
        if channels_second(node, option.ins[0]):
            return proto
        (name,) = writer.outputs[:1]
        source, result = (writer.out.fresh(f"{each}_batch") for each in (writer.inputs[0], name))
        opset = node.opset
        proto.input[0] = writer.out.add_view("Unsqueeze", writer.inputs[0], source, [0], opset)
        proto.output[0] = result
        writer.out.nodes.append(proto)
        writer.out.add_view("Squeeze", result, name, [0], opset)
        return writer.out.nodes.pop()


_ANOTHER_OPERATOR = 1
"""The cost of a reduction for a pool, besides that of a node on other dims: of choices that move as many bytes, the one
with the pools of the model, unless more than two nodes come to lie on other dims for it. At 16 of these, the last
blocks of a ConvNeXt in NHWC came to lie in NCHW for the sake of its pool, and ONNX Runtime 1.32 found two Transposes
that are at no convolution, where none of its reorders could do them."""


SOFTMAXES = "Hardmax", "LogSoftmax", "Softmax"


@dataclass(frozen=True)
class Softmax(SameOrder):
    """A softmax along any axis, but runtimes have kernels for the innermost one: along others, operand and result are
    moved.

    ONNX Runtime 1.32 writes what two Transposes around it would (scores of 1x4x256x256, 1x8x64x64 and 1x19x128x128 took
    1.5 to 27 times as long along other axes than along the last, and as long as with the Transposes). For that runtime
    it costs that, but for what a Transpose costs however little it moves, so that none is put there.
    """

    adjust: Adjust = softmax_adjust
    admits: Admits = softmax_admits
    part: int = MOVED_INSIDE
    """1 where it is known that the kernel moves."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Every order; along an axis that is not the innermost one in memory, at the cost of two moves."""
        shape = node.result_shape()
        for option in super().options(node, ins, outs):
            if node.opset < 13 or shape is None or self._is_innermost(node, option.outs[0], shape):
                yield option
            else:
                cost = 2 * 2 * node.graph.nbytes(node.outputs[0]) * COST_PER_BYTE
                yield option._replace(cost=-(-cost // self.part))

    @staticmethod
    def _is_innermost(node: Node, order: Order, shape: Shape) -> bool:
        """Whether all dims behind the axis have one element."""
        place = order.index(node.axis(-1, len(order)))
        return all(shape[d] == 1 for d in order[place + 1 :])


class GlobalPool(SameOrder):
    """A pool over all spatial dims: on tensors with N and C in other places, the reduction of those dims."""

    def __init__(self, reduction: str):
        super().__init__()
        self.reduction = reduction

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Every order; between integers, for which runtimes have pools and no reductions, those with N and C first."""
        is_quantized = node.input(0) in node.graph.quantized
        for option in super().options(node, ins, outs):
            if batch_and_channels_first(node, option.ins[0]):
                yield option
            elif not is_quantized:
                yield option._replace(cost=_ANOTHER_OPERATOR)

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, and whether it is computed on integers."""
        return ranks_of(node), node.input(0) in node.graph.quantized

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The pool, or the reduction."""
        proto, order = writer.copy(), option.ins[0]
        if batch_and_channels_first(node, order):
            return proto
        proto.op_type = self.reduction
        axes = [place for place, dim in enumerate(order) if dim > 1]
        if node.opset < REDUCTIONS[self.reduction]:
            set_attribute(proto, "axes", axes)
        else:
            set_input(proto, 1, writer.out.ints(axes))
        return proto


# Elementwise ------------------------------------------------------------------------------------------------------


class Elementwise:
    """Operators that broadcast their inputs against one another, aligned at the last dims.

    All dims of the result lie in one order; an input has its own dims in the same order among themselves, and dims of
    one element where it has none of those that come to lie between or behind them.
    """

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """One option per order of the result, and per order that an input gives it."""
        shapes = [node.shape(k) for k in range(len(node.inputs))]
        result = node.result_shape()
        if result is None or any(s is None and node.input(k) for k, s in enumerate(shapes)):
            return
        rank = len(result)
        orders = list(outs[0])
        for candidates in ins:
            for order in candidates:
                lead = rank - len(order)
                orders.append((*range(lead), *(d + lead for d in order)) if lead else order)
        ranks = [rank if shape is None else len(shape) for shape in shapes]
        if max(ranks, default=rank) > rank:
            return
        others = node.plain_orders[1][1:]
        left_out = [k for k, shape in enumerate(shapes) if shape is None]
        smaller = [(k, rank - own) for k, own in enumerate(ranks) if own < rank]
        if not left_out and not smaller:
            count = len(shapes)
            for order in dict.fromkeys(orders):
                yield NodeOption((order,) * count, (order, *others))
            return
        for order in dict.fromkeys(orders):
            mine: list[Order] = [order] * len(shapes)
            more = 0
            for k in left_out:
                mine[k] = ()
            for k, lead in smaller:
                mine[k] = tuple([d - lead for d in order if d >= lead])
                more += bool(missing_dims(shapes[k], order)) and node.input(k) not in node.graph.constants
            yield NodeOption(tuple(mine), (order, *others), more)

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, and of inputs of lower rank whether they are constants, or have one element."""
        graph, ranks = node.graph, ranks_of(node)
        rank = ranks[len(node.inputs)]
        smaller = [
            (k, name in graph.constants, all(extent == 1 for extent in graph.shape(name) or ()))
            for k, name in enumerate(node.inputs)
            if name and ranks[k] != rank
        ]
        return ranks, *smaller

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node, its smaller inputs with more dims of one element."""
        proto = writer.copy()
        for k, name in enumerate(node.inputs):
            if name and (axes := missing_dims(node.shape(k), option.outs[0])):
                proto.input[k] = writer.with_ones(k, axes)
        return proto


def missing_dims(shape: Shape | None, order: Order) -> list[int]:
    """The dims of one element that a smaller operand of this shape needs beside a result in `order`, as axes of the
    tensor that has them: where it has none of the dims that come to lie between its own, or behind them."""
    lead = len(order) - len(shape or ())
    if not shape or not lead or all(extent == 1 for extent in shape):
        return []
    first = next(k for k, d in enumerate(order) if d >= lead)
    return [k - first for k in range(first, len(order)) if order[k] < lead]


ELEMENTWISE = (
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd",
    "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Elu",
    "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity",
    "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg",
    "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor",
)  # fmt: skip

BY_ELEMENT = frozenset((*ELEMENTWISE, "DequantizeLinear", "QuantizeLinear"))
"""Operators that work on single elements, where they have one operand of more than one."""

REDUCTIONS = {
    "ReduceL1": 18, "ReduceL2": 18, "ReduceLogSum": 18, "ReduceLogSumExp": 18, "ReduceMax": 18, "ReduceMean": 18,
    "ReduceMin": 18, "ReduceProd": 18, "ReduceSum": 13, "ReduceSumSquare": 18,
}  # fmt: skip
"""Reductions, and the opset from which on their axes are an input."""


class WithScalars:
    """Operators whose inputs and outputs but the first are scalars: Dropout, DynamicQuantizeLinear."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterable[NodeOption]:
        """One option per order; none where another input is no scalar, or ranks differ."""
        rank = len(node.result_shape() or ())
        if node.op_type == "Dropout" and node.input(2):
            return []  # in training, it draws random numbers in the order of its elements
        if any(node.input(k) and node.shape(k) not in ((), (1,)) for k in range(1, len(node.inputs))):
            return []
        if node.shape(0) is None or len(node.shape(0) or ()) != rank:
            return []
        large = [k for k in range(len(node.outputs)) if k == 0 or len(node.result_shape(k) or ()) == rank > 0]
        orders = distinct([ins[0], outs[0]])
        return [option_of(node, {0: order}, dict.fromkeys(large, order)) for order in orders]

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node as it is."""
        return writer.copy()


SAME_ORDER: dict[str, NodeModel] = {
    **dict.fromkeys(ELEMENTWISE, Elementwise()),
    "BatchNormalization": BatchNormalization(),
    "CastLike": SameOrder(),
    "Concat": SameOrder(axis(0), ins=0),
    "Compress": SameOrder(axis(0), lambda node: "axis" in node.attributes),
    **dict.fromkeys(
        ("CumProd", "CumSum"), SameOrder(axis_as_input, lambda node: node.known_ints(1) is not None)
    ),
    "DequantizeLinear": SameOrder(quantized_adjust, quantized_fits),
    "Dropout": WithScalars(),
    "DynamicQuantizeLinear": WithScalars(),
    "GatherElements": SameOrder(axis(0), ins=2),
    "GlobalAveragePool": GlobalPool("ReduceMean"),
    "GlobalLpPool": SameOrder(admits=batch_and_channels_first),
    "GlobalMaxPool": GlobalPool("ReduceMax"),
    "GroupNormalization": SameOrder(admits=batch_and_channels_first),
    **dict.fromkeys(SOFTMAXES, Softmax()),
    "InstanceNormalization": SameOrder(admits=batch_and_channels_first),
    "LRN": SameOrder(admits=channels_second),
    "LpNormalization": SameOrder(axis(-1)),
    "MeanVarianceNormalization": SameOrder(axes_attribute),
    "Pad": SameOrder(pad_adjust, pad_fits),
    "QuantizeLinear": SameOrder(quantized_adjust, quantized_fits),
    "Scatter": SameOrder(axis(0), ins=3),
    "ScatterElements": SameOrder(axis(0), ins=3),
    "Slice": SameOrder(slice_adjust, slice_fits),
    "Split": SameOrder(axis(0), outs=0),
    "Tile": SameOrder(list_as_input),
    "TopK": SameOrder(axis(-1), outs=2),
    **dict.fromkeys(
        (
            "com.microsoft.FastGelu", "com.microsoft.Gelu", "com.microsoft.QuickGelu", "com.microsoft.QLinearSigmoid",
            "com.microsoft.QLinearLeakyRelu",
        ),
        WithScalars(),
    ),
    **dict.fromkeys(
        ("com.microsoft.DequantizeLinear", "com.microsoft.QuantizeLinear"),
        SameOrder(quantized_adjust, quantized_fits),
    ),
}  # fmt: skip
