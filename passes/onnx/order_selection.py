"""The choice of an order of dims for every value of a graph, at least cost.

The Transposes of a model vanish from the problem: their results are names of values in other orders. What they did is
asked for by those who use their results; wherever the orders of a maker and of a user differ in the end, a Transpose is
written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import contains, getitem
from typing import Any, NamedTuple

from layout_ir.frontends.onnx.functions import node_name
from layout_ir.passes.onnx.blocked_channels import is_blocked
from layout_ir.passes.onnx.consumers import CHANGED_NODE, SMALL_NODE, Consumer
from layout_ir.passes.onnx.node_models.node_option import NodeOption
from layout_ir.passes.onnx.orders import (
    Order,
    Shape,
    compose,
    is_identity,
    transposition,
    turns_the_first_dim,
    without_units,
)
from layout_ir.passes.onnx.reachable_orders import (
    Member,
    NodeChoices,
    OfferedOptions,
    OrderSet,
    ReachableOrders,
    Values,
)
from layout_ir.passes.onnx.transpose_speed import counted_shape
from layout_ir.selection.bit_sets import bits_of, only_member
from layout_ir.selection.solver.certificate import certify
from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    Choice,
    Matrix,
    OpNode,
    Problem,
    Solution,
    ValueNode,
    demands,
)
from layout_ir.selection.solver.solve import solve


@dataclass(frozen=True)
class Demand:
    """A value that is needed in the order in which it has this name: a result of the graph, or one for a subgraph."""

    name: str
    order: Order


Meaning = NodeChoices | str | Demand
"""What an op stands for: a node, the name of a source (an input or a constant), or a demand."""


class OrderOption(NamedTuple):
    """An option of an op, in orders of roots that may be had in several; of a node, the same in those of all values."""

    ins: tuple[Order, ...]
    outs: tuple[Order, ...]
    cost: int
    node_option: NodeOption | None = None


class _Numbered(NamedTuple):
    """The choices of an op in numbers: an order has the number of its place among those of its root."""

    choices: tuple[Choice, ...]
    taken: tuple[int, ...]
    """Per operand, the bits of the orders in which some choice takes it."""
    made: tuple[int, ...]


class Options(NamedTuple):
    """The options of an op; of those on the same orders, the one of least cost."""

    options: tuple[OrderOption, ...]
    numbered: _Numbered
    largest: int
    """The most that one costs."""


class StatedOp(NamedTuple):
    """An op, the roots that it uses and makes, and its options, one object for all ops that have the same."""

    operands: list[str]
    results: list[str]
    options: Options
    meaning: Meaning


@dataclass
class OrderProblem:
    """What the values and ops that a graph adds to a problem stand for."""

    values: Values
    consumer: Consumer
    reached: ReachableOrders
    ops: list[StatedOp] = field(default_factory=list[StatedOp])
    largest_rest: int = 0
    """The most that its ops can cost together."""
    first_op: int = 0
    """The number of its first op in the problem of the model."""
    places: dict[str, int] = field(default_factory=dict[str, int])
    """The number of each value there: of each root that may be had in several orders."""
    orders: dict[str, tuple[Order, ...]] = field(default_factory=dict[str, tuple[Order, ...]])
    """The orders of each value, as they are numbered."""


class OrderSolution(NamedTuple):
    """A choice for the problem of a model."""

    numbers: Solution
    demands: Sequence[tuple[int, frozenset[int]]]
    """Per value, the number of the order that it is made in, and of those that it is needed in."""


@dataclass(frozen=True)
class ModelProblem:
    """The problem of all graphs of a model, and what each graph adds to it."""

    numbers: Problem
    parts: Sequence[OrderProblem]

    def solve(self, time_limit: float | None = None) -> OrderSolution:
        """The choice of least cost, in `time_limit` seconds."""
        solution = solve(self.numbers, time_limit=time_limit)
        return OrderSolution(solution, demands(self.numbers, solution.choices))

    def certificate(
        self, found: OrderSolution, time_limit: float | None = None, *, extra: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The proof of what it costs at least, made in `time_limit` seconds of the choice that was found, with the
        entries `extra`, whose `origin` has all names besides."""
        more = {**extra, "origin": {**self._names(), **extra["origin"]}}
        _, certificate = certify(self.numbers, time_limit, extra=more, known=found.numbers.choices)
        return certificate

    def _names(self) -> dict[str, Any]:
        """All names as text, in the order of their numbers."""
        return {
            "ops": [_title(op.meaning) for part in self.parts for op in part.ops],
            "values": [root for part in self.parts for root in part.places],
            "formats": [list(map(str, part.orders[root])) for part in self.parts for root in part.places],
        }


def _title(meaning: Meaning) -> str:
    if isinstance(meaning, NodeChoices):
        return node_name(meaning.node.proto)
    return f"source '{meaning}'" if isinstance(meaning, str) else f"result '{meaning.name}'"


def model_problem(
    reached: Sequence[ReachableOrders],
    consumer: Consumer,
    *,
    free_inputs: Sequence[str] = (),
    free_outputs: Sequence[str] = (),
    never_turned: Sequence[frozenset[str]] = (),
) -> ModelProblem:
    """The problem of all graphs of a model; inputs and outputs of the first graph that are free may be had in any
    order. `never_turned` are values of each graph that no Transpose may take whose first dim comes behind others
    (`turns_the_first_dim`); of a value that may be made in several orders, more may be ruled out."""
    numbers, choices = _Numbers(), _Choices()
    for number, graph in enumerate(reached):
        free = ((), ()) if number else (free_inputs, free_outputs)
        kept = never_turned[number] if never_turned else frozenset[str]()
        numbers.add(_order_problem(graph, consumer, choices, *free), kept)
    return ModelProblem(Problem(tuple(numbers.ops), tuple(numbers.values)), numbers.parts)


def _order_problem(
    reached: ReachableOrders,
    consumer: Consumer,
    known: _Choices,
    free_inputs: Sequence[str],
    free_outputs: Sequence[str],
) -> OrderProblem:
    """What a graph adds, whose values have no numbers yet; `known` has the choices of ops so far."""
    values = reached.values
    graph, choices = values.graph, reached.choices
    statement = _Statement(values, known)
    for place, node in enumerate(values.nodes):
        for name in node.captures:
            statement.add_result(name, is_free=False)
        # All values of a node that was not come to have one order only.
        if place in choices:
            statement.add_node(choices[place])
    statement.add_sources({*graph.constants, *free_inputs})
    for value in graph.proto.output:
        statement.add_result(value.name, is_free=value.name in free_outputs)
    return OrderProblem(values, consumer, reached, statement.ops, statement.largest)


_Row = tuple[tuple[int, ...], tuple[int, ...], int]
"""A choice: the numbers of the orders of operands and of results, and the cost."""


class _Choices:
    """The choices of ops in numbers: one object for all ops that have the same."""

    def __init__(self) -> None:
        self._places: dict[int, dict[Order, int]] = {}
        """The numbers of orders, by identity of the set that has them."""
        self._known: dict[tuple[_Row, ...], _Numbered] = {}

    def places(self, orders: OrderSet) -> dict[Order, int]:
        """The numbers of orders in a set of them."""
        found = self._places.get(id(orders))
        if found is None:
            found = self._places[id(orders)] = {order: number for number, order in enumerate(orders)}
        return found

    def of(self, rows: tuple[_Row, ...]) -> _Numbered:
        """The choices of these rows."""
        found = self._known.get(rows)
        if found is None:
            taken, made, _ = zip(*rows, strict=True)
            found = self._known[rows] = _Numbered(
                tuple([Choice(*row) for row in rows]),
                tuple(map(bits_of, zip(*taken, strict=True))),
                tuple(map(bits_of, zip(*made, strict=True))),
            )
        return found


_Slots = Sequence[tuple[int, Member]]
"""Inputs or outputs of a node by number, with what they are names of."""


class _Statement:
    """The ops of a graph, as they are added; its values are the roots that may be had in several orders."""

    def __init__(self, values: Values, choices: _Choices):
        self.values = values
        self.orders = values.orders
        self.choices = choices
        self.ops: list[StatedOp] = []
        self.largest = 0
        """The most that the ops so far can cost together."""
        self._made: set[str] = set()
        self._options: dict[tuple[object, ...], Options] = {}
        """The options of nodes, by what is offered to a node, and by the names and orders of its values."""

    def add_node(self, choices: NodeChoices) -> None:
        """Adds a node."""
        node, members, orders = choices.node, self.values.members, self.orders
        key: list[object] = [id(choices.offered)]
        sides: list[list[tuple[int, Member]]] = []
        for names in (node.inputs, node.outputs):
            side: list[tuple[int, Member]] = []
            for k, name in enumerate(names):
                if name:
                    member = members[name]
                    root, order, is_root = member
                    if root in orders:
                        side.append((k, member))
                        key += (k, id(orders[root]), None if is_root else order)
            key.append(None)
            sides.append(side)
        ins, outs = sides
        if not ins and not outs:
            return
        known = tuple(key)
        options = self._options.get(known)
        if options is None:
            options = self._options[known] = self._of_node(choices.offered, ins, outs)
        results = [member.root for _, member in outs]
        self._made.update(results)
        self.ops.append(StatedOp([member.root for _, member in ins], results, options, choices))
        self.largest += options.largest

    def _of_node(self, offered: OfferedOptions, ins: _Slots, outs: _Slots) -> Options:
        """The options of a node in orders of roots."""
        places = [self.choices.places(self.orders[member.root]) for _, member in (*ins, *outs)]
        found: list[OrderOption] = []
        for option in offered.options:
            taken = tuple([_root_order(member, option.ins[k]) for k, member in ins])
            given = tuple([_root_order(member, option.outs[k]) for k, member in outs])
            # An order that was left out, being one too many, is no choice.
            if all(map(contains, places, (*taken, *given))):
                found.append(OrderOption(taken, given, option_cost(option), option))
        return self._numbered(found, places[: len(ins)], places[len(ins) :])

    def _numbered(
        self,
        options: Sequence[OrderOption],
        ins: Sequence[Mapping[Order, int]],
        outs: Sequence[Mapping[Order, int]],
    ) -> Options:
        """Options, given the numbers of the orders of operands and of results."""
        best: dict[object, tuple[OrderOption, _Row]] = {}
        for option in options:
            taken, made = tuple(map(getitem, ins, option.ins)), tuple(map(getitem, outs, option.outs))
            other = best.get((taken, made))
            if other is None or option.cost < other[0].cost:
                best[taken, made] = option, (taken, made, option.cost)
        kept, rows = zip(*best.values(), strict=True)
        return Options(kept, self.choices.of(rows), max([option.cost for option in options]))

    def _of_orders(self, orders: OrderSet, own: Order, *, is_source: bool, is_free: bool) -> Options:
        """The options of what gives or takes a root in its own order or, where it is free, in any."""
        key = id(orders), own, is_source, is_free
        found = self._options.get(key)
        if found is None:
            allowed = orders if is_free else (own,)
            costs = [(order, CHANGED_NODE * (order != own)) for order in allowed]
            places = [self.choices.places(orders)]
            if is_source:
                options = [OrderOption((), (order,), cost) for order, cost in costs]
                found = self._numbered(options, (), places)
            else:
                found = self._numbered([OrderOption((order,), (), cost) for order, cost in costs], places, ())
            self._options[key] = found
        return found

    def add_sources(self, free: set[str]) -> None:
        """Adds what no node makes: inputs and constants, in any order those that are `free`."""
        for root, orders in self.orders.items():
            if root not in self._made:
                own = next(iter(orders))
                options = self._of_orders(orders, own, is_source=True, is_free=root in free)
                self.ops.append(StatedOp([], [root], options, root))
                self.largest += CHANGED_NODE * (len(orders) > 1)

    def add_result(self, name: str, *, is_free: bool) -> None:
        """Adds that somebody needs the value of this name, as it is or, where it is free, in any order."""
        root, own, _ = self.values.member(name)
        if root in self.orders:
            options = self._of_orders(self.orders[root], own, is_source=False, is_free=is_free)
            self.ops.append(StatedOp([root], [], options, Demand(name, own)))
            self.largest += CHANGED_NODE * is_free


class _Numbers:
    """The ops and values of graphs in numbers: a value has the number of its maker among those that make one."""

    def __init__(self) -> None:
        self.parts: list[OrderProblem] = []
        self.ops: list[OpNode] = []
        self.values: list[ValueNode] = []
        self._listed: dict[int, tuple[Order, ...]] = {}
        """The orders of a set, by its identity."""
        self._matrices: dict[tuple[object, ...], ValueNode] = {}
        """The nodes of values, by what costs follow from: identity of the orders, and the bits of those that are made
        and taken."""

    def add(self, part: OrderProblem, never_turned: frozenset[str]) -> None:
        """Gives numbers to what a graph adds; `never_turned` are values as `model_problem` has them."""
        part.first_op = len(self.ops)
        orders, listed = part.values.orders, self._listed
        made = [root for op in part.ops for root in op.results]
        places = part.places = {root: number for number, root in enumerate(made, len(self.values))}
        listed.update((id(own), tuple(own)) for own in orders.values() if id(own) not in listed)
        part.orders = {root: listed[id(orders[root])] for root in made}
        bits = dict.fromkeys(made, 0)
        """Per value, the bits of the orders in which it is made."""
        taken = dict.fromkeys(made, 0)
        for operands, results, options, _ in part.ops:
            choices, of_operands, of_results = options.numbered
            for root, own in zip(operands, of_operands, strict=True):
                taken[root] |= own
            for root, own in zip(results, of_results, strict=True):
                bits[root] |= own
            self.ops.append(
                OpNode(
                    tuple([places[root] for root in operands]),
                    tuple([places[root] for root in results]),
                    choices,
                )
            )
        graph, consumer = part.values.graph, part.consumer
        for root in made:
            shape, nbytes = graph.shape(root), consumer.counted_bytes(graph, root)
            alike: object
            if root in graph.constants:
                alike, costs = "constant", _constant_costs
            elif not graph.can_be_transposed(root):
                alike, costs = "fixed", _no_reorders
            else:
                alike, costs = costs_alike(consumer, shape, nbytes), None
            is_kept = root in never_turned and alike != "constant"
            kind = alike, is_kept, id(orders[root]), bits[root], taken[root]
            node = self._matrices.get(kind)
            if node is None:
                costs = costs or _reorder_costs(consumer, shape, nbytes)
                if is_kept:
                    every = [order for k, order in enumerate(part.orders[root]) if bits[root] >> k & 1]
                    costs = _without_turns(costs, consumer, shape, every)
                matrix = _matrix(part.orders[root], bits[root], taken[root], costs)
                node = self._matrices[kind] = ValueNode(matrix)
            self.values.append(node)
        self.parts.append(part)


def _matrix(orders: Sequence[Order], made: int, taken: int, costs: _ReorderCosts) -> Matrix:
    """What reorders of a value cost, which is made and taken in the orders of these bits.

    Those that lead nowhere count as nothing: to the only order that the value is made in, and from the only one that it
    is taken in.
    """
    only_made, only_taken = only_member(made), only_member(taken)
    rows: list[tuple[int, ...]] = []
    for f, source in enumerate(orders):
        row = [0] * len(orders)
        if only_taken != f:
            row = costs(source, orders)
            row[f] = 0
            if only_made is not None:
                row[only_made] = 0
        rows.append(tuple(row))
    return tuple(rows)


def option_cost(option: NodeOption) -> int:
    """What it costs that a node runs in this way."""
    changed = not all(map(is_identity, (*option.ins, *option.outs)))
    return CHANGED_NODE * changed + SMALL_NODE * option.more_nodes + option.cost


def _root_order(member: Member, order: Order) -> Order:
    """The order of the root where the value of a name lies in `order`; () is that of the name itself."""
    if not order:
        return member.order
    return order if member.is_root else compose(member.order, order)


_ReorderCosts = Callable[[Order, Sequence[Order]], list[int]]
"""What it costs to bring a value from one order into each of some others, FORBIDDEN where nothing does."""


def _constant_costs(source: Order, targets: Sequence[Order]) -> list[int]:
    """A constant is moved now; it is written twice."""
    return [SMALL_NODE] * len(targets)


def _no_reorders(source: Order, targets: Sequence[Order]) -> list[int]:
    """What no Transpose takes is used in the order that it is made in."""
    return [FORBIDDEN] * len(targets)


def costs_alike(consumer: Consumer, shape: Shape | None, nbytes: int) -> object:
    """All that `_reorder_costs` follow from: equal for values that cost the same to reorder."""
    whole = consumer.transpose_cost(nbytes)
    if consumer.block or whole >= FORBIDDEN:
        return shape, nbytes
    if consumer.weighs_dims and shape is not None:
        return whole, counted_shape(shape)
    return whole, () if shape is None or 1 not in shape else tuple([extent == 1 for extent in shape])


def _reorder_costs(consumer: Consumer, shape: Shape | None, nbytes: int) -> _ReorderCosts:
    """The costs of reorders of values of a shape, `nbytes` bytes read and written, from one order into other ones."""
    whole = consumer.transpose_cost(nbytes)
    if consumer.block or whole >= FORBIDDEN:
        return lambda source, targets: [
            consumer.reorder_cost(source, each, shape, nbytes) for each in targets
        ]
    if shape is None or (1 not in shape and not consumer.weighs_dims):
        return lambda source, targets: [whole] * len(targets)

    def costs(source: Order, targets: Sequence[Order]) -> list[int]:
        own = without_units(source, shape)
        return [
            SMALL_NODE
            if without_units(each, shape) == own
            else whole + consumer.slowness(source, each, shape)
            for each in targets
        ]

    return costs


def _without_turns(
    costs: _ReorderCosts, consumer: Consumer, shape: Shape | None, made: Sequence[Order]
) -> _ReorderCosts:
    """The costs of reorders of a value that is made in one of these orders, and never brought into one which is a
    Transpose away from one of them whose first dim comes behind others: by no detour either."""

    def is_turn(source: Order, target: Order) -> bool:
        if is_blocked(source) or is_blocked(target):
            return False
        moves = shape is None or not consumer.is_same_memory(source, target, shape)
        return moves and turns_the_first_dim(transposition(source, target))

    def kept(source: Order, targets: Sequence[Order]) -> list[int]:
        every = zip(targets, costs(source, targets), strict=True)
        return [FORBIDDEN if any(is_turn(m, target) for m in made) else cost for target, cost in every]

    return kept
