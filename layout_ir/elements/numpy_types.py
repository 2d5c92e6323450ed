"""Element types as NumPy keeps them: storage, computation, and the one rounding between the two.

bf16 has no NumPy type of its own. It is stored as its bits (uint16) and widened to f32 exactly; f16 and bf16 are
computed in f32 and rounded once, to nearest even. Everything else is computed as it is stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.elements.element_types import ELEMENT_TYPES, element_type
from layout_ir.errors import LayoutError

Array = NDArray[Any]

_STORAGE = {
    known.name: np.dtype(known.storage)
    for known in ELEMENT_TYPES
    if not (known.is_packed or known.is_narrow_float)
}
HALVES = ("f16", "bf16")


def storage(dtype: str) -> np.dtype[Any]:
    """The NumPy type of a buffer of `dtype` elements. Raises LayoutError for a type that NumPy cannot store."""
    if dtype not in _STORAGE:
        raise LayoutError(f"buffers of {dtype} are not supported: known are {', '.join(_STORAGE)}")
    return _STORAGE[dtype]


def computed(dtype: str) -> np.dtype[Any]:
    """The NumPy type that ops on `dtype` compute in."""
    return np.dtype(np.float32) if dtype in HALVES else storage(dtype)


def widen(array: Array, dtype: str) -> Array:
    """Stored elements as the type they are computed in; exact. `array` itself where that is the same."""
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(computed(dtype), copy=False)


def narrow(array: Array, dtype: str) -> Array:
    """Computed elements as they are stored: to nearest even, overflow to infinity. Integers wrap around."""
    if dtype == "bf16":
        return _to_bf16(array)
    with np.errstate(all="ignore"):
        return array.astype(storage(dtype), copy=False)


def _to_bf16(array: Array) -> Array:
    if array.dtype == np.float64:
        single = _round_to_odd(array)
    elif array.dtype.itemsize == 8:
        single = _round_to_odd(_jammed(array))
    else:
        single = array.astype(np.float32, copy=False) if array.dtype.itemsize <= 2 else _single(array)
    bits = np.ascontiguousarray(single).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    # Rounding may carry a NaN into infinity; the quiet bit keeps it one.
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, (bits >> 16) | 0x40, rounded).astype(np.uint16).reshape(array.shape)


def _single(array: Array) -> Array:
    return array if array.dtype == np.float32 else _round_to_odd(array.astype(np.float64))


def _round_to_odd(array: Array) -> Array:
    """f64 as f32 whose last bit is set where something was lost, so that a second rounding is right."""
    with np.errstate(all="ignore"):
        single = array.astype(np.float32)
        back = single.astype(np.float64)
    bits = single.view(np.uint32)
    inexact = (back != array) & ~np.isnan(array) & (bits & 1 == 0)
    step = np.where(np.abs(back) > np.abs(array), -1, 1)
    # 0 and the smallest number above it have opposite signs only if |array| > 0, so a step never leaves the sign.
    return np.where(inexact, bits + step.astype(np.uint32), bits).view(np.float32)


def _jammed(array: Array) -> Array:
    """64-bit integers as f64, what does not fit kept as a sticky bit (2^11, far below what f32 can show)."""
    with np.errstate(over="ignore"):  # of the least integer, whose magnitude is right as unsigned
        magnitude = np.where(array < 0, -array, array).astype(np.uint64)
    sticky = np.where(magnitude & np.uint64(0x7FF), np.uint64(0x800), np.uint64(0))
    kept = (magnitude & ~np.uint64(0x7FF)) | sticky
    value = np.where(magnitude >> np.uint64(53), kept, magnitude).astype(np.float64)
    return np.where(array < 0, -value, value)


def convert(array: Array, source: str, target: str, *, rounding: str) -> Array:
    """Stored elements of type `source` as stored elements of type `target`.

    To floats: nearest even. From floats to integers: `rounding` is "truncate" or "nearest" (even), then the range of
    the target saturates and NaN becomes 0. From integer to integer: "truncate" wraps around, "nearest" saturates.
    To i1: whether the element is not 0. From float to float, NaN becomes a quiet NaN.
    """
    if source == target:
        return array
    values = widen(array, source)
    if target == "i1":
        return values != 0
    if element_type(target).is_float:
        return _quiet(narrow(values, target), target)
    if element_type(source).is_float:
        with np.errstate(all="ignore"):
            whole = np.trunc(values) if rounding == "truncate" else np.rint(values)
        return saturated(whole, target)
    if rounding == "truncate" or values.dtype == np.bool_:
        return values.astype(storage(target))
    (low, high), info = element_type(target).range, np.iinfo(values.dtype)
    bounded = np.clip(values, max(int(low), int(info.min)), min(int(high), int(info.max)))
    return bounded.astype(storage(target))


def _quiet(array: Array, dtype: str) -> Array:
    """Stored floats with every NaN quiet. NumPy moves the bits of halves, and keeps signalling ones as they are."""
    bits = np.array(array).view(f"u{array.dtype.itemsize}")
    bits[np.isnan(widen(array, dtype))] |= bits.dtype.type(1 << element_type(dtype).mantissa - 1)
    return bits.view(array.dtype)


def saturated(whole: Array, target: str) -> Array:
    """Whole numbers kept in floats as integers of type `target`: out of range is the nearest bound, NaN is 0."""
    low, high = map(int, element_type(target).range)
    # As a float the upper bound may round up to a number that is out of range, hence the comparison with its successor.
    above, below = whole >= float(high) + 1.0 if high < 1 << 53 else whole >= float(high), whole < float(low)
    inside = np.where(above | below | np.isnan(whole), 0, whole).astype(storage(target))
    dtype = storage(target)
    return np.where(above, dtype.type(high), np.where(below, dtype.type(low), inside))


def poison(dtype: str) -> Any:
    """The stored element that undefined memory holds: NaN, or bytes 0x5A, so that whoever reads it is seen."""
    kind = storage(dtype)
    if dtype == "bf16":
        return kind.type(0x7FC0)
    if kind == np.bool_:
        return np.True_
    if kind.kind == "f":
        return kind.type(np.nan)
    return np.frombuffer(b"\x5a" * kind.itemsize, kind)[0]


def stored_number(value: float, dtype: str) -> Any:
    """`value` as one stored element."""
    kind = storage(dtype)
    if element_type(dtype).is_float:
        return narrow(np.asarray([value], np.float64), dtype)[0]
    return kind.type(int(value))
