"""Whether a graph that was written for least cost could be written for less, without solving its problem anew.

Its nodes are those of the graph before, and its Transposes the reorders that were left. So a choice for it should be a
choice for the graph before as well, and that was solved: none has less to transpose. But the models may offer more for
nodes as they are written now (a Reshape between other extents), or views may have come to lie side by side, and then
the problem is another one. Here that is looked up: each option that a node has now must be one that it had, with the
same values in the same memory, where dims of one element may lie anywhere.

What is compared is the cost of Transposes. That is a multiple of the greatest common divisor of what single ones cost.
All else that a choice for the graph before can cost (changed nodes and small ones, reorders of constants and of dims of
one element) has a largest sum. A choice with less to transpose now is one for then that costs no more than that sum
besides; where the sum is above what the optimum has of it by less than the divisor, that is less than the optimum. So
there is none.
"""

from __future__ import annotations

from collections import Counter
from math import gcd

from layout_ir.passes.onnx.consumers import KIBIBYTE, SMALL_NODE
from layout_ir.passes.onnx.graph_rewriter import GraphRewriter, Place, Plan
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.node_option import NodeOption
from layout_ir.passes.onnx.order_selection import Demand
from layout_ir.passes.onnx.orders import Order, compose, is_identity, without_units
from layout_ir.passes.onnx.reachable_orders import NodeChoices, OfferedOptions, ReachableOrders

_Slots = tuple[int | None, ...]
"""Per input, the number of the input that it was; None for a constant."""


def is_fixed_point(plan: Plan, rewriter: GraphRewriter, cost: int, now: ReachableOrders) -> bool:
    """Whether it is known that no choice for the graph that was written has less to transpose than it has now.

    `plan` is what `rewriter` wrote, `cost` what it costs, which is the least; `now` are the orders and options that the
    graph has as it is written. False says nothing.
    """
    graph = now.values.graph
    if graph.nodes != graph.nodes_of_model or plan.problem.reached.omitted:
        return False
    if plan.problem.largest_rest + _largest_moves(plan) - (cost - plan.transpose_cost) >= _divisor(plan):
        return False
    return _Embedding(plan, rewriter, now).holds()


def _divisor(plan: Plan) -> int:
    """What the cost of all Transposes together is a multiple of, whichever of them there are."""
    graph, consumer = plan.graph, plan.problem.consumer
    sizes = {
        consumer.counted_bytes(graph, root) for root in plan.values.orders if root not in graph.constants
    }
    return gcd(*map(consumer.transpose_cost, sizes)) or KIBIBYTE


def _largest_moves(plan: Plan) -> int:
    """The most that reorders which are no Transposes can cost: those of constants, and of dims of one element.

    They lead to orders that somebody asks for, each to one.
    """
    values = plan.values
    asked: Counter[str] = Counter()
    for what in plan.problem.ops.values():
        if isinstance(what, NodeChoices):
            asked.update([values.members[name].root for name in what.node.inputs if name])
        elif isinstance(what, Demand):
            asked[values.member(what.name).root] += 1
    most = 0
    for root, orders in values.orders.items():
        shape = plan.graph.shape(root)
        if root in plan.graph.constants:
            most += min(asked[root], len(orders) - 1)
        elif shape is not None and 1 in shape:
            alike = len({without_units(order, shape) for order in orders})
            most += min(asked[root], len(orders) - alike)
    return SMALL_NODE * most


class _Embedding:
    """The choices of a graph as choices of the graph that it was written for."""

    def __init__(self, plan: Plan, rewriter: GraphRewriter, now: ReachableOrders):
        self.plan = plan
        self.now = now
        self.places = rewriter.places
        nodes = now.values.graph.nodes_of_model
        self.origins = {id(node): origin for node, origin in zip(nodes, rewriter.origins, strict=True)}
        """By identity of a node, the node that it was."""
        self.choices = {id(choices.node): choices for choices in plan.problem.reached.choices.values()}
        self.constants = plan.graph.constants.keys() | now.values.graph.constants.keys()
        self._checked: dict[tuple[object, ...], bool] = {}

    def holds(self) -> bool:
        """Whether each choice is one: of orders that the values had, and of options that the nodes had."""
        known = self.plan.values.orders
        for root, orders in self.now.values.orders.items():
            if root not in self.constants:
                source, own = self.places.get(root, ("", ()))
                if source not in known:
                    return False
                shape = self.plan.graph.shape(source)
                had = {without_units(order, shape) for order in known[source]}
                if not all(without_units(compose(own, order), shape) in had for order in orders):
                    return False
        return all(
            self._holds_of(choices.node, choices.offered)
            for choices in self.now.choices.values()
            if not all(name in self.constants for name in choices.node.outputs)
        )

    def _holds_of(self, node: Node, offered: OfferedOptions) -> bool:
        origin = self.origins[id(node)]
        if origin is None:
            return False  # one of the small nodes that a rewritten one needs
        before = self.choices.get(id(origin))
        chosen = self.plan.options.get(id(origin))
        if before is None or chosen is None:
            return len(offered.options) == 1
        slots = self._slots(node, origin, chosen)
        if slots is None:
            return False
        key = id(offered), id(before.offered), chosen, slots
        known = self._checked.get(key)
        if known is None:
            known = self._checked[key] = _are_part(origin, offered, before.offered, chosen, slots)
        return known

    def _slots(self, node: Node, origin: Node, chosen: NodeOption) -> _Slots | None:
        """Which inputs those of `node` were, `origin` having run as `chosen`; None where they, or its results, are
        other tensors than those."""
        constants, places = self.constants, self.places
        if (node.inputs, node.outputs) == (origin.inputs, origin.outputs):
            # A name that stayed is that of the same tensor.
            own = tuple([None if not n or n in constants else k for k, n in enumerate(node.inputs)])
            if all(map(is_identity, (*chosen.ins, *chosen.outs))):
                return own
        had = [self._place(name, order) for name, order in zip(origin.inputs, chosen.ins, strict=True)]
        made = [self._place(name, order) for name, order in zip(origin.outputs, chosen.outs, strict=True)]
        if [places.get(name) for name in node.outputs] != made:
            return None
        free = dict(enumerate(had))
        slots: list[int | None] = []
        for number, name in enumerate(node.inputs):
            if not name or name in constants:
                slots.append(None)
                continue
            place = places.get(name)
            slot = number if free.get(number) == place else None
            if slot is None:
                slot = next((k for k, other in free.items() if other == place), None)
            if slot is None or place is None:
                return None
            slots.append(slot)
            del free[slot]
        # What it took and does not take any more must be a constant, of which the cost is no matter.
        left = (place for place in free.values() if place is not None)
        return tuple(slots) if all(root in self.constants for root, _ in left) else None

    def _place(self, name: str, order: Order) -> Place | None:
        if not name:
            return None
        values = self.plan.values
        return values.member(name).root, values.root_order(name, order)


def _are_part(
    origin: Node, now: OfferedOptions, before: OfferedOptions, chosen: NodeOption, slots: _Slots
) -> bool:
    """Whether all options that a node has now are such that it had as `origin`, which ran as `chosen`."""
    kept = [(number, slot, origin.shape(slot)) for number, slot in enumerate(slots) if slot is not None]
    shapes = [origin.result_shape(k) for k in range(len(origin.outputs))]
    had = {
        (
            *(without_units(option.ins[slot], shape) for _, slot, shape in kept),
            *map(without_units, option.outs, shapes),
        )
        for option in before.options
    }
    return all(
        (
            *(without_units(_composed(chosen.ins[k], option.ins[n]), shape) for n, k, shape in kept),
            *map(without_units, map(_composed, chosen.outs, option.outs), shapes),
        )
        in had
        for option in now.options
    )


def _composed(own: Order, order: Order) -> Order:
    """The order of a value in which a tensor lies that has it in order `own`; () is that of an unknown rank."""
    return compose(own, order) if own else order
