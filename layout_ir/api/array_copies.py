"""Copies of NumPy arrays into another order of memory, in place of NumPy's own functions.

    li.ascontiguousarray(a.T)            as np.ascontiguousarray, with order="F", "K" or a Format as well
    li.copyto(out, a.T)                  as np.copyto
    li.transpose_copy(a, (0, 2, 1))      a transposed, always as a copy

They take what NumPy's functions take and give what those give, to the flags of the result and to whether it is the
argument itself. What is moved by machine code of ours: arrays of numbers, text and dates, of any strides, between equal
dtypes, with memory apart from each other. Everything else NumPy does: casts, objects, records, masks (`where`),
subclasses, arrays of more than eight dims, and source and destination that overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from layout_ir.algebra.format import Format
from layout_ir.api.compiled_functions import compiled, timed
from layout_ir.errors import LayoutError


@compiled("ascontiguousarray")
def ascontiguousarray(
    a: ArrayLike, dtype: DTypeLike | None = None, *, order: str | Format = "C", like: Any = None
) -> NDArray[Any]:
    """`a` as an array whose elements lie together in memory; `a` itself where they do so already.

    With `order` "C" and "F" it is what `np.ascontiguousarray` and `np.asfortranarray` give. "K" keeps the order in
    which the dims of `a` lie, without gaps: what `a.copy(order="K")` gives. A Format, or its text, says the order of
    the dims: `order="nhwc"` gives an array of the shape of `a`, (n, c, h, w), with the channels innermost in memory.
    `dtype` and `like` mean what they mean to NumPy.

    Raises LayoutError for another order, and where a Format has blocks or pads, which no strides say.
    """
    if isinstance(order, str) and order == "C":
        if like is not None:
            return np.ascontiguousarray(a, dtype, like=like)
        if dtype is not None and type(a) is np.ndarray and np.dtype(dtype) is a.dtype:
            return ascontiguousarray(a)
        return timed(np.ascontiguousarray, a, dtype)
    return _in_order(a, dtype, order, like)


def _in_order(a: ArrayLike, dtype: DTypeLike | None, order: str | Format, like: Any) -> NDArray[Any]:
    """`a` in another order than "C"."""
    if isinstance(order, str) and order == "F":
        if like is not None:
            return np.asfortranarray(a, dtype, like=like)
        if dtype is not None and type(a) is np.ndarray and np.dtype(dtype) is a.dtype:
            return ascontiguousarray(a, order="F")
        return timed(np.asfortranarray, a, dtype)
    x = np.asarray(a, dtype) if like is None else np.asarray(a, dtype, like=like)
    if isinstance(order, str) and order == "K":
        # Of the dims with more than one element, whose strides mean something.
        copy = np.empty_like(x)
        if x.size == 0 or all(
            n == 1 or s == t for n, s, t in zip(x.shape, x.strides, copy.strides, strict=True)
        ):
            return x
        copyto(copy, x)
        return copy
    axes = _axes_of(order, x.shape)
    y = x.transpose(axes)
    return x if y.flags.c_contiguous else ascontiguousarray(y).transpose(np.argsort(axes))


def _axes_of(order: str | Format, shape: tuple[int, ...]) -> list[int]:
    """The dims in the order in which `order` has them. Raises LayoutError where it is more than an order of dims."""
    if not isinstance(order, str | Format) or (isinstance(order, str) and len(order) < 2):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(
            f"order = {order!r}: expected 'C', 'F', 'K' or a format of the dims, such as 'nhwc'"
        )
    layout = Format.of(order).bind(shape)
    axes = [factor.dim for factor in layout.factors]
    dense = layout.extent == layout.nelems and layout.offset == 0
    if len(axes) != len(shape) or layout.swizzle is not None or layout.axes or not dense:
        raise LayoutError(
            f"order {order} is more than an order of dims, so no strides say it: "
            "reorder(a, source, destination) gives an array of its physical shape"
        )
    return axes


@compiled("copyto")
def copyto(dst: NDArray[Any], src: ArrayLike, casting: Any = "same_kind", where: Any = True) -> None:
    """Copies the elements of `src`, broadcast to the shape of `dst`, into `dst`, as `np.copyto` does.

    `casting` and `where` mean what they mean to NumPy, whose errors are raised. Where the two overlap in memory, `dst`
    holds afterwards what `src` held before.
    """
    timed(np.copyto, dst, src, casting=casting, where=where)


def transpose_copy(
    a: ArrayLike, axes: Sequence[int] | None = None, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """A copy of `a` with its axes in the order of `axes` (None: reversed), C-contiguous: `a.transpose(axes).copy()`.

    With `out`, an array of that shape and of any strides, the copy is written there, cast as `np.copyto` does, and
    `out` is what is returned. Raises what `np.transpose` raises, and ValueError where the shape of `out` is another.
    """
    view: NDArray[Any] = (
        cast("NDArray[Any]", a).transpose(axes) if isinstance(a, np.ndarray) else np.transpose(a, axes)
    )
    if out is None:
        return _copied(view)
    if np.shape(out) != view.shape:
        raise ValueError(f"out has shape {np.shape(out)}, the transposed array has {view.shape}")
    copyto(out, view)
    return out


@compiled("copied")
def _copied(a: NDArray[Any]) -> NDArray[Any]:
    """`a.copy(order="C")`."""
    return timed(type(a).copy, a, "C")
