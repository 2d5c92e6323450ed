"""Models of opsets 7 and 8, the oldest that ONNX Runtime takes, as models of opset 9.

Opset 9 turned the scales of Upsample into an input, took from BatchNormalization the attribute `spatial`, of which the
other value has gone from all runtimes, and from Scan the batch. All else that opset 7 has means the same in opset 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import domain_of, fresh_name
from layout_ir.frontends.onnx.import_error import OnnxImportError, quoted
from layout_ir.frontends.onnx.subgraphs import graphs_within, names_defined, replace_nodes

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
    taken = names_defined(result.graph)
    for graph in graphs_within(result.graph):  # a Scan gets another graph around its body, which comes first
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            nodes += _renewed_node(node, taken) if domain_of(node.domain) == "" else [node]
        replace_nodes(graph, nodes)
    for entry in result.opset_import:
        if domain_of(entry.domain) == "":
            entry.version = OPSET
    return result


def _renewed_node(node: onnx.NodeProto, taken: set[str]) -> list[onnx.NodeProto]:
    import onnx.helper

    title = f"node {quoted(node.name or next(iter(node.output), ''))} ({node.op_type})"
    given = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Scan":
        if node.input and node.input[0]:
            raise OnnxImportError(
                f"{title} is the Scan of opset 8 with sequence lengths, supported is one without"
            )
        return [_scan_of_batch(node, given, taken)]
    if node.op_type == "BatchNormalization" and "spatial" in given:
        if given["spatial"].i != 1:
            raise OnnxImportError(f"{title} has spatial = {given['spatial'].i}, supported is 1")
        node.attribute.remove(given["spatial"])
    if node.op_type == "Upsample" and "scales" in given:
        name = fresh_name(f"{node.output[0]}_scales", taken)
        scales = list(given["scales"].floats)
        tensor = onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [len(scales)], scales)
        node.attribute.remove(given["scales"])
        node.input.append(name)
        return [onnx.helper.make_node("Constant", [], [name], value=tensor), node]
    return [node]


def _scan_of_batch(
    node: onnx.NodeProto, given: dict[str, onnx.AttributeProto], taken: set[str]
) -> onnx.NodeProto:
    """A Scan of opset 8, whose states and sequences begin with the batch, as a Scan over the batch with that over a
    sequence inside."""
    import onnx.helper

    body, sequences = given["body"].g, given["num_scan_inputs"].i
    inner = onnx.helper.make_node("Scan", [], [], node.name, body=body, num_scan_inputs=sequences)
    if "directions" in given:
        inner.attribute.append(
            onnx.helper.make_attribute("scan_input_directions", list(given["directions"].ints))
        )
    states = len(body.input) - sequences
    around = onnx.GraphProto(name=fresh_name(f"{body.name}_of_batch", taken))
    for sides, values, names in (
        (around.input, body.input, inner.input),
        (around.output, body.output, inner.output),
    ):
        for number, value in enumerate(values):
            one = sides.add()
            one.CopyFrom(value)
            one.name = fresh_name(f"{value.name}_of_one", taken)
            names.append(one.name)
            if number >= states and one.type.tensor_type.HasField("shape"):
                shape = one.type.tensor_type.shape
                extents = [onnx.TensorShapeProto.Dimension(), *shape.dim]  # the length of the sequence first
                shape.CopyFrom(onnx.TensorShapeProto(dim=extents))
    around.node.append(inner)
    return onnx.helper.make_node(
        "Scan", node.input[1:], node.output, node.name, body=around, num_scan_inputs=len(body.input)
    )
