"""The orders of dims in which the values of a graph may be had, and the options of its nodes on them.

A Transpose is another name of its operand: value y = Transpose(x, perm) lies in order `o` where x lies in order
`compose(perm, o)`. So a value has the orders of all its names to begin with, and hands them on: a node that can run
where one of its values lies in an order asks for orders of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from layout_ir.frontends.onnx.functions import node_name
from layout_ir.passes.onnx.consumers import Consumer
from layout_ir.passes.onnx.model_graph import Graph, Node, transpose_perm
from layout_ir.passes.onnx.node_models.node_option import (
    NodeModel,
    NodeOption,
    TruncatedOptions,
    all_of,
)
from layout_ir.passes.onnx.orders import Order, compose, identity, transposition
from layout_ir.selection.shared_sets import SharedSets

MOST_ORDERS = 64
"""Orders of one value that are weighed against each other."""


class Member(NamedTuple):
    """A name of a value: it is `root` in order `order`."""

    root: str
    order: Order
    is_root: bool = False
    """Whether it is the name of the value itself, and so in its own order."""


class _Members(dict[str, Member]):
    """What each name is: a value of its own where nothing else was said."""

    def __init__(self, graph: Graph):
        super().__init__()
        self._shape = graph.shape

    def __missing__(self, name: str) -> Member:
        shape = self._shape(name)
        found = self[name] = Member(name, identity(0 if shape is None else len(shape)), True)
        return found


OrderSet = Mapping[Order, None]
"""Orders, in the order in which they were found."""


class OrderSets(SharedSets[Order]):
    """The sets of orders of the values of graphs."""

    def __init__(self) -> None:
        super().__init__()
        self._turned: dict[tuple[int, Order], OrderSet] = {}
        """The sets whose dims were turned, by identity of the set and order."""

    def single(self, order: Order) -> OrderSet:
        """The set of one order."""
        return self.of((order,))

    def turned(self, orders: OrderSet, own: Order) -> OrderSet:
        """The orders in which a tensor lies that is a value in order `own`, where that lies in these."""
        key = id(orders), own
        found = self._turned.get(key)
        if found is None:
            found = self._turned[key] = self.of(tuple([transposition(own, order) for order in orders]))
        return found


class Values:
    """The values of a graph without its Transposes, each with all its names, and the orders that reach it."""

    def __init__(self, graph: Graph, sets: OrderSets):
        """`sets` may have given out those of other graphs."""
        self.graph = graph
        self.members: dict[str, Member] = _Members(graph)
        """The root of a value, and the order in which it is that, by name."""
        self.transposes: dict[str, Node] = {}
        """The Transposes that vanish, by name of the result."""
        self.nodes: list[Node] = []
        """All other nodes."""
        self.sets = sets
        self.orders: dict[str, OrderSet] = {}
        """Per root that may be had in several orders, these."""
        self.names: dict[str, list[str]] = {}
        """Per root of a Transpose, its names, its own first."""
        self._candidates = _Candidates(self)
        for node in graph.nodes:
            perm = transpose_perm(node) if node.op_type == "Transpose" else None
            if perm is None:
                self.nodes.append(node)
                continue
            if node.inputs[0] not in self.members:
                self.members[node.inputs[0]] = Member(node.inputs[0], identity(len(perm)), True)
            source = self.members[node.inputs[0]]
            member = Member(source.root, compose(source.order, perm))
            self.members[node.outputs[0]] = member
            self.transposes[node.outputs[0]] = node
            self.names.setdefault(member.root, [member.root]).append(node.outputs[0])
            known = self.orders.get(member.root) or sets.single(identity(len(perm)))
            self.orders[member.root] = sets.union(known, sets.single(member.order))

    def member(self, name: str) -> Member:
        """The root of a value, and the order in which it is that."""
        return self.members[name]

    def candidates_of(self, names: Iterable[str]) -> tuple[OrderSet, ...]:
        """The orders in which each of the values of these names may be had, none for a name that is empty."""
        return tuple(map(self._candidates.__getitem__, names))

    def add_orders(self, root: str, orders: OrderSet) -> None:
        """Lets a root, besides in its own order, be had in these, a set of `sets`."""
        known = self.orders.get(root) or self.sets.single(self.members[root].order)
        self.orders[root] = self.sets.union(known, orders)
        for name in self.names.get(root, (root,)):
            self._candidates.pop(name, None)

    def root_order(self, name: str, order: Order) -> Order:
        """The order of the root where the value of this name lies in `order`; () is that of the name itself."""
        member = self.members[name]
        if not order:
            return member.order
        return order if member.is_root else compose(member.order, order)


class _Candidates(dict[str, OrderSet]):
    """The orders in which a value may be had, by name, found when they are asked for; they are to be dropped where
    these become more."""

    def __init__(self, values: Values):
        super().__init__({"": values.sets.none})
        # Not the values themselves, which would wait for the garbage collector then.
        self._members, self._orders, self._sets = values.members, values.orders, values.sets

    def __missing__(self, name: str) -> OrderSet:
        root, own, is_root = self._members[name]
        known = self._orders.get(root)
        if known is None:
            known = self._sets.single(own)
        elif not is_root:
            known = self._sets.turned(known, own)
        self[name] = known
        return known


class _Surroundings:
    """The nodes that use or make each value, by their places in `values.nodes`, found when they are asked for first."""

    def __init__(self, values: Values):
        self._values = values
        self._found: dict[str, list[int]] | None = None
        """The nodes around each value, by its name; None until they are asked for."""

    def of(self, root: str) -> list[int]:
        """The nodes around a root, by all its names; some may be there more than once."""
        if self._found is None:
            found = self._found = defaultdict[str, list[int]](list)
            for number, node in enumerate(self._values.nodes):
                for name in node.inputs:
                    found[name].append(number)
                for name in node.outputs:
                    found[name].append(number)
        names = self._values.names.get(root)
        if names is None:
            return self._found.get(root, [])
        return [number for name in names for number in self._found.get(name, ())]


class OfferedOptions(NamedTuple):
    """The options of a node for the orders in which its values may be had, that of the model of the file first."""

    options: tuple[NodeOption, ...]
    new_ins: tuple[tuple[int, tuple[Order, ...]], ...]
    """The orders that some option asks for and are none of these, by the number of the input."""
    new_outs: tuple[tuple[int, tuple[Order, ...]], ...]
    """Likewise of the outputs."""
    is_part: bool
    """Whether the model of the node has more."""


class NodeChoices(NamedTuple):
    """A node that may run in several ways, and those ways."""

    node: Node
    model: NodeModel | None
    offered: OfferedOptions


class GivenOrders(NamedTuple):
    """Orders that values have at least, and nodes whose options for these are known and ask for no others."""

    orders: Mapping[str, OrderSet]
    """The orders of values, by name."""
    choices: Mapping[int, NodeChoices]
    """The options of nodes, by identity."""


_NOTHING_GIVEN = GivenOrders({}, {})


@dataclass(frozen=True)
class ReachableOrders:
    """What a graph has to choose from: its values with their orders, and the options of the nodes they come to."""

    values: Values
    choices: dict[int, NodeChoices]
    """The options of nodes, by place in `values.nodes`. All values of other nodes have one order only."""
    omitted: tuple[str, ...]
    """What was left out, in words."""
    given: GivenOrders
    """What was said of its values and nodes before."""


class OrderPropagation:
    """Hands orders on from value to value until no node brings a new one, in one graph after the other.

    Nodes that are alike for their models have the same options: those are asked for once for all of them.
    """

    def __init__(self, consumer: Consumer):
        self.consumer = consumer
        self._kinds: dict[tuple[Any, ...], int] = {}
        """Numbers of nodes that are alike."""
        self._numbers: dict[Node, int] = {}
        """The numbers of single nodes, for such as are the same in a graph that was written anew."""
        self._offered: dict[tuple[Any, ...], OfferedOptions] = {}
        """The options of a node, by its number and identity of the orders in which its values may be had; those of a
        node without a model by its orders."""
        self.sets = OrderSets()

    def reachable(self, graph: Graph, given: GivenOrders = _NOTHING_GIVEN) -> ReachableOrders:
        """The orders of the values of a graph, and the options of its nodes.

        Nodes are come to from the first to the last and back again, so that an order crosses the graph in one go. With
        orders that are given it is these, those that come from the Transposes, and all that follow from both. A node
        whose options are known is come to only if one of its values gets an order that was not given.
        """
        values = Values(graph, self.sets)
        nodes = values.nodes
        around = _Surroundings(values)
        models: dict[int, tuple[NodeModel | None, int | None]] = {}
        found: dict[int, OfferedOptions] = {}
        known: dict[int, NodeChoices] = {}
        omitted: dict[str, None] = {}
        if given.orders:
            used = {name for node in nodes for name in (*node.inputs, *node.outputs)}
            used.update([values.members[name].root for name in values.transposes if name in used])
            for name, orders in given.orders.items():
                if name in used and name not in values.transposes:
                    values.add_orders(name, orders)
        if given.choices:
            several = {name for root in values.orders for name in values.names.get(root, (root,))}
            waiting: set[int] = set()
            for number, node in enumerate(nodes):
                choices = given.choices.get(id(node))
                if choices is not None:
                    known[number] = choices
                elif not (several.isdisjoint(node.inputs) and several.isdisjoint(node.outputs)):
                    waiting.add(number)
        else:
            waiting = {number for root in values.orders for number in around.of(root)}
        if self.consumer.starters:
            waiting.update(n for n, node in enumerate(nodes) if self.consumer.starts_blocks(node))
        forward = True
        while waiting:
            for number in range(len(nodes)) if forward else reversed(range(len(nodes))):
                if number in waiting:
                    waiting.discard(number)
                    # Whoever is come to later and brings a new order wakes the node again: the last time, these are
                    # all.
                    node = nodes[number]
                    if number not in models:
                        models[number] = self._model(node)
                    model, kind = models[number]
                    offered = found[number] = self._offer(values, node, model, kind)
                    if offered.is_part:
                        omitted[f"combinations of orders of {node.op_type} '{node_name(node.proto)}'"] = None
                    if offered.new_ins or offered.new_outs:
                        for root in _brought(values, node, offered, omitted):
                            waiting.update(around.of(root))
            forward = not forward
        for number, offered in found.items():
            known[number] = NodeChoices(nodes[number], models[number][0], offered)
        return ReachableOrders(values, known, tuple(omitted), given)

    def _model(self, node: Node) -> tuple[NodeModel | None, int | None]:
        """The model of a node, and the number of those like it; None where it may look beyond the node itself."""
        model = self.consumer.model_of(node)
        if model is None or self.consumer.block or node.graph.outer is not None:
            return model, None
        origin = node.origin
        if origin is not None and origin in self._numbers:
            return model, self._numbers[origin]
        looks_at = getattr(model, "looks_at", None)  # which not every NodeModel has
        kind = all_of(node) if looks_at is None else looks_at(node)
        number = self._kinds.setdefault((id(model), kind), len(self._kinds))
        self._numbers[node] = number
        return model, number

    def _offer(self, values: Values, node: Node, model: NodeModel | None, kind: int | None) -> OfferedOptions:
        if model is None:
            plain = node.plain_orders
            if plain not in self._offered:
                self._offered[plain] = OfferedOptions((NodeOption(*plain),), (), (), False)
            return self._offered[plain]
        candidates = values.candidates_of((*node.inputs, *node.outputs))
        count = len(node.inputs)
        if kind is None:
            return _offered_options(node, model, candidates[:count], candidates[count:])
        key = kind, count, *map(id, candidates)
        found = self._offered.get(key)
        if found is None:
            found = self._offered[key] = _offered_options(node, model, candidates[:count], candidates[count:])
        return found


def _offered_options(
    node: Node, model: NodeModel, known_ins: tuple[OrderSet, ...], known_outs: tuple[OrderSet, ...]
) -> OfferedOptions:
    plain_ins, plain_outs = node.plain_orders
    first = NodeOption(plain_ins, plain_outs)
    given = model.options(node, list(map(tuple, known_ins)), list(map(tuple, known_outs)))
    options = [first]
    for option in given:
        if option[0] != plain_ins or option[1] != plain_outs:
            options.append(option)
        elif option.cost and not first.cost:
            first = options[0] = option  # the model may know what the node takes as it is
    return OfferedOptions(
        tuple(options),
        _new_orders(known_ins, [option[0] for option in options]),
        _new_orders(known_outs, [option[1] for option in options]),
        isinstance(given, TruncatedOptions),
    )


def _new_orders(
    known: Sequence[OrderSet], asked: Sequence[Sequence[Order]]
) -> tuple[tuple[int, tuple[Order, ...]], ...]:
    """The orders per input or output that options ask for and are not known; () stands for that of the value itself."""
    found: list[tuple[int, tuple[Order, ...]]] = []
    for k, (own, orders) in enumerate(zip(known, zip(*asked, strict=True), strict=True)):
        new = [order for order in orders if order and order not in own]
        if new:
            found.append((k, tuple(dict.fromkeys(new))))
    return tuple(found)


def _brought(values: Values, node: Node, offered: OfferedOptions, omitted: dict[str, None]) -> Iterator[str]:
    """Adds the orders that the options of a node ask for; the roots that got new ones."""
    for names, asked in ((node.inputs, offered.new_ins), (node.outputs, offered.new_outs)):
        for number, orders in asked:
            name = names[number]
            if not name:
                continue
            root = values.members[name].root
            wanted = tuple([values.root_order(name, order) for order in orders])
            known = values.orders.get(root, values.sets.none)
            new = tuple([order for order in wanted if order not in known])
            room = MOST_ORDERS - (len(known) or 1)  # its own at least
            if len(new) > room:
                omitted[f"orders of '{root}' beyond {MOST_ORDERS}"] = None
                new = new[: max(room, 0)]
            if new:
                values.add_orders(root, values.sets.of(new))
                yield root
