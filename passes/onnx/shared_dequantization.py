"""A DequantizeLinear for each node that uses its floats, so that each may take them in another order of dims.

A Transpose of the floats moves four times what one of the integers does. A node gives its result in one order only, so
that is where it would be, unless each user has a DequantizeLinear of its own, as it has in ONNX Runtime. Those that
come out on the same integers become one again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import domain_of, fresh_name
from layout_ir.frontends.onnx.subgraphs import captured_names, replace_nodes
from layout_ir.passes.onnx.names_in_use import names_of

if TYPE_CHECKING:
    import onnx


def split_dequantizations(graph: onnx.GraphProto) -> frozenset[str]:
    """Gives each user of the floats of integers that nodes compute a DequantizeLinear of its own, in place; returns the
    names of the nodes that were added."""
    made = {name for node in graph.node for name in node.output}
    kept = {value.name for value in graph.output}
    users: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in dict.fromkeys(node.input):
            users.setdefault(name, []).append(node)
        kept.update(captured_names(node) if node.attribute else ())
    inputs = {value.name for value in graph.input}
    taken: set[str] = set()
    added: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        if not _is_dequantization(node) or node.input[0] not in made | inputs:
            continue
        result = node.output[0]
        others = users.get(result, []) if result in kept else users.get(result, [])[1:]
        taken = taken or names_of(graph)
        for user in others:
            copy = type(node)()
            copy.CopyFrom(node)
            copy.output[0] = copy.name = fresh_name(f"{result}_again", taken)
            for k, name in enumerate(user.input):
                if name == result:
                    user.input[k] = copy.output[0]
            added.setdefault(result, []).append(copy)
    if added:
        written = [
            each
            for node in graph.node
            for each in (node, *added.get(node.output[0] if node.output else "", ()))
        ]
        replace_nodes(graph, written)
    return frozenset(copy.name for copies in added.values() for copy in copies)


def merge_dequantizations(graph: onnx.GraphProto, added: frozenset[str]) -> None:
    """Takes nodes of these names out of a graph, in place, where others in front of them do the same."""
    known: dict[tuple[object, ...], str] = {}
    others: dict[str, str] = {}
    results = {value.name for value in graph.output}
    for node in graph.node:
        if not _is_dequantization(node):
            continue
        key = node.domain, *node.input, *(each.SerializeToString() for each in node.attribute)
        first = known.setdefault(key, node.output[0])
        if first != node.output[0] and node.name in added and node.output[0] not in results:
            others[node.output[0]] = first
    if not others:
        return
    for node in graph.node:
        for k, name in enumerate(node.input):
            if name in others:
                node.input[k] = others[name]
    replace_nodes(graph, [node for node in graph.node if not node.output or node.output[0] not in others])
    for number in reversed(range(len(graph.value_info))):
        if graph.value_info[number].name in others:
            del graph.value_info[number]


def _is_dequantization(node: onnx.NodeProto) -> bool:
    is_meant = node.op_type == "DequantizeLinear" and domain_of(node.domain) in ("", "com.microsoft")
    return is_meant and bool(node.input and node.output)
