"""What of an ONNX file is kept as it is: the node behind an `nn.opaque`, and what a model says about itself.

Numbers and texts become attributes of the IR, all else the text format of protobuf (`ProtoAttr`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f32,
    i64,
)
from xdsl.ir import Attribute

from layout_ir.dialects.nn.opaque import OpaqueOp, ProtoAttr
from layout_ir.errors import LayoutError

if TYPE_CHECKING:
    import onnx


def node_of(op: OpaqueOp, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    """The node that `op` stands for, with names for the operands that are no captures, and for the results."""
    import onnx

    given, made = iter(inputs), iter(outputs)
    node = onnx.NodeProto(op_type=op.op_type.data, domain=op.domain.data or None)
    node.input.extend(next(given) if there else "" for there in op.given_inputs)
    node.output.extend(next(made) if there else "" for there in op.given_outputs)
    node.attribute.extend(proto_of(name, value) for name, value in op.node_attributes.data.items())
    return node


MODEL = "onnx.model"
"""The attribute of a module that has what its model says about itself, a `ProtoAttr` with a ModelProto."""


def header_of(model: onnx.ModelProto) -> ProtoAttr:
    """All of a model but its nodes, values, functions: versions of operators, producer, metadata, documentation."""
    import onnx
    from google.protobuf import text_format

    header = onnx.ModelProto()
    for field, value in model.ListFields():
        if field.name in _HEADER:
            if field.is_repeated:
                getattr(header, field.name).extend(value)
            else:
                setattr(header, field.name, value)
    header.graph.name = model.graph.name
    if model.graph.doc_string:
        header.graph.doc_string = model.graph.doc_string
    header.graph.metadata_props.extend(model.graph.metadata_props)
    return ProtoAttr(StringAttr(text_format.MessageToString(header, as_one_line=True, as_utf8=False)))


_HEADER = (
    "ir_version", "opset_import", "producer_name", "producer_version", "domain", "model_version", "doc_string",
    "metadata_props",
)  # fmt: skip


def header_in(attribute: Attribute) -> onnx.ModelProto:
    """The inverse of `header_of`. Raises LayoutError where `attribute` holds no ModelProto."""
    import onnx
    from google.protobuf import text_format

    header = onnx.ModelProto()
    try:
        if not isinstance(attribute, ProtoAttr):
            raise LayoutError("it is no #nn.proto")
        text_format.Parse(attribute.text.data, header)
    except (LayoutError, text_format.ParseError, UnicodeError) as error:
        raise LayoutError(f"{MODEL} of the module does not say what its model is: {error}") from error
    return header


def attribute_of(proto: onnx.AttributeProto) -> Attribute:
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
    if simple is not None and proto_of(proto.name, simple) == proto:
        return simple
    if proto.type == kinds.TENSOR:
        proto = _with_raw_data(proto)
    return ProtoAttr(StringAttr(text_format.MessageToString(proto, as_one_line=True, as_utf8=False)))


_READABLE = 64
"""Elements of a tensor up to which each is a number of the text. More, as the splits of a forest of decision trees,
take seconds to read, and are bytes."""


def _with_raw_data(proto: onnx.AttributeProto) -> onnx.AttributeProto:
    """An attribute that is a tensor, whose elements are bytes if they are many."""
    import onnx
    import onnx.numpy_helper

    tensor = proto.t
    if prod(tensor.dims) <= _READABLE or not (tensor.float_data or tensor.double_data or tensor.int64_data):
        return proto
    packed = onnx.AttributeProto()
    packed.CopyFrom(proto)
    packed.t.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
    packed.t.doc_string = tensor.doc_string
    return packed


def proto_of(name: str, value: Attribute) -> onnx.AttributeProto:
    """The inverse of `attribute_of`. Raises LayoutError where `value` is no attribute that a node can have."""
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
            raise LayoutError(f"attribute {name} = {value} is none that a node of ONNX can have")
    return proto
