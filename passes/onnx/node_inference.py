"""The types of the results of one node, once more is known of its operands than when the model was looked at."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.function_body import TensorType, constant_type, type_of
from layout_ir.frontends.onnx.shape_inference import with_defaults, would_abort
from layout_ir.frontends.onnx.stand_ins import standard_nodes
from layout_ir.passes.onnx.inferred_types import BY_TYPES_ALONE, is_of_runtime
from layout_ir.passes.onnx.model_graph import Graph, Node
from layout_ir.passes.onnx.orders import Extent
from layout_ir.passes.onnx.value_shapes import more_known, shape_of, type_with_shape, without_made_up

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


def infer_results(graph: Graph, node: Node, read: Mapping[str, NDArray[Any]]) -> list[str]:
    """Has a graph know the types of a node's results where `read` has the elements of inputs that are no constants.

    Returns the names of those of which more is known now.
    """
    elements: dict[str, NDArray[Any]] = {}
    if node.domain or node.op_type not in BY_TYPES_ALONE:
        small = {name: graph.small_constant(name) for name in node.inputs if name and name not in read}
        elements = {**read, **{name: array for name, array in small.items() if array is not None}}
    # Blocks of a network have nodes that are alike, but for the names that inference made up.
    given = [elements.get(name) for name in node.inputs]
    shapes, names = without_made_up([graph.shape(name) for name in node.inputs])
    key = (
        *(node.op_type, node.domain, len(node.inputs), len(node.outputs)),
        *map(partial(_type_key, graph), node.inputs, shapes),
        *[None if array is None else (array.dtype.str, array.shape, array.tobytes()) for array in given],
        *[attribute.SerializeToString() for attribute in node.proto.attribute],
    )
    if key not in graph.inferred:
        types = {name: graph.types[name] for name in node.inputs if name in graph.types}
        found = inferred_results(node.proto, types, elements, graph.opsets, graph.functions)
        by_place = [(found[name], shape_of(found[name])) if name in found else None for name in node.outputs]
        graph.inferred[key] = names, by_place
    named, results = graph.inferred[key]
    renamed = dict[Extent, Extent](zip(named, names, strict=True)) if named != names else {}
    known: list[str] = []
    for name, result in zip(node.outputs, results, strict=True):
        if name and result is not None:
            type, found_shape = result
            before, shape = graph.shape(name), found_shape
            if shape is not None and renamed:
                shape = tuple([renamed.get(extent, extent) for extent in shape])
            if shape is not None and before is not None:
                shape = more_known(before, shape)
            if shape is not None and shape != before:
                graph.set_known_type(
                    name, type if shape == found_shape else type_with_shape(type, shape), shape
                )
                known.append(name)
    return known


def _type_key(graph: Graph, name: str, shape: object) -> object:
    """What tells the type of a value, of this shape, from others."""
    type = graph.types.get(name)
    if type is None:
        return None
    return type.SerializeToString() if shape is None else (shape, type.tensor_type.elem_type)


def inferred_results(
    node: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
    read: Mapping[str, NDArray[Any]],
    opsets: Mapping[str, int],
    own: Container[tuple[str, str]] = (),
) -> dict[str, onnx.TypeProto]:
    """The types of the results of one node by ONNX's shape inference; none where it says nothing, where the type of an
    input is not known, or where it is not one that the node takes.

    `types` are those of its inputs, and `read` has the elements of some; `own` are the functions of the model.
    """
    if not is_of_runtime(node, own):
        return _results_of_one(node, types, read, opsets)
    import onnx.numpy_helper

    def known_type(name: str) -> TensorType:
        return (
            constant_type(onnx.numpy_helper.from_array(read[name])) if name in read else type_of(types[name])
        )

    known, found = dict(types), dict[str, onnx.TypeProto]()
    for each in standard_nodes(node, known_type) or ():
        found |= _results_of_one(each, known, read, opsets)
        known |= found
    return {name: found[name] for name in node.output if name in found}


def _results_of_one(
    node: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
    read: Mapping[str, NDArray[Any]],
    opsets: Mapping[str, int],
) -> dict[str, onnx.TypeProto]:
    """The types of the results of a node that stands for itself."""
    if any(name and name not in types for name in node.input) or would_abort(node, types):
        return {}
    import onnx.checker
    import onnx.defs
    import onnx.helper
    import onnx.numpy_helper
    import onnx.shape_inference

    failures = (onnx.defs.SchemaError, onnx.shape_inference.InferenceError, onnx.checker.ValidationError)
    try:
        schema = onnx.defs.get_schema(node.op_type, opsets.get(node.domain, 1), node.domain)
        return onnx.shape_inference.infer_node_outputs(
            schema,
            with_defaults(node),
            dict(types),
            {name: onnx.numpy_helper.from_array(array, name) for name, array in read.items()},
            opset_imports=[onnx.helper.make_opsetid(*entry) for entry in opsets.items()],
        )
    except (*failures, ValueError, RuntimeError):
        return {}
