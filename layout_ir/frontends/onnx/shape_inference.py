"""ONNX's shape inference, but for what it gets wrong.

An STFT that does not say `onesided` is one-sided, by its definition, and for inference two-sided (onnx 1.22 and 1.23):
every shape behind it would be wrong. So the default is stated before inference looks at the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.frontends.onnx.subgraphs import nodes_within

if TYPE_CHECKING:
    import onnx

_WITH_SUBGRAPHS = frozenset(("If", "Loop", "Scan", "SequenceMap"))


def infer_shapes(model: onnx.ModelProto, *, strict: bool = False) -> onnx.ModelProto:
    """A copy of `model` with the types of all values that inference finds.

    Raises what ONNX raises for types that contradict each other, and with `strict` for nodes that do not fit their
    operators: InferenceError, ValueError or RuntimeError. And OnnxImportError where functions of the model are not in
    order: one that calls itself, or two of one name.
    """
    import onnx.checker
    import onnx.shape_inference

    # One look at the operator of each node, of which a model may have many.
    operators = {node.op_type for node in model.graph.node}
    nested = not _WITH_SUBGRAPHS.isdisjoint(operators)
    if ("STFT" in operators or nested) and any(map(_lacks_default, _nodes(model.graph))):
        given, model = model, type(model)()
        model.CopyFrom(given)
        for node in filter(_lacks_default, _nodes(model.graph)):
            node.CopyFrom(with_defaults(node))
    try:
        return onnx.shape_inference.infer_shapes(model, strict_mode=strict, data_prop=True)
    except onnx.checker.ValidationError as error:
        raise OnnxImportError(f"the model is not valid: {error}") from error


def with_defaults(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node, or a copy whose attributes state the defaults that inference takes for something else."""
    if not _lacks_default(node):
        return node
    stated = type(node)()
    stated.CopyFrom(node)
    stated.attribute.add(name="onesided", type=2, i=1)  # AttributeProto.INT
    return stated


def _lacks_default(node: onnx.NodeProto) -> bool:
    return node.op_type == "STFT" and not any(each.name == "onesided" for each in node.attribute)


def _nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    found = list(graph.node)
    for node in graph.node:
        if node.op_type in _WITH_SUBGRAPHS:
            found += nodes_within(node)
    return found
