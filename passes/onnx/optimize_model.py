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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from layout_ir.argument_checks import check_seconds
from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.model import read_open_model
from layout_ir.frontends.onnx.subgraphs import has_subgraphs, nodes_within
from layout_ir.gc_pause import gc_paused
from layout_ir.passes.onnx.cast_transposes import move_behind_casts
from layout_ir.passes.onnx.consumers import Consumer, consumer_named
from layout_ir.passes.onnx.decided_branches import DecidedBranches, with_decided_branches
from layout_ir.passes.onnx.einsum_transposes import write_einsum_transposes
from layout_ir.passes.onnx.graph_check import check_names, check_shapes
from layout_ir.passes.onnx.inlined_functions import with_moving_functions_inlined
from layout_ir.passes.onnx.joined_units import JoinedModel, has_channels_last, with_quantized_units
from layout_ir.passes.onnx.loop_states import with_loops_rearranged
from layout_ir.passes.onnx.model_constants import PendingTensor, pending_of
from layout_ir.passes.onnx.names_in_use import drop_constants, unused_constants
from layout_ir.passes.onnx.optimized_model import OptimizedModel, Traffic
from layout_ir.passes.onnx.order_search import OrderSearch, SearchOptions
from layout_ir.passes.onnx.runtime_names import rename_shapes
from layout_ir.passes.onnx.shared_dequantization import merge_dequantizations
from layout_ir.passes.onnx.typed_graphs import TypedModel
from layout_ir.passes.onnx.unsigned_integers import make_moved_integers_unsigned
from layout_ir.selection.solver.selection_problem import Solution

if TYPE_CHECKING:
    import onnx

    from layout_ir.frontends.onnx.model import Source

Boundary = Literal["keep", "free"]

SEARCH_SECONDS = 60.0
"""After how many seconds the search for orders ends. Most models take less than one, a Llama of dynamic shapes less
than half a second per layer; attention whose blocks are gathered by index (BigBird) took 1 to 5 in two exports, and was
not searched to the end in 60 in a third."""


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
        model, folder, weights = read_open_model(source)
        # Half of each look at all nodes is to make their objects, which live as long as somebody has them.
        _nodes = model.graph.node[:]
        pending = pending_of(model, weights)
        inlined = with_moving_functions_inlined(model) if model.functions else None
        written = inlined or model
        is_nested = has_subgraphs(written.graph)
        options = SearchOptions(
            consumer=consumer,
            free_inputs=inputs == "free",
            free_outputs=outputs == "free",
            shapes=shapes or {},
            certificate=certificate,
            deadline=deadline,
            folder=folder,
            is_nested=is_nested,
        )
        choose = partial(_chosen, options=options)
        may_decide = is_nested and _has_transposes(written.graph, is_nested)
        branches = with_decided_branches(written, folder, dict(pending)) if may_decide else DecidedBranches()
        before = None if shapes else branches.before  # with shapes, there are other types
        joined = _joined(written, dict(pending), options)
        result = choose(model, dict(pending), typed=before if inlined is None else None)
        if inlined is not None:
            other = choose(inlined, dict(pending), typed=before)
            # What is moved in a function is the same in both: it counts in the one alone, before and after.
            if other.gain > result.gain:
                result = other
            elif within := other.after.count - result.after.count:
                result.notes.append(
                    f"Transposes in the bodies of functions: {within}, which stay and are not counted"
                )
        # What has nothing left cannot have less.
        if branches.model is not None and any(_left(result)):
            decided, after = branches.follow()
            if decided is not None:
                other = choose(decided, dict(pending), typed=None if shapes else after)
                # The branch that is not taken has no part in what is left; before, it had one. Fewer Transposes may
                # count as more bytes, as the graph around a branch may say less of extents than its results do.
                if _left(other) < _left(result) or other.after.count < result.after.count:
                    result = replace(other, before=result.before, transposed=result.transposed)
        if joined is not None:
            result = _with_units_joined(result, result.before, joined, choose)
        # What was written may let more units be joined: integers that are moved become unsigned.
        while not result.obligations and result.after != result.before:
            joined = _joined(result.stored, result.pending, options)
            if joined is None:
                break
            other = _with_units_joined(result, result.after, joined, choose)
            if other is result:
                break
            result = other
        while (turned := _with_loops_rearranged(result, choose)) is not None:
            result = turned
        return result


def _left(result: OptimizedModel) -> tuple[int, int, int]:
    """What is left: its cost, how many Transposes there are, and how many of them in subgraphs, which may run often."""
    graph = result.stored.graph
    within = (inner for node in graph.node for inner in nodes_within(node))
    return result.after.cost, result.after.count, sum(node.op_type == "Transpose" for node in within)


def _joined(
    model: onnx.ModelProto, pending: dict[str, PendingTensor], options: SearchOptions
) -> JoinedModel | None:
    """A copy of a model with units as one operator each; None where the consumer has no such, or nothing is moved."""
    consumer = options.consumer
    if not consumer.joins_quantized or not _has_transposes(model.graph, options.is_nested):
        return None
    return with_quantized_units(model, options.folder, pending, is_unsigned=consumer.makes_unsigned)


def _with_units_joined(
    result: OptimizedModel, came: Traffic, joined: JoinedModel, choose: Callable[..., OptimizedModel]
) -> OptimizedModel:
    """The result with convolutions and pools between integers as one operator each; itself where that leaves more.

    More may be left than in the result, though no more than `came`, where ONNX Runtime would leave still more of that:
    it has all convolutions that it computes on integers with their channels last. Where they are so in what is written,
    that is all that is moved, and of all models in which they are so none moves less, so neither does what ONNX Runtime
    makes of the model that came in.
    """
    other = choose(joined.model, dict(result.pending))
    merge_dequantizations(other.stored.graph, joined.added)
    is_less = _moves_no_more(other.after, result.after)
    if has_channels_last(other.stored):
        is_taken = is_less or _moves_no_more(other.after, came)
    else:
        is_taken = is_less and not _moves_no_more(result.after, other.after)
    if not is_taken:
        return result
    places = {name: result.place(*place) for name, place in other.places.items()}
    places = {**result.places, **places} if came is result.after else other.places
    return replace(other, before=result.before, transposed=result.transposed, places=places)


def _moves_no_more(one: Traffic, other: Traffic) -> bool:
    return one.count <= other.count and one.nbytes <= other.nbytes


def _with_loops_rearranged(
    result: OptimizedModel, choose: Callable[..., OptimizedModel]
) -> OptimizedModel | None:
    """The result with loops that carry their states in other orders; None where that leaves no less.

    What is asked of callers was settled without.
    """
    if not result.after.count or not result.has_subgraphs or result.obligations:
        return None
    model = with_loops_rearranged(result.stored)
    if model is None:
        return None
    again = choose(model, dict(result.pending))
    # What is moved in a body may have extents that nobody knows, and more Transposes are no gain to everybody.
    if again.after.count > result.after.count or _left(again) >= _left(result):
        return None
    places = {**result.places, **{name: result.place(*place) for name, place in again.places.items()}}
    return replace(again, before=result.before, transposed=result.transposed, places=places)


def _chosen(
    model: onnx.ModelProto,
    pending: dict[str, PendingTensor],
    options: SearchOptions,
    typed: TypedModel | None = None,
) -> OptimizedModel:
    """The result for a model whose functions stay what they are; it changes the model. `typed` are its graphs, where
    these are known."""
    consumer, is_nested = options.consumer, options.is_nested
    if model.training_info:
        raise LayoutError(
            "the model has training information, which names values of the graph: take it out "
            "(del model.training_info[:]) to optimize the rest"
        )
    check_names(model.graph, is_nested=is_nested)
    check_shapes(model.graph, options.shapes)
    if write_einsum_transposes(model.graph, is_nested=is_nested):
        typed = None
    if not (options.certificate or consumer.starters or _has_transposes(model.graph, is_nested)):
        # No value has several orders: there is nothing to choose, whatever is known of types.
        nothing = Traffic(0, 0, 0)
        return OptimizedModel(
            model, options.folder, pending, consumer.name, nothing, nothing, [], [], Solution((), 0, 0)
        )
    idle = unused_constants(model.graph, is_nested=is_nested)
    search = OrderSearch(model, pending, options, typed)
    result = search.result()
    kib = search.consumer.transpose_kib
    if kib > Consumer.transpose_kib:
        result.notes.append(
            f"a Transpose counts as {kib} KiB besides what it moves: at less, more of them than the model came with "
            f"would move fewer bytes"
        )
    if consumer.counts_kernel_moves and not search.consumer.counts_kernel_moves:
        result.notes.append(
            "what kernels move inside does not count: they would move less with Transposes that move more than those "
            "that the model came with"
        )
    result.has_subgraphs = any(graph.outer is not None for graph in search.graphs)
    for graph in search.graphs:
        graph.release()
    if search.is_written:
        moved = move_behind_casts(result.stored)
        if moved:
            result.notes.append(
                f"Transposes that stand behind a Cast to f32, and move more than is counted here: {moved}; in front of "
                f"it, ONNX Runtime would crash"
            )
        if search.consumer.makes_unsigned:
            make_moved_integers_unsigned(result.stored)
        # Of nodes that became others, or one with others. What nobody used before is not for us to drop.
        if left_over := unused_constants(result.stored.graph, is_nested=is_nested) - idle:
            drop_constants(result.stored.graph, left_over)
        rename_shapes(result.stored.graph, result.pending)
    return result


def _has_transposes(graph: onnx.GraphProto, is_nested: bool) -> bool:
    """Whether there is a Transpose in a graph or in its subgraphs, which it has only if `is_nested`."""
    if any(node.op_type == "Transpose" for node in graph.node):
        return True
    return is_nested and any(
        inner.op_type == "Transpose" for node in graph.node if node.attribute for inner in nodes_within(node)
    )
