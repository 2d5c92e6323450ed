"""TopK: the largest or smallest elements along a dim, in order, and where they are.

The onnx package sorts whole rows and takes them one by one.
"""

from __future__ import annotations

import numpy as np

from layout_ir.elements.numpy_types import Array


def top_k(x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    """The k first elements along a dim and their indices (i64), from the largest on or from the smallest.

    Of equal elements the one with the lower index comes first, 0 and -0 are equal, and what is no number is larger than
    all numbers.
    """
    rows = np.moveaxis(x, axis, -1)
    keys = _ordered(rows)
    if largest:
        keys = ~keys
    size = rows.shape[-1]
    if keys.dtype.itemsize <= 4 and size < 1 << 32:
        # Behind its key, each index: no two are equal, so that no order of equal ones has to be kept.
        numbered = keys.astype(np.uint64) << np.uint64(32) | np.arange(size, dtype=np.uint64)
        if k < size:
            numbered = np.partition(numbered, k, axis=-1)[..., :k]
        indices = (np.sort(numbered, axis=-1) & np.uint64(0xFFFFFFFF)).astype(np.int64)
    else:
        indices = np.argsort(keys, axis=-1, kind="stable")[..., :k].astype(np.int64)
    values = np.take_along_axis(rows, indices, axis=-1)
    return np.moveaxis(values, -1, axis), np.moveaxis(indices, -1, axis)


def _ordered(x: Array) -> Array:
    """Unsigned integers of the same size that are ordered as the elements are."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    top = unsigned.type(1 << (8 * unsigned.itemsize - 1))
    if x.dtype.kind == "u":
        return x
    if x.dtype.kind == "i":
        return x.view(unsigned) ^ top
    bits: Array = (x + x.dtype.type(0)).view(unsigned)  # of -0, too, those of 0
    ordered: Array = np.where(bits >= top, ~bits, bits | top)
    return np.where(np.isnan(x), ~unsigned.type(0), ordered)
