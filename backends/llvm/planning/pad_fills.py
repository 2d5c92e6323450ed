"""What a pad policy writes, as the bits of an element."""

from __future__ import annotations

import struct
from bisect import bisect_left
from math import copysign, isnan, ldexp

from layout_ir.algebra.pads import PadPolicy, check_pad, pad_number
from layout_ir.elements.element_types import ElementType, element_type


def pad_bits(policy: PadPolicy, dtype: str) -> int:
    """The bits of a pad of element type `dtype` (0 for undef and, without a zero point given, zp).

    Floats are rounded as conversions round, narrow ones without saturating: NaN where there is no infinity. Raises
    LayoutError where an integer type has no such value.
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
        return _narrow(number, element)
    check_pad(policy, element)
    return int(number) & (2**element.bits - 1)


def _narrow(number: float, element: ElementType) -> int:
    """The bits of a float of 8 bits or fewer."""

    def value(code: int) -> float:
        exponent, fraction = divmod(code, 1 << element.mantissa)
        whole = fraction + (1 << element.mantissa if exponent else 0)
        return ldexp(whole, max(exponent, 1) - element.bias - element.mantissa)

    def middle(code: int) -> float:
        return (value(code) + value(code + 1)) / 2

    code = bisect_left(range(element.largest_code + 1), abs(number), key=middle)
    if code <= element.largest_code and abs(number) == middle(code):
        code += code & 1  # ties to even
    if code > element.largest_code:
        code = element.overflow_code
    if isnan(number):
        code = element.largest_code if element.nan_code is None else element.nan_code
    sign = 1 << element.bits - 1 if copysign(1, number) < 0 else 0
    return code if element.nonfinite == "negative zero" and code in (0, element.nan_code) else code | sign


def _packed(number: float, code: str) -> bytes:
    try:
        return struct.pack(code, number)
    except (OverflowError, struct.error):  # rounds to infinity in the narrower type; halves raise the second
        return struct.pack(code, float("inf") if number > 0 else float("-inf"))
