"""The choice of an order of dims for every value of a graph, at least cost.

The Transposes of a model vanish from the problem: their results are names of values in other orders. What they did is
asked for by those who use their results; wherever the orders of a maker and of a user differ in the end, a Transpose is
written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import contains
from typing import NamedTuple

from layout_ir.frontends.onnx.functions import node_name
from layout_ir.passes.onnx.consumers import CHANGED_NODE, SMALL_NODE, Consumer
from layout_ir.passes.onnx.node_models.node_option import NodeOption
from layout_ir.passes.onnx.orders import Order, Shape, compose, is_identity, without_units
from layout_ir.passes.onnx.reachable_orders import (
    Member,
    NodeChoices,
    OfferedOptions,
    ReachableOrders,
    Values,
)
from layout_ir.selection.named_problem import NamedProblem
from layout_ir.selection.numbering import Option
from layout_ir.selection.solver.selection_problem import FORBIDDEN


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
    reached: ReachableOrders
    largest_rest: int
    """The most that its ops can cost together."""


def model_problem(
    reached: Sequence[ReachableOrders],
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
        for number, graph in enumerate(reached)
    ]
    return problem, found


def _order_problem(
    problem: NamedProblem,
    number: int,
    reached: ReachableOrders,
    consumer: Consumer,
    free_inputs: Sequence[str],
    free_outputs: Sequence[str],
) -> OrderProblem:
    """Adds graph `number` to a problem."""
    values = reached.values
    graph = values.graph
    statement = _Statement(problem, number, values, consumer)
    for place, node in enumerate(values.nodes):
        for name in node.captures:
            statement.add_result(name, is_free=False)
        # All values of a node that was not come to have one order only.
        if place in reached.choices:
            statement.add_node(reached.choices[place])
    statement.add_sources({*graph.constants, *free_inputs})
    for value in graph.proto.output:
        statement.add_result(value.name, is_free=value.name in free_outputs)
    return OrderProblem(
        values, consumer, number, list(values.orders), statement.meaning, reached, statement.largest
    )


class _Statement:
    """The ops of a graph, as they are added; its values are the roots that may be had in several orders."""

    def __init__(self, problem: NamedProblem, graph: int, values: Values, consumer: Consumer):
        self.problem = problem
        self.graph = graph
        self.values = values
        self.orders = values.orders
        self.meaning: dict[OpName, NodeChoices | str | Demand] = {}
        self.largest = 0
        """The most that the ops so far can cost together."""
        self._made: set[str] = set()
        self._options: dict[tuple[object, ...], tuple[tuple[OrderOption, ...], int]] = {}
        """What `add_node` found for options on names and orders like these, and the most that one costs."""
        self._names: dict[str, ValueName] = {}
        self._kinds: dict[str, tuple[Order, ...]] = {}
        """By root its orders, one tuple for all roots that have the same."""
        kinds: dict[int, tuple[Order, ...]] = {}
        costs: dict[object, _ReorderCost] = {True: _constant_cost}
        for root, own in self.orders.items():
            orders = kinds.get(id(own))
            if orders is None:
                orders = kinds[id(own)] = tuple(own)
            self._kinds[root] = orders
            name = self._names[root] = ValueName(graph, root)
            alike: object = True
            if root not in values.graph.constants:
                shape, nbytes = values.graph.shape(root), consumer.counted_bytes(values.graph, root)
                alike = costs_alike(consumer, shape, nbytes)
                if alike not in costs:
                    costs[alike] = _reorder_cost(consumer, shape, nbytes)
            problem.add_value(name, formats=orders, reorder_cost=costs[alike], alike=alike)

    def _add(
        self,
        operands: Sequence[str],
        results: Sequence[str],
        options: Sequence[Option],
        meaning: NodeChoices | str | Demand,
        what: str,
    ) -> None:
        name = OpName(self.graph, len(self.meaning), what)
        names = self._names
        used, made = [names[root] for root in operands], [names[root] for root in results]
        self.problem.add_op(name, used, made, options)
        self.meaning[name] = meaning

    def _root(self, name: str) -> str | None:
        """The root of which this is a name; None where it has one order only."""
        root = self.values.member(name).root if name else ""
        return root if root in self.orders else None

    def add_node(self, choices: NodeChoices) -> None:
        """Adds a node; of options that look alike here, the one of least cost."""
        node, members, orders = choices.node, self.values.members, self.orders
        ins = [(k, m) for k, name in enumerate(node.inputs) if name and (m := members[name]).root in orders]
        outs = [(k, m) for k, name in enumerate(node.outputs) if name and (m := members[name]).root in orders]
        if not ins and not outs:
            return
        key: list[object] = [id(choices.offered), len(ins)]
        for k, m in (*ins, *outs):
            key += (k, id(self._kinds[m.root]), None if m.is_root else m.order)
        found = self._options.get(tuple(key))
        if found is None:
            known = [orders[m.root] for _, m in (*ins, *outs)]
            found = self._options[tuple(key)] = _order_options(choices.offered, ins, outs, known)
        self._made.update([node.outputs[k] for k, _ in outs])
        options, largest = found
        self.largest += largest
        operands, results = [m.root for _, m in ins], [m.root for _, m in outs]
        self._add(operands, results, options, choices, node_name(node.proto))

    def add_sources(self, free: set[str]) -> None:
        """Adds what no node makes: inputs and constants, in any order those that are `free`."""
        for root, orders in self.orders.items():
            if root not in self._made:
                own, *others = orders
                allowed = [own, *others] if root in free else [own]
                options = [Option((), (order,), CHANGED_NODE * (order != own)) for order in allowed]
                self._add((), (root,), options, root, f"source '{root}'")
                self.largest += CHANGED_NODE * bool(others)

    def add_result(self, name: str, *, is_free: bool) -> None:
        """Adds that somebody needs the value of this name, as it is or, where it is free, in any order."""
        root, own = self._root(name), self.values.member(name).order
        if root is not None:
            orders = self.orders[root] if is_free else (own,)
            options = [Option((order,), (), CHANGED_NODE * (order != own)) for order in orders]
            self._add((root,), (), options, Demand(name, own), f"result '{name}'")
            self.largest += CHANGED_NODE * is_free


_Slots = Sequence[tuple[int, Member]]
"""Inputs or outputs of a node by number, with what they are names of."""


def _order_options(
    offered: OfferedOptions, ins: _Slots, outs: _Slots, known: Sequence[Mapping[Order, None]]
) -> tuple[tuple[OrderOption, ...], int]:
    """The options of a node in orders of roots, of which these are `known`, and the most that one costs."""
    options: list[OrderOption] = []
    for option in offered.options:
        taken = tuple([_root_order(member, option.ins[k]) for k, member in ins])
        given = tuple([_root_order(member, option.outs[k]) for k, member in outs])
        # An order that was left out, being one too many, is no choice.
        if all(map(contains, known, (*taken, *given))):
            options.append(OrderOption(taken, given, option_cost(option), node_option=option))
    return tuple(options), max(int(option.cost or 0) for option in options)


def option_cost(option: NodeOption) -> int:
    """What it costs that a node runs in this way."""
    changed = not all(map(is_identity, (*option.ins, *option.outs)))
    return CHANGED_NODE * changed + SMALL_NODE * option.more_nodes + option.cost


def _root_order(member: Member, order: Order) -> Order:
    """The order of the root where the value of a name lies in `order`; () is that of the name itself."""
    if not order:
        return member.order
    return order if member.is_root else compose(member.order, order)


_ReorderCost = Callable[[ValueName, Order, Order], "int | None"]
"""What it costs to bring a value from one order into another; None where nothing does."""


def _constant_cost(value: ValueName, source: Order, target: Order) -> int:
    """A constant is moved now; it is written twice."""
    return SMALL_NODE


def costs_alike(consumer: Consumer, shape: Shape | None, nbytes: int) -> object:
    """All that `_reorder_cost` follows from: equal for values that cost the same to reorder."""
    whole = consumer.transpose_cost(nbytes)
    if consumer.block or whole >= FORBIDDEN:
        return shape, nbytes
    return whole, () if shape is None or 1 not in shape else tuple([extent == 1 for extent in shape])


def _reorder_cost(consumer: Consumer, shape: Shape | None, nbytes: int) -> _ReorderCost:
    """The cost of reorders of values of a shape, `nbytes` bytes read and written."""
    whole = consumer.transpose_cost(nbytes)
    if not consumer.block and whole < FORBIDDEN:
        if shape is None or 1 not in shape:
            return lambda value, source, target: 0 if source == target else whole

        def transposed(value: ValueName, source: Order, target: Order) -> int:
            if source == target:
                return 0
            is_reshape = without_units(source, shape) == without_units(target, shape)
            return SMALL_NODE if is_reshape else whole

        return transposed

    def cost(value: ValueName, source: Order, target: Order) -> int | None:
        found = consumer.reorder_cost(source, target, shape, nbytes)
        return None if found >= FORBIDDEN else found

    return cost
