"""Conversions between element types in NumPy, operation by operation as `layout_ir.elements.quantization` defines them.

Elements of 4 bits are stored one per int8 or uint8, floats of 8 bits as their bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from layout_ir.elements.element_types import element_type
from layout_ir.elements.narrow_floats import decoded, encoded
from layout_ir.elements.numpy_types import Array, convert, saturated, storage, widen
from layout_ir.elements.quantization import PARAMETERS, Conversion
from layout_ir.errors import LayoutError

_BYTES = {"i4": "i8", "ui4": "ui8"}
"""The 8-bit types in which NumPy holds 4-bit elements."""


def converted(
    stored: Array, conversion: Conversion, values: Mapping[str, Any] | None = None, old: Array | None = None
) -> Array:
    """Stored elements of the destination type for `stored`, elements of the source type in the logical shape.

    `values` has the runtime parameters by name: a number or, per channel, a vector. `old` has the elements of the
    destination before, for beta. Raises LayoutError where one of them is missing.
    """
    if not conversion.parameters:
        return _stored(stored, conversion.src, conversion.dst, saturate=conversion.saturate)
    number = storage(conversion.computes)

    def parameter(name: str) -> Array | None:
        value = conversion.parameters.get(name)
        if value is None:
            return None
        if isinstance(value, float):
            return np.asarray(value, number)
        if isinstance(value, str) and (values is None or name not in values):
            raise LayoutError(f"{conversion} needs a value of {name}")
        given = np.asarray(value if values is None or isinstance(value, tuple) else values[name], number)
        if value == "tensor":
            return given.reshape(())
        assert conversion.dim is not None
        return given.reshape([-1 if d == conversion.dim else 1 for d in range(stored.ndim)])

    with np.errstate(all="ignore"):
        y = _numbers(stored, conversion.src).astype(number)
        src_zero, src_scale, dst_scale, beta, dst_zero = map(parameter, PARAMETERS)
        if src_zero is not None:
            y = y - src_zero
        if src_scale is not None:
            y = y * src_scale
        if dst_scale is not None:
            y = y / dst_scale
        if beta is not None:
            if old is None:
                raise LayoutError(f"{conversion} adds to what the destination holds: give it as old")
            held = _numbers(old, conversion.dst).astype(number)
            y = y + beta * (held if dst_zero is None else held - dst_zero)
        if dst_zero is not None:
            y = np.rint(y) + dst_zero
    return _stored(y, conversion.computes, conversion.dst, saturate=conversion.saturate)


def _numbers(stored: Array, dtype: str) -> Array:
    if dtype == "i1":
        return stored.view(np.uint8) != 0
    if element_type(dtype).is_narrow_float:
        return decoded(stored, dtype)
    return widen(stored, _BYTES.get(dtype, dtype))


def _stored(array: Array, src: str, dst: str, *, saturate: bool) -> Array:
    if src == dst:
        return array
    if element_type(src).is_narrow_float:
        return _stored(decoded(array, src), "f32", dst, saturate=saturate)
    if element_type(dst).is_narrow_float:
        return encoded(_numbers(array, src), dst, saturate=saturate)
    source = _BYTES.get(src, src)
    if src == "i1":
        array = array.view(np.uint8) != 0
    if dst not in _BYTES:
        return convert(array, source, dst, rounding="nearest")
    target = _BYTES[dst]
    low, high = map(int, element_type(dst).range)
    if element_type(source).is_float:
        with np.errstate(all="ignore"):
            whole = np.rint(widen(array, source))
        return np.clip(saturated(whole, target), low, high)
    return np.clip(convert(array, source, target, rounding="nearest"), low, high)
