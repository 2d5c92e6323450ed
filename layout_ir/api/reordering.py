"""Reorders of NumPy arrays: the compiled kernels under the names that a user of the algebra would look for.

    reorder(x, "nchw", "nhwc", dtype="i8", scale=0.05, zero_point=3)      quantizes an f32 array on the way

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

from layout_ir.algebra.binding import check_addresses
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.api.reorder_compilation import ScaledReorder, bound_kernel
from layout_ir.argument_checks import check_flags
from layout_ir.arrays.protocols import storage_of
from layout_ir.caches import keeps_kernels
from layout_ir.elements.aligned_arrays import aligned_empty, aligned_zeros
from layout_ir.elements.element_types import ELEMENT_TYPES, bits_of, canonical_name
from layout_ir.errors import LayoutError, public

if TYPE_CHECKING:
    from layout_ir.backends.llvm import Reorder

_NAMES = {
    known.array_name: known.name for known in ELEMENT_TYPES if not (known.is_packed or known.name == "ui16")
}
"""The element types of NumPy's types. Arrays of uint16 may hold ui16 or the bits of bf16: an argument says which, and
without one they hold ui16, which moves as bf16 does."""

_ADDED = frozenset(known.array_name for known in ELEMENT_TYPES if known.array_name != known.storage)
"""The types that ml_dtypes adds to NumPy's, by name."""


def physical_shape(layout: Layout) -> tuple[int, ...]:
    """One extent per factor, outermost first, in elements."""
    return tuple(factor.count for factor in layout.factors)


def _is_row_of_factors(layout: Layout) -> bool:
    """Whether a C-contiguous array of the physical shape is the buffer: address 0 first, the last factor fastest."""
    running = 1
    for factor in reversed(layout.factors):
        # Behind an extent of 0 there are no elements, and strides say nothing.
        if running and factor.count > 1 and factor.stride != running:
            return False
        running *= factor.count
    return layout.offset == 0 and layout.extent == running and layout.swizzle is None and not layout.axes


def physical_array(buffer: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """`buffer` (one-dimensional, `layout.extent` elements or more) seen in the physical shape of `layout`.

    Raises LayoutError where the buffer is too small, where the layout has addresses below 0, at which a buffer begins,
    and where strides do not say it: a swizzle, another axis than memory.
    """
    check_addresses(layout)
    if layout.swizzle is not None:
        raise LayoutError(f"{layout} has a swizzle, so it is no array of its physical shape")
    if buffer.ndim != 1 or buffer.size < layout.extent:
        raise LayoutError(
            f"a buffer of {buffer.size} elements is too small for {layout}, which needs {layout.extent}"
        )
    strides = [factor.stride * buffer.itemsize for factor in layout.factors]
    kind = buffer.dtype
    if kind.name in _ADDED:
        # Some types of ml_dtypes are none that as_strided knows.
        buffer = buffer.view(storage_of(_NAMES[kind.name]))
    return as_strided(buffer[layout.offset :], physical_shape(layout), strides).view(kind)


def reorder(
    x: NDArray[Any],
    source: Format | str,
    destination: Format | str,
    *,
    shape: Sequence[int] | None = None,
    out: NDArray[Any] | None = None,
    dtype: str | None = None,
    source_dtype: str | None = None,
    scale: Any = None,
    zero_point: Any = None,
    beta: Any = None,
    dim: int | None = None,
    saturate: bool = False,
    threads: int | None = None,
) -> NDArray[Any]:
    """The tensor `x`, which lies in `source`, in `destination`: an array of its physical shape.

    `x` is an array of the physical shape of `source`, C-contiguous or not. `shape` are the logical extents; without
    it they are what `x` can hold (a blocked `x` is then taken to be full). `out` is a C-contiguous array of the
    destination's physical shape to write to.

    `dtype` names the elements of the result (those of `x`, if not given), `source_dtype` those of `x` where NumPy has
    no type of its own: bf16 in uint16 (which `dtype="bf16"` alone means as well). Elements of 4 bits are a row of
    bytes, two in each, on either side.

    A stored element stands for (stored - zero point) * scale, and the destination holds what comes nearest to that.
    `scale` and `zero_point` are those of the one side that has integers or narrow floats, or a pair (source's,
    destination's), None for none: a number each, or a list or an array of one for each index of dim number `dim`. With
    `beta`, a number, beta times what `out` held before is added. With `saturate` what is too large for a float of 8
    bits becomes its greatest number, not infinity or NaN.

    Arrays in another byte order than this machine's are converted first.

    Raises LayoutError where shapes, formats, arrays or numbers do not fit.
    """
    # Spelled out: `any` of a generator takes a third of a call for 4 KiB.
    plain = shape is None and source_dtype is None and beta is None and dim is None and threads is None
    if plain and saturate is False:
        try:
            known = _known(source, destination, x.shape, x.dtype, dtype, scale, zero_point)
        except (TypeError, AttributeError):  # an array among the numbers; what is no array
            known = None
        if known is not None:
            kernel, wanted, kind = known
            try:
                fits = out is None or (out.shape == wanted and out.dtype == kind)
            except (TypeError, AttributeError):
                fits = False  # what is no array: the long way says so
            if fits:
                target = aligned_empty(wanted, kind) if out is None else out
                try:
                    kernel(x, target)
                    return target
                except LayoutError:
                    pass  # an array that is not contiguous, say: the long way copies it, or says what is wrong
    return _reorder(
        x,
        source,
        destination,
        shape,
        out,
        dtype,
        source_dtype,
        scale,
        zero_point,
        beta,
        dim,
        saturate,
        threads,
    )


@public
def _reorder(
    x: NDArray[Any],
    source: Format | str,
    destination: Format | str,
    shape: Sequence[int] | None,
    out: NDArray[Any] | None,
    dtype: str | None,
    source_dtype: str | None,
    scale: Any,
    zero_point: Any,
    beta: Any,
    dim: int | None,
    saturate: bool,
    threads: int | None,
) -> NDArray[Any]:
    """What `reorder` gives, for whatever arguments."""
    check_flags(saturate=saturate)
    for name, value in (("x", x), ("out", x if out is None else out)):
        if not isinstance(value, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LayoutError(f"{name} is {_kind(value)}, expected a NumPy array")
    x = x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))
    source, destination = Format.of(source), Format.of(destination)
    src_name = _source_dtype(x, source_dtype, dtype)
    dst_name = src_name if dtype is None else canonical_name(dtype)
    if bits_of(src_name) < 8 and shape is None:
        raise LayoutError(f"elements of {src_name} share bytes, so the array says no shape: give it")
    src = source.bind(_logical_shape(x, source) if shape is None else shape)
    dst = destination.bind(src.shape)
    buffer = x.reshape(-1) if bits_of(src_name) < 8 else _checked_source(x, src)
    kernel = bound_kernel(
        src, dst, (src_name, dst_name), (scale, zero_point, beta), dim, saturate=saturate, threads=threads
    )
    kind = x.dtype if dst_name == src_name else storage_of(dst_name)
    packed = bits_of(dst_name) < 8
    if out is None:
        target = aligned_zeros((dst.nbytes(dst_name) if packed else dst.extent,), kind)
        kernel(buffer, target)
        return target if packed else physical_array(target, dst)
    wanted = (dst.nbytes(dst_name),) if packed else physical_shape(dst)
    if out.shape != wanted or out.dtype != kind or not out.flags.c_contiguous or not _is_row_of_factors(dst):
        raise LayoutError(f"out is {out.shape} of {out.dtype}, expected a C-contiguous {wanted} of {kind}")
    kernel(buffer, out.reshape(-1))
    return out


def _kind(value: object) -> str:
    """The kind of thing that `value` is, for a message: "None", "of type list"."""
    return "None" if value is None else f"of type {type(value).__name__}"


@keeps_kernels
@lru_cache(maxsize=256)
def _known(
    source: Format | str,
    destination: Format | str,
    shape: tuple[int, ...],
    kind: np.dtype[Any],
    dtype: str | None,
    scale: Any,
    zero_point: Any,
) -> tuple[Reorder | ScaledReorder, tuple[int, ...], np.dtype[Any]] | None:
    """The kernel for arrays of that shape, and what it makes of them, where the arrays are the buffers.

    Everything about a call that does not depend on its data: finding it out takes thirty times as long as the call.
    None where a buffer has places that are no element and are not written, and where something is wrong with the
    arguments, which the long way says.
    """
    try:
        source, destination = Format.of(source), Format.of(destination)
        like = np.broadcast_to(np.zeros((), kind), shape)
        extents = _logical_shape(like, source)
        src, dst = source.bind(extents), destination.bind(extents)
        src_name = _source_dtype(like, None, dtype)
        dst_name = src_name if dtype is None else canonical_name(dtype)
        if not kind.isnative or shape != physical_shape(src) or min(bits_of(src_name), bits_of(dst_name)) < 8:
            return None
        kernel = bound_kernel(src, dst, (src_name, dst_name), (scale, zero_point, None))
    except LayoutError:
        return None
    padded = dst.padded_shape != dst.shape
    if not (_is_row_of_factors(src) and _is_row_of_factors(dst)) or (padded and dst.pad == "undef"):
        return None
    return kernel, physical_shape(dst), kind if dst_name == src_name else storage_of(dst_name)


def _source_dtype(x: NDArray[Any], given: str | None, wanted: str | None) -> str:
    """The element type of `x`, whose reorder gives elements of `wanted`. Raises LayoutError for an array of a type
    that no element type is stored in, where none is `given`."""
    if given is None:
        is_bf16 = x.dtype == np.uint16 and wanted is not None and canonical_name(wanted) == "bf16"
        return "bf16" if is_bf16 else _dtype(x)
    name = canonical_name(given)
    if storage_of(name).itemsize != x.itemsize:
        raise LayoutError(
            f"the array has elements of {8 * x.itemsize} bits, {name} is kept in {storage_of(name)}"
        )
    return name


def _checked_source(x: NDArray[Any], layout: Layout) -> NDArray[Any]:
    if x.shape != physical_shape(layout):
        raise LayoutError(
            f"the array has shape {x.shape}, a tensor of shape {layout.shape} in {layout.format} has "
            f"{physical_shape(layout)}"
        )
    return _source_buffer(x, layout)


def _dtype(x: NDArray[Any]) -> str:
    if x.dtype == np.uint16:
        return "ui16"
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
    if _is_row_of_factors(layout) and x.flags.c_contiguous:
        return x.reshape(-1)
    check_addresses(layout)
    if layout.is_injective() is not True:
        raise LayoutError(
            f"the source {layout.format} keeps several elements at one address, so an array of its physical shape may "
            "hold more than it: compile_reorder takes its buffer"
        )
    buffer = np.zeros(layout.extent, x.dtype)
    physical_array(buffer, layout)[...] = x
    return buffer
