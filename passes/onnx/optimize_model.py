"""`optimize_orders`: an ONNX model in, the same model out with the orders of dims that move the fewest bytes.

What comes out is the model that came in but for its Transposes: nodes keep their names, attributes and subgraphs, all
values that lie as before keep theirs, weights are not read unless their order changes, and what nothing is won for
stays as it is. The orders are chosen for the whole graph at once, at a cost that is proven to be the least; subgraphs
take and give their values in the orders of the model. Functions with Transposes are written out in place of their calls
where these move less then, and branches that constants decide on in place of their Ifs; loops carry their states in
other orders, and what no order undoes is done to weights (`flattened_products`) or by dilations
(`dilated_convolutions`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from layout_ir.argument_checks import check_seconds
from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.model import read_model
from layout_ir.frontends.onnx.subgraphs import nodes_within
from layout_ir.gc_pause import gc_paused
from layout_ir.passes.onnx.blocked_channels import is_blocked
from layout_ir.passes.onnx.cast_transposes import move_behind_casts
from layout_ir.passes.onnx.consumers import KIBIBYTE, Consumer, consumer_named
from layout_ir.passes.onnx.counted_extents import keep_counts
from layout_ir.passes.onnx.decided_branches import with_decided_branches
from layout_ir.passes.onnx.dilated_convolutions import dilate_convolutions, may_dilate
from layout_ir.passes.onnx.einsum_transposes import write_einsum_transposes
from layout_ir.passes.onnx.fixed_point import is_fixed_point, orders_before
from layout_ir.passes.onnx.flattened_products import fold_into_weights, may_fold
from layout_ir.passes.onnx.graph_check import check_names, check_shapes
from layout_ir.passes.onnx.graph_construction import rewritten_graph
from layout_ir.passes.onnx.graph_rewriter import GraphRewriter
from layout_ir.passes.onnx.inlined_functions import with_moving_functions_inlined
from layout_ir.passes.onnx.loop_states import with_loops_rearranged
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
from layout_ir.passes.onnx.order_selection import model_problem, option_cost
from layout_ir.passes.onnx.orders import identity
from layout_ir.passes.onnx.reachable_orders import OrderPropagation, ReachableOrders
from layout_ir.passes.onnx.remaining import Remaining, are_at_boundary, remaining_transposes
from layout_ir.passes.onnx.typed_graphs import reached_orders, simplify, typed_graphs
from layout_ir.passes.onnx.unsigned_integers import make_moved_integers_unsigned
from layout_ir.selection.solver.selection_problem import Solution

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

    from layout_ir.frontends.onnx.model import Source

Boundary = Literal["keep", "free"]

SEARCH_SECONDS = 60.0
"""After how many seconds the search for orders ends. Most models take less than one, a Llama of dynamic shapes one
per layer; attention whose blocks are gathered by index (BigBird) was not searched to the end in minutes."""


def optimize_orders(
    source: Source,
    target: str = "onnx",
    *,
    inputs: Boundary = "keep",
    outputs: Boundary = "keep",
    shapes: Mapping[str, Sequence[int]] | None = None,
    certificate: bool = False,
    time_limit: float | None = SEARCH_SECONDS,
) -> OptimizedModel:
    """The model with the orders of dims that cost `target` least: "onnx", the standard, or "ort-cpu", ONNX Runtime.

    `keep` leaves the orders of inputs or outputs as they are; `free` lets callers be asked for others, which are
    listed in `obligations`; what a subgraph uses by name and an input that is an output stay as they are. `shapes` are
    those of inputs, by name, for the bytes that are compared; the model stays as dynamic as it was. With `certificate`
    the proof that the model which comes out cannot be had for less is in the result. After `time_limit` seconds the
    search ends: the model is then the best one that was found, the one that came in if none is better, and
    `solution.is_optimal` says that this is not proven. With None it goes on until there is a proof.

    Raises OnnxImportError for a file that is no model, or one whose nodes are in no order in which they can run, and
    LayoutError for an unknown target, for a time limit that is no number of seconds, for shapes that the inputs cannot
    have, and for a model with training information, which speaks of values by name that would not be there any more.
    """
    consumer = consumer_named(target)
    for name, value in (("inputs", inputs), ("outputs", outputs)):
        if value not in ("keep", "free"):
            raise LayoutError(f"{name} = {value!r} is unknown, expected 'keep' or 'free'")
    if time_limit is not None:
        check_seconds("time_limit", time_limit)
    deadline = None if time_limit is None else time.monotonic() + time_limit
    with gc_paused():
        model, folder = read_model(source)
        choose = partial(
            _chosen,
            folder=folder,
            consumer=consumer,
            free_inputs=inputs == "free",
            free_outputs=outputs == "free",
            shapes=shapes or {},
            certificate=certificate,
            deadline=deadline,
        )
        inlined = with_moving_functions_inlined(model) if model.functions else None
        written = inlined or model
        decided = with_decided_branches(written, folder) if _has_transposes(written.graph) else None
        result = choose(model)
        if inlined is not None:
            other = choose(inlined)
            # What is moved in a function is the same in both: it counts in the one alone, before and after.
            if other.gain > result.gain:
                result = other
        if decided is not None:
            other = choose(decided)
            # The branch that is not taken has no part in what is left; before, it had one.
            if _left(other) < _left(result):
                result = replace(other, before=result.before, transposed=result.transposed)
        while (turned := _with_loops_rearranged(result, choose)) is not None:
            result = turned
        return result


def _left(result: OptimizedModel) -> tuple[int, int, int]:
    """What is left: its cost, how many Transposes there are, and how many of them in subgraphs, which may run often."""
    graph = result.stored.graph
    within = (inner for node in graph.node for inner in nodes_within(node))
    return result.after.cost, result.after.count, sum(node.op_type == "Transpose" for node in within)


def _with_loops_rearranged(
    result: OptimizedModel, choose: Callable[[onnx.ModelProto], OptimizedModel]
) -> OptimizedModel | None:
    """The result with loops that carry their states in other orders; None where that leaves no less.

    What is asked of callers, and what lies in files, was settled without.
    """
    if not result.after.count or not result.has_subgraphs or result.obligations or result.pending:
        return None
    model = with_loops_rearranged(result.stored)
    if model is None:
        return None
    again = choose(model)
    if _left(again) >= _left(result):
        return None
    places = {**result.places, **{name: result.place(*place) for name, place in again.places.items()}}
    return replace(again, before=result.before, transposed=result.transposed, places=places)


def _chosen(
    model: onnx.ModelProto,
    folder: Path | None,
    consumer: Consumer,
    free_inputs: bool,
    free_outputs: bool,
    shapes: Mapping[str, Sequence[int]],
    certificate: bool,
    deadline: float | None,
) -> OptimizedModel:
    """The result for a model whose functions stay what they are; it changes the model."""
    if model.training_info:
        raise LayoutError(
            "the model has training information, which names values of the graph: take it out "
            "(del model.training_info[:]) to optimize the rest"
        )
    check_names(model.graph)
    check_shapes(model.graph, shapes)
    write_einsum_transposes(model.graph)
    if not (certificate or consumer.starters or _has_transposes(model.graph)):
        # No value has several orders: there is nothing to choose, whatever is known of types.
        nothing = Traffic(0, 0, 0)
        return OptimizedModel(model, folder, {}, consumer.name, nothing, nothing, [], [], Solution((), 0, 0))
    propagation = OrderPropagation(consumer)
    task = _Task(
        model, folder, {}, shapes, consumer, propagation, free_inputs, free_outputs, certificate, deadline
    )
    result = task.optimized()
    before = result.before
    # What one round writes may let the next see more: views that came to lie side by side.
    obligations = result.obligations
    sizes: Mapping[str, Sequence[int]] = task.shapes
    last = before.cost
    while True:
        plan = task.settled() if task.improved else None
        if plan is not None:
            result.remaining = _sorted_remaining([plan])
            if result.solution.omitted:
                # Of the graph as it was written less may be left out, and it is known to cost the least.
                cost = result.after.cost + _cost_of_nodes([plan.problem.reached])
                result.solution = Solution((), cost, cost, plan.problem.reached.omitted)
        if (plan is not None or not task.improved) and not (result.after.count and task.is_rewritten()):
            break
        if obligations and (task.free_inputs or task.free_outputs):
            # They are of the model that came: what callers are asked for is settled once.
            turned = {entry.name: entry.order for entry in obligations}
            sizes = {name: [n[d] for d in turned.get(name, identity(len(n)))] for name, n in sizes.items()}
            task = replace(task, shapes=sizes, free_inputs=False, free_outputs=False)
        task = replace(task, improved=False)
        again = task.optimized()
        obligations = obligations or again.obligations
        result = replace(again, before=before, obligations=obligations, transposed=result.transposed)
        # A round that made nothing better, whatever it expected, is the last.
        task.improved &= again.before.cost < last
        last = again.before.cost
    if result.after.count and not result.remaining:
        result.remaining = _sorted_remaining(task.plans)
    kib = task.consumer.transpose_kib
    if kib > Consumer.transpose_kib:
        result.notes.append(
            f"a Transpose counts as {kib} KiB besides what it moves: at less, more of them than the model came with "
            f"would move fewer bytes"
        )
    if consumer.counts_kernel_moves and not task.consumer.counts_kernel_moves:
        result.notes.append(
            "what kernels move inside does not count: they would move less with Transposes that move more than those "
            "that the model came with"
        )
    result.has_subgraphs = any(graph.outer is not None for graph in task.graphs)
    for graph in task.graphs:
        graph.release()
    if task.is_written:
        moved = move_behind_casts(result.stored)
        if moved:
            result.notes.append(
                f"Transposes that stand behind a Cast to f32, and move more than is counted here: {moved}; in front of "
                f"it, ONNX Runtime would end itself"
            )
        if task.consumer.makes_unsigned:
            make_moved_integers_unsigned(result.stored)
    return result


@dataclass
class _Task:
    """One round: the problem of a model stated, solved, and written into it where something is won."""

    model: onnx.ModelProto
    folder: Path | None
    pending: dict[str, PendingTensor]
    shapes: Mapping[str, Sequence[int]]
    consumer: Consumer
    propagation: OrderPropagation
    free_inputs: bool
    free_outputs: bool
    certificate: bool
    deadline: float | None
    """The time of time.monotonic() at which the search ends."""
    improved: bool = False
    is_written: bool = False
    """Whether this round or an earlier one changed the model."""
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

    def optimized(self) -> OptimizedModel:
        """The result of this round; sets `improved` where it changed the model."""
        if self.stated is None:
            graphs = self._typed()
            self.graphs += graphs
            before = self._traffic(graphs)
            transposed = frozenset(node.outputs[0] for graph in graphs for node in _transposes(graph.nodes))
            reached = reached_orders(graphs, self.propagation)
        else:
            before, transposed, reached = self.stated[0], frozenset[str](), [self.stated[1]]
        self.current = reached[0].values.graph
        plans, solution, certificate, notes = self._planned(reached)
        after = self._left(plans)
        # More Transposes than there were are no gain to everybody, however few bytes they move. Reorders into blocks
        # and out of them are what blocks cost: there were none, and weighing Transposes more makes them no fewer.
        while (
            solution.is_optimal
            and after.count - _block_reorders(plans) > before.count
            and self.consumer.transpose_kib * 1024 <= before.nbytes
        ):
            before = self._weigh_more(before)
            plans, solution, certificate, notes = self._planned(reached)
            after = self._left(plans)
        if self.consumer.counts_kernel_moves and self._gives_way(reached, before, after, solution):
            self.consumer = self.consumer.without_kernel_moves()
            self.propagation = OrderPropagation(self.consumer)
            reached = [self.propagation.reachable(part.values.graph) for part in reached]
            plans, solution, certificate, notes = self._planned(reached)
            after = self._left(plans)
        if not self._is_better(after, before) and not _has_blocks(plans):
            # The model stays as it is: there is nothing better, or the search ended before it found it.
            plans = [Plan.as_is(part, self.consumer) for part in reached]
            after = self._left(plans)
        self.plans = plans
        is_blocked = _has_blocks(plans)
        is_better = self._is_better(after, before)
        obligations = obligations_of(plans[0])
        result = OptimizedModel(
            self.model, self.folder, self.pending, self.consumer.name, before, after, [], obligations, solution,
            certificate, notes, transposed, self.places,
        )  # fmt: skip
        if is_blocked:
            notes.append(
                f"an order that names a dim twice has it in blocks of {self.consumer.block}: a reorder into blocks or "
                f"out of them counts as a Transpose"
            )
        if is_better or is_blocked:
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

    def _is_better(self, after: Traffic, before: Traffic) -> bool:
        """Whether Transposes cost less, and move no more where they were weighed for the sake of their number."""
        is_weighed = self.consumer.transpose_kib > Consumer.transpose_kib
        return after.cost < before.cost and (not is_weighed or after.nbytes <= before.nbytes)

    def settled(self) -> Plan | None:
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

    def is_rewritten(self) -> bool:
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
                graphs = [rewritten_graph(self.model, plan.graph, rewriter.places, origins)]
            self.graphs += graphs
            self.current = graphs[0]
        return self.current

    def _typed(self) -> list[Graph]:
        """The graphs of the model as it is now, whose extents count as in the first round."""
        graphs = typed_graphs(self.model, self.folder, self.shapes, self.pending, self.types, self.integers)
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
        self, reached: Sequence[ReachableOrders]
    ) -> tuple[list[Plan], Solution, dict[str, Any] | None, list[str]]:
        inputs, outputs = free_names(reached[0].values.graph)
        inputs, outputs = inputs if self.free_inputs else [], outputs if self.free_outputs else []
        problem = model_problem(reached, self.consumer, free_inputs=inputs, free_outputs=outputs)
        omitted = tuple(what for part in reached for what in part.omitted)
        consumer = self.consumer
        origin = {
            "target": consumer.name,
            "costs": None,
            "transpose_kib": consumer.transpose_kib,
            "kernel_moves": consumer.counts_kernel_moves,
        }
        left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
        extra = {"origin": origin, "omitted": len(omitted)}
        found = problem.solve(left, certificate=self.certificate, extra=extra)
        solution = replace(found.numbers, omitted=omitted)
        plans = [Plan.chosen(part, problem.numbers, found) for part in problem.parts]
        notes = [note for plan in plans for note in plan.open_extents()]
        return plans, solution, found.certificate, list(dict.fromkeys(notes))


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


def _has_transposes(graph: onnx.GraphProto) -> bool:
    """Whether there is a Transpose in a graph or in its subgraphs."""
    return any(node.op_type == "Transpose" for node in graph.node) or any(
        inner.op_type == "Transpose" for node in graph.node if node.attribute for inner in nodes_within(node)
    )


def _transposes(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if node.op_type == "Transpose" and is_transpose(node)]


def _sorted_remaining(plans: Sequence[Plan]) -> list[Remaining]:
    """The Transposes that are left, those that move most first."""
    return sorted(
        (entry for plan in plans for entry in remaining_transposes(plan)), key=lambda entry: -entry.nbytes
    )
