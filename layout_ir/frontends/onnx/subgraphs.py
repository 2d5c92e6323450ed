"""The subgraphs of a node (of If, Loop, Scan), and the outer values that they use by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    import onnx

    Body = onnx.GraphProto | onnx.FunctionProto

_KINDS = frozenset((0, 5, 10))
"""Kinds of attributes that may hold graphs, as AttributeProto numbers them: not stated, GRAPH and GRAPHS."""


WITH_SUBGRAPHS = frozenset(("If", "Loop", "Scan", "SequenceMap"))
"""The operators of ONNX into whose subgraphs inference looks."""


def graphs_of(proto: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The subgraphs of a node."""
    return _graphs_in([proto])


def _graphs_in(nodes: Iterable[onnx.NodeProto]) -> list[onnx.GraphProto]:
    """The subgraphs of nodes. Attributes are many, and those of these kinds few."""
    found: list[onnx.GraphProto] = []
    for node in nodes:
        for attribute in node.attribute[:]:
            if attribute.type in _KINDS:
                found += attribute.graphs
                if attribute.HasField("g"):
                    found.append(attribute.g)
    return found


def has_subgraphs(graph: Body) -> bool:
    """Whether some node has subgraphs. It takes a look at every attribute, of which a large model has many: whoever
    goes over its nodes several times asks once."""
    return bool(_graphs_in(graph.node))


def nodes_within(proto: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes of the subgraphs of a node, at any depth."""
    return [
        inner
        for graph in graphs_of(proto)
        for node in graph.node
        for inner in (node, *(nodes_within(node) if node.attribute else ()))
    ]


def graphs_within(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and the subgraphs of its nodes, at any depth, what is inside before what is around it."""
    for inner in _graphs_in(graph.node):
        yield from graphs_within(inner)
    yield graph


def graphs_by_depth(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """A graph and the subgraphs of its nodes, those of one depth before those within them."""
    graphs = [graph]
    for found in graphs:
        graphs += _graphs_in(found.node)
    return graphs


def bodies_of(model: onnx.ModelProto) -> Iterator[Body]:
    """The graph of a model, its functions and all their subgraphs, what is inside before what is around it."""
    yield from graphs_within(model.graph)
    for function in model.functions:
        for graph in (inner for node in function.node for inner in graphs_of(node)):
            yield from graphs_within(graph)
        yield function


def is_graph(body: Body) -> TypeGuard[onnx.GraphProto]:
    """Whether a body is a graph, which has constants of its own, and not a function."""
    return body.DESCRIPTOR.name == "GraphProto"


def captured_names(proto: onnx.NodeProto) -> list[str]:
    """Names of outer values that the subgraphs of a node use, each once, in order of use."""
    graphs = graphs_of(proto)
    return list(dict.fromkeys(name for graph in graphs for name in outer_names(graph))) if graphs else []


def used_names(proto: onnx.NodeProto) -> list[str]:
    """Names of the values that a node uses, by its subgraphs among them, in order of use."""
    return [name for name in (*proto.input, *captured_names(proto)) if name]


def outer_names(graph: onnx.GraphProto) -> list[str]:
    """Names that a subgraph uses and does not define, each once, in order of use."""
    names: dict[str, None] = {}
    own = {value.name for value in (*graph.input, *graph.initializer)}
    own.update(tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        used = node.input[:]
        for inner in graphs_of(node) if node.attribute else ():
            used += outer_names(inner)
        for name in used:
            if name and name not in own:
                names[name] = None
        own.update(node.output[:])
    names.update(dict.fromkeys(value.name for value in graph.output if value.name not in own))
    return list(names)


def own_names(graph: onnx.GraphProto) -> set[str]:
    """The names of the values that a graph gives names to."""
    tensors = (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
    found = {value.name for value in (*graph.input, *tensors)}
    found.update(name for node in graph.node for name in node.output if name)
    return found


def names_defined(graph: onnx.GraphProto) -> set[str]:
    """The names of the values that a graph and its subgraphs give names to."""
    return {name for inner in graphs_within(graph) for name in own_names(inner)}


def rename_values(graph: onnx.GraphProto, names: Mapping[str, str], *, deep: bool = True) -> None:
    """Gives values other names, in place: in a graph, and with `deep` in its subgraphs."""
    for here in graphs_within(graph) if deep else (graph,):
        tensors = (*here.initializer, *(sparse.values for sparse in here.sparse_initializer))
        for value in (*here.input, *here.output, *here.value_info, *tensors):
            if value.name in names:
                value.name = names[value.name]
        for node in here.node:
            for field in (node.input, node.output):
                own = field[:]
                if not names.keys().isdisjoint(own):
                    field[:] = [names.get(name, name) for name in own]


def replace_nodes(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Puts these nodes in the place of those of a graph, some of which may be among them."""
    written = list(nodes)
    del graph.node[:]
    graph.node.extend(written)


def names_twice(graph: onnx.GraphProto) -> set[str]:
    """The names that several graphs have for values of theirs."""
    once, twice = set[str](), set[str]()
    for inner in graphs_within(graph):
        names = own_names(inner)
        twice |= once & names
        once |= names
    return twice


def distinguish_values(graph: onnx.GraphProto, names: set[str]) -> dict[str, str]:
    """Gives the values of subgraphs that have one of `names` names of their own, in place.

    Returns the names that they had, by those that they have.
    """
    before: dict[str, str] = {}
    taken = names_defined(graph)

    def fresh(name: str) -> str:
        number = len(before)
        while f"{name}_{number}" in taken:
            number += 1
        found = f"{name}_{number}"
        taken.add(found)
        before[found] = name
        return found

    waiting: list[tuple[onnx.GraphProto, dict[str, str]]] = [(graph, {})]
    for here, scope in waiting:
        for node in here.node:
            for inner in graphs_of(node) if node.attribute else ():
                own = {name: fresh(name) for name in sorted(own_names(inner) & names)}
                waiting.append((inner, {**scope, **own}))
        rename_values(here, scope, deep=False)
    return before
