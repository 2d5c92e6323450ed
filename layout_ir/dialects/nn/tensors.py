"""Small questions about tensor types that ops of this dialect ask."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Attribute, SSAValue

from layout_ir.algebra.pads import pad_number
from layout_ir.dialects.layout import element_type_of, format_of

Shape = tuple[int, ...]
Tensor = TensorType[Attribute]

FLOATS = ("f16", "bf16", "f32", "f64")
NUMBERS = (*FLOATS, "i8", "ui8", "i32", "i64")
ELEMENTS = (*NUMBERS, "i1")


def tensor_type(value: SSAValue) -> Tensor:
    """The type of `value`, which IRDL has checked to be a tensor."""
    return cast(Tensor, value.type)


def shape_of(value: SSAValue) -> Shape:
    return tensor_type(value).get_shape()


def pad_value(type: Tensor) -> float | None:
    """What the pads of a tensor of this type hold; None if unknown (`undef`, `any`, quantized zero)."""
    fmt = format_of(type)
    return None if fmt is None else pad_number(fmt.pad)


def int_range(element: Attribute) -> tuple[int, int]:
    """The smallest and the largest element of an integer type; one without a sign in its name is signed."""
    known = element_type_of(element)
    assert known is not None and not known.is_float
    low, high = known.range
    return int(low), int(high)


def round_to(value: float, element: Attribute) -> float | None:
    """`value` as an element of that type holds it; None where it has none (overflow, a fraction in an integer)."""
    try:
        if isinstance(element, AnyFloat):
            return element.unpack(element.pack((value,)), 1)[0]
        known = element_type_of(element)
        return value if known is not None and known.holds(value) else None
    except (OverflowError, ValueError):
        return None
