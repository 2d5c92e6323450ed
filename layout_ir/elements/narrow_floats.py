"""Narrow floats in NumPy: floats of 8 bits and of 4, as the numbers that they stand for, and back.

The bits without the sign are in the order of the numbers they stand for, so that the nearest number is found among them
by bisection, between the middles of neighbours. That is the definition; machine code computes the same by shifts.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.elements.element_types import element_type


@cache
def _magnitudes(dtype: str) -> NDArray[np.float64]:
    """The number of every code without a sign, and of the next one as if the exponents went on."""
    element = element_type(dtype)
    codes = np.arange(element.largest_code + 2)
    exponent, fraction = codes >> element.mantissa, codes & (1 << element.mantissa) - 1
    whole = np.where(exponent > 0, fraction + (1 << element.mantissa), fraction)
    return np.ldexp(whole.astype(np.float64), np.maximum(exponent, 1) - element.bias - element.mantissa)


@cache
def _numbers(dtype: str) -> NDArray[np.float32]:
    """The number of every code."""
    element = element_type(dtype)
    sign = 1 << element.bits - 1
    magnitudes = np.full(sign, np.nan, np.float32)
    magnitudes[: element.largest_code + 1] = _magnitudes(dtype)[:-1]
    if element.nonfinite == "ieee":
        magnitudes[element.largest_code + 1] = np.inf
    numbers = np.concatenate([magnitudes, -magnitudes])
    if element.nonfinite == "negative zero":
        numbers[sign] = np.nan
    return numbers


def decoded(codes: NDArray[Any], dtype: str) -> NDArray[np.float32]:
    """The numbers that `codes` stand for, exact. Elements of 4 bits are one per byte, in the low half."""
    return _numbers(dtype)[np.asarray(codes).view(np.uint8) & (1 << element_type(dtype).bits) - 1]


def encoded(numbers: NDArray[Any], dtype: str, *, saturate: bool) -> NDArray[np.uint8]:
    """The codes of `numbers`, rounded once to nearest, ties to even, as `layout_ir.elements.quantization` defines."""
    element = element_type(dtype)
    with np.errstate(invalid="ignore"):  # of a signalling NaN, which is one like all others
        exact = np.asarray(numbers, np.float64)
    if np.issubdtype(np.asarray(numbers).dtype, np.integer):
        sign = np.where(np.asarray(numbers) < 0, 1 << element.bits - 1, 0)
    else:
        sign = np.where(np.signbit(exact), 1 << element.bits - 1, 0)
    magnitudes, size = _magnitudes(dtype), np.abs(exact)
    middles = (magnitudes[:-1] + magnitudes[1:]) / 2
    code = np.searchsorted(middles, size)  # the lower neighbour of a middle
    tie = code < len(middles)
    tie &= size == middles[np.minimum(code, len(middles) - 1)]
    code += tie & (code & 1 == 1)
    beyond = element.largest_code if saturate else element.overflow_code
    code = np.where(code > element.largest_code, beyond, code)
    not_a_number = element.largest_code if element.nan_code is None else element.nan_code
    code = np.where(np.isnan(exact), not_a_number, code)
    if element.nonfinite == "negative zero":
        sign = np.where((code == 0) | (code == element.nan_code), 0, sign)
    return (code | sign).astype(np.uint8)
