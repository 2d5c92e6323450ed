"""Nodes without a translation, as `nn.opaque`.

The types of the results are inferred (`inference`); where that gives none, as for operators of somebody's own, they are
what the model itself says of the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from layout_ir.dialects.layout import AnyAttr
from layout_ir.dialects.nn.opaque import OpaqueOp
from layout_ir.dialects.nn.protos import attribute_of
from layout_ir.frontends.onnx.axes import normalize_axis
from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.import_error import OnnxImportError, UnknownTypeError, quoted
from layout_ir.frontends.onnx.inference import Types, output_types
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.signature import check_flags
from layout_ir.frontends.onnx.subgraphs import nodes_within
from layout_ir.frontends.onnx.tensor_protos import check_shape, numpy_type
from layout_ir.frontends.onnx.translation import Builder
from layout_ir.frontends.onnx.values import Value, element_of, has_known_types, shape_of

if TYPE_CHECKING:
    import onnx


def opaque(
    builder: Builder, node: Node, captures: Mapping[str, Value], stated: Types
) -> list[SSAValue | None]:
    """The outputs of the `nn.opaque` that stands for a node, None for one that is left out.

    `captures` has the outer values that subgraphs use, `stated` the types that the model says of its values. Raises
    OnnxImportError where an output has no type of static shape, or the node is not valid.
    """
    check_flags(node)
    _check_axes(node)
    opsets = _opsets_of(node)
    inputs = [None if value is None else builder.operand(value) for value in node.given]
    outer = {name: builder.operand(value) for name, value in captures.items()}
    types = output_types(node, captures, opsets)
    outputs: list[TensorType[Attribute] | None] = []
    for number, name in enumerate(node.proto.output):
        title = f"output {number} {quoted(name)}"
        outputs.append(_tensor_type([types.get(name), stated.get(name)], title) if name else None)
    while outputs and outputs[-1] is None:
        outputs.pop()
    attributes = {attribute.name: attribute_of(attribute) for attribute in node.proto.attribute}
    while inputs and inputs[-1] is None:
        inputs.pop()
    op = OpaqueOp.of_node(node.op_type, node.domain, opsets, inputs, outer, attributes, outputs)
    builder.emit(op)
    results = iter(op.results)
    return [None if type is None else next(results) for type in outputs]


_WITH_AXIS = frozenset(("GatherElements", "LpNormalization", "Scatter", "ScatterElements", "TensorScatter"))
"""Ops with an axis of their first input that is not held to its rank where ONNX infers types."""


def _check_axes(node: Node) -> None:
    """Raises OnnxImportError where an axis of a node of the ONNX standard names no dim of its first input."""
    first = node.given[0] if node.given and not node.domain else None
    if first is None or not has_known_types([first]):
        return
    rank = len(shape_of(first))
    if node.op_type in _WITH_AXIS and node.has("axis"):
        normalize_axis(node.get("axis", 0), rank)
    elif node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        scale = node.given[1] if len(node.given) > 1 else None
        if scale is not None and has_known_types([scale]) and prod(shape_of(scale)) != 1:
            normalize_axis(node.get("axis", 1), rank)  # of one scale no axis is asked
    elif node.op_type == "ReverseSequence":
        axes = node.get("batch_axis", 1), node.get("time_axis", 0)
        if sorted(axes) != [0, 1]:
            raise OnnxImportError(
                f"batch_axis = {axes[0]} and time_axis = {axes[1]}, expected 0 and 1, or 1 and 0"
            )


# --- types ----------------------------------------------------------------------------------------------------


def _tensor_type(types: Sequence[onnx.TypeProto | None], title: str) -> TensorType[Attribute]:
    """The tensor type that the first of `types` which says all says. Raises OnnxImportError where none does."""
    problem = ""
    for type in types:
        kind = None if type is None else type.WhichOneof("value")
        if type is None or kind is None:
            continue
        if kind != "tensor_type":
            word = kind.removesuffix("_type")
            raise UnknownTypeError(f"{title} is no tensor but {word}; only tensors are supported")
        tensor = type.tensor_type
        if not tensor.elem_type:
            continue
        dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        known = [extent for extent in dims if extent is not None and extent >= 0]
        if tensor.HasField("shape") and len(known) == len(dims):
            dtype = numpy_type(tensor.elem_type, title)
            return TensorType(element_of(dtype, title), check_shape(known, dtype, title), AnyAttr())
        shape = ", ".join("?" if extent is None else str(extent) for extent in dims)
        shape = f" ({shape})" if tensor.HasField("shape") else ""
        problem = problem or f"its shape{shape} is only known at run time"
    problem = problem or "ONNX's shape inference gives no type, and the model says none"
    raise UnknownTypeError(f"{title} has no static type: {problem}")


def _opsets_of(node: Node) -> dict[str, int]:
    """Versions of the operators that the node and its subgraphs use, its own domain first.

    Raises OnnxImportError where the model says none for a domain.
    """
    opsets = {node.domain: node.opset}
    for inner in nodes_within(node.proto):
        domain = domain_of(inner.domain)
        opsets[domain] = node.opset_of(domain)
    for domain, version in opsets.items():
        if not version:
            raise OnnxImportError(
                f"the model does not say which version of the operators of {domain} it uses"
            )
    return opsets
