"""The graphs of a model with the types that are inferred, and the graph of one that was written in place of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.subgraphs import graphs_of
from layout_ir.passes.onnx.counted_extents import agreed_extents
from layout_ir.passes.onnx.inferred_types import TypeInference, inferred_types
from layout_ir.passes.onnx.model_constants import PendingTensor
from layout_ir.passes.onnx.model_graph import Graph, Node
from layout_ir.passes.onnx.names_in_use import names_of, overridable_names
from layout_ir.passes.onnx.orders import Order, without_units

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


def graphs_of_model(
    model: onnx.ModelProto,
    folder: Path | None,
    shapes: Mapping[str, Sequence[int]],
    pending: dict[str, PendingTensor],
    known: Mapping[str, NDArray[Any]] | None = None,
    stated: Mapping[str, onnx.TypeProto] | None = None,
    inference: TypeInference | None = None,
    inner: Sequence[Mapping[str, NDArray[Any]]] = (),
) -> list[Graph]:
    """The graph of a model and all subgraphs of its nodes, those of one depth before those within them.

    `folder` is that of the model's file, for external data; `shapes` fixes shapes of inputs; `pending` has the tensors
    that are not in the order they are stored in, and takes more of them; `known` has what constants decide, `inner`
    what they decide in each subgraph, and `stated` types that shape inference does not find. `inference` is one of the
    model without `shapes`, if any.
    """
    opsets = {domain_of(entry.domain): entry.version for entry in model.opset_import}
    overridable = overridable_names(model)
    functions = frozenset((domain_of(f.domain), f.name) for f in model.functions)
    tables = (inference or TypeInference(model, overridable, {}, stated or {})).types(known or {}, inner)
    sized = inferred_types(model, overridable, shapes, known or {}, stated or {}, inner) if shapes else tables
    is_alone = len(tables) == 1
    taken = None if is_alone else names_of(model.graph)
    graphs = [
        Graph(
            model.graph, opsets, folder, tables[0], overridable=overridable, taken=taken, is_alone=is_alone,
            sizes=sized[0], functions=functions, claimed=tables[0].claimed,
        )
    ]  # fmt: skip
    graphs[0].pending = pending
    graphs[0].agreed = agreed_extents(graphs[0])
    waiting = [] if is_alone else [graphs[0]]
    while waiting:
        outer = waiting.pop(0)
        for node in outer.proto.node:
            for graph in graphs_of(node) if node.attribute else ():
                k = len(graphs)
                types = {**outer.types, **tables[k]}
                sizes = types if sized is tables else {**outer.sizes, **sized[k]}
                graphs.append(
                    Graph(
                        graph,
                        opsets,
                        folder,
                        types,
                        outer=outer,
                        taken=taken,
                        sizes=sizes,
                        functions=functions,
                        claimed=tables[k].claimed,
                    )
                )
                waiting.append(graphs[-1])
    return graphs


def rewritten_graph(
    model: onnx.ModelProto,
    before: Graph,
    places: Mapping[str, tuple[str, Order]],
    origins: Sequence[Node | None] = (),
    squeezed: Mapping[str, tuple[str, Order]] | None = None,
) -> Graph:
    """The graph of a model that was written in place of `before`, with the types of its values.

    By name of a value, `places` says which value of the graph before it is, and in which order of its dims, `squeezed`
    the same of values that lack its dims of one element; `origins` has the node that each node is as it was, on the
    same tensors, if there is one; none is known where it is empty.
    """
    graph = Graph(
        model.graph,
        {domain_of(entry.domain): entry.version for entry in model.opset_import},
        before.folder,
        {},
        overridable=overridable_names(model),
        taken=before.taken,
        is_alone=before.is_alone,
        functions=before.functions,
        claimed=frozenset(name for name, (root, _) in places.items() if root in before.claimed),
    )
    graph.pending, graph.agreed, graph.counted = before.pending, before.agreed, before.counted
    graph.set_places(before, places)
    for name, (root, order) in (squeezed or {}).items():
        shape = before.shape(root)
        if shape is not None:
            bare = tuple([shape[d] for d in without_units(order, shape)])
            graph.set_type(name, bare, before.element_type(root))
    graph.nodes_of_model = [
        Node(proto, graph) if origin is None else origin.kept_as(proto, graph)
        for proto, origin in zip(model.graph.node, origins or [None] * len(model.graph.node), strict=True)
    ]
    return graph
