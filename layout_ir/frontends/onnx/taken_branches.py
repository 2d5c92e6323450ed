"""The branch that an If with a known condition takes, as nodes in the place of the If."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import Call, fresh_name, node_title
from layout_ir.frontends.onnx.import_error import OnnxImportError, quoted
from layout_ir.frontends.onnx.subgraphs import graphs_of, names_defined, rename_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx


@dataclass(frozen=True)
class TakenBranch:
    """The nodes of a branch, whose results have the names of those of the If."""

    name: str
    """The attribute that it is."""
    calls: Sequence[Call]
    graph: onnx.GraphProto
    """The branch, which has its initializers and what is said of the types of its values, by their new names."""


def taken_branch(call: Call, condition: bool, taken: set[str]) -> TakenBranch:
    """The branch of an If. Its own values keep their names but for those that are `taken`, and take theirs.

    A node that gives a result of the branch gives that of the If, where it can; else an Identity passes it on.

    Raises OnnxImportError where the branch is missing or has another number of results.
    """
    import onnx
    import onnx.helper

    proto = call.proto
    branch = "then_branch" if condition else "else_branch"
    graphs = [attribute.g for attribute in proto.attribute if attribute.name == branch]
    if len(graphs) != 1 or len(graphs[0].output) != len(proto.output):
        raise OnnxImportError(f"{call.title}: has no {branch} with {len(proto.output)} results")
    graph = onnx.GraphProto()
    graph.CopyFrom(graphs[0])
    made = {name for node in graph.node for name in node.output if name}
    within = {name for node in graph.node for inner in graphs_of(node) for name in names_defined(inner)}
    names: dict[str, str] = {}
    passed: list[onnx.NodeProto] = []
    for value, result in zip(graph.output, proto.output, strict=True):
        if value.name in made and value.name not in names and result and result not in within:
            names[value.name] = result
        elif result:
            passed.append(onnx.helper.make_node("Identity", [value.name], [result]))
    tensors = (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
    for name in dict.fromkeys(
        [*(tensor.name for tensor in tensors), *(n for node in graph.node for n in node.output)]
    ):
        if name and name not in names:
            names[name] = fresh_name(name, taken)
    rename_values(graph, names)
    calls = [
        Call(node, f"{call.title}: {node_title(node, number)} of its {branch}", call.opsets)
        for number, node in enumerate(graph.node)
    ]
    for node in passed:
        node.input[0] = names.get(node.input[0], node.input[0])
        title = f"{call.title}: result {quoted(node.output[0])} of its {branch}"
        calls.append(Call(node, title, call.opsets))
    return TakenBranch(branch, calls, graph)
