"""The types of the results of one node, once more is known of its operands than when the model was looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from layout_ir.passes.onnx.inferred_types import BY_TYPES_ALONE, inferred_results
from layout_ir.passes.onnx.model_graph import Graph, Node
from layout_ir.passes.onnx.value_shapes import more_known, shape_of, type_with_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray


def infer_results(graph: Graph, node: Node, read: Mapping[str, NDArray[Any]]) -> list[str]:
    """Has a graph know the types of a node's results where `read` has the elements of inputs that are no constants.

    Returns the names of those of which more is known now.
    """
    elements: dict[str, NDArray[Any]] = {}
    if node.domain or node.op_type not in BY_TYPES_ALONE:
        small = {name: graph.small_constant(name) for name in node.inputs if name and name not in read}
        elements = {**read, **{name: array for name, array in small.items() if array is not None}}
    # Blocks of a network have nodes that are alike.
    given = [elements.get(name) for name in node.inputs]
    key = (
        *(node.op_type, node.domain, len(node.inputs), len(node.outputs)),
        *[_type_key(graph, name) for name in node.inputs],
        *[None if array is None else (array.dtype.str, array.shape, array.tobytes()) for array in given],
        *[attribute.SerializeToString() for attribute in node.proto.attribute],
    )
    results = graph.inferred.get(key)
    if results is None:
        types = {name: graph.types[name] for name in node.inputs if name in graph.types}
        found = inferred_results(node.proto, types, elements, graph.opsets, graph.functions)
        by_place = [(found[name], shape_of(found[name])) if name in found else None for name in node.outputs]
        results = graph.inferred[key] = by_place
    known: list[str] = []
    for name, result in zip(node.outputs, results, strict=True):
        if name and result is not None:
            type, found_shape = result
            before, shape = graph.shape(name), found_shape
            if shape is not None and before is not None:
                shape = more_known(before, shape)
            if shape is not None and shape != before:
                graph.set_known_type(
                    name, type if shape == found_shape else type_with_shape(type, shape), shape
                )
                known.append(name)
    return known


def _type_key(graph: Graph, name: str) -> object:
    """What tells the type of a value from others."""
    type = graph.types.get(name)
    if type is None:
        return None
    shape = graph.shape(name)
    return type.SerializeToString() if shape is None else (shape, type.tensor_type.elem_type)
