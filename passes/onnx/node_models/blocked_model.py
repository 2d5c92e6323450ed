"""What nodes can do on ONNX Runtime's blocked channels, beside plain orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from layout_ir.passes.onnx.blocked_channels import is_blocked
from layout_ir.passes.onnx.graph_output import NodeWriter
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.node_option import (
    Candidates,
    NodeModel,
    NodeOption,
    TruncatedOptions,
    distinct,
)
from layout_ir.passes.onnx.orders import Order
from layout_ir.passes.onnx.value_shapes import UNKNOWN_EXTENT

if TYPE_CHECKING:
    import onnx

FLOAT = 1
"""The element type that the blocked kernels have, as TensorProto numbers it."""
NOT_LEFT_PLAIN = 1 << 44
"""The cost of a node on plain orders that ONNX Runtime would put into blocks by itself: more than all moves of a model.

What would run instead is the blocked kernel between two reorders, which a choice of blocks has at most.
"""


class BlockedModel(Protocol):
    """What an operator can do on blocked channels."""

    def options(self, node: Node, orders: Sequence[Order]) -> Iterable[NodeOption]:
        """The options with blocked inputs or outputs; `orders` are the blocked ones in which some of these may be."""
        ...

    def plain_cost(self, node: Node) -> int:
        """What the node takes on plain orders more than on blocked channels, in the unit of moves."""
        ...

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node for a blocked option."""
        ...


class WithBlocks:
    """The options of two models: on plain orders, which never see a blocked one, and on blocked channels."""

    def __init__(self, plain: NodeModel | None, blocked: BlockedModel | None):
        self.plain = plain
        self.blocked = blocked

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Sequence[NodeOption]:
        """All options; that of the model of the file, too, where it costs something."""
        cost, found = 0, list[NodeOption]()
        is_part = False
        if self.blocked is not None:
            cost = self.blocked.plain_cost(node)
            found.append(NodeOption(*node.plain_orders, cost=cost))
        if self.plain is not None:
            given = self.plain.options(node, _plain(ins), _plain(outs))
            is_part = isinstance(given, TruncatedOptions)
            found += [option._replace(cost=option.cost + cost) if cost else option for option in given]
        if self.blocked is not None:
            orders = [order for order in distinct([*ins, *outs]) if is_blocked(order)]
            found += self.blocked.options(node, orders)
        return TruncatedOptions(found) if is_part else found

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node as the model of the option writes it."""
        if self.blocked is not None and any(map(is_blocked, (*option.ins, *option.outs))):
            return self.blocked.write(node, option, writer)
        return writer.copy() if self.plain is None else self.plain.write(node, option, writer)


def _plain(candidates: Candidates) -> Candidates:
    return [[order for order in orders if not is_blocked(order)] for orders in candidates]


def sized_extents(node: Node) -> list[int]:
    """The extents of the result for which costs are compared, as `Graph.nbytes` has them."""
    shape = node.graph.sized_shape(node.outputs[0]) or ()
    return [n if isinstance(n, int) else UNKNOWN_EXTENT if d else 1 for d, n in enumerate(shape)]
