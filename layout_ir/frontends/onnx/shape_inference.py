"""ONNX's shape inference, but for what it gets wrong.

An STFT that does not say `onesided` is one-sided, by its definition, and for inference two-sided (onnx 1.22 and 1.23):
every shape behind it would be wrong. So the default is stated before inference looks at the node.

Subgraphs may use a name for a value each, as the branches of a decoder with and without a cache do. Inference keeps the
elements of small integers by name for all of the model, and fails where a name has them twice. So for inference each
value has a name of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.frontends.onnx.subgraphs import (
    graphs_of,
    graphs_within,
    nodes_within,
    own_names,
    rename_values,
)

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
    before: dict[str, str] = {}
    if nested and (own := _names_twice(model.graph)):
        given, model = model, type(model)()
        model.CopyFrom(given)
        before = _distinguish(model.graph, own)
    try:
        found = onnx.shape_inference.infer_shapes(model, strict_mode=strict, data_prop=True)
        if before:
            rename_values(found.graph, before)
        return found
    except onnx.checker.ValidationError as error:
        raise OnnxImportError(f"the model is not valid: {error}") from error


def _names_twice(graph: onnx.GraphProto) -> set[str]:
    """The names that several graphs have for values of theirs."""
    once, twice = set[str](), set[str]()
    for inner in graphs_within(graph):
        names = own_names(inner)
        twice |= once & names
        once |= names
    return twice


def _distinguish(graph: onnx.GraphProto, names: set[str]) -> dict[str, str]:
    """Gives the values of subgraphs that have one of `names` names of their own, in place.

    Returns the names that they had, by those that they have.
    """
    before: dict[str, str] = {}
    taken = {name for inner in graphs_within(graph) for name in own_names(inner)}

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
