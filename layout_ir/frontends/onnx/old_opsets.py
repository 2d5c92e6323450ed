"""Models of opsets 7 and 8, the oldest that ONNX Runtime takes, as models of opset 9.

Opset 9 turned the scales of Upsample into an input, took from BatchNormalization the attribute `spatial`, of which the
other value has gone from all runtimes, and has another Scan. All else that opset 7 has means the same in opset 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.import_error import OnnxImportError, quoted
from layout_ir.frontends.onnx.subgraphs import replace_nodes

if TYPE_CHECKING:
    import onnx

OLDEST_READ, OPSET = 7, 9
"""Versions of the operators: the oldest that are read, and those that a model of older ones is given."""


def renewed(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` itself, or a copy of opset 9 of a model of opset 7 or 8.

    Raises OnnxImportError naming a node that opset 9 has no form for.
    """
    versions = {domain_of(entry.domain): entry.version for entry in model.opset_import}
    if not OLDEST_READ <= versions.get("", OPSET) < OPSET:
        return model
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(model)
    taken = {name for graph in _graphs(result.graph) for node in graph.node for name in node.output}
    taken |= {value.name for graph in _graphs(result.graph) for value in (*graph.input, *graph.initializer)}
    for graph in _graphs(result.graph):
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            nodes += _renewed_node(node, taken) if domain_of(node.domain) == "" else [node]
        replace_nodes(graph, nodes)
    for entry in result.opset_import:
        if domain_of(entry.domain) == "":
            entry.version = OPSET
    return result


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _renewed_node(node: onnx.NodeProto, taken: set[str]) -> list[onnx.NodeProto]:
    import onnx.helper

    title = f"node {quoted(node.name or next(iter(node.output), ''))} ({node.op_type})"
    given = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Scan":
        raise OnnxImportError(f"{title} is the Scan of opset 8, supported is that of opset 9 and later")
    if node.op_type == "BatchNormalization" and "spatial" in given:
        if given["spatial"].i != 1:
            raise OnnxImportError(f"{title} has spatial = {given['spatial'].i}, supported is 1")
        node.attribute.remove(given["spatial"])
    if node.op_type == "Upsample" and "scales" in given:
        name = f"{node.output[0]}_scales"
        while name in taken:
            name += "_"
        taken.add(name)
        scales = list(given["scales"].floats)
        tensor = onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [len(scales)], scales)
        node.attribute.remove(given["scales"])
        node.input.append(name)
        return [onnx.helper.make_node("Constant", [], [name], value=tensor), node]
    return [node]
