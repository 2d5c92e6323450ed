"""Rounds of the search for the orders of an ONNX model, at a cost that is proven to be the least."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layout_ir.passes.onnx.blocked_channels import is_blocked
from layout_ir.passes.onnx.cast_transposes import halves_of_products, takes_turned_halves
from layout_ir.passes.onnx.consumers import KIBIBYTE, Consumer
from layout_ir.passes.onnx.counted_extents import keep_counts
from layout_ir.passes.onnx.dilated_convolutions import dilate_convolutions, may_dilate
from layout_ir.passes.onnx.fixed_point import is_fixed_point, orders_before
from layout_ir.passes.onnx.flattened_products import fold_into_weights, may_fold
from layout_ir.passes.onnx.graph_construction import rewritten_graph
from layout_ir.passes.onnx.graph_rewriter import GraphRewriter
from layout_ir.passes.onnx.model_boundary import (
    boundary_changes,
    change_boundary,
    constant_inputs,
    drop_inputs,
    free_names,
    import_domains,
)
from layout_ir.passes.onnx.model_constants import PendingTensor
from layout_ir.passes.onnx.model_graph import Graph, Node, is_transpose
from layout_ir.passes.onnx.optimized_model import OptimizedModel, Traffic
from layout_ir.passes.onnx.order_plan import Place, Plan
from layout_ir.passes.onnx.order_selection import ModelProblem, OrderSolution, model_problem, option_cost
from layout_ir.passes.onnx.orders import Order, identity
from layout_ir.passes.onnx.reachable_orders import OrderPropagation, ReachableOrders
from layout_ir.passes.onnx.remaining import Remaining, are_at_boundary, remaining_transposes
from layout_ir.passes.onnx.typed_graphs import TypedModel, reached_orders, simplify, typed_graphs
from layout_ir.selection.solver.selection_problem import Infeasible, Solution

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What holds for all searches that are made for one model, as it came and as others make it."""

    consumer: Consumer
    free_inputs: bool
    free_outputs: bool
    shapes: Mapping[str, Sequence[int]]
    """The shapes of inputs, by name, for the bytes that are compared."""
    certificate: bool
    deadline: float | None
    """The time of time.monotonic() at which the search ends."""
    folder: Path | None
    """The folder of the model's file, in which its external data are."""
    is_nested: bool
    """Whether some node of the model has subgraphs."""


@dataclass
class _Choice:
    """The orders that a round chose for the graphs of the model, and the Transposes before and after."""

    reached: list[ReachableOrders]
    before: Traffic
    plans: list[Plan]
    solution: Solution
    notes: list[str]
    after: Traffic
    is_kept: bool = False
    """Whether the model stays as it is."""

    @property
    def has_more(self) -> bool:
        """Whether there are more Transposes than before, which is no gain to everybody, however few bytes they move.

        Reorders into blocks and out of them are what blocks cost: there were none, and weighing Transposes more makes
        them no fewer.
        """
        return self.after.count - _block_reorders(self.plans) > self.before.count

    @property
    def has_blocks(self) -> bool:
        return any(plan.has_blocks for plan in self.plans)


@dataclass
class OrderSearch:
    """The search for the orders of a model, in rounds: its problem is stated and solved, and what is better is written
    into it. What one round writes may let the next see more."""

    model: onnx.ModelProto
    pending: dict[str, PendingTensor]
    """The data of initializers that nobody has read yet, by name; takes those that are written."""
    options: SearchOptions
    typed: TypedModel | None = None
    """The graphs of the model that came in, where they are known already."""
    consumer: Consumer = field(init=False)
    """That of the options, or one that weighs Transposes more, or does not count what kernels move."""
    shapes: Mapping[str, Sequence[int]] = field(init=False)
    """The shapes of the options, in the orders in which callers are asked for them."""
    free_inputs: bool = field(init=False)
    free_outputs: bool = field(init=False)
    """Whether outputs may come in any order: as in the options, until it is settled what callers are asked for."""
    propagation: OrderPropagation = field(init=False)
    improved: bool = False
    """Whether the last round changed the model, so that another one may see more."""
    is_written: bool = False
    """Whether any round changed the model."""
    types: dict[str, onnx.TypeProto] = field(default_factory=dict[str, "onnx.TypeProto"])
    """The types of values that earlier rounds wrote and shape inference does not know."""
    integers: dict[str, NDArray[Any]] = field(default_factory=dict[str, "NDArray[Any]"])
    """The integers that constants and known shapes decide, as earlier rounds found them."""
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    """The places of the tensors that earlier rounds wrote: the values of the model that came in, and their orders."""
    plans: list[Plan] = field(default_factory=list[Plan])
    """What was chosen in the last round, per graph."""
    written: tuple[Plan, GraphRewriter, int, Traffic] | None = None
    """What an earlier round wrote, for which cost, and what it left, where all types are known by that."""
    graphs: list[Graph] = field(default_factory=list[Graph])
    """The graphs of all rounds."""
    stated: tuple[Traffic, ReachableOrders] | None = None
    """The Transposes of the graph that was written then, and what it has to choose from."""
    current: Graph | None = None
    """The graph of the model as it is now, where its types are known."""
    solved: tuple[ModelProblem, OrderSolution] | None = None
    """The problem of the last round, and the choice that was found."""

    def __post_init__(self) -> None:
        options = self.options
        self.consumer, self.shapes = options.consumer, options.shapes
        self.free_inputs, self.free_outputs = options.free_inputs, options.free_outputs
        self.propagation = OrderPropagation(self.consumer)

    def result(self) -> OptimizedModel:
        """The model as it is when another round would win nothing, and what became of its Transposes in all."""
        result = self._round()
        before, obligations, last = result.before, result.obligations, result.before.cost
        while True:
            plan = self._fixed_point_plan() if self.improved else None
            if plan is not None:
                result.remaining = _sorted_remaining([plan])
                if result.solution.omitted:
                    # Of the graph as it was written less may be left out, and it is known to cost the least.
                    cost = result.after.cost + _cost_of_nodes([plan.problem.reached])
                    result.solution = Solution((), cost, cost, plan.problem.reached.omitted)
            if (plan is not None or not self.improved) and not (result.after.count and self._is_rewritten()):
                break
            if obligations and (self.free_inputs or self.free_outputs):
                # They are of the model that came: what callers are asked for is settled once.
                self.shapes = _in_orders(self.shapes, {entry.name: entry.order for entry in obligations})
                self.free_inputs = self.free_outputs = False
            self.improved = False
            again = self._round()
            obligations = obligations or again.obligations
            result = replace(again, before=before, obligations=obligations, transposed=result.transposed)
            # A round that made nothing better, whatever it expected, is the last.
            self.improved &= again.before.cost < last
            last = again.before.cost
        if result.after.count and not result.remaining:
            result.remaining = _sorted_remaining(self.plans)
        return self._certified(result) if self.options.certificate else result

    def _round(self) -> OptimizedModel:
        """The result of a round; sets `improved`."""
        if self.stated is None:
            graphs = self._typed()
            self.graphs += graphs
            before = self._traffic(graphs)
            transposed = frozenset(node.outputs[0] for graph in graphs for node in _transposes(graph.nodes))
            reached = reached_orders(graphs, self.propagation)
        else:
            before, transposed, reached = self.stated[0], frozenset[str](), [self.stated[1]]
        self.current = reached[0].values.graph
        choice = self._chosen(reached, before)
        self.plans = choice.plans
        obligations = [] if choice.is_kept else boundary_changes(choice.plans[0])
        result = OptimizedModel(
            self.model, self.options.folder, self.pending, self.consumer.name, choice.before, choice.after, [],
            obligations, choice.solution, None, choice.notes, transposed, self.places,
        )  # fmt: skip
        if choice.has_blocks:
            choice.notes.append(
                f"an order that names a dim twice has it in blocks of {self.consumer.block}: a reorder into blocks or "
                f"out of them counts as a Transpose"
            )
        if not choice.is_kept:
            self._write(choice, result)
        return result

    def _chosen(self, reached: list[ReachableOrders], before: Traffic) -> _Choice:
        """The choice that is best for the consumer, and that it can run."""
        choice = self._planned(reached, before)
        while (
            choice.solution.is_optimal
            and choice.has_more
            and self.consumer.transpose_kib * 1024 <= choice.before.nbytes
        ):
            choice = self._planned(reached, self._weigh_more(choice.before))
        if self.consumer.counts_kernel_moves and self._trades_transposes_for_kernel_moves(choice):
            self.consumer = self.consumer.without_kernel_moves()
            self.propagation = OrderPropagation(self.consumer)
            reached = [self.propagation.reachable(part.values.graph) for part in reached]
            choice = self._planned(reached, choice.before)
        if self._moves_by_element(choice):
            self.consumer = replace(self.consumer, weighs_dims=True)
            choice = self._planned(choice.reached, choice.before)
        if self._crashes_runtime(choice):
            choice = self._without_turned_halves(choice)
        # There is nothing better, or the search ended before it found it.
        return self._kept(choice) if self._stays(choice) else choice

    def _without_turned_halves(self, choice: _Choice) -> _Choice:
        """The best choice of those at which ONNX Runtime does not crash."""
        try:
            other = self._planned(choice.reached, choice.before, turns_halves=False)
        except Infeasible:
            other = choice  # the Transposes are there as the model comes
        else:
            # More may be ruled out than crashes the runtime, so what is proven is the bound of all choices.
            other.solution = replace(other.solution, bound=choice.solution.bound)
        other.notes.append(
            "Transposes that ONNX Runtime would crash at, in front of products of f16, are not written, "
            "though fewer bytes might move with them"
        )
        if self._crashes_runtime(other):
            cost = other.before.cost + _cost_of_nodes(other.reached)
            other = self._kept(replace(other, solution=replace(other.solution, cost=cost)))
        return other

    def _kept(self, choice: _Choice) -> _Choice:
        """The choice to leave the model as it is."""
        plans = [Plan.as_is(part, self.consumer) for part in choice.reached]
        return replace(choice, plans=plans, after=choice.before, is_kept=True)

    def _write(self, choice: _Choice, result: OptimizedModel) -> None:
        """Writes what was chosen into the model."""
        self.is_written = True
        plans, solution, after = choice.plans, choice.solution, choice.after
        places: dict[str, Place] = {}
        constants = constant_inputs(self.model)
        rewriters = [GraphRewriter(plan) for plan in plans]
        for rewriter in reversed(rewriters):
            rewriter.write()
            self.types.update((value.name, value.type) for value in rewriter.types)
            places.update(
                {name: result.place(*place) for name, place in rewriter.places.items()}
                if result.places
                else rewriter.places
            )
        self.places = result.places = {**self.places, **places}
        change_boundary(self.model.graph, result.obligations)
        import_domains(self.model, [plan.graph for plan in plans])
        drop_inputs(self.model, constants)
        is_carried = len(plans) == 1 and self._is_carried(plans[0], solution)
        # What is left for callers alone no second look makes less; but it may find extents that were not known.
        boundary = after.count <= 2 and all(map(are_at_boundary, plans))
        finds_extents = bool(after.count and choice.notes) and not is_carried
        deadline = self.options.deadline
        is_over = deadline is not None and time.monotonic() >= deadline
        self.improved = (
            (solution.is_optimal or not is_over)
            and not choice.has_blocks
            and (self.options.certificate or not boundary or finds_extents)
        )
        if not after.count and not choice.has_blocks:
            choice.notes.clear()  # nothing is left to move, whatever the extents are
        self.written = (plans[0], rewriters[0], solution.cost, after) if is_carried else None
        self.stated = self.current = None

    def _is_carried(self, plan: Plan, solution: Solution) -> bool:
        """Whether what is known of a graph tells what can be known of the one that was written for it.

        Not where there is to be a certificate: that is of the problem that the model has for whoever reads it.
        """
        known = all(plan.graph.shape(root) is not None for root in plan.values.orders)
        return known and solution.is_optimal and not self.options.certificate and not self.shapes

    def _weigh_more(self, traffic: Traffic) -> Traffic:
        """Lets each Transpose count as more bytes from now on; returns traffic with what it costs then."""
        kib = self.consumer.transpose_kib
        self.consumer = replace(self.consumer, transpose_kib=8 * kib)
        return replace(traffic, cost=traffic.cost + traffic.count * 7 * kib * KIBIBYTE)

    def _trades_transposes_for_kernel_moves(self, choice: _Choice) -> bool:
        """Whether Transposes would move as much as they do, or more, so that kernels move less inside."""
        before, after = choice.before.cost, choice.after.cost
        if not choice.solution.is_optimal or after < before:
            return False
        return after > before or choice.solution.cost < before + _cost_of_nodes(choice.reached)

    def _moves_by_element(self, choice: _Choice) -> bool:
        """Whether Transposes would be written that take longer for where dims of one element lie, which nobody looked
        at: mostly, these may as well lie elsewhere."""
        consumer = self.consumer
        if not consumer.moves_by_element or consumer.weighs_dims or self._stays(choice):
            return False
        return choice.solution.is_optimal and any(
            consumer.is_slow_for_units(move.source, move.target, plan.graph.shape(move.root))
            for plan in choice.plans
            for move in plan.moves
        )

    def _crashes_runtime(self, choice: _Choice) -> bool:
        """Whether ONNX Runtime would crash at what would be written."""
        turns_halves = self.consumer.converts_halves and any(map(takes_turned_halves, choice.plans))
        return turns_halves and not self._stays(choice)

    def _stays(self, choice: _Choice) -> bool:
        """Whether the model stays as it is: what was chosen leaves no less."""
        is_better = self._is_better(choice.after, choice.before)
        return choice.is_kept or choice.has_more or not (is_better or choice.has_blocks)

    def _is_better(self, after: Traffic, before: Traffic) -> bool:
        """Whether Transposes cost less, and move no more where they were weighed for the sake of their number."""
        is_weighed = self.consumer.transpose_kib > Consumer.transpose_kib
        return after.cost < before.cost and (not is_weighed or after.nbytes <= before.nbytes)

    def _fixed_point_plan(self) -> Plan | None:
        """The plan that leaves the model as it was written; None where it is not known that another round would."""
        if self.written is None:
            return None
        plan, rewriter, cost, left = self.written
        graph = self._current_graph()
        traffic = self._traffic([graph])
        simplify(graph, self.consumer)
        before = orders_before(plan, rewriter, graph) if traffic == left else None
        if before is not None:
            reached = self.propagation.reachable(graph, before)
            if not reached.omitted and is_fixed_point(plan, rewriter, cost, reached):
                return Plan.as_is(reached, self.consumer)
        reached = self.propagation.reachable(graph)
        if traffic == left and is_fixed_point(plan, rewriter, cost, reached):
            return Plan.as_is(reached, self.consumer)
        self.stated = traffic, reached
        return None

    def _is_rewritten(self) -> bool:
        """Whether weights or dilations took over what Transposes did; then the model may let more be won."""
        if self.consumer.block or not (may_fold(self.model.graph) or may_dilate(self.model.graph)):
            return False
        graph = self._current_graph().unfolded()
        constants = constant_inputs(self.model)
        if not fold_into_weights(graph) and not dilate_convolutions(graph):
            return False
        drop_inputs(self.model, constants)
        self.is_written, self.written, self.stated, self.current = True, None, None, None
        return True

    def _current_graph(self) -> Graph:
        """The graph of the model as it is now, which is looked at once."""
        if self.current is None:
            if self.written is None:
                graphs = self._typed()
            else:
                plan, rewriter, *_ = self.written
                origins = [node if id(node) in rewriter.kept else None for node in rewriter.origins]
                graphs = [
                    rewritten_graph(self.model, plan.graph, rewriter.places, origins, rewriter.squeezed)
                ]
            self.graphs += graphs
            self.current = graphs[0]
        return self.current

    def _typed(self) -> list[Graph]:
        """The graphs of the model as it is now, whose extents count as in the first round."""
        if self.typed is not None:
            (graphs, self.integers), self.typed = self.typed, None
            for graph in graphs:
                graph.pending = self.pending
            return graphs
        graphs = typed_graphs(
            self.model, self.options.folder, self.shapes, self.pending, self.types, self.integers,
            is_nested=self.options.is_nested,
        )  # fmt: skip
        first = self.graphs[: len(graphs)]
        if len(first) == len(graphs) and not self.shapes:
            for graph, before in zip(graphs, first, strict=True):
                keep_counts(graph, before, self.places)
        return graphs

    def _traffic(self, graphs: Sequence[Graph]) -> Traffic:
        return self._transposed(node for graph in graphs for node in graph.nodes)

    def _transposed(self, nodes: Iterable[Node]) -> Traffic:
        moved = [(node.graph, node.inputs[0]) for node in _transposes(nodes)]
        return Traffic(
            len(moved),
            sum(2 * graph.nbytes(name) for graph, name in moved),
            sum(self.consumer.transpose_cost(self.consumer.counted_bytes(*each)) for each in moved),
        )

    def _left(self, plans: Sequence[Plan]) -> Traffic:
        """The Transposes that plans leave: those of values of unknown rank, and the reorders that remain."""
        unknown = self._transposed(node for plan in plans for node in plan.values.nodes)
        moves = [move for plan in plans for move in plan.moves]
        return Traffic(
            unknown.count + len(moves),
            unknown.nbytes + sum(move.nbytes for move in moves),
            unknown.cost + sum(plan.transpose_cost for plan in plans),
        )

    def _planned(
        self, reached: list[ReachableOrders], before: Traffic, *, turns_halves: bool = True
    ) -> _Choice:
        """What costs least of what graphs have to choose from."""
        inputs, outputs = free_names(reached[0].values.graph)
        inputs, outputs = inputs if self.free_inputs else [], outputs if self.free_outputs else []
        problem = model_problem(
            reached,
            self.consumer,
            free_inputs=inputs,
            free_outputs=outputs,
            never_turned=() if turns_halves else [halves_of_products(part.values) for part in reached],
        )
        omitted = tuple(what for part in reached for what in part.omitted)
        found = problem.solve(self._seconds_left())
        if turns_halves:
            self.solved = problem, found
        solution = replace(found.numbers, omitted=omitted)
        plans = [Plan.chosen(part, problem.numbers, found) for part in problem.parts]
        notes = [note for plan in plans for note in plan.open_extents()]
        return _Choice(reached, before, plans, solution, list(dict.fromkeys(notes)), self._left(plans))

    def _certified(self, result: OptimizedModel) -> OptimizedModel:
        """`result` with the certificate of the last problem. It is made once: to write down and check why a choice is
        the cheapest takes much longer than to find it."""
        assert self.solved is not None
        problem, found = self.solved
        consumer, solution = self.consumer, result.solution
        origin = {
            "target": consumer.name,
            "costs": None,
            "transpose_kib": consumer.transpose_kib,
            "kernel_moves": consumer.counts_kernel_moves,
            "weighs_dims": consumer.weighs_dims,
        }
        extra = {"origin": origin, "omitted": len(solution.omitted)}
        certificate = problem.certificate(found, self._seconds_left(), extra=extra)
        if solution.is_optimal and certificate["bound"] < certificate["cost"]:
            result.notes.append(
                f"the choice is proven, but time was up before its certificate was: that proves "
                f"{certificate['bound']} of {certificate['cost']}"
            )
        return replace(result, certificate=certificate)

    def _seconds_left(self) -> float | None:
        deadline = self.options.deadline
        return None if deadline is None else max(0.0, deadline - time.monotonic())


def _in_orders(shapes: Mapping[str, Sequence[int]], orders: Mapping[str, Order]) -> dict[str, list[int]]:
    """Shapes by name, of tensors of which some are in other orders of dims now."""
    return {
        name: [shape[dim] for dim in orders.get(name, identity(len(shape)))] for name, shape in shapes.items()
    }


def _block_reorders(plans: Sequence[Plan]) -> int:
    """How many of the moves that plans leave are into blocks or out of them."""
    return sum(is_blocked(move.source) or is_blocked(move.target) for plan in plans for move in plan.moves)


def _cost_of_nodes(reached: Sequence[ReachableOrders]) -> int:
    """What the nodes of graphs cost as they are."""
    return sum(
        option_cost(choices.offered.options[0]) for part in reached for choices in part.choices.values()
    )


def _transposes(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if node.op_type == "Transpose" and is_transpose(node)]


def _sorted_remaining(plans: Sequence[Plan]) -> list[Remaining]:
    """The Transposes that are left, those that move most first."""
    return sorted(
        (entry for plan in plans for entry in remaining_transposes(plan)), key=lambda entry: -entry.nbytes
    )
