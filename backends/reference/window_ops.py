"""Convolution, pooling and images of windows, on arrays of logical order (N, C, spatial).

Convolution copies the windows of some output positions into a matrix and multiplies: the product runs at the speed
of BLAS, and the size of the matrix is bounded, so that memory does not grow with the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from layout_ir.elements.numpy_types import Array

Ints = tuple[int, ...]

# Elements of the window matrix: 8 MB of f32. The 3x3 layers of VGG-19 took the same time for 2^19 to 2^22 on two cores
# and twice as long for 2^17, whose products are too small; without a bound one layer alone takes 115 MB.
_WINDOW_ELEMENTS = 1 << 21


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window: one entry per spatial dim; `pads` has the begins of all dims, then the ends."""

    kernel: Ints
    strides: Ints
    pads: Ints
    dilations: Ints

    @property
    def rank(self) -> int:
        """Number of spatial dims."""
        return len(self.kernel)

    def borders(self) -> list[tuple[int, int]]:
        """Per dim, pads at the begin and at the end."""
        return list(zip(self.pads[: self.rank], self.pads[self.rank :], strict=True))

    def counts(self, extents: Ints) -> Ints:
        """Window positions per dim that fit into the padded `extents`."""
        return tuple(
            (extent + begin + end - (k - 1) * dilation - 1) // stride + 1
            for extent, (begin, end), k, dilation, stride in zip(
                extents, self.borders(), self.kernel, self.dilations, self.strides, strict=True
            )
        )

    def covered(self, counts: Ints) -> Ints:
        """Extent per dim from the first element of window 0 to the last of window `counts` - 1, inclusive."""
        return tuple(
            (count - 1) * stride + (k - 1) * dilation + 1
            for count, stride, k, dilation in zip(
                counts, self.strides, self.kernel, self.dilations, strict=True
            )
        )

    def reached(self, extents: Ints, counts: Ints) -> list[tuple[int, int]]:
        """Per dim, the pads that `counts` windows need: with ceil_mode the last may end behind those that are given."""
        return [
            (begin, max(covered - extent - begin, 0))
            for (begin, _), covered, extent in zip(self.borders(), self.covered(counts), extents, strict=True)
        ]

    @property
    def is_pixel(self) -> bool:
        """Whether window p is element p: a kernel of 1, strides of 1, no padding."""
        return set(self.kernel) <= {1} and set(self.strides) <= {1} and not any(self.pads)


def conv(x: Array, w: Array, b: Array | None, window: Window, group: int) -> Array:
    """Convolution of x (N, C, spatial) with w (O, C / group, spatial) plus b (O): (N, O, spatial)."""
    batch, outputs, spatial = x.shape[0], w.shape[0], window.counts(x.shape[2:])
    result = np.zeros((batch, outputs, *spatial), x.dtype)
    depth = w.shape[1] * prod(window.kernel)
    if not result.size or not depth:
        return result if b is None else result + _per_channel(b, result.ndim)
    weights = np.ascontiguousarray(w).reshape(group, outputs // group, depth)
    if window.is_pixel:
        pixels = np.ascontiguousarray(x).reshape(batch, group, depth, prod(spatial))
        np.matmul(weights, pixels, out=result.reshape(batch, group, outputs // group, prod(spatial)))
    else:
        padded = np.pad(x, [(0, 0), (0, 0), *window.borders()]) if any(window.pads) else x
        for image, target in zip(padded, result, strict=True):
            _convolve(image, weights, target, window)
    if b is not None:
        result += _per_channel(b, result.ndim)
    return result


def _per_channel(b: Array, rank: int) -> Array:
    return b.reshape((-1,) + (1,) * (rank - 2))


def _convolve(image: Array, weights: Array, target: Array, window: Window) -> None:
    """Writes weights (group, O / group, depth) times the windows of image (C, spatial) to target (O, spatial)."""
    group, rows, depth = weights.shape
    lines, *rest = target.shape[1:]
    windows = _windows(image, target.shape[1:], window)
    line = prod(rest)
    step = min(max(_WINDOW_ELEMENTS // (group * depth * line), 1), lines)
    matrix = np.empty(group * depth * line * step, image.dtype)
    for start in range(0, lines, step):
        height = min(step, lines - start)
        columns = matrix[: group * depth * line * height].reshape(len(image), *window.kernel, height, *rest)
        columns[...] = windows[(slice(None),) * (1 + window.rank) + (slice(start, start + height),)]
        values = weights @ columns.reshape(group, depth, height * line)
        target[:, start : start + height] = values.reshape(group * rows, height, *rest)


def _windows(image: Array, counts: Ints, window: Window) -> Array:
    """A view (C, kernel, window positions) of image (C, spatial)."""
    channel, *steps = image.strides
    # Along a dim with one entry the stride is never used, and may be too large for an address.
    taps = [s * by if n > 1 else 0 for s, by, n in zip(steps, window.dilations, window.kernel, strict=True)]
    positions = [s * by if n > 1 else 0 for s, by, n in zip(steps, window.strides, counts, strict=True)]
    return as_strided(
        image, (len(image), *window.kernel, *counts), (channel, *taps, *positions), writeable=False
    )


def max_pool(x: Array, window: Window, counts: Ints) -> Array:
    """The largest element of each window, `counts` windows per dim; window padding takes no part."""
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return _pool(x, np.maximum, lowest, window, counts)


def max_pool_with_indices(
    x: Array, window: Window, counts: Ints, *, column_major: bool
) -> tuple[Array, Array]:
    """`max_pool`, and where in x the first of the largest elements of each window is (i64): its number if x is
    row-major, or has spatial dims that are column-major."""
    extents = x.shape[2:]
    order = "F" if column_major else "C"
    numbers = np.arange(prod(extents), dtype=np.int64).reshape(extents, order=order)
    planes = np.arange(prod(x.shape[:2]), dtype=np.int64).reshape(*x.shape[:2], *(1 for _ in extents))
    # In pads there is nothing, and no number.
    borders = window.reached(extents, counts)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    x = np.pad(x, [(0, 0), (0, 0), *borders], constant_values=lowest)
    numbers = np.pad(numbers, borders, constant_values=-1)
    shape = (*x.shape[:2], *counts)
    values, found = np.full(shape, lowest, x.dtype), np.full(shape, -1, np.int64)
    for _, where in _taps(window, counts):
        piece, number = x[(slice(None), slice(None), *where)], np.broadcast_to(numbers[where], shape)
        larger = piece > values
        if x.dtype.kind == "f":
            larger |= np.isnan(piece) & ~np.isnan(values)  # as in max_pool
        better = (number >= 0) & (larger | (found < 0))
        values, found = np.where(better, piece, values), np.where(better, number, found)
    return values, found + planes * prod(extents)


def avg_pool(x: Array, window: Window, counts: Ints, *, count_include_pad: bool) -> Array:
    """The mean of each window, `counts` windows per dim; padding takes no part, or counts as zeros if asked to."""
    total = _pool(x, np.add, 0, window, counts)
    for dim, (begin, end) in enumerate(window.borders()):
        low, high = (-begin, x.shape[2 + dim] + end) if count_include_pad else (0, x.shape[2 + dim])
        starts = np.arange(counts[dim])[:, None] * window.strides[dim] - begin
        positions = starts + np.arange(window.kernel[dim]) * window.dilations[dim]
        divisors = ((positions >= low) & (positions < high)).sum(axis=1)
        shape = [1] * total.ndim
        shape[2 + dim] = -1
        total /= np.maximum(divisors, 1).astype(total.dtype).reshape(shape)
    return total


def _pool(x: Array, join: Callable[..., Array], neutral: float, window: Window, counts: Ints) -> Array:
    """`join` folded over the kernel positions of each window: one strided slice of x per position."""
    borders = window.reached(x.shape[2:], counts)
    if any(map(any, borders)):
        x = np.pad(x, [(0, 0), (0, 0), *borders], constant_values=neutral)
    result: Array | None = None
    for _, where in _taps(window, counts):
        piece = x[(slice(None), slice(None), *where)]
        result = np.array(piece, order="C") if result is None else join(result, piece, out=result)
    assert result is not None
    return result


def col2im(columns: Array, extents: Ints, window: Window) -> Array:
    """The images (N, C, `extents`) whose windows are the columns (N, C * window elements, window positions).

    Where windows overlap, what they say of an element is added; what lies in the padding is left out.
    """
    batch, counts = len(columns), window.counts(extents)
    pieces = columns.reshape(batch, -1, *window.kernel, *counts)
    padded = tuple(extent + sum(border) for extent, border in zip(extents, window.borders(), strict=True))
    images = np.zeros((batch, pieces.shape[1], *padded), columns.dtype)
    for tap, where in _taps(window, counts):
        images[(slice(None), slice(None), *where)] += pieces[(slice(None), slice(None), *tap)]
    inside = (slice(begin, begin + e) for e, (begin, _) in zip(extents, window.borders(), strict=True))
    return images[(slice(None), slice(None), *inside)]


def _taps(window: Window, counts: Ints) -> Iterator[tuple[Ints, tuple[slice, ...]]]:
    """Each position of the kernel, and where in the padded operand the windows have it."""
    for tap in product(*map(range, window.kernel)):
        yield (
            tap,
            tuple(
                slice(t * dilation, t * dilation + (count - 1) * stride + 1, stride)
                for t, dilation, count, stride in zip(
                    tap, window.dilations, counts, window.strides, strict=True
                )
            ),
        )
