"""Operators that change the shape: dims joined, split, added, dropped, broadcast, looked up."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from layout_ir.passes.onnx.graph_output import NodeWriter, set_attribute, set_input
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.node_option import (
    COST_PER_BYTE,
    COST_PER_NS,
    Candidates,
    NodeModel,
    NodeOption,
    option_of,
    ranks_of,
)
from layout_ir.passes.onnx.node_models.same_order import (
    REDUCTIONS,
    SameOrder,
    known_axes,
    missing_dims,
)
from layout_ir.passes.onnx.orders import (
    Order,
    identity,
    inverse,
    is_identity,
    is_static,
    reshape_groups,
    reshaped_order,
    with_dims,
    without,
)
from layout_ir.passes.onnx.value_shapes import without_made_up

if TYPE_CHECKING:
    import onnx


class Reshape:
    """Dims are joined and split where they lie side by side, in their order."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Every order of the operand in which the result has one, and the other way round."""
        source, target = node.shape(0), node.result_shape()
        if source is None or target is None or 0 in source or 0 in target:
            return
        pairs = [(order, reshaped_order(source, target, order)) for order in ins[0]]
        pairs += [(reshaped_order(target, source, order), order) for order in outs[0]]
        for before, after in dict.fromkeys(pairs):
            if before is not None and after is not None and self._extents(node, before, after) is not None:
                yield option_of(node, {0: before}, {0: after})

    def looks_at(self, node: Node) -> Hashable:
        """The dims that are joined and split, and those of one element; where not all extents are known, all of them.

        Of extents that are known, `_extents` says always what to ask for.
        """
        source, target = node.shape(0), node.result_shape()
        if source is None or target is None or 0 in source or 0 in target or not is_static(target):
            return ranks_of(node), *without_made_up([source, target])[0]
        units = [extent == 1 for extent in (*source, *target)]
        return ranks_of(node), reshape_groups(source, target), reshape_groups(target, source), *units

    def _extents(self, node: Node, before: Order, after: Order) -> list[int] | None:
        """The shape to ask for: 0 where an extent stays in its place, -1 for one that nothing else tells."""
        source, target = node.shape(0) or (), node.result_shape() or ()
        extents: list[int] = []
        for place, dim in enumerate(after):
            extent = target[dim]
            if isinstance(extent, int):
                extents.append(extent)
            elif place < len(before) and extent is not None and source[before[place]] == extent:
                extents.append(0)
            else:
                extents.append(-1)
        return extents if extents.count(-1) <= 1 else None

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """A Reshape to the extents in their new order."""
        if is_identity(option.ins[0]) and is_identity(option.outs[0]):
            return writer.copy()
        extents = self._extents(node, option.ins[0], option.outs[0])
        assert extents is not None
        proto = writer.copy()
        del proto.attribute[:]
        set_input(proto, 1, writer.out.ints(extents))
        return proto


class Squeeze:
    """Dims of one element go."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Every order of the operand, and those that the orders of the result lead to."""
        axes = self._axes(node)
        if axes is None:
            return
        orders = [*ins[0], *(o for order in outs[0] for o in with_dims(order, axes))]
        for order in dict.fromkeys(orders):
            yield option_of(node, {0: order}, {0: without(order, axes)})

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, and the dims that go."""
        return ranks_of(node), self._axes(node)

    def _axes(self, node: Node) -> tuple[int, ...] | None:
        shape, result = node.shape(0), node.result_shape()
        if shape is None or result is None:
            return None
        axes = known_axes(node, 13)
        if axes == ():
            axes = tuple(d for d, extent in enumerate(shape) if extent == 1)
        if axes is None or len(shape) - len(axes) != len(result):
            return None
        return tuple(sorted([node.dim(a, len(shape)) for a in axes]))

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with the places of its axes."""
        proto, places = writer.copy(), inverse(option.ins[0])
        if is_identity(option.ins[0]):
            return proto
        _set_axes(writer, proto, sorted(places[a] for a in self._axes(node) or ()))
        return proto


class Unsqueeze:
    """Dims of one element come."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Every order of the result, and those that the orders of the operand lead to."""
        axes = self._axes(node)
        if axes is None:
            return
        orders = [*(o for order in ins[0] for o in with_dims(order, axes)), *outs[0]]
        for order in dict.fromkeys(orders):
            yield option_of(node, {0: without(order, axes)}, {0: order})

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, and the dims that come."""
        return ranks_of(node), self._axes(node)

    def _axes(self, node: Node) -> tuple[int, ...] | None:
        axes, shape, result = known_axes(node, 13), node.shape(0), node.result_shape()
        if not axes or shape is None or result is None or len(shape) + len(axes) != len(result):
            return None
        return tuple(sorted([node.dim(a, len(result)) for a in axes]))

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with the places of its axes."""
        proto, places = writer.copy(), inverse(option.outs[0])
        if is_identity(option.outs[0]):
            return proto
        _set_axes(writer, proto, sorted(places[a] for a in self._axes(node) or ()))
        return proto


def _set_axes(writer: NodeWriter, proto: onnx.NodeProto, axes: list[int]) -> None:
    if writer.node.opset < 13:
        set_attribute(proto, "axes", axes)
    else:
        set_input(proto, 1, writer.out.ints(axes))


class Flatten(Reshape):
    """Dims before an axis become one, those from it on another: each of both lie side by side, in their order.

    Where the two change places it is a Reshape, to extents that are known.
    """

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Orders of the operand that keep the result as it is, and those of a Reshape."""
        source, target = node.shape(0), node.result_shape()
        if source is None or target is None or 0 in source:
            return
        for order in ins[0]:
            if reshaped_order(source, target, order) == (0, 1) and self._is_flat(node, order):
                yield option_of(node, {0: order}, {})
        if is_static(target):
            for option in super().options(node, ins, outs):
                if not is_identity(option.outs[0]):
                    yield option

    def looks_at(self, node: Node) -> Hashable:
        """What Reshape looks at, and the axis."""
        return super().looks_at(node), node.int("axis", 1)

    @staticmethod
    def _is_flat(node: Node, order: Order) -> bool:
        """Whether the first dims in an order are those before the axis, but for dims of one element."""
        source, split = node.shape(0) or (), node.int("axis", 1)
        split += len(source) if split < 0 else 0
        front = {d for d in order[:split] if source[d] != 1}
        return all((d in front) == (d < split) for d in range(len(source)) if source[d] != 1)

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node as it is, or a Reshape."""
        if is_identity(option.outs[0]):
            return writer.copy()
        proto = super().write(node, option, writer)
        proto.op_type = "Reshape"
        return proto


_KEPT = SameOrder()
"""A reduction that leaves dims of one element, along axes that are known."""


class DroppingReduction:
    """A reduction that leaves no dim of the axes it works along; `since` is the opset whose axes are an input."""

    def __init__(self, since: int | None):
        self.since = since
        """The opset from which axes are an input; None where there is one axis, an attribute."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Every order of the operand, and those that the orders of the result lead to."""
        if not node.shape(0) or node.result_shape() is None:
            return
        axes = self._axes(node)
        if axes is None:
            return
        if node.int("keepdims", 1):
            yield from _KEPT.options(node, ins, outs)
            return
        orders = [*ins[0], *(o for order in outs[0] for o in with_dims(order, axes))]
        for order in dict.fromkeys(orders):
            yield option_of(node, {0: order}, {0: without(order, axes)})

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, the axes, and whether dims of one element are left."""
        axes = self._axes(node) if node.shape(0) else None
        return ranks_of(node), axes, node.int("keepdims", 1)

    def _axes(self, node: Node) -> tuple[int, ...] | None:
        rank = len(node.shape(0) or ())
        if self.since is None:
            return (node.axis(0, rank),) if rank else None
        axes = known_axes(node, self.since)
        if axes == ():
            return None if node.int("noop_with_empty_axes", 0) else identity(rank)
        return None if axes is None else tuple(sorted([node.dim(a, rank) for a in axes]))

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with the places of its axes."""
        proto, places = writer.copy(), inverse(option.ins[0])
        if is_identity(option.ins[0]):
            return proto
        axes = sorted(places[a] for a in self._axes(node) or ())
        if self.since is None:
            set_attribute(proto, "axis", axes[0])
        elif node.opset < self.since:
            set_attribute(proto, "axes", axes)
        else:
            set_input(proto, 1, writer.out.ints(axes))
        return proto


@dataclass(frozen=True)
class Gather:
    """Dims of the indices take the place of one dim of the data."""

    part: int = 0
    """The part that counts of the time that copies take, one of so many; 0 where nobody says who runs it."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Every order of the data, and of the result where the dims of the indices lie side by side."""
        data, indices = node.shape(0), node.shape(1)
        if not data or indices is None or node.result_shape() is None:
            return
        axis, many = node.axis(0, len(data)), len(indices)
        orders = list(ins[0])
        block = tuple(range(axis, axis + many))
        for order in outs[0]:
            rest = without(order, block)
            if not many:
                orders += with_dims(rest, (axis,))
            elif order[(at := order.index(axis)) : at + many] == block:
                orders += [o for o in with_dims(rest, (axis,)) if o.index(axis) == at]
        for order in dict.fromkeys(orders):
            cost = self._cost(node, order, axis)
            yield option_of(node, {0: order}, {0: _gathered(order, axis, many)}, cost=cost)

    def _cost(self, node: Node, order: Order, axis: int) -> int:
        """What it takes ONNX Runtime to copy what lies behind the axis, for each index and each place in front of it,
        above what these bytes take: each copy 7 ns, however short it is (1.32)."""
        if not self.part:
            return 0
        graph, data, result = node.graph, node.shape(0) or (), node.result_shape() or ()
        inner = prod(graph.counted_extent(data[dim]) for dim in order[order.index(axis) + 1 :])
        copies = prod(map(graph.counted_extent, result)) // max(inner, 1)
        nbytes = 2 * graph.nbytes(node.outputs[0])
        return max(7 * copies * COST_PER_NS - nbytes * COST_PER_BYTE, 0) // self.part

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, and the axis; where copies are counted, the extents and the size of the result."""
        key, graph = (ranks_of(node), node.int("axis", 0)), node.graph
        if not self.part:
            return key
        extents = [
            tuple(map(graph.counted_extent, each or ())) for each in (node.shape(0), node.result_shape())
        ]
        return *key, *extents, graph.nbytes(node.outputs[0])

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with the place of its axis."""
        proto, order = writer.copy(), option.ins[0]
        if not is_identity(order):
            set_attribute(proto, "axis", inverse(order)[node.axis(0, len(order))])
        return proto


@lru_cache(maxsize=4096)
def _gathered(order: Order, axis: int, many: int) -> Order:
    """The order of the result of a Gather by indices of so many dims along an axis of data in this order."""
    result: list[int] = []
    for d in order:
        result += range(axis, axis + many) if d == axis else [d if d < axis else d + many - 1]
    return tuple(result)


class Expand:
    """A broadcast to a shape of the same rank, or with more dims in front."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Every order of the operand and of the result: all dims of the result lie in one, those of the operand in the
        same among themselves."""
        shape, result, target = node.shape(0), node.result_shape(), node.shape(1)
        if shape is None or result is None or len(shape) > len(result) or target != (len(result),):
            return
        lead = len(result) - len(shape)
        of_operand = [(*range(lead), *(d + lead for d in order)) for order in ins[0]]
        for order in dict.fromkeys([*of_operand, *outs[0]]):
            mine = tuple([d - lead for d in order if d >= lead])
            more = bool(missing_dims(shape, order)) and node.input(0) not in node.graph.constants
            yield option_of(node, {0: mine}, {0: order}, int(more))

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, how many extents it is given, and whether the operand is a constant, or has one element."""
        shape, target = node.shape(0), node.shape(1)
        is_one = all(extent == 1 for extent in shape or ())
        return ranks_of(node), target, is_one, node.input(0) in node.graph.constants

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with the entries of its shape in the new order, its operand with more dims of one element."""
        proto, order = writer.copy(), option.outs[0]
        if not is_identity(order):
            set_input(proto, 1, writer.picked(1, order))
            if axes := missing_dims(node.shape(0), order):
                proto.input[0] = writer.with_ones(0, axes)
        return proto


class ConstantOfShape:
    """One element everywhere: its shape in any order."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Every order of the result."""
        if node.shape(0) == (len(node.result_shape() or ()),):
            for order in outs[0]:
                yield option_of(node, {}, {0: order})

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with the entries of its shape in the new order."""
        proto = writer.copy()
        if not is_identity(option.outs[0]):
            set_input(proto, 0, writer.picked(0, option.outs[0]))
        return proto


class ShapeOf:
    """The extents of a tensor in any order, put into the order of the value by a Gather.

    Where only some are given, and these lie side by side in that order, too, they are given from another `start` up to
    another `end`.
    """

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Every order of the operand."""
        for order in ins[0]:
            yield option_of(node, {0: order}, {}, int(node.op_type == "Shape"))

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, and whether it gives extents, or their product."""
        return ranks_of(node), node.op_type

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node, and a Gather behind it."""
        import onnx.helper

        proto, order = writer.copy(), option.ins[0]
        if node.op_type == "Size" or is_identity(order):
            return proto
        places = [inverse(order)[dim] for dim in node.given_dims(len(order))]
        if not places:
            return proto
        start, end = places[0], places[0] + len(places)
        if places == list(range(start, end)):
            set_attribute(proto, "start", start)
            set_attribute(proto, "end", end)
            return proto
        del proto.attribute[:]
        proto.output[0] = writer.out.fresh(f"{writer.outputs[0]}_permuted")
        writer.out.nodes.append(proto)
        name = writer.out.fresh(f"Gather_{writer.outputs[0]}")
        inputs = [proto.output[0], writer.out.ints(places)]
        return onnx.helper.make_node("Gather", inputs, writer.outputs, name, axis=0)


class TrailingNormalization:
    """Layer normalization: dims from an axis on stay as they are, behind all others, which lie in any order."""

    def __init__(self, tensors: int = 1):
        self.tensors = tensors
        """How many inputs have the shape of the result."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterable[NodeOption]:
        """Orders with the normalized dims at the end."""
        shape = node.shape(0)
        if not shape or node.result_shape() is None:
            return []
        rank = len(shape)
        split = node.axis(-1, rank)
        mine = [k for k in range(self.tensors) if len(node.shape(k) or ()) == rank]
        # A skip that broadcasts, and scales of more dims than are normalized, belong to dims in their places.
        if any(node.shape(k) != shape for k in mine):
            return []
        scales = range(self.tensors, len(node.inputs))
        if any(node.input(k) and len(node.shape(k) or identity(rank)) > rank - split for k in scales):
            return []
        made = [
            k for k in range(len(node.outputs)) if node.outputs[k] and len(node.result_shape(k) or ()) == rank
        ]
        if len(mine) != self.tensors or len(made) != sum(map(bool, node.outputs)):
            return []
        tail = identity(rank)[split:]
        orders = dict.fromkeys(
            order for each in (*(ins[k] for k in mine), *(outs[k] for k in made)) for order in each
        )
        return [
            option_of(node, dict.fromkeys(mine, order), dict.fromkeys(made, order))
            for order in orders
            if order[split:] == tail
        ]

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, the axis, and which inputs have the shape of the first."""
        shape = node.shape(0)
        is_whole = [node.shape(k) == shape for k in range(self.tensors)]
        return ranks_of(node), node.int("axis", -1), *is_whole

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node as it is."""
        return writer.copy()


class Trilu:
    """The last two dims stay the last; where they change places, the upper triangle is the lower one."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """Every order of leading dims, and both of the last two where the diagonal is known."""
        shape = node.shape(0)
        if shape is None or node.result_shape() is None:
            return
        last = set(range(len(shape) - 2, len(shape)))
        for order in dict.fromkeys([*ins[0], *outs[0]]):
            if set(order[-2:]) == last and (order[-2] < order[-1] or self._diagonal(node) is not None):
                yield option_of(node, {0: order}, {0: order})

    @staticmethod
    def _diagonal(node: Node) -> int | None:
        if not node.input(1):
            return 0
        known = node.known_ints(1)
        return known[0] if known else None

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node; seen from the other side of the diagonal where the last two dims changed places."""
        proto, order = writer.copy(), option.ins[0]
        if order[-2] > order[-1]:
            set_attribute(proto, "upper", 1 - node.int("upper", 1))
            diagonal = self._diagonal(node)
            if diagonal:
                set_input(proto, 1, writer.out.ints([-diagonal], ()))
        return proto


SHAPES: dict[str, NodeModel] = {
    **{name: DroppingReduction(since) for name, since in REDUCTIONS.items()},
    **dict.fromkeys(("ArgMax", "ArgMin"), DroppingReduction(None)),
    "ConstantOfShape": ConstantOfShape(),
    "Expand": Expand(),
    "Flatten": Flatten(),
    "Gather": Gather(),
    **dict.fromkeys(
        ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), TrailingNormalization()
    ),
    "Reshape": Reshape(),
    **dict.fromkeys(("Shape", "Size"), ShapeOf()),
    **dict.fromkeys(("Trilu", "com.microsoft.Trilu"), Trilu()),
    "Squeeze": Squeeze(),
    "Unsqueeze": Unsqueeze(),
    "com.microsoft.BiasGelu": TrailingNormalization(),
    **dict.fromkeys(
        ("com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization"),
        TrailingNormalization(2),
    ),
}  # fmt: skip
