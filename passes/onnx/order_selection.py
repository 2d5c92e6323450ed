"""The choice of an order of dims for every value of a graph, at least cost.

A Transpose is another name of its operand: value y = Transpose(x, perm) lies in order `o` where x lies in order
`compose(perm, o)`. So the Transposes of a model vanish from the problem, and what they did is asked for by those who
use their results; wherever the orders of a maker and of a user differ in the end, a Transpose is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
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
from layout_ir.selection.solver.selection_problem import (
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
    options, omitted = _spread(values, consumer)
    statement = _Statement(values)
    for node in values.nodes:
        statement.add_node(options.get(id(node)) or _choices(values, node, consumer))
    statement.add_sources({*graph.constants, *free_inputs})
    for value in graph.proto.output:
        statement.add_result(value.name, is_free=value.name in free_outputs)
    costs = [
        ValueNode(_reorder_costs(graph, root, own, consumer))
        for root, own in zip(statement.roots, statement.orders, strict=True)
    ]
    problem = Problem(tuple(statement.ops), tuple(costs))
    return OrderProblem(values, problem, statement.roots, statement.orders, statement.meaning, omitted)


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
            cost = CHANGED_NODE * changed + SMALL_NODE * option.more_nodes
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


def _reorder_costs(
    graph: Graph, root: str, orders: Sequence[Order], consumer: Consumer
) -> tuple[tuple[int, ...], ...]:
    shape, nbytes = graph.shape(root), 2 * graph.nbytes(root)
    if root in graph.constants:
        # A constant is moved now; it is written twice.
        return tuple(tuple(SMALL_NODE * (f != g) for g in orders) for f in orders)
    return tuple(tuple(consumer.reorder_cost(f, g, shape, nbytes) for g in orders) for f in orders)
