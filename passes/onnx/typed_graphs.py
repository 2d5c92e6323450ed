"""The graphs of a model with all types that can be known, and without what constants decide and views undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from layout_ir.passes.onnx.constant_folding import (
    constant_integers,
    decided_integers,
    fold_constant_transposes,
    has_open_results,
)
from layout_ir.passes.onnx.consumers import Consumer
from layout_ir.passes.onnx.counted_extents import counted_extents
from layout_ir.passes.onnx.equal_extents import name_equal_extents
from layout_ir.passes.onnx.graph_construction import graphs_of_model
from layout_ir.passes.onnx.inferred_types import TypeInference
from layout_ir.passes.onnx.model_constants import PendingTensor
from layout_ir.passes.onnx.model_graph import Graph
from layout_ir.passes.onnx.names_in_use import overridable_names
from layout_ir.passes.onnx.orders import is_static
from layout_ir.passes.onnx.reachable_orders import OrderPropagation, ReachableOrders
from layout_ir.passes.onnx.stacked_concats import stack_concats
from layout_ir.passes.onnx.view_chains import merge_view_chains

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


class TypedModel(NamedTuple):
    """The graphs of a model with all types that can be known, and the integers that were found on the way."""

    graphs: list[Graph]
    integers: dict[str, NDArray[Any]]


def typed_graphs(
    model: onnx.ModelProto,
    folder: Path | None,
    shapes: Mapping[str, Sequence[int]],
    pending: dict[str, PendingTensor],
    stated: Mapping[str, onnx.TypeProto],
    integers: dict[str, NDArray[Any]],
    *,
    is_nested: bool = True,
) -> list[Graph]:
    """The graphs of a model with all types that can be known; `integers` are known already, and take those found. Nodes
    have subgraphs only if `is_nested`."""
    graphs = _typed_graphs(model, folder, shapes, pending, stated, integers, is_nested)
    if not shapes:
        counted = counted_extents(graphs, integers)
        for graph in graphs:
            graph.counted = counted
    return graphs


def _typed_graphs(
    model: onnx.ModelProto,
    folder: Path | None,
    shapes: Mapping[str, Sequence[int]],
    pending: dict[str, PendingTensor],
    stated: Mapping[str, onnx.TypeProto],
    integers: dict[str, NDArray[Any]],
    is_nested: bool,
) -> list[Graph]:
    if integers:
        names = {name for node in model.graph.node for name in node.output[:]}
        for name in integers.keys() - names:
            del integers[name]
    inference = TypeInference(model, overridable_names(model), {}, stated, is_nested=is_nested)
    graphs = graphs_of_model(model, folder, shapes, pending, integers, stated, inference)
    if not _are_open(graphs):
        return graphs
    if not integers and not shapes and len(graphs) == 1 and _has_static_inputs(graphs[0]):
        # To infer all types once more is quicker than those of single nodes, if that finds them all.
        found = constant_integers(graphs[0])
        if found:
            before = graphs[0].types
            graphs[0].replace_types(*inference.types(found, may_complete=True))
            if not _are_open(graphs):
                integers |= found
                return graphs
            graphs[0].replace_types(before)
    inner: list[dict[str, NDArray[Any]]] = [{} for _ in graphs[1:]]
    while True:
        known = [integers, *inner]
        found = list(map(decided_integers, graphs, known))
        if not any(more.keys() - before.keys() for more, before in zip(found, known, strict=True)):
            return graphs
        for before, more in zip(known, found, strict=True):
            before |= more
        # Types were inferred on the way; once all extents are known, no more can be found.
        if len(graphs) == 1 and not shapes:
            if not _are_open(graphs):
                return graphs
            (types,) = inference.types(integers)
            graphs[0].replace_types(types)
            graphs[0].claimed = types.claimed
        else:
            graphs = graphs_of_model(model, folder, shapes, pending, integers, stated, inference, inner)
            for graph, decided in zip(graphs[1:], inner, strict=True):
                graph.computed |= decided


def _are_open(graphs: Sequence[Graph]) -> bool:
    """Whether some extent of a result of some node is not known."""
    return any(has_open_results(node) for graph in graphs for node in graph.nodes)


def _has_static_inputs(graph: Graph) -> bool:
    """Whether the extents of all inputs are numbers."""
    shapes = [graph.shape(value.name) for value in graph.proto.input]
    return all(shape is not None and is_static(shape) for shape in shapes)


def reached_orders(graphs: Sequence[Graph], propagation: OrderPropagation) -> list[ReachableOrders]:
    """What each graph has to choose from, without what constants decide and what views undo."""
    for graph in graphs:
        simplify(graph, propagation.consumer)
    return [propagation.reachable(graph) for graph in graphs]


def simplify(graph: Graph, consumer: Consumer) -> None:
    """Makes constants of Transposes that constants decide, and merges views."""
    if consumer.block:
        name_equal_extents(graph)
    fold_constant_transposes(graph)
    stack_concats(graph)
    merge_view_chains(graph)
