"""Shapes, element types and pads of tensor types, as the ops of this dialect ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import cast

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Attribute, SSAValue

from layout_ir.algebra.pads import pad_number
from layout_ir.dialects.layout import element_type_of, format_of
from layout_ir.dialects.layout.types import extents_of
from layout_ir.errors import LayoutError, shape_text

Shape = tuple[int, ...]
Tensor = TensorType[Attribute]

FLOATS = ("f16", "bf16", "f32", "f64")
NUMBERS = (*FLOATS, "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64")
ELEMENTS = (*NUMBERS, "i1")


def tensor_type(value: SSAValue) -> Tensor:
    """The type of `value`, which IRDL has checked to be a tensor."""
    return cast(Tensor, value.type)


def shape_of(value: SSAValue) -> Shape:
    """The logical extents of `value`, a tensor; -1 where one is dynamic."""
    return extents_of(tensor_type(value))


@cache
def element_text(element: Attribute) -> str:
    """The name of an element type, as `ALLOWED` of an op has it."""
    return str(element)


def check_axis(axis: int, shape: Shape) -> None:
    """Raises LayoutError unless `axis`, the value of the attribute, is a dim of `shape`, from 0."""
    if not 0 <= axis < len(shape):
        raise LayoutError(f"axis = {axis} is no dim of {shape_text(shape)}: not in 0..{len(shape) - 1}")


def check_axes(axes: Sequence[int], shape: Shape) -> None:
    """Raises LayoutError unless `axes` are dims of `shape`, ascending and distinct."""
    for axis in axes:
        check_axis(axis, shape)
    if sorted(set(axes)) != list(axes):
        raise LayoutError(f"axes = {list(axes)} are not ascending and distinct")


def pad_value(type: Tensor) -> float | None:
    """The number in the pads of a tensor of this type; None where unknown (`undef`, `any`, quantized zero)."""
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
