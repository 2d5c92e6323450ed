"""Matrix products on arrays of the type they are computed in."""

from __future__ import annotations

import numpy as np

from layout_ir.elements.numpy_types import Array


def matmul(a: Array, b: Array) -> Array:
    """NumPy's matmul. Operands that BLAS cannot read (views of blocks, splats) are copied first."""
    return np.matmul(_readable(a), _readable(b))


def gemm(
    a: Array, b: Array, c: Array | None, *, alpha: float, beta: float, trans_a: bool, trans_b: bool
) -> Array:
    """alpha * A' * B' + beta * C. Integer results of fractional factors are cut off."""
    result = matmul(a.T if trans_a else a, b.T if trans_b else b)
    result = _scaled(result, alpha)
    return result if c is None else result + _scaled(c, beta)


def _scaled(x: Array, factor: float) -> Array:
    return x if factor == 1 else (x * factor).astype(x.dtype)


def _readable(x: Array) -> Array:
    if x.ndim < 2 or not x.size:
        return np.ascontiguousarray(x)
    # Rows or columns must be dense; anything else sends NumPy to a loop a hundred times slower.
    (height, width), (down, right) = x.shape[-2:], x.strides[-2:]
    by_rows = right == x.itemsize and down >= x.itemsize * width
    by_columns = down == x.itemsize and right >= x.itemsize * height
    return x if by_rows or by_columns else np.ascontiguousarray(x)
