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
    change_boundary,
    constant_inputs,
    drop_inputs,
    free_names,
    import_domains,
    obligations_of,
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


@dataclass
class OrderSearch:
    """The search for the orders of a model, in rounds: its problem is stated and solved, and what is better is written
    into it. What one round writes may let the next see more."""

    model: onnx.ModelProto
    folder: Path | None
    shapes: Mapping[str, Sequence[int]]
    consumer: Consumer
    free_inputs: bool = field(kw_only=True)
    free_outputs: bool = field(kw_only=True)
    certificate: bool = field(kw_only=True)
    pending: dict[str, PendingTensor] = field(kw_only=True)
    """Of initializers that nobody has read yet, by name; takes those that are written."""
    deadline: float | None = field(kw_only=True)
    """The time of time.monotonic() at which the search ends."""
    is_nested: bool = field(kw_only=True)
    """Whether some node of the model has subgraphs."""
    typed: TypedModel | None = field(kw_only=True)
    """The graphs of the model that came in, where they are known already."""
    propagation: OrderPropagation = field(init=False)
    improved: bool = False
    """Whether the last round changed the model, so that another one may see more."""
    is_written: bool = False
    """Whether any round changed the model."""
    types: dict[str, onnx.TypeProto] = field(default_factory=dict[str, "onnx.TypeProto"])
    """Of values that earlier rounds wrote and shape inference does not know."""
    integers: dict[str, NDArray[Any]] = field(default_factory=dict[str, "NDArray[Any]"])
    """Those that constants and known shapes decide, as earlier rounds found them."""
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    """Of the tensors that earlier rounds wrote: the values of the model that came in, and their orders."""
    plans: list[Plan] = field(default_factory=list[Plan])
    """What was chosen in the last round, per graph."""
    written: tuple[Plan, GraphRewriter, int, Traffic] | None = None
    """What an earlier round wrote, for which cost, and what it left, where all types are known by that."""
    graphs: list[Graph] = field(default_factory=list[Graph])
    """Those of all rounds."""
    stated: tuple[Traffic, ReachableOrders] | None = None
    """The Transposes of the graph that was written then, and what it has to choose from."""
    current: Graph | None = None
    """The graph of the model as it is now, where its types are known."""
    solved: tuple[ModelProblem, OrderSolution] | None = None
    """The problem of the last round, and the choice that was found."""

    def __post_init__(self) -> None:
        self.propagation = OrderPropagation(self.consumer)

    def result(self) -> OptimizedModel:
        """The model as it is when another round would win nothing, and what became of its Transposes in all."""
        result = self._round()
        before, obligations, last = result.before, result.obligations, result.before.cost
        while True:
            plan = self._settled() if self.improved else None
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
        return self._certified(result) if self.certificate else result

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
        plans, solution, notes = self._planned(reached)
        after = self._left(plans)
        # More Transposes than there were are no gain to everybody, however few bytes they move. Reorders into blocks
        # and out of them are what blocks cost: there were none, and weighing Transposes more makes them no fewer.
        while (
            solution.is_optimal
            and after.count - _block_reorders(plans) > before.count
            and self.consumer.transpose_kib * 1024 <= before.nbytes
        ):
            before = self._weigh_more(before)
            plans, solution, notes = self._planned(reached)
            after = self._left(plans)
        if self.consumer.counts_kernel_moves and self._gives_way(reached, before, after, solution):
            self.consumer = self.consumer.without_kernel_moves()
            self.propagation = OrderPropagation(self.consumer)
            reached = [self.propagation.reachable(part.values.graph) for part in reached]
            plans, solution, notes = self._planned(reached)
            after = self._left(plans)
        ends_runtime = self.consumer.converts_halves and any(map(takes_turned_halves, plans))
        if ends_runtime and not self._stays(plans, before, after):
            try:
                plans, found, notes = self._planned(reached, turns_halves=False)
            except Infeasible:
                pass  # the Transposes are there as the model comes
            else:
                # More may be ruled out than ends the runtime, so what is proven is the bound of all choices.
                after, solution = self._left(plans), replace(found, bound=solution.bound)
            notes.append(
                "Transposes that ONNX Runtime would end itself at, in front of products of f16, are not written, "
                "though fewer bytes might move with them"
            )
        stays = self._stays(plans, before, after)
        if ends_runtime and not stays and any(map(takes_turned_halves, plans)):
            stays = True
            solution = replace(solution, cost=before.cost + _cost_of_nodes(reached))
        if stays:
            # The model stays as it is: there is nothing better, or the search ended before it found it.
            plans = [Plan.as_is(part, self.consumer) for part in reached]
            after = before
        self.plans = plans
        is_blocked = _has_blocks(plans)
        obligations = obligations_of(plans[0])
        result = OptimizedModel(
            self.model, self.folder, self.pending, self.consumer.name, before, after, [], obligations, solution,
            None, notes, transposed, self.places,
        )  # fmt: skip
        if is_blocked:
            notes.append(
                f"an order that names a dim twice has it in blocks of {self.consumer.block}: a reorder into blocks or "
                f"out of them counts as a Transpose"
            )
        if not stays:
            self.is_written = True
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
            change_boundary(self.model.graph, obligations)
            import_domains(self.model, [plan.graph for plan in plans])
            drop_inputs(self.model, constants)
            is_carried = len(plans) == 1 and self._is_carried(plans[0], solution)
            # What is left for callers alone no second look makes less; but it may find extents that were not known.
            boundary = after.count <= 2 and all(map(are_at_boundary, plans))
            finds_extents = bool(after.count and notes) and not is_carried
            is_over = self.deadline is not None and time.monotonic() >= self.deadline
            self.improved = (
                (solution.is_optimal or not is_over)
                and not is_blocked
                and (self.certificate or not boundary or finds_extents)
            )
            if not after.count and not is_blocked:
                notes.clear()  # nothing is left to move, whatever the extents are
            self.written = (plans[0], rewriters[0], solution.cost, after) if is_carried else None
            self.stated = self.current = None
        else:
            result.obligations = []
        return result

    def _is_carried(self, plan: Plan, solution: Solution) -> bool:
        """Whether what is known of a graph tells what can be known of the one that was written for it.

        Not where there is to be a certificate: that is of the problem that the model has for whoever reads it.
        """
        known = all(plan.graph.shape(root) is not None for root in plan.values.orders)
        return known and solution.is_optimal and not self.certificate and not self.shapes

    def _weigh_more(self, traffic: Traffic) -> Traffic:
        """Lets each Transpose count as more bytes from now on; returns traffic with what it costs then."""
        kib = self.consumer.transpose_kib
        self.consumer = replace(self.consumer, transpose_kib=8 * kib)
        return replace(traffic, cost=traffic.cost + traffic.count * 7 * kib * KIBIBYTE)

    def _gives_way(
        self, reached: Sequence[ReachableOrders], before: Traffic, after: Traffic, solution: Solution
    ) -> bool:
        """Whether Transposes would move as much as they do, or more, so that kernels move less inside."""
        if not solution.is_optimal or after.cost < before.cost:
            return False
        return after.cost > before.cost or solution.cost < before.cost + _cost_of_nodes(reached)

    def _stays(self, plans: Sequence[Plan], before: Traffic, after: Traffic) -> bool:
        """Whether the model stays as it is: what plans leave is no better."""
        has_more = after.count - _block_reorders(plans) > before.count
        return has_more or (not self._is_better(after, before) and not _has_blocks(plans))

    def _is_better(self, after: Traffic, before: Traffic) -> bool:
        """Whether Transposes cost less, and move no more where they were weighed for the sake of their number."""
        is_weighed = self.consumer.transpose_kib > Consumer.transpose_kib
        return after.cost < before.cost and (not is_weighed or after.nbytes <= before.nbytes)

    def _settled(self) -> Plan | None:
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
            self.model, self.folder, self.shapes, self.pending, self.types, self.integers,
            is_nested=self.is_nested,
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
        self, reached: Sequence[ReachableOrders], *, turns_halves: bool = True
    ) -> tuple[list[Plan], Solution, list[str]]:
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
        return plans, solution, list(dict.fromkeys(notes))

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
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


def _in_orders(shapes: Mapping[str, Sequence[int]], orders: Mapping[str, Order]) -> dict[str, list[int]]:
    """Shapes by name, of tensors of which some are in other orders of dims now."""
    return {
        name: [shape[dim] for dim in orders.get(name, identity(len(shape)))] for name, shape in shapes.items()
    }


def _has_blocks(plans: Sequence[Plan]) -> bool:
    return any(plan.has_blocks for plan in plans)


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
