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
    options, omitted = _spread(values, consumer)
    roots = list(values.orders)
    number = {root: k for k, root in enumerate(roots)}
    orders = [list(values.orders[root]) for root in roots]
    places = [{order: k for k, order in enumerate(own)} for own in orders]
    nodes: list[ValueNode] = []
    for root, own in zip(roots, orders, strict=True):
        nodes.append(ValueNode(_reorder_costs(graph, root, own, consumer)))
    ops: list[OpNode] = []
    meaning: list[NodeChoices | str | Demand] = []
    made: set[str] = set()

    for node in values.nodes:
        touched = [k for k, name in enumerate(node.inputs) if name and values.member(name).root in number]
        given = [k for k, name in enumerate(node.outputs) if name and name in number]
        for name in node.captures:
            member = values.member(name)
            if member.root in number:
                k = number[member.root]
                ops.append(OpNode((k,), (), (Choice((places[k][member.order],), (), 0),)))
                meaning.append(Demand(name, member.order))
        if not touched and not given:
            continue
        made.update(node.outputs[k] for k in given)
        choices = options.get(id(node)) or _choices(values, node, consumer)
        found: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, NodeOption]] = {}
        for option in choices.options:
            ins = tuple(
                [
                    places[number[values.member(node.inputs[k]).root]].get(
                        values.root_order(node.inputs[k], option.ins[k]), -1
                    )
                    for k in touched
                ]
            )
            outs = tuple(
                [
                    places[number[node.outputs[k]]].get(
                        values.root_order(node.outputs[k], option.outs[k]), -1
                    )
                    for k in given
                ]
            )
            if -1 in ins or -1 in outs:
                continue
            changed = any(map(_is_changed, option.ins)) or any(map(_is_changed, option.outs))
            cost = CHANGED_NODE * changed + SMALL_NODE * option.more_nodes + option.cost
            if (ins, outs) not in found or cost < found[ins, outs][0]:
                found[ins, outs] = (cost, option)
        kept = NodeChoices(node, choices.model, tuple(option for _, option in found.values()))
        ops.append(
            OpNode(
                tuple(number[values.member(node.inputs[k]).root] for k in touched),
                tuple(number[node.outputs[k]] for k in given),
                tuple(Choice(*key, cost) for key, (cost, _) in found.items()),
            )
        )
        meaning.append(kept)
    for root in roots:
        if root not in made:
            k = number[root]
            free = root in graph.constants or root in free_inputs
            choices = [
                Choice((), (f,), CHANGED_NODE * bool(f)) for f in (range(len(orders[k])) if free else (0,))
            ]
            ops.append(OpNode((), (k,), tuple(choices)))
            meaning.append(root)
    for value in graph.proto.output:
        member = values.member(value.name)
        if member.root in number:
            k = number[member.root]
            order = places[k][member.order]
            free = range(len(orders[k])) if value.name in free_outputs else (order,)
            ops.append(OpNode((k,), (), tuple(Choice((f,), (), CHANGED_NODE * (f != order)) for f in free)))
            meaning.append(Demand(value.name, member.order))
    return OrderProblem(values, consumer, Problem(tuple(ops), tuple(nodes)), roots, orders, meaning, omitted)


def _is_changed(order: Order) -> bool:
    return not is_identity(order)


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
    for node in values.nodes:
        if consumer.starts_blocks(node) and id(node) not in waiting:
            waiting.add(id(node))
            queue.append(node)
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
                        known = values.orders[member.root] = {identity(len(member.order)): None}
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
    found = list(model.options(node, ins, outs))
    # The model may know what the node takes as it is.
    first = [o for o in found if (o.ins, o.outs) == (plain.ins, plain.outs)] or [plain]
    rest = [o for o in found if (o.ins, o.outs) != (plain.ins, plain.outs)]
    return NodeChoices(node, model, (first[0], *rest))


def _reorder_costs(
    graph: Graph, root: str, orders: Sequence[Order], consumer: Consumer
) -> tuple[tuple[int, ...], ...]:
    shape, nbytes = graph.shape(root), 2 * graph.nbytes(root)
    if root in graph.constants:
        # A constant is moved now; it is written twice.
        return tuple(tuple(SMALL_NODE * (f != g) for g in orders) for f in orders)
    return tuple(tuple(consumer.reorder_cost(f, g, shape, nbytes) for g in orders) for f in orders)
