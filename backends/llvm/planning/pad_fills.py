"""What a pad policy writes, as the bits of an element."""

from __future__ import annotations

import struct
from math import copysign, isnan

from layout_ir.algebra.pads import PadPolicy, check_pad, pad_number
from layout_ir.elements.element_types import element_type
from layout_ir.errors import LayoutError


def pad_bits(policy: PadPolicy, dtype: str) -> int:
    """The bits of a pad of element type `dtype` (0 for undef and, without a zero point given, zp).

    Raises LayoutError where an integer type has no such value.
    """
    number = pad_number(policy)
    if number is None:
        return 0
    element = element_type(dtype)
    name = element.name
    if name in ("f64", "f32", "f16"):
        return int.from_bytes(_packed(number, {"f64": "<d", "f32": "<f", "f16": "<e"}[name]), "little")
    if name == "bf16":
        word = int.from_bytes(_packed(number, "<f"), "little")
        # To nearest, ties to even; a NaN keeps its upper half, which holds the quiet bit.
        return word >> 16 if isnan(number) else (word + 0x7FFF + (word >> 16 & 1)) >> 16
    if element.is_float:
        if number == 0 and copysign(1, number) > 0:
            return 0
        raise LayoutError(f"pads of element type {name} can be zero or undef, not {policy}")
    check_pad(policy, element)
    return int(number) & (2**element.bits - 1)


def _packed(number: float, code: str) -> bytes:
    try:
        return struct.pack(code, number)
    except OverflowError:  # rounds to infinity in the narrower type
        return struct.pack(code, float("inf") if number > 0 else float("-inf"))
