"""Tensor types and the layouts they carry. A type without an encoding is dense and row-major."""

from __future__ import annotations

from typing import cast

from typing_extensions import TypeIs
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute

from layout_ir.algebra.binding import check_addresses
from layout_ir.algebra.format import Format, bound_format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import check_pad
from layout_ir.algebra.tag import names_for
from layout_ir.dialects.layout.attributes import AnyAttr, FormatAttr
from layout_ir.elements.element_types import ElementType, element_type, integer_type
from layout_ir.errors import LayoutError

Encoding = Format | Attribute | None
_FLOATS: dict[str, Attribute] = {
    "f16": Float16Type(), "bf16": BFloat16Type(), "f32": Float32Type(), "f64": Float64Type(),
}  # fmt: skip
"""The float types that tensors with a layout may have, as the IR has them."""
_FLOAT_CLASSES = {type(attribute): element_type(name) for name, attribute in _FLOATS.items()}
_ENCODINGS = frozenset((FormatAttr, AnyAttr, NoneAttr))
# Classes of attributes are compared by `type(...)`, as none of these has subclasses: `isinstance` of abstract classes,
# as they are, takes ten times as long where the answer is no, and these questions are asked some 10^5 times.


def tensor_type(type: Attribute) -> TensorType[Attribute]:
    """`type` as a tensor type. Raises LayoutError if it is none."""
    if not isinstance(type, TensorType):
        raise LayoutError(f"{type} is not a tensor type")
    return cast("TensorType[Attribute]", type)


def is_tensor(type: Attribute) -> TypeIs[TensorType[Attribute]]:
    """Whether `type` is a ranked tensor."""
    return isinstance(type, TensorType)


def extents_of(tensor: TensorType[Attribute]) -> tuple[int, ...]:
    """The logical extents of a tensor type; -1 where one is dynamic."""
    return tuple([extent.data for extent in tensor.shape.data])


def is_number(type: Attribute) -> bool:
    """Whether values of `type` are single numbers."""
    return isinstance(type, AnyFloat | IntegerType | IndexType)


def encoding_of(type: Attribute) -> Attribute:
    """The encoding of a tensor type, NoneAttr where it has none. Raises LayoutError for any other type."""
    return tensor_type(type).encoding


def has_layout(type: Attribute) -> TypeIs[TensorType[Attribute]]:
    """Whether `type` is a tensor that has a layout or may be given one: its extents are static, its element type is in
    the table of `layout_ir.elements`, and its encoding is none, a format or `any`."""
    return is_tensor(type) and (
        type.encoding.__class__ in _ENCODINGS
        and min(extents_of(type), default=0) >= 0
        and element_type_of(type.element_type) is not None
    )


def is_any(type: Attribute) -> bool:
    """Whether the layout of this tensor is still to be chosen."""
    return encoding_of(type).__class__ is AnyAttr


def format_of(type: Attribute) -> Format | None:
    """The Format of a tensor type; None while it is `any` or where it is opaque or another dialect's encoding."""
    tensor = tensor_type(type)
    if isinstance(tensor.encoding, FormatAttr):
        return tensor.encoding.data
    if isinstance(tensor.encoding, NoneAttr):
        return Format.row_major(names_for(len(tensor.shape.data)))
    return None


def layout_of(type: Attribute) -> Layout:
    """The Layout of a tensor type. Raises LayoutError where it has none (yet) or the format does not fit the shape."""
    tensor = tensor_type(type)
    shape = extents_of(tensor)
    if min(shape, default=0) < 0:
        raise LayoutError(f"{strip_type(tensor)} has a dynamic extent, a layout needs static ones")
    fmt = format_of(tensor)
    if fmt is None:
        raise LayoutError(f"{tensor} has no layout: its encoding is {tensor.encoding}")
    return bound_format(fmt, shape)


def with_format(type: Attribute, encoding: Encoding) -> TensorType[Attribute]:
    """The tensor type with another encoding; None removes it."""
    tensor = tensor_type(type)
    if isinstance(encoding, Format):
        encoding = FormatAttr(encoding)
    return TensorType(tensor.element_type, tensor.shape, NoneAttr() if encoding is None else encoding)


def strip_type(type: Attribute) -> TensorType[Attribute]:
    """The logical tensor: shape and element type."""
    return with_format(type, None)


def dtype_of(type: Attribute) -> str:
    """Name of the element type, as `element_types` has it ("f32", "i8", "ui8"). Raises LayoutError for others."""
    return _known_element(type).name


def _known_element(type: Attribute) -> ElementType:
    element = type.element_type if is_tensor(type) else type
    known = element_type_of(element)
    if known is None:
        raise LayoutError(
            f"tensors of {element} have no layout: element types are {', '.join(_FLOATS)} and integers"
        )
    return known


def element_type_of(element: Attribute) -> ElementType | None:
    """The entry of the table of element types for an element type of the IR; None where the table has none."""
    known = _FLOAT_CLASSES.get(type(element))
    if known is None and isinstance(element, IntegerType):
        integer = cast("IntegerType[int, Signedness]", element)
        return integer_type(integer.width.data, signed=integer.signedness.data != Signedness.UNSIGNED)
    return known


def attribute_of(dtype: str) -> Attribute:
    """The element type in the IR for a name such as "f32" or "ui8", the inverse of `element_type_of`."""
    known = element_type(dtype)
    if known.is_float:
        return _FLOATS[known.name]
    if known.kind == "bool":
        return IntegerType(1)
    return IntegerType(known.bits, Signedness.SIGNLESS if known.is_signed else Signedness.UNSIGNED)


def nbytes_of(type: Attribute) -> int:
    """Bytes of the buffer behind a tensor of this type."""
    return layout_of(type).nbytes(dtype_of(type))


def verify_encoding(type: Attribute) -> None:
    """Raises LayoutError where the encoding does not fit the tensor: rank, capacity, pads of the element type; or has
    places in front of the buffer."""
    tensor = tensor_type(type)
    if not isinstance(tensor.encoding, FormatAttr):
        return
    fmt = tensor.encoding.data
    if fmt.rank != len(tensor.get_shape()):
        shape = "x".join("?" if extent < 0 else str(extent) for extent in tensor.get_shape())
        raise LayoutError(
            f"rank mismatch between format ({', '.join(fmt.names)}) and tensor shape {shape}: "
            f"{fmt.rank} != {len(tensor.get_shape())}"
        )
    if all(extent >= 0 for extent in tensor.get_shape()):
        layout = layout_of(tensor)
        if not layout.axes and (fmt.offset < 0 or any((f.stride or 0) < 0 for f in fmt.all_factors)):
            check_addresses(layout)
    check_pad(fmt.pad, _known_element(tensor))
