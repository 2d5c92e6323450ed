"""Reorders of NumPy arrays: the compiled kernels under the names that a user of the algebra would look for.

A tensor in a Format is seen as an array of *physical* shape: one axis per factor, in memory order. 2x17x5x4 in
nChw8c is an array of shape (2, 3, 5, 4, 8). A plain Format has one axis per dim, so its array is the transposed
tensor: nhwc gives (2, 5, 4, 17). Layouts that are not dense (row pitch, offset, halo) are strided views of their
buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from layout_ir.descriptor import TensorDesc
from layout_ir.dtypes import bits_of, canonical_name
from layout_ir.errors import LayoutError
from layout_ir.format import Format
from layout_ir.layout import Layout

if TYPE_CHECKING:
    from layout_ir.backends.llvm import Reorder
    from layout_ir.backends.llvm.machine import Machine

_NAMES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "i1",
    "int64": "i64", "int32": "i32", "int8": "i8", "uint8": "ui8",
}  # fmt: skip


def physical_shape(layout: Layout) -> tuple[int, ...]:
    """One extent per factor, outermost first, in elements."""
    return tuple(factor.count for factor in layout.factors)


def physical_array(buffer: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """`buffer` (one-dimensional, `layout.extent` elements or more) seen in the physical shape of `layout`."""
    if buffer.ndim != 1 or buffer.size < layout.extent:
        raise LayoutError(
            f"a buffer of {buffer.size} elements is too small for {layout}, which needs {layout.extent}"
        )
    strides = [factor.stride * buffer.itemsize for factor in layout.factors]
    return as_strided(buffer[layout.offset :], physical_shape(layout), strides)


def reorder(
    x: NDArray[Any],
    source: Format | str,
    destination: Format | str,
    *,
    shape: Sequence[int] | None = None,
    out: NDArray[Any] | None = None,
    dtype: str | None = None,
) -> NDArray[Any]:
    """The tensor `x`, which lies in `source`, in `destination`: an array of its physical shape.

    `x` is an array of the physical shape of `source`, C-contiguous or not. `shape` are the logical extents; without
    it they are what `x` can hold (a blocked `x` is then taken to be full). `out` is a C-contiguous array of the
    destination's physical shape to write to. `dtype` names the elements where NumPy has no type of its own (bf16 in
    uint16). Raises LayoutError where shapes, formats or arrays do not fit.
    """
    if shape is None and (known := _known(source, destination, x.shape, x.dtype, dtype)) is not None:
        kernel, wanted, kind = known
        if out is None or (out.shape == wanted and out.dtype == kind):
            target = np.empty(wanted, kind) if out is None else out
            try:
                kernel(x, target)
                return target
            except (
                LayoutError
            ):  # an array that is not contiguous, say: the long way copies it, or says what is wrong
                pass
    from layout_ir.backends.llvm import compile_reorder

    source, destination = Format.of(source), Format.of(destination)
    extents = _logical_shape(x, source) if shape is None else tuple(shape)
    src, dst = source.bind(extents), destination.bind(extents)
    if x.shape != physical_shape(src):
        raise LayoutError(
            f"the array has shape {x.shape}, a tensor of shape {extents} in {source} has {physical_shape(src)}"
        )
    name = canonical_name(dtype) if dtype is not None else _dtype(x)
    if bits_of(name) != 8 * x.itemsize:
        raise LayoutError(f"the array has elements of {8 * x.itemsize} bits, {name} has {bits_of(name)}")
    buffer = _source_buffer(x, src)
    if out is None:
        target = np.zeros(dst.extent, x.dtype)
        compile_reorder(src, dst, name)(buffer, target)
        return physical_array(target, dst)
    if (
        out.shape != physical_shape(dst)
        or out.dtype != x.dtype
        or not out.flags.c_contiguous
        or not dst.is_dense()
    ):
        raise LayoutError(
            f"out is {out.shape} of {out.dtype}, expected a C-contiguous {physical_shape(dst)} of {x.dtype}"
        )
    compile_reorder(src, dst, name)(buffer, out.reshape(-1))
    return out


@lru_cache(maxsize=256)
def _known(
    source: Format | str,
    destination: Format | str,
    shape: tuple[int, ...],
    kind: np.dtype[Any],
    dtype: str | None,
) -> tuple[Reorder, tuple[int, ...], np.dtype[Any]] | None:
    """The kernel for arrays of that shape, and what it makes of them, where the arrays are the buffers.

    Everything about a call that does not depend on its data: finding it out takes thirty times as long as the call.
    None where a buffer has places that are no element and are not written, and where something is wrong with the
    arguments, which the long way says.
    """
    from layout_ir.backends.llvm import compile_reorder

    try:
        source, destination = Format.of(source), Format.of(destination)
        like = np.broadcast_to(np.zeros((), kind), shape)
        extents = _logical_shape(like, source)
        src, dst = source.bind(extents), destination.bind(extents)
        name = canonical_name(dtype) if dtype is not None else _dtype(like)
        if shape != physical_shape(src) or bits_of(name) != 8 * kind.itemsize:
            return None
        kernel = compile_reorder(src, dst, name)
    except LayoutError:
        return None
    padded = dst.padded_shape != dst.shape
    whole = all(layout.is_dense() and layout.offset == 0 for layout in (src, dst))
    if not whole or (padded and dst.pad == "undef"):
        return None
    return kernel, physical_shape(dst), kind


def compile_reorder(
    source: TensorDesc | Layout,
    destination: TensorDesc | Layout,
    dtype: str | None = None,
    *,
    threads: int | None = None,
    target: Machine | str | None = None,
    tune: bool = False,
) -> Reorder:
    """A kernel `kernel(source_buffer, destination_buffer)`; see `layout_ir.backends.llvm.compile_reorder`.

    Descriptors bring their element type; `dtype` names that of bare layouts (f32 without it).
    """
    from layout_ir.backends.llvm import compile_reorder as compile_

    given = {side.dtype for side in (source, destination) if isinstance(side, TensorDesc)}
    given |= {canonical_name(dtype)} if dtype is not None else set()
    if len(given) > 1:
        raise LayoutError(f"a compiled reorder keeps the element type: {' != '.join(sorted(given))}")
    src, dst = (side.layout if isinstance(side, TensorDesc) else side for side in (source, destination))
    return compile_(src, dst, given.pop() if given else "f32", threads=threads, target=target, tune=tune)


def _dtype(x: NDArray[Any]) -> str:
    if x.dtype.name not in _NAMES:
        raise LayoutError(f"arrays of {x.dtype} cannot be reordered: known are {', '.join(_NAMES)}")
    return _NAMES[x.dtype.name]


def _logical_shape(x: NDArray[Any], fmt: Format) -> tuple[int, ...]:
    """The largest extents that a tensor in `fmt` with the physical shape of `x` can have."""
    if x.ndim != len(fmt.all_factors):
        raise LayoutError(
            f"the array has {x.ndim} axes, {fmt} has {len(fmt.all_factors)} factors: one axis per factor"
        )
    extents = [1] * fmt.rank
    for factor, count in zip(fmt.all_factors, x.shape, strict=True):
        extents[factor.dim] *= count
    return tuple(extents)


def _source_buffer(x: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """`x` as the buffer that `layout` addresses: itself where it lies so, else a copy."""
    if layout.is_dense() and layout.offset == 0 and x.flags.c_contiguous:
        return x.reshape(-1)
    buffer = np.zeros(layout.extent, x.dtype)
    physical_array(buffer, layout)[...] = x
    return buffer
