"""Which arrays hold what a kernel takes: elements of the right kind, not of the right width alone.

A kernel that only moves elements takes whatever is plain memory: numbers of any kind, text, dates, bytes without a
type. Pointers to Python objects are not: moved bit by bit, nobody would count the references. Neither are records,
whose fields are elements of their own, nor numbers in the other byte order, beside which pads would be written in
this machine's. A kernel that converts reads numbers, so their kind is that of its element type. Of types that NumPy
does not have it takes the bits: bf16 in 16-bit integers, two i4 in a byte; and bytes without a type (`V4`) for any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from layout_ir.elements.element_types import element_type
from layout_ir.errors import LayoutError

_PLAIN = "biufcmMSU"

_CODES = {"b": "?", "i": "bhilqn", "u": "BHILQN", "f": "efd"}
"""The codes of the `struct` module that buffers say for a kind."""

FIRST_CODE = ord("?")
"""The code of bit 0 in a mask of `codes`."""


def check_kind(dtype: np.dtype[Any], side: str, element: str | None) -> None:
    """Raises LayoutError where arrays of `dtype` do not hold the elements of that side of a kernel.

    `element` is the type that the kernel converts from or to, None where it moves whatever is plain memory.
    """
    if dtype.hasobject:
        raise LayoutError(
            f"the {side} holds references to Python objects ({dtype}): kernels move plain memory"
        )
    if dtype.fields is not None or dtype.subdtype is not None:
        raise LayoutError(
            f"the {side} holds records ({dtype}): kernels move single elements, view it as those"
        )
    if not dtype.isnative:
        raise LayoutError(
            f"the {side} holds {dtype.newbyteorder('=')} in the other byte order ({dtype}): convert it first, "
            "astype(x.dtype.newbyteorder('=')) does"
        )
    typeless = dtype.type is np.void
    if element is None:
        fits = typeless or dtype.kind in _PLAIN or dtype.isbuiltin == 2
    elif dtype.isbuiltin == 2:  # a type that a library adds: of 4 bits, it takes a byte for each
        known = element_type(element)
        fits = known.is_float and not known.is_packed and dtype.name == known.array_name
    else:
        fits = typeless or dtype.kind in element_type(element).array_kinds
    if not fits:
        what = "moves plain memory" if element is None else f"converts {element}"
        raise LayoutError(f"the {side} holds elements of type {dtype}, the kernel {what}")


def codes(element: str | None) -> int:
    """Bit k: a buffer whose elements have the code 63 + k of the `struct` module is right, if their width is.

    Codes of more letters, and buffers that say none, are for `check_kind` to judge.
    """
    kinds = _CODES if element is None else element_type(element).array_kinds
    return sum(1 << (ord(code) - FIRST_CODE) for kind in kinds for code in _CODES[kind])
