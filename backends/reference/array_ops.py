"""Matrix products, normalizations and ops that move elements, on plain NumPy arrays without layouts.

Arrays are of the type they are computed in, but for `pad` and `slice_elements`, which take stored elements. An op that
reduces over a dim takes the pads of that dim too, as a kernel over whole blocks does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from layout_ir.dialects.nn.source_positions import (
    is_outside,
    nearest_positions,
    pad_sources,
    resize_positions,
)
from layout_ir.elements.numpy_types import Array

# Matrix products --------------------------------------------------------------------------------------------------


def matmul(a: Array, b: Array) -> Array:
    """NumPy's matmul. Operands with strides that BLAS cannot read (views of blocks, splats) are copied first."""
    return np.matmul(_readable(a), _readable(b))


def gemm(
    a: Array, b: Array, c: Array | None, *, alpha: float, beta: float, trans_a: bool, trans_b: bool
) -> Array:
    """alpha * A' * B' + beta * C; A' is A or its transpose, B' likewise. Integers are cut off after each factor."""
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


# Normalizations ---------------------------------------------------------------------------------------------------


# They take NumPy itself, or what stands for it, and arrays of it.


def softmax(np: Any, x: Any, axis: int) -> Any:
    """exp(x) / sum of exp(x) along `axis`, with the largest element subtracted first so that nothing overflows."""
    if not x.size:
        return x
    power = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return power / np.sum(power, axis=axis, keepdims=True)


def log_softmax(np: Any, x: Any, axis: int) -> Any:
    """x - log(sum of exp(x)) along `axis`, without the overflow of the plain formula."""
    if not x.size:
        return x
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def batch_norm(np: Any, x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float) -> Any:
    """(x - mean) / sqrt(var + epsilon) * scale + bias per channel (dim 1), as one product and one sum per element."""
    shape = (1, -1) + (1,) * (x.ndim - 2)
    factor = scale / np.sqrt(var + epsilon)
    return x * factor.reshape(shape) + (bias - mean * factor).reshape(shape)


def layer_norm(
    np: Any, x: Any, scale: Any, bias: Any, axes: tuple[int, ...], epsilon: float, *, centered: bool
) -> Any:
    """x over its deviation along `axes`, times scale plus bias, which broadcast.

    `centered` takes the deviation from the mean (layer normalization), not from 0 (RMS normalization).
    """
    if not x.size:
        return x
    if centered:
        x = x - np.mean(x, axis=axes, keepdims=True, dtype=x.dtype)
    power = np.mean(x * x, axis=axes, keepdims=True, dtype=x.dtype)
    result = x / np.sqrt(power + x.dtype.type(epsilon)) * scale
    return result if bias is None else result + bias


def group_norm(np: Any, x: Any, scale: Any, bias: Any, groups: int, epsilon: float) -> Any:
    """x normalized over each group of channels (dim 1) and space, times scale plus bias per channel."""
    if not x.size:
        return x
    apart = x.reshape(x.shape[0], groups, -1)
    normal = layer_norm(np, apart, np.ones((), x.dtype), None, (2,), epsilon, centered=True).reshape(x.shape)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return normal * scale.reshape(shape) + bias.reshape(shape)


def lrn(x: Array, size: int, alpha: float, beta: float, bias: float) -> Array:
    """x / (bias + alpha / size * s) ^ beta, s the squares of the channels (dim 1) c - (size-1)//2 to c + size//2."""
    squares = np.square(x)
    total = np.zeros_like(x)
    channels = x.shape[1]
    for shift in range(-((size - 1) // 2), size // 2 + 1):
        low, high = max(-shift, 0), min(channels - shift, channels)
        if low < high:
            total[:, low:high] += squares[:, low + shift : high + shift]
    return x / np.power(bias + alpha / size * total, beta)


# Moving elements --------------------------------------------------------------------------------------------------


def cum_sum(x: Array, axis: int, *, exclusive: bool, reverse: bool) -> Array:
    """The sums along `axis` up to each element: without it if `exclusive`, from the end if `reverse`."""
    if reverse:
        return np.flip(cum_sum(np.flip(x, axis), axis, exclusive=exclusive, reverse=False), axis)
    if not exclusive:
        return np.cumsum(x, axis=axis, dtype=x.dtype)
    # Not the sum less the element: that is another number of a float.
    before = [slice(None)] * x.ndim
    before[axis] = slice(0, max(x.shape[axis] - 1, 0))
    sums = np.zeros_like(x)
    behind = list(before)
    behind[axis] = slice(1, None)
    sums[tuple(behind)] = np.cumsum(x[tuple(before)], axis=axis, dtype=x.dtype)
    return sums


def pad(x: Array, pads: Sequence[int], mode: str, value: object) -> Array:
    """x with `pads` more elements at the begins of all dims, then the ends; a negative number removes elements.

    `mode` is constant (elements are `value`), reflect, edge or wrap.
    """
    for dim, extent in enumerate(x.shape):
        begin, end = pads[dim], pads[x.ndim + dim]
        if begin == end == 0:
            continue
        source = pad_sources(begin, extent, end, mode)
        x = np.take(x, source, axis=dim) if extent else _empty(x, dim, len(source))
        if mode == "constant":
            x[(slice(None),) * dim + (is_outside(begin, extent, end),)] = value
    return x


def _empty(x: Array, dim: int, extent: int) -> Array:
    return np.zeros((*x.shape[:dim], extent, *x.shape[dim + 1 :]), x.dtype)


def slice_elements(x: Array, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Array:
    """Per dim, `sizes` elements from `starts` at distance `steps`, which may be negative; a view."""
    where: list[slice] = []
    for start, size, step in zip(starts, sizes, steps, strict=True):
        stop = start + size * step
        # A slice backwards down to element 0 has no stop: -1 would mean the last element.
        where.append(slice(start, stop if stop >= 0 else None, step) if size else slice(0, 0))
    return x[tuple(where)]


def resize(
    x: Array, sizes: Sequence[int], scales: Sequence[float], mode: str, coordinates: str, nearest_mode: str
) -> Array:
    """x resampled to extents `sizes` as `nn.resize` defines it; linear results of integers are cut off."""
    dtype = x.dtype
    for dim, (size, scale) in enumerate(zip(sizes, scales, strict=True)):
        extent = x.shape[dim]
        if size == extent and scale == 1:
            continue
        if not size or not extent:
            x = _empty(x, dim, size)
            continue
        position = resize_positions(size, extent, scale, coordinates)
        if mode == "nearest":
            x = np.take(x, nearest_positions(position, extent, nearest_mode), axis=dim)
            continue
        below = np.floor(position).astype(np.int64)
        above = np.minimum(below + 1, extent - 1)
        x = x if x.dtype.kind == "f" else x.astype(np.float64)
        share = (position - below).astype(x.dtype).reshape((-1,) + (1,) * (x.ndim - 1 - dim))
        x = np.take(x, below, axis=dim) * (1 - share) + np.take(x, above, axis=dim) * share
    return x.astype(dtype, copy=False)
