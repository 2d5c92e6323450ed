"""The choice of an order of dims for every value of a graph, at least cost.

A Transpose is another name of its operand: value y = Transpose(x, perm) lies in order `o` where x lies in order
`compose(perm, o)`. So the Transposes of a model vanish from the problem, and what they did is asked for by those who
use their results; wherever the orders of a maker and of a user differ in the end, a Transpose is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import contains
from typing import NamedTuple

from layout_ir.frontends.onnx.functions import node_name
from layout_ir.passes.onnx.consumers import CHANGED_NODE, SMALL_NODE, Consumer
from layout_ir.passes.onnx.model_graph import Graph, Node, transpose_perm
from layout_ir.passes.onnx.node_models.node_option import NodeModel, NodeOption, option_of
from layout_ir.passes.onnx.orders import (
    Order,
    Shape,
    compose,
    identity,
    is_identity,
    transposition,
)
from layout_ir.selection.named_problem import NamedProblem
from layout_ir.selection.numbering import Option
from layout_ir.selection.solver.selection_problem import FORBIDDEN

MOST_ORDERS = 64
"""Orders of one value that are weighed against each other."""


@dataclass(frozen=True, slots=True)
class Member:
    """A name of a value: it is `root` in order `order`."""

    root: str
    order: Order
    is_root: bool = False
    """Whether it is the name of the value itself, and so in its own order."""


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
            found = self.members[name] = Member(name, identity(rank), True)
        return found

    def candidates(self, name: str) -> list[Order]:
        """The orders in which the value of this name may be had."""
        if not name:
            return []
        member = self.member(name)
        orders = self.orders.get(member.root)
        if orders is None:
            return [member.order]
        if member.is_root or is_identity(member.order):
            return list(orders)
        return [transposition(member.order, order) for order in orders]

    def root_order(self, name: str, order: Order) -> Order:
        """The order of the root where the value of this name lies in `order`; () is that of the name itself."""
        member = self.members.get(name) or self.member(name)
        if not order:
            return member.order
        return order if member.is_root else compose(member.order, order)


class OpName(NamedTuple):
    """An op of the problem: the number of its graph, its own number there, and what it stands for, in words."""

    graph: int
    number: int
    what: str

    def __str__(self) -> str:
        return self.what


class ValueName(NamedTuple):
    """A value of the problem: the number of its graph, and the root."""

    graph: int
    root: str

    def __str__(self) -> str:
        return self.root


@dataclass(frozen=True, slots=True)
class OrderOption(Option):
    """An option of a node, in orders of roots that may be had in several, and the same in those of all its values."""

    node_option: NodeOption | None = None


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
    """What the values and ops that a graph adds to a problem stand for."""

    values: Values
    consumer: Consumer
    graph: int
    """The number of the graph."""
    roots: list[str]
    """The values, those that may be had in several orders."""
    ops: dict[OpName, NodeChoices | str | Demand]
    """A node, the name of a source (an input or a constant), or a demand."""
    omitted: tuple[str, ...]


def model_problem(
    graphs: Sequence[Graph],
    consumer: Consumer,
    *,
    free_inputs: Sequence[str] = (),
    free_outputs: Sequence[str] = (),
) -> tuple[NamedProblem, list[OrderProblem]]:
    """The problem of all graphs of a model, and what each graph adds to it; inputs and outputs of the first graph that
    are free may be had in any order."""
    problem = NamedProblem(lambda value, source, target: None)
    found = [
        _order_problem(
            problem, number, graph, consumer, () if number else free_inputs, () if number else free_outputs
        )
        for number, graph in enumerate(graphs)
    ]
    return problem, found


def _order_problem(
    problem: NamedProblem,
    number: int,
    graph: Graph,
    consumer: Consumer,
    free_inputs: Sequence[str],
    free_outputs: Sequence[str],
) -> OrderProblem:
    """Adds graph `number` to a problem."""
    values = Values(graph)
    found, omitted = _spread(values, consumer)
    statement = _Statement(problem, number, values, consumer)
    for place, node in enumerate(values.nodes):
        for name in node.captures:
            statement.add_result(name, is_free=False)
        # All values of a node that was not come to have one order only.
        if place in found:
            statement.add_node(found[place])
    statement.add_sources({*graph.constants, *free_inputs})
    for value in graph.proto.output:
        statement.add_result(value.name, is_free=value.name in free_outputs)
    return OrderProblem(values, consumer, number, list(values.orders), statement.meaning, omitted)


class _Statement:
    """The ops of a graph, as they are added; its values are the roots that may be had in several orders."""

    def __init__(self, problem: NamedProblem, graph: int, values: Values, consumer: Consumer):
        self.problem = problem
        self.graph = graph
        self.values = values
        self.orders = values.orders
        self.meaning: dict[OpName, NodeChoices | str | Demand] = {}
        self._made: set[str] = set()
        for root, orders in self.orders.items():
            if root in values.graph.constants:
                cost, alike = _constant_cost, True
            else:
                alike = values.graph.shape(root), 2 * values.graph.nbytes(root)
                cost = _reorder_cost(consumer, *alike)
            problem.add_value(ValueName(graph, root), formats=orders, reorder_cost=cost, alike=alike)

    def _add(
        self,
        operands: Sequence[str],
        results: Sequence[str],
        options: Iterable[Option],
        meaning: NodeChoices | str | Demand,
        what: str,
    ) -> None:
        name = OpName(self.graph, len(self.meaning), what)
        used, made = ([ValueName(self.graph, root) for root in roots] for roots in (operands, results))
        self.problem.add_op(name, used, made, options)
        self.meaning[name] = meaning

    def _root(self, name: str) -> str | None:
        """The root of which this is a name; None where it has one order only."""
        root = self.values.member(name).root if name else ""
        return root if root in self.orders else None

    def add_node(self, choices: NodeChoices) -> None:
        """Adds a node; of options that look alike here, the one of least cost."""
        node = choices.node
        touched = [(k, root) for k, name in enumerate(node.inputs) if (root := self._root(name)) is not None]
        given = [(k, root) for k, name in enumerate(node.outputs) if (root := self._root(name)) is not None]
        if not touched and not given:
            return
        self._made.update(node.outputs[k] for k, _ in given)
        options: list[OrderOption] = []
        root_order, known = self.values.root_order, [self.orders[root] for _, root in (*touched, *given)]
        inputs = [(k, node.inputs[k]) for k, _ in touched]
        outputs = [(k, node.outputs[k]) for k, _ in given]
        for option in choices.options:
            ins = tuple([root_order(name, option.ins[k]) for k, name in inputs])
            outs = tuple([root_order(name, option.outs[k]) for k, name in outputs])
            # An order that was left out, being one too many, is no choice.
            if all(map(contains, known, (*ins, *outs))):
                changed = not all(map(is_identity, (*option.ins, *option.outs)))
                cost = CHANGED_NODE * changed + SMALL_NODE * option.more_nodes + option.cost
                options.append(OrderOption(ins, outs, cost, node_option=option))
        operands, results = [root for _, root in touched], [root for _, root in given]
        self._add(operands, results, options, choices, node_name(node.proto))

    def add_sources(self, free: set[str]) -> None:
        """Adds what no node makes: inputs and constants, in any order those that are `free`."""
        for root, orders in self.orders.items():
            if root not in self._made:
                own, *others = orders
                allowed = [own, *others] if root in free else [own]
                options = [Option((), (order,), CHANGED_NODE * (order != own)) for order in allowed]
                self._add((), (root,), options, root, f"source '{root}'")

    def add_result(self, name: str, *, is_free: bool) -> None:
        """Adds that somebody needs the value of this name, as it is or, where it is free, in any order."""
        root, own = self._root(name), self.values.member(name).order
        if root is not None:
            orders = self.orders[root] if is_free else (own,)
            options = [Option((order,), (), CHANGED_NODE * (order != own)) for order in orders]
            self._add((root,), (), options, Demand(name, own), f"result '{name}'")


def _choices(values: Values, node: Node, model: NodeModel | None) -> NodeChoices:
    """The options of a node for the orders in which its values may be had by now."""
    first = option_of(node, {}, {})
    if model is None:
        return NodeChoices(node, None, (first,))
    ins, outs = first.ins, first.outs
    others: list[NodeOption] = []
    for option in model.options(
        node,
        [values.candidates(name) for name in node.inputs],
        [values.candidates(name) for name in node.outputs],
    ):
        if option.ins != ins or option.outs != outs:
            others.append(option)
        elif option.cost and not first.cost:
            first = option  # the model may know what the node takes as it is
    return NodeChoices(node, model, (first, *others))


def _spread(values: Values, consumer: Consumer) -> tuple[dict[int, NodeChoices], tuple[str, ...]]:
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
    models: dict[int, NodeModel | None] = {}
    found: dict[int, NodeChoices] = {}
    omitted: dict[str, None] = {}
    waiting = {number for root in values.orders for number in around.get(root, ())}
    waiting.update(number for number, node in enumerate(nodes) if consumer.starts_blocks(node))
    forward = True
    while waiting:
        for number in range(len(nodes)) if forward else reversed(range(len(nodes))):
            if number in waiting:
                waiting.discard(number)
                # Whoever is come to later and brings a new order wakes the node again: the last time, these are all.
                if number not in models:
                    models[number] = consumer.model_of(nodes[number])
                found[number] = _choices(values, nodes[number], models[number])
                for root in _brought(values, found[number], omitted):
                    waiting.update(around.get(root, ()))
        forward = not forward
    return found, tuple(omitted)


def _brought(values: Values, choices: NodeChoices, omitted: dict[str, None]) -> Iterator[str]:
    """Adds the orders that the options of a node ask for; the roots that got a new one."""
    node, options = choices.node, choices.options
    for names, sides in (
        (node.inputs, zip(*[option.ins for option in options], strict=True)),
        (node.outputs, zip(*[option.outs for option in options], strict=True)),
    ):
        for name, orders in zip(names, sides, strict=True):
            if not name:
                continue
            member = values.member(name)
            known = values.orders.get(member.root)
            for order in dict.fromkeys(orders):
                wanted = order if order and member.is_root else values.root_order(name, order)
                if wanted == member.order:
                    continue  # its own order is there, or it has that alone
                if known is None:
                    known = values.orders[member.root] = {identity(len(member.order)): None}
                if wanted in known:
                    continue
                if len(known) >= MOST_ORDERS:
                    omitted[f"orders of '{member.root}' beyond {MOST_ORDERS}"] = None
                    continue
                known[wanted] = None
                yield member.root


def _constant_cost(value: ValueName, source: Order, target: Order) -> int:
    """A constant is moved now; it is written twice."""
    return SMALL_NODE


def _reorder_cost(
    consumer: Consumer, shape: Shape | None, nbytes: int
) -> Callable[[ValueName, Order, Order], int | None]:
    """What it costs to bring values of a shape, `nbytes` bytes read and written, from one order into another; None
    where nothing does."""

    def cost(value: ValueName, source: Order, target: Order) -> int | None:
        found = consumer.reorder_cost(source, target, shape, nbytes)
        return None if found >= FORBIDDEN else found

    return cost
