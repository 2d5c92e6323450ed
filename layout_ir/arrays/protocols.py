"""What sharing memory with array libraries takes: the NumPy type of stored elements, strides, DLPack's name of bf16.

NumPy has no bfloat16, so it can neither export nor import one through DLPack. The capsule says the element type in
three numbers, which are all that differs between bf16 and the uint16 that holds its bits; `relabel` changes them.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from layout_ir.algebra.binding import strided_layout
from layout_ir.algebra.canonical import dim_key
from layout_ir.algebra.layout import Layout
from layout_ir.elements.element_types import ELEMENT_TYPES, ElementType, element_type
from layout_ir.errors import LayoutError

_TYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}
"""Bytes from the start of the managed tensor to its element type (code: u8, bits: u8, lanes: u16)."""

_NAMES = {known.array_name: known for known in ELEMENT_TYPES}
"""The element types by the names of their arrays in NumPy, or in ml_dtypes where NumPy has none."""


def storage_of(dtype: str) -> np.dtype[Any]:
    """The NumPy type in which elements of `dtype` are kept: bf16 and f8 as their bits, 4-bit types as bytes."""
    return np.dtype(element_type(dtype).storage)


def array_of(values: Any) -> NDArray[Any]:
    """What NumPy takes `values` for. Raises LayoutError where it takes them for nothing: a ragged list, a tensor of
    torch that is sparse or needs its gradient."""
    try:
        return np.asarray(values)
    except (RuntimeError, TypeError, ValueError) as error:
        raise LayoutError(f"{type(values).__name__} is no array to NumPy: {error}") from error


def element_type_of(dtype: np.dtype[Any]) -> ElementType:
    """The element type that a type of NumPy or ml_dtypes is. Raises LayoutError where it is none."""
    if dtype.name not in _NAMES:
        raise LayoutError(f"arrays of {dtype} have no element type: known are {', '.join(sorted(_NAMES))}")
    return _NAMES[dtype.name]


def strides_of(layout: Layout) -> tuple[int, ...] | None:
    """The stride of each dim in elements; None where a dim has several digits, and for swizzles and other axes."""
    if layout.swizzle is not None or layout.axes:
        return None
    strides: list[int] = []
    for dim, digits in enumerate(layout.digits):
        terms: tuple[Any, ...] = dim_key(layout, dim)
        if len(terms) > 1:
            return None
        strides.append(int(terms[0][1]) if terms else digits[0].stride)
    return tuple(strides)


def layout_and_row(array: NDArray[Any]) -> tuple[Layout, NDArray[Any]] | None:
    """The layout of a NumPy array, and the one-dimensional array of the memory that it spans, which is not copied.

    None where strides are no whole elements, where bytes are swapped, and where `strided_layout` has no layout.
    """
    size = array.itemsize
    if size == 0 or any(s % size for s in array.strides) or array.dtype.byteorder == ">":
        return None
    steps = [s // size for s in array.strides]
    below = sum(min(s, 0) * (x - 1) for s, x in zip(steps, array.shape, strict=True)) if array.size else 0
    try:
        layout = strided_layout(array.shape, steps, -below)
    except LayoutError:
        return None
    if not array.size:
        return layout, np.empty(0, array.dtype)
    # A view of the array, so that whoever holds the row keeps the array alive.
    first = array[(*(slice(None, None, -1 if s < 0 else 1) for s in steps), ...)]
    return layout, as_strided(first, (layout.extent,), (size,))


def relabel(capsule: Any, *, to_bf16: bool) -> Any:
    """The DLPack capsule with its element type changed from uint16 to bfloat16, or back."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    if name not in _TYPE_AT:
        raise LayoutError(f"a capsule named {name!r} is no DLPack tensor")
    code = ctypes.c_uint8.from_address(api.PyCapsule_GetPointer(capsule, name) + _TYPE_AT[name])
    code.value = element_type("bf16" if to_bf16 else "ui16").dlpack
    return capsule


class Relabelled:
    """A bfloat16 tensor that presents itself to NumPy as its uint16 bits."""

    def __init__(self, tensor: Any):
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        options.pop("copy", None)
        options.pop("dl_device", None)
        return relabel(
            self.tensor.__dlpack__(**{k: v for k, v in options.items() if v is not None}), to_bf16=False
        )

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()
