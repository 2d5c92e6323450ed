"""One way to run a node: the orders of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from layout_ir.passes.onnx.inferred_types import FLOATS, SMALL
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.orders import Order
from layout_ir.passes.onnx.value_shapes import without_made_up

if TYPE_CHECKING:
    import onnx

    from layout_ir.passes.onnx.graph_output import NodeWriter

Candidates = Sequence[Sequence[Order]]
"""Per input or output of a node, the orders in which its value may be had; none for one of unknown rank."""
COST_PER_BYTE = 4
"""The cost of a byte that is read or written."""
COST_PER_NS = 20 * COST_PER_BYTE
"""The cost of a nanosecond of a runtime: that of 20 bytes read or written, which take as long."""
MOVED_INSIDE = 1 << 16
"""The part that counts of bytes that kernels are likely to move inside where nobody says who runs the model: one of so
many. Of choices whose Transposes move as much, the one that kernels are made for."""
RUNTIME_NODE = 1000 * COST_PER_NS
"""The cost of a node of ONNX Runtime however little it does: a Reshape takes 1 to 2 microseconds."""


class NodeOption(NamedTuple):
    """The order of each input and output; that of the value itself where the node takes or gives nothing else."""

    ins: tuple[Order, ...]
    outs: tuple[Order, ...]
    more_nodes: int = 0
    """How many small nodes it needs besides (a Gather of a shape, an Unsqueeze)."""
    cost: int = 0
    """What it takes besides, in the unit of moves: 0 for all options of a node that takes equally long in each."""


class TruncatedOptions(tuple[NodeOption, ...]):
    """Some of the options of a node, which has too many to list."""


class NodeModel(Protocol):
    """What an operator can do on other orders of dims than those of the model.

    A model that looks at little of a node has a method `looks_at(node)`, too: all that the options of a node follow
    from, besides the orders in which its values may be had. Nodes of which it says the same have the same options.
    """

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterable[NodeOption]:
        """The options that some candidate leads to, besides that of the model itself; orders may be new ones.

        They are TruncatedOptions where there are too many to list. They follow from the operator of the node, its
        attributes, the types of its values and the elements of its small integer constants, so that nodes which have
        these in common are asked once; with blocked channels from all nodes of the graph.
        """
        ...

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node for `option`, on the tensors that `writer` has for it; smaller ones that it needs are added."""
        ...


def option_of(
    node: Node, ins: dict[int, Order], outs: dict[int, Order], more_nodes: int = 0, *, cost: int = 0
) -> NodeOption:
    """The option in which inputs and outputs of these numbers have these orders, and all others that of the model."""
    plain_ins, plain_outs = node.plain_orders
    return NodeOption(
        tuple([ins.get(k, order) for k, order in enumerate(plain_ins)]) if ins else plain_ins,
        tuple([outs.get(k, order) for k, order in enumerate(plain_outs)]) if outs else plain_outs,
        more_nodes,
        cost,
    )


def all_of(node: Node) -> tuple[Any, ...]:
    """All that a model may look at to say what the options of a node are: operator, attributes, types, small constants.

    Of names that inference made up for extents that is where they are the same, and what they count as. Only a model
    for blocked channels looks at the nodes around.
    """
    graph = node.graph
    constants, shape_of, element_of = graph.constants, graph.shape, graph.element_type
    shapes, names = without_made_up(
        [shape_of(name) if name else None for name in (*node.inputs, *node.outputs)]
    )
    counted = tuple([graph.counted_extent(name) for name in names])
    parts: list[Any] = [node.op_type, node.domain, node.opset, len(node.inputs), tuple(shapes), counted]
    for name in node.inputs:
        if not name:
            parts.append(None)
            continue
        parts.append(element_of(name))
        tensor = constants.get(name)
        if tensor is None:
            continue
        # No model looks at floats.
        if tensor.data_type in FLOATS or prod(tensor.dims[:]) > SMALL:
            parts.append(b"")
        elif tensor.HasField("raw_data") and name not in graph.folded:
            parts.append(tensor.raw_data)
        else:
            array = graph.small_constant(name)
            parts.append(b"" if array is None else array.tobytes())
    parts += [bool(name) for name in node.outputs]
    if node.proto.attribute:
        parts += [attribute.SerializeToString() for attribute in node.proto.attribute[:]]
    return tuple(parts)


def ranks_of(node: Node) -> tuple[int | None, ...]:
    """The ranks of inputs and outputs, None for one not known and -1 where left out, then the number of inputs.

    They tell the orders of the model itself, which are in all options.
    """
    shape_of = node.graph.shape
    ranks = [
        -1 if not name else None if (shape := shape_of(name)) is None else len(shape)
        for name in (*node.inputs, *node.outputs)
    ]
    return (*ranks, len(node.inputs))


def distinct(orders: Iterable[Sequence[Order]]) -> Iterator[Order]:
    """Each order once, in order."""
    return iter(dict.fromkeys(order for each in orders for order in each))
