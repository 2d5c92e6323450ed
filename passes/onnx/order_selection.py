"""The choice of an order of dims for every value of a graph, at least cost.

A Transpose is another name of its operand: value y = Transpose(x, perm) lies in order `o` where x lies in order
`compose(perm, o)`. So the Transposes of a model vanish from the problem, and what they did is asked for by those who
use their results; wherever the orders of a maker and of a user differ in the end, a Transpose is written.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from layout_ir.passes.onnx.consumers import CHANGED_NODE, SMALL_NODE, Consumer
from layout_ir.passes.onnx.model_graph import Graph, Node, transpose_perm
from layout_ir.passes.onnx.node_models.node_option import NodeModel, NodeOption, option_of
from layout_ir.passes.onnx.orders import (
    Order,
    compose,
    identity,
    is_identity,
    transposition,
)
from layout_ir.passes.selection.solver.selection_problem import (
    Choice,
    OpNode,
    Problem,
    ValueNode,
)

MOST_ORDERS = 64
"""Orders of one value that are weighed against each other."""


@dataclass(frozen=True, slots=True)
class Member:
    """A name of a value: it is `root` in order `order`."""

    root: str
    order: Order


class Values:
    """The values of a graph without its Transposes, each with all its names, and the orders that reach it."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.members: dict[str, Member] = {}
        """What is a result of Transposes."""
        self.transposes: dict[str, Node] = {}
        """By name of the result, the Transposes that vanish."""
        self.nodes: list[Node] = []
        """All other nodes."""
        self.orders: dict[str, dict[Order, None]] = {}
        """Per root that may be had in several orders, these."""
        self.names: dict[str, list[str]] = {}
        """Per root of a Transpose, its names, its own first."""
        for node in graph.nodes:
            perm = transpose_perm(node)
            if perm is None:
                self.nodes.append(node)
                continue
            source = self.member(node.inputs[0], len(perm))
            member = Member(source.root, compose(source.order, perm))
            self.members[node.outputs[0]] = member
            self.transposes[node.outputs[0]] = node
            self.names.setdefault(member.root, [member.root]).append(node.outputs[0])
            self.orders.setdefault(member.root, {identity(len(perm)): None})[member.order] = None

    def member(self, name: str, rank: int | None = None) -> Member:
        """The root of a value, and the order in which it is that."""
        found = self.members.get(name)
        if found is None:
            if rank is None:
                shape = self.graph.shape(name)
                rank = 0 if shape is None else len(shape)
            found = self.members[name] = Member(name, identity(rank))
        return found

    def candidates(self, name: str) -> list[Order]:
        """The orders in which the value of this name may be had."""
        if not name:
            return []
        member = self.member(name)
        orders = self.orders.get(member.root)
        if orders is None:
            return [member.order]
        if is_identity(member.order):
            return list(orders)
        return [transposition(member.order, order) for order in orders]

    def root_order(self, name: str, order: Order) -> Order:
        """The order of the root where the value of this name lies in `order`; () is that of the name itself."""
        own = self.member(name).order
        return compose(own, order) if order else own


@dataclass(frozen=True)
class NodeChoices:
    """A node that may run in several ways: the options of its model, that of the model of the file first."""

    node: Node
    model: NodeModel | None
    options: tuple[NodeOption, ...]


@dataclass(frozen=True)
class Demand:
    """A value that is needed in the order in which it has this name: a result of the graph, or one for a subgraph."""

    name: str
    order: Order


@dataclass
class OrderProblem:
    """The problem in numbers, and what its ops and values stand for."""

    values: Values
    consumer: Consumer
    problem: Problem
    roots: list[str]
    """Per value of the problem."""
    orders: list[list[Order]]
    """Per value of the problem, its orders by number."""
    ops: list[NodeChoices | str | Demand]
    """Per op: a node, the name of a source (an input or a constant), or a demand."""
    omitted: tuple[str, ...]


def joined(problems: Sequence[OrderProblem]) -> Problem:
    """The problems of several graphs as one, ops and values one behind the other."""
    ops: list[OpNode] = []
    values: list[ValueNode] = []
    for each in problems:
        first = len(values)
        values += each.problem.values
        for op in each.problem.ops:
            operands, results = (tuple(v + first for v in names) for names in (op.operands, op.results))
            ops.append(OpNode(operands, results, op.choices, op.weight))
    return Problem(tuple(ops), tuple(values))


def order_problem(
    graph: Graph, consumer: Consumer, *, free_inputs: Sequence[str] = (), free_outputs: Sequence[str] = ()
) -> OrderProblem:
    """The problem of a graph; inputs and outputs that are free may be had in any order."""
    values = Values(graph)
    found, omitted = _spread(values, consumer)
    statement = _Statement(values)
    for number, node in enumerate(values.nodes):
        options = found[number] if number in found else _options(values, node, consumer)
        statement.add_node(NodeChoices(node, consumer.model_of(node), options.all))
    statement.add_sources({*graph.constants, *free_inputs})
    for value in graph.proto.output:
        statement.add_result(value.name, is_free=value.name in free_outputs)
    costs = _ReorderCosts(graph, consumer)
    nodes = [
        ValueNode(costs.table(root, tuple(own)))
        for root, own in zip(statement.roots, statement.orders, strict=True)
    ]
    problem = Problem(tuple(statement.ops), tuple(nodes))
    return OrderProblem(
        values, consumer, problem, statement.roots, statement.orders, statement.meaning, omitted
    )


class _Statement:
    """The ops of the problem, as they are added; its values are the roots that may be had in several orders."""

    def __init__(self, values: Values):
        self.values = values
        self.roots = list(values.orders)
        self.orders = [list(values.orders[root]) for root in self.roots]
        self.ops: list[OpNode] = []
        self.meaning: list[NodeChoices | str | Demand] = []
        self._numbers = {root: k for k, root in enumerate(self.roots)}
        self._places = [{order: k for k, order in enumerate(own)} for own in self.orders]
        self._made: set[str] = set()

    def _add(self, op: OpNode, meaning: NodeChoices | str | Demand) -> None:
        self.ops.append(op)
        self.meaning.append(meaning)

    def _number(self, name: str) -> int | None:
        """The number of the value of which this is a name; None where it has one order only."""
        return self._numbers.get(self.values.member(name).root) if name else None

    def _place(self, name: str, order: Order) -> int | None:
        """The number of the order that the root has where the value of this name lies in `order`."""
        return self._places[self._numbers[self.values.member(name).root]].get(
            self.values.root_order(name, order)
        )

    def add_node(self, choices: NodeChoices) -> None:
        """Adds a node, and what its subgraphs ask for; of options that look alike here, the one of least cost."""
        node = choices.node
        for name in node.captures:
            self.add_result(name, is_free=False)
        touched = [(k, v) for k, name in enumerate(node.inputs) if (v := self._number(name)) is not None]
        given = [(k, v) for k, name in enumerate(node.outputs) if (v := self._number(name)) is not None]
        if not touched and not given:
            return
        self._made.update(node.outputs[k] for k, _ in given)
        found: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, NodeOption]] = {}
        for option in choices.options:
            ins = [self._place(node.inputs[k], option.ins[k]) for k, _ in touched]
            outs = [self._place(node.outputs[k], option.outs[k]) for k, _ in given]
            # An order that was left out, being one too many, is no choice.
            key = tuple([f for f in ins if f is not None]), tuple([f for f in outs if f is not None])
            if len(key[0]) < len(ins) or len(key[1]) < len(outs):
                continue
            changed = not all(map(is_identity, (*option.ins, *option.outs)))
            cost = CHANGED_NODE * changed + SMALL_NODE * option.more_nodes + option.cost
            if key not in found or cost < found[key][0]:
                found[key] = (cost, option)
        op = OpNode(
            tuple(v for _, v in touched),
            tuple(v for _, v in given),
            tuple(Choice(*key, cost) for key, (cost, _) in found.items()),
        )
        self._add(op, NodeChoices(node, choices.model, tuple(option for _, option in found.values())))

    def add_sources(self, free: set[str]) -> None:
        """Adds what no node makes: inputs and constants, in any order those that are `free`."""
        for k, root in enumerate(self.roots):
            if root not in self._made:
                orders = range(len(self.orders[k])) if root in free else (0,)
                choices = tuple(Choice((), (f,), CHANGED_NODE * bool(f)) for f in orders)
                self._add(OpNode((), (k,), choices), root)

    def add_result(self, name: str, *, is_free: bool) -> None:
        """Adds that somebody needs the value of this name, as it is or, where it is free, in any order."""
        k, member = self._number(name), self.values.member(name)
        if k is not None:
            own = self._places[k][member.order]
            orders = range(len(self.orders[k])) if is_free else (own,)
            choices = tuple(Choice((f,), (), CHANGED_NODE * (f != own)) for f in orders)
            self._add(OpNode((k,), (), choices), Demand(name, member.order))


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of a node, that of the model of the file first, and the orders of each value in any of them."""

    all: tuple[NodeOption, ...]
    ins: tuple[tuple[Order, ...], ...]
    outs: tuple[tuple[Order, ...], ...]


def _options(values: Values, node: Node, consumer: Consumer) -> _Options:
    """The options of a node for the orders in which its values may be had by now."""
    model = consumer.model_of(node)
    plain = option_of(node, {}, {})
    if model is None:
        return _Options((plain,), tuple((o,) for o in plain.ins), tuple((o,) for o in plain.outs))
    ins = [values.candidates(name) for name in node.inputs]
    outs = [values.candidates(name) for name in node.outputs]
    options = list(model.options(node, ins, outs))
    as_it_is = [option for option in options if (option.ins, option.outs) == (plain.ins, plain.outs)]
    # The model may know what the node takes as it is.
    first = next((option for option in as_it_is if option.cost), plain)
    every = (first, *(option for option in options if option not in as_it_is))
    places = [
        tuple([tuple(dict.fromkeys(orders)) for orders in zip(*each, strict=True)])
        for each in ([option.ins for option in every], [option.outs for option in every])
    ]
    return _Options(every, places[0], places[1])


def _spread(values: Values, consumer: Consumer) -> tuple[dict[int, _Options], tuple[str, ...]]:
    """Hands orders on from value to value until no node brings a new one.

    Nodes are come to from the first to the last and back again, so that an order crosses the graph in one go. Returns
    the options of the nodes that were come to, by number, and what was left out, in words.
    """
    nodes = values.nodes
    around: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        for name in dict.fromkeys((*node.inputs, *node.outputs)):
            if name:
                around.setdefault(values.member(name).root, []).append(number)
    found: dict[int, _Options] = {}
    omitted: dict[str, None] = {}
    waiting = {number for root in values.orders for number in around.get(root, ())}
    waiting.update(number for number, node in enumerate(nodes) if consumer.starts_blocks(node))
    forward = True
    while waiting:
        for number in range(len(nodes)) if forward else reversed(range(len(nodes))):
            if number in waiting:
                waiting.discard(number)
                # Whoever is come to later and brings a new order wakes the node again: the last time, these are all.
                found[number] = _options(values, nodes[number], consumer)
                for root in _brought(values, nodes[number], found[number], omitted):
                    waiting.update(around.get(root, ()))
        forward = not forward
    return found, tuple(omitted)


def _brought(values: Values, node: Node, options: _Options, omitted: dict[str, None]) -> Iterator[str]:
    """Adds the orders that the options of a node ask for; the roots that got a new one."""
    for names, places in ((node.inputs, options.ins), (node.outputs, options.outs)):
        for name, orders in zip(names, places, strict=True):
            if not name:
                continue
            member = values.member(name)
            known = values.orders.get(member.root)
            for order in orders:
                wanted = values.root_order(name, order)
                if known is None:
                    if wanted == member.order:
                        continue
                    known = values.orders[member.root] = {identity(len(member.order)): None}
                if wanted in known:
                    continue
                if len(known) >= MOST_ORDERS:
                    omitted[f"orders of '{member.root}' beyond {MOST_ORDERS}"] = None
                    continue
                known[wanted] = None
                yield member.root


class _ReorderCosts:
    """The costs of reorders between the orders of a value."""

    def __init__(self, graph: Graph, consumer: Consumer):
        self.graph = graph
        self.consumer = consumer
        self._known: dict[Hashable, tuple[tuple[int, ...], ...]] = {}

    def table(self, root: str, orders: tuple[Order, ...]) -> tuple[tuple[int, ...], ...]:
        """The costs of reorders of a value, by source, then by target."""
        if root in self.graph.constants:
            # A constant is moved now; it is written twice.
            return tuple(tuple(SMALL_NODE * (f != g) for g in orders) for f in orders)
        shape, nbytes = self.graph.shape(root), 2 * self.graph.nbytes(root)
        key = (shape, nbytes, orders)
        found = self._known.get(key)
        if found is None:
            cost = self.consumer.reorder_cost
            found = tuple(tuple(cost(f, g, shape, nbytes) for g in orders) for f in orders)
            self._known[key] = found
        return found
