"""The choice of an order of dims for every value of a graph, at least cost.

A Transpose is another name of its operand: value y = Transpose(x, perm) lies in order `o` where x lies in order
`compose(perm, o)`. So the Transposes of a model vanish from the problem, and what they did is asked for by those who
use their results; wherever the orders of a maker and of a user differ in the end, a Transpose is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from layout_ir.frontends.onnx.functions import node_name
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
from layout_ir.selection.named_problem import NamedProblem
from layout_ir.selection.numbering import Option

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
    options, omitted = _spread(values, consumer)
    statement = _Statement(problem, number, values, consumer)
    for node in values.nodes:
        statement.add_node(options.get(id(node)) or _choices(values, node, consumer))
    statement.add_sources({*graph.constants, *free_inputs})
    for value in graph.proto.output:
        statement.add_result(value.name, is_free=value.name in free_outputs)
    return OrderProblem(values, number, list(values.orders), statement.meaning, omitted)


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
            cost = _reorder_cost(values.graph, root, consumer)
            problem.add_value(ValueName(graph, root), formats=orders, reorder_cost=cost)

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
        """Adds a node, and what its subgraphs ask for; of options that look alike here, the one of least cost."""
        node = choices.node
        for name in node.captures:
            self.add_result(name, is_free=False)
        touched = [(k, root) for k, name in enumerate(node.inputs) if (root := self._root(name)) is not None]
        given = [(k, root) for k, name in enumerate(node.outputs) if (root := self._root(name)) is not None]
        if not touched and not given:
            return
        self._made.update(node.outputs[k] for k, _ in given)
        options: list[OrderOption] = []
        for option in choices.options:
            ins = tuple([self.values.root_order(node.inputs[k], option.ins[k]) for k, _ in touched])
            outs = tuple([self.values.root_order(node.outputs[k], option.outs[k]) for k, _ in given])
            # An order that was left out, being one too many, is no choice.
            if all(
                order in self.orders[root]
                for (_, root), order in zip((*touched, *given), (*ins, *outs), strict=True)
            ):
                changed = not all(map(is_identity, (*option.ins, *option.outs)))
                cost = CHANGED_NODE * changed + SMALL_NODE * option.more_nodes
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


def _spread(values: Values, consumer: Consumer) -> tuple[dict[int, NodeChoices], tuple[str, ...]]:
    """Hands orders on from value to value until no node brings a new one.

    Returns the options of the nodes that were come to, by identity, and what was left out, in words.
    """
    around: dict[str, list[Node]] = {}
    for node in values.nodes:
        for name in dict.fromkeys((*node.inputs, *node.outputs)):
            if name:
                around.setdefault(values.member(name).root, []).append(node)
    omitted: dict[str, None] = {}
    queue: deque[Node] = deque()
    waiting: set[int] = set()
    options: dict[int, NodeChoices] = {}

    def wake(root: str) -> None:
        for node in around.get(root, ()):
            if id(node) not in waiting:
                waiting.add(id(node))
                queue.append(node)

    for root in list(values.orders):
        wake(root)
    while queue:
        node = queue.popleft()
        waiting.discard(id(node))
        # Whoever is come to later and brings a new order wakes the node again: the last time, these are all.
        options[id(node)] = _choices(values, node, consumer)
        for option in options[id(node)].options:
            for names, orders in ((node.inputs, option.ins), (node.outputs, option.outs)):
                for name, order in zip(names, orders, strict=True):
                    if not name:
                        continue
                    member = values.member(name)
                    known = values.orders.get(member.root)
                    wanted = values.root_order(name, order)
                    if known is None:
                        if wanted == member.order:
                            continue
                        known = values.orders[member.root] = {identity(len(wanted)): None}
                    if wanted not in known:
                        if len(known) >= MOST_ORDERS:
                            omitted[f"orders of '{member.root}' beyond {MOST_ORDERS}"] = None
                            continue
                        known[wanted] = None
                        wake(member.root)
    return options, tuple(omitted)


def _choices(values: Values, node: Node, consumer: Consumer) -> NodeChoices:
    """The node with all its options, that of the model first."""
    model = consumer.model_of(node)
    plain = option_of(node, {}, {})
    if model is None:
        return NodeChoices(node, None, (plain,))
    ins = [values.candidates(name) for name in node.inputs]
    outs = [values.candidates(name) for name in node.outputs]
    return NodeChoices(node, model, (plain, *(o for o in model.options(node, ins, outs) if o != plain)))


def _reorder_cost(graph: Graph, root: str, consumer: Consumer) -> Callable[[ValueName, Order, Order], int]:
    """What it costs to bring a root from one order into another."""
    shape, nbytes = graph.shape(root), 2 * graph.nbytes(root)
    is_constant = root in graph.constants

    def cost(value: ValueName, source: Order, target: Order) -> int:
        # A constant is moved now; it is written twice.
        return SMALL_NODE if is_constant else consumer.reorder_cost(source, target, shape, nbytes)

    return cost
