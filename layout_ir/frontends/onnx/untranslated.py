"""Nodes without a translation, as `nn.opaque`, and back.

The types of the results are inferred (`inference`); where that gives none, as for operators of somebody's own, they are
what the model itself says of the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from layout_ir.dialects.layout import AnyAttr
from layout_ir.dialects.nn.opaque import OpaqueOp, ProtoAttr
from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.import_error import OnnxImportError, quoted
from layout_ir.frontends.onnx.inference import Types, output_types
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.subgraphs import nodes_within
from layout_ir.frontends.onnx.tensor_protos import check_shape, numpy_type
from layout_ir.frontends.onnx.translation import Builder
from layout_ir.frontends.onnx.values import Value, element_of

if TYPE_CHECKING:
    import onnx


def opaque(
    builder: Builder, node: Node, captures: Mapping[str, Value], functions: Iterable[str], stated: Types
) -> list[SSAValue | None]:
    """The outputs of the `nn.opaque` that stands for a node, None for one that is left out.

    `captures` has the outer values that subgraphs use, `functions` the functions of the model ("domain.name"), `stated`
    the types that the model says of its values. Raises OnnxImportError where an output has no type of static shape, or
    the node is not valid.
    """
    opsets = _opsets_of(node, set(functions))
    inputs = [None if value is None else builder.operand(value) for value in node.given]
    outer = {name: builder.operand(value) for name, value in captures.items()}
    types = output_types(node, captures, opsets)
    outputs: list[TensorType[Attribute] | None] = []
    for number, name in enumerate(node.proto.output):
        title = f"output {number} {quoted(name)}"
        outputs.append(_tensor_type([types.get(name), stated.get(name)], title) if name else None)
    while outputs and outputs[-1] is None:
        outputs.pop()
    attributes = {attribute.name: _attribute_of(attribute) for attribute in node.proto.attribute}
    while inputs and inputs[-1] is None:
        inputs.pop()
    op = OpaqueOp.of_node(node.op_type, node.domain, opsets, inputs, outer, attributes, outputs)
    builder.emit(op)
    results = iter(op.results)
    return [None if type is None else next(results) for type in outputs]


def node_of(op: OpaqueOp, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    """The node that `op` stands for, with names for the operands that are no captures, and for the results."""
    import onnx

    given, made = iter(inputs), iter(outputs)
    node = onnx.NodeProto(op_type=op.op_type.data, domain=op.domain.data or None)
    node.input.extend(next(given) if there else "" for there in op.given_inputs)
    node.output.extend(next(made) if there else "" for there in op.given_outputs)
    node.attribute.extend(_proto_of(name, value) for name, value in op.node_attributes.data.items())
    return node


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
            raise OnnxImportError(f"{title} is no tensor but {word}; only tensors are supported")
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
    raise OnnxImportError(f"{title} has no static type: {problem}")


def _opsets_of(node: Node, functions: set[str]) -> dict[str, int]:
    """Versions of the operators that the node and its subgraphs use, its own domain first.

    Raises OnnxImportError where a subgraph calls a function of the model.
    """
    opsets = {node.domain: node.opset}
    for inner in nodes_within(node.proto):
        domain = domain_of(inner.domain)
        if f"{domain}.{inner.op_type}" in functions:
            raise OnnxImportError(
                f"its subgraph calls {quoted(inner.op_type)}, a function of the model, which is supported outside of "
                "subgraphs only"
            )
        opsets[domain] = node.opset_of(domain)
    for domain, version in opsets.items():
        if not version:
            raise OnnxImportError(
                f"the model does not say which version of the operators of {domain} it uses"
            )
    return opsets


# --- attributes -----------------------------------------------------------------------------------------------


def _attribute_of(proto: onnx.AttributeProto) -> Attribute:
    """An attribute of a node in the IR: numbers, texts and lists of them as such, all others as a `ProtoAttr`."""
    import onnx
    from google.protobuf import text_format

    kinds = onnx.AttributeProto
    simple: Attribute | None = None
    match proto.type:
        case kinds.INT:
            simple = IntegerAttr(proto.i, i64)
        case kinds.FLOAT if isfinite(proto.f):
            simple = FloatAttr(proto.f, f32)
        case kinds.STRING:
            simple = StringAttr(proto.s.decode("utf-8", "replace"))
        case kinds.INTS:
            simple = DenseArrayBase.from_list(i64, list(proto.ints))
        case kinds.FLOATS if all(map(isfinite, proto.floats)):
            simple = DenseArrayBase.from_list(f32, list(proto.floats))
        case kinds.STRINGS:
            simple = ArrayAttr(StringAttr(text.decode("utf-8", "replace")) for text in proto.strings)
        case _:
            pass
    # Text may be no UTF-8, and the field of another type may be set: what would not come back the same stays a proto.
    if simple is not None and _proto_of(proto.name, simple) == proto:
        return simple
    return ProtoAttr(StringAttr(text_format.MessageToString(proto, as_one_line=True, as_utf8=False)))


def _proto_of(name: str, value: Attribute) -> onnx.AttributeProto:
    """The inverse of `_attribute_of`."""
    import onnx
    from google.protobuf import text_format

    kinds = onnx.AttributeProto
    proto = onnx.AttributeProto(name=name)
    match value:
        case IntegerAttr():
            proto.type, proto.i = kinds.INT, value.value.data
        case FloatAttr():
            proto.type, proto.f = kinds.FLOAT, value.value.data
        case StringAttr():
            proto.type, proto.s = kinds.STRING, value.data.encode()
        case ProtoAttr():
            proto.Clear()
            text_format.Parse(value.text.data, proto)
        case DenseArrayBase():
            array = cast("DenseArrayBase[Any]", value)
            if array.elt_type == i64:
                proto.type = kinds.INTS
                proto.ints.extend(array.get_values())
            else:
                proto.type = kinds.FLOATS
                proto.floats.extend(array.get_values())
        case ArrayAttr():
            proto.type = kinds.STRINGS
            proto.strings.extend(text.data.encode() for text in cast("ArrayAttr[StringAttr]", value).data)
        case _:
            raise OnnxImportError(f"attribute {name} = {value} is none that a node of ONNX can have")
    return proto
