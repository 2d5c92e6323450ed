"""What was chosen for a graph: the order of every value, the option of every node, and the reorders that remain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.made_up_extents import is_made_up
from layout_ir.passes.onnx.blocked_channels import (
    is_blocked,
)
from layout_ir.passes.onnx.consumers import Consumer
from layout_ir.passes.onnx.model_graph import Graph, Node
from layout_ir.passes.onnx.node_models.node_option import NodeModel, NodeOption
from layout_ir.passes.onnx.order_selection import Demand, OrderProblem, OrderSolution
from layout_ir.passes.onnx.orders import (
    Order,
    is_static,
    transposition,
)
from layout_ir.passes.onnx.reachable_orders import NodeChoices, ReachableOrders
from layout_ir.passes.onnx.value_shapes import CACHED_EXTENT, UNKNOWN_EXTENT
from layout_ir.selection.solver.selection_problem import Problem, tree_edges

if TYPE_CHECKING:
    pass

Place = tuple[str, Order]
"""A root in an order: one tensor of the graph that is written."""


@dataclass(frozen=True)
class Move:
    """A reorder of a value that remains: between the tensors of `root` in two orders."""

    root: str
    source: Order
    target: Order
    nbytes: int
    """Bytes read and written."""


class Plan:
    """What was chosen: an option per node, an order per maker, and the reorders that lead to all that is needed."""

    def __init__(self, problem: OrderProblem):
        self.problem = problem
        self.values = problem.values
        self.graph: Graph = problem.values.graph
        self.made: dict[str, Order] = {}
        """The order in which a root is made, where it may be had in several."""
        self.origin: dict[Place, Place] = {}
        """What a tensor that is not made by a node is reordered from."""
        self.options: dict[int, NodeOption] = {}
        """The chosen options, by identity of the node, for nodes with a choice."""
        self.models: dict[int, NodeModel | None] = {}
        """The models of these nodes, likewise; None where there is none."""
        self.outputs: dict[str, Order] = {}
        """The orders of outputs and captured values, of their roots."""

    @classmethod
    def chosen(cls, problem: OrderProblem, numbers: Problem, solution: OrderSolution) -> Plan:
        """The plan that a solution of the problem says, which is part of the problem `numbers` of the model."""
        plan = cls(problem)
        for root in problem.values.orders:
            place, orders = problem.places[root], problem.orders[root]
            made, taken = solution.demands[place]
            plan.made[root] = orders[made]
            if not taken or (len(taken) == 1 and made in taken):
                continue
            for source, target in tree_edges(numbers.values[place].reorder, made, taken):
                before = orders[source]
                for order in plan._steps(root, before, orders[target]):
                    plan.origin.setdefault((root, order), (root, before))
                    before = order
        for op, choice in zip(problem.ops, solution.numbers.choices[problem.first_op :], strict=False):
            option, what = op.options.options[choice], op.meaning
            if isinstance(what, NodeChoices):
                assert option.node_option is not None
                plan.options[id(what.node)] = option.node_option
                plan.models[id(what.node)] = what.model
            elif isinstance(what, Demand):
                (plan.outputs[what.name],) = option.ins
        return plan

    @classmethod
    def as_is(cls, reached: ReachableOrders, consumer: Consumer) -> Plan:
        """The plan that leaves a graph as it is, with all its Transposes."""
        values = reached.values
        plan = cls(OrderProblem(values, consumer, reached))
        plan.made = {root: own for root, (own, *_) in values.orders.items()}
        for name, node in values.transposes.items():
            member, source = values.members[name], values.members[node.inputs[0]]
            plan.origin.setdefault((member.root, member.order), (member.root, source.order))
        plan.models = {id(choices.node): choices.model for choices in reached.choices.values()}
        names = [value.name for value in values.graph.proto.output]
        names += [name for node in values.nodes for name in node.captures]
        handed = ((name, values.member(name)) for name in names)
        plan.outputs = {name: member.order for name, member in handed if member.root in values.orders}
        return plan

    def order_of(self, node: Node, number: int) -> Order:
        """The order of its root in which a node takes input `number`."""
        option = self.options.get(id(node))
        name = node.inputs[number]
        return (
            self.values.member(name).order
            if option is None
            else self.values.root_order(name, option.ins[number])
        )

    def has_choice(self, node: Node) -> bool:
        """Whether a node could run on other orders."""
        return self.models.get(id(node)) is not None

    def result_order(self, name: str) -> Order:
        """The order in which a result of the graph is handed over, of the value of this name."""
        member = self.values.member(name)
        return transposition(member.order, self.outputs.get(name, member.order))

    @cached_property
    def has_blocks(self) -> bool:
        """Whether some node runs on blocked channels."""
        return any(any(map(is_blocked, option.outs)) for option in self.options.values())

    def open_extents(self) -> list[str]:
        """A sentence on extents that the run time decides, where values that may be moved have some."""
        open_names: dict[str, None] = {}
        given: dict[str, None] = {}
        for root in self.values.orders:
            shape = self.graph.shape(root)
            if shape is None or is_static(shape):
                continue
            sized = self.graph.sized_shape(root) or ()
            for place, extent in enumerate(shape):
                if not isinstance(extent, int):
                    is_given = place < len(sized) and isinstance(sized[place], int)
                    named = extent if extent and not is_made_up(extent) else "extents without a name"
                    (given if is_given else open_names)[named] = None
        known = "known at run time only; the orders are right for every size, and of least cost for"
        notes = [f"{', '.join(given)}: {known} the shapes that are given"] if given else []
        if open_names:
            compared = (
                f"1 for the first of an input, {CACHED_EXTENT} for one to which a Concat appends, {UNKNOWN_EXTENT} for "
                "others (--shape says which)"
            )
            notes.append(f"{', '.join(open_names)}: {known} those that are compared: {compared}")
        return notes

    @cached_property
    def moves(self) -> list[Move]:
        """The Transposes that remain: not those of constants, which happen now, nor those that move nothing."""
        found: list[Move] = []
        for (root, target), (_, source) in self.origin.items():
            if root not in self.graph.constants and not self.is_reshape(root, source, target):
                found.append(Move(root, source, target, 2 * self.graph.nbytes(root)))
        return found

    @cached_property
    def transpose_cost(self) -> int:
        """What the Transposes that remain take the consumer."""
        return sum(map(self.move_cost, self.moves))

    def move_cost(self, move: Move) -> int:
        """What a Transpose that remains takes the consumer."""
        consumer, graph = self.problem.consumer, self.graph
        counted = consumer.counted_bytes(graph, move.root)
        return consumer.move_cost(move.source, move.target, graph.shape(move.root), counted)

    def _steps(self, root: str, source: Order, target: Order) -> list[Order]:
        """The orders through which a value is moved, the last one `target`: constants happen now, in one step."""
        if root in self.graph.constants or self.is_reshape(root, source, target):
            return [target]
        return self.problem.consumer.steps(source, target, self.graph.shape(root))

    def is_reshape(self, root: str, source: Order, target: Order) -> bool:
        """Whether a value has the same bytes in both orders."""
        shape = self.graph.shape(root)
        return shape is not None and self.problem.consumer.is_same_memory(source, target, shape)
