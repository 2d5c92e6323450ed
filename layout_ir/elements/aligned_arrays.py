"""New arrays that begin on a cache line.

NumPy aligns to 16 bytes, and what it asks the system for begins 16 bytes behind a line. Stores that bypass the caches
write whole lines: into such an array reorders of more than the caches hold would go through them, at half the speed.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from layout_ir.elements.cache_line import LINE
from layout_ir.elements.numpy_types import Array

_LEAST = 1 << 17
"""Bytes from which on an array is aligned: what is smaller stays in the caches, and a view takes a microsecond."""


def aligned_bytes(size: int) -> Array:
    """`size` bytes that begin on a cache line, whose values are arbitrary."""
    return at_line(np.empty(size + LINE, np.uint8), size)


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A C-contiguous array whose values are arbitrary, on a cache line where it is large."""
    size = prod(shape) * dtype.itemsize
    return np.empty(shape, dtype) if size < _LEAST else aligned_bytes(size).view(dtype).reshape(shape)


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A C-contiguous array of zeros, on a cache line where it is large."""
    size = prod(shape) * dtype.itemsize
    if size < _LEAST:
        return np.zeros(shape, dtype)
    return at_line(np.zeros(size + LINE, np.uint8), size).view(dtype).reshape(shape)


def at_line(raw: Array, size: int) -> Array:
    """`size` bytes of `raw`, which has as many more as a line, from its first line on."""
    start = -int(raw.ctypes.data) % LINE
    return raw[start : start + size]
