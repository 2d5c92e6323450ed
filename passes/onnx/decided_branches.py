"""The branches that constants and shapes decide on, as nodes of the graph in the place of their If.

Exporters write an If where the shape of an input decides. A subgraph takes and gives its values in the orders of the
model, so that Transposes on both sides of its border stay. A branch that no input changes has no such border, and a
runtime does not enter the other one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.functions import Call, domain_of, fresh_name, node_title
from layout_ir.frontends.onnx.subgraphs import graphs_by_depth, graphs_within, own_names, replace_nodes
from layout_ir.frontends.onnx.taken_branches import TakenBranch, taken_branch
from layout_ir.passes.onnx.constant_folding import decided_conditions
from layout_ir.passes.onnx.model_constants import PendingTensor
from layout_ir.passes.onnx.model_graph import Graph
from layout_ir.passes.onnx.names_in_use import drop_constants, drop_unused, names_of, unused_constants
from layout_ir.passes.onnx.typed_graphs import TypedModel, typed_graphs

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


@dataclass
class DecidedBranches:
    """A model with the nodes of decided branches in its graph, and what was found of types."""

    model: onnx.ModelProto | None = None
    """A copy; None where no branch is decided."""
    before: TypedModel | None = None
    """The graphs of the model that came in; None where it has no branches."""
    _folder: Path | None = None
    _pending: dict[str, PendingTensor] = field(default_factory=dict[str, PendingTensor])
    _idle: frozenset[str] = frozenset()
    """The constants that nothing used as the model came in."""

    def follow(self) -> tuple[onnx.ModelProto | None, TypedModel | None]:
        """Writes those branches into the model, too, that are decided once others are written.

        Returns the model, None where one of them cannot be written, and its graphs, None where it has no branches any
        more.
        """
        while self.model is not None and _has_branches(self.model):
            typed = _typed(self.model, self._folder, self._pending)
            conditions = _conditions(typed.graphs)
            if conditions is None:
                return self.model, typed
            for graph in typed.graphs:
                graph.release()
            self.write(self.model, conditions)
        return self.model, None

    def write(self, model: onnx.ModelProto, conditions: Sequence[Mapping[str, bool]]) -> None:
        """Puts the nodes of branches that `conditions` decide, graph by graph, into the model, a copy."""
        self.model = model
        # What is in a branch is written before the branch is put into the graph around it.
        for graph, known in zip(reversed(graphs_by_depth(model.graph)), reversed(conditions), strict=True):
            decided = _decided(graph, known)
            if not decided:
                continue
            read = dict.fromkeys(_condition(graph.node[number]) for number in decided)
            try:
                _write_branches(model, graph, decided, known)
            except LayoutError:
                self.model = None  # what is wrong with the node is not for us to say
                return
            drop_unused(graph, read)
        # A condition may come from around the graph that it decides in.
        drop_constants(model.graph, unused_constants(model.graph) - self._idle)


def with_decided_branches(
    model: onnx.ModelProto, folder: Path | None, pending: dict[str, PendingTensor]
) -> DecidedBranches:
    """The model with the nodes of branches that are decided in the place of their Ifs; not yet those that are once
    these are written (`DecidedBranches.follow`), which takes to find all types anew.

    What inputs without a fixed extent would decide stays undecided, whatever shapes the Transposes are weighed for.
    """
    if not _has_branches(model):
        return DecidedBranches()
    before = _typed(model, folder, pending)
    conditions = _conditions(before.graphs)
    if conditions is None:
        return DecidedBranches(None, before)
    found = DecidedBranches(None, before, folder, pending, frozenset(unused_constants(model.graph)))
    copy = type(model)()
    copy.CopyFrom(model)
    found.write(copy, conditions)
    return found


def _has_branches(model: onnx.ModelProto) -> bool:
    return any(node.op_type == "If" for graph in graphs_within(model.graph) for node in graph.node)


def _typed(model: onnx.ModelProto, folder: Path | None, pending: dict[str, PendingTensor]) -> TypedModel:
    integers: dict[str, NDArray[Any]] = {}
    return TypedModel(typed_graphs(model, folder, {}, pending, {}, integers), integers)


def _conditions(graphs: Sequence[Graph]) -> list[dict[str, bool]] | None:
    """The conditions that are decided in each of the graphs of a model, by name; None where no branch is."""
    conditions: list[dict[str, bool]] = []
    for graph in graphs:  # those around one come before it
        around = {} if graph.outer is None else conditions[graphs.index(graph.outer)]
        own = own_names(graph.proto)
        outer = {name: condition for name, condition in around.items() if name not in own}
        conditions.append({**outer, **decided_conditions(graph)})
    is_any = any(_decided(graph.proto, known) for graph, known in zip(graphs, conditions, strict=True))
    return conditions if is_any else None


def _decided(graph: onnx.GraphProto, conditions: Mapping[str, bool]) -> list[int]:
    """The numbers of the nodes whose branch the `conditions` decide."""
    return [number for number, node in enumerate(graph.node) if _condition(node) in conditions]


def _condition(node: onnx.NodeProto) -> str:
    return node.input[0] if node.op_type == "If" and not domain_of(node.domain) and node.input else ""


def _write_branches(
    model: onnx.ModelProto, graph: onnx.GraphProto, decided: Sequence[int], conditions: Mapping[str, bool]
) -> None:
    """Puts the nodes of a branch in the place of each of these Ifs of a graph of the model. Raises LayoutError where
    one has no such branch."""
    given = list(graph.node)
    replace_nodes(graph, (node for number, node in enumerate(given) if number not in decided))
    taken = names_of(model.graph) | {name for number in decided for name in given[number].output}
    nodes: list[onnx.NodeProto] = []
    for number, node in enumerate(given):
        if number not in decided:
            nodes.append(node)
            continue
        call = Call(node, node_title(node, number), {})
        branch = taken_branch(call, conditions[_condition(node)], taken)
        nodes += _named_apart(branch, taken)
        graph.initializer.extend(branch.graph.initializer)
        graph.sparse_initializer.extend(branch.graph.sparse_initializer)
        known = {value.name for value in (*graph.value_info, *graph.output)}
        graph.value_info.extend(value for value in branch.graph.value_info if value.name not in known)
        # What a branch says of its results may be all that is known of their extents.
        for value, name in zip(branch.graph.output, node.output, strict=False):
            if name and name not in known:
                said = graph.value_info.add()
                said.CopyFrom(value)
                said.name = name
    replace_nodes(graph, nodes)


def _named_apart(branch: TakenBranch, taken: set[str]) -> list[onnx.NodeProto]:
    """The nodes of a branch, whose names are those of no other node."""
    nodes = [call.proto for call in branch.calls]
    for node in nodes:
        if node.name:
            node.name = fresh_name(node.name, taken)
    return nodes
