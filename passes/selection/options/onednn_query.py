"""Which formats the installed oneDNN wants for a convolution: its C API, loaded with ctypes.

A primitive descriptor is made with descriptors whose format is `any` and asked what it chose; nothing is executed.
The library is the one that would run the network (`onednn_package`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from functools import lru_cache

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.elements.element_types import element_type
from layout_ir.errors import LayoutError
from layout_ir.notations.onednn import MAX_NDIMS, BlockingDesc
from layout_ir.passes.selection.options.conv_kernels import ConvShape, activation, weight
from layout_ir.passes.selection.options.onednn_package import installed, instruction_set, load

# Values of the C enumerations, which are part of the ABI of version 3.
_CPU, _TAG_ANY, _INFERENCE, _CONVOLUTION_AUTO = 1, 1, 96, 3
_IMPLEMENTATION, _SRC, _WEIGHTS, _DST = 8, 129, 131, 133
_STRIDES, _NUMBER_OF_DIMS, _DIMS, _OFFSET, _PADDED, _PADDED_OFFSETS = 14, 256, 257, 259, 260, 261
_INNER_COUNT, _INNER_BLOCKS, _INNER_DIMS = 263, 264, 265


@dataclass(frozen=True, slots=True)
class Answer:
    """Formats of input, weights and output, and the implementation that takes them, as the library names it.

    The weights have none where no shape-free format says how the library packs them, as with channels that are padded
    per group.
    """

    x: Format
    w: Format | None
    y: Format
    implementation: str


class _Refused(Exception):
    """The library returned another status than success."""


@lru_cache(maxsize=1)
def _library() -> tuple[ctypes.CDLL, c_void_p]:
    """The library and a CPU engine. Raises OSError or _Refused."""
    path = next(installed(), None)
    if path is None:
        raise OSError("oneDNN is not installed: pip install 'layout-ir[run]'")
    library = load(path)
    library.dnnl_primitive_desc_query_md.restype = c_void_p
    library.dnnl_primitive_desc_query_md.argtypes = [c_void_p, c_int, c_int]
    library.dnnl_primitive_desc_query.argtypes = [c_void_p, c_int, c_int, c_void_p]
    library.dnnl_primitive_desc_destroy.argtypes = [c_void_p]
    library.dnnl_memory_desc_query.argtypes = [c_void_p, c_int, c_void_p]
    library.dnnl_memory_desc_destroy.argtypes = [c_void_p]
    library.dnnl_engine_create.argtypes = [c_void_p, c_int, c_size_t]
    engine = c_void_p()
    _check(library.dnnl_engine_create(byref(engine), _CPU, 0))
    return library, engine


@lru_cache(maxsize=1)
def unavailable() -> str | None:
    """Why the library cannot be asked; None where it can."""
    try:
        _library()
    except OSError as error:
        return str(error)
    except _Refused:
        return "libdnnl offers no CPU engine"
    return None


def vector_extension() -> str:
    """avx2 or avx512: what the kernels of the installed library use; avx2 where it cannot be asked."""
    if unavailable() is not None:
        return "avx2"
    return "avx512" if instruction_set(_library()[0]).startswith("avx512") else "avx2"


def ask(conv: ConvShape, x: Format | None, y: Format | None) -> Answer | None:
    """What the library chooses for a convolution with input in `x` and output in `y`, None for `any`.

    None where it has no kernel, or one whose formats have no name here.
    """
    out = output_shape(conv)
    group = () if conv.group == 1 else (conv.group,)
    weights = (*group, conv.outputs_per_group, conv.inputs_per_group, *conv.kernel)
    rank = conv.spatial_rank
    pads = conv.pads
    try:
        library, engine = _library()
        with (
            _desc((conv.batch, conv.channels, *conv.image), conv.dtype, x) as src,
            _desc(weights, conv.dtype, None) as wei,
            _desc(out, conv.dtype, y) as dst,
            _desc((conv.outputs,), conv.dtype, None) as bias,
        ):
            pd = c_void_p()
            call = library.dnnl_convolution_forward_primitive_desc_create
            _check(
                call(
                    byref(pd), engine, _INFERENCE, _CONVOLUTION_AUTO,
                    src, wei, bias if conv.bias else None, dst,
                    _array(conv.strides), _array([d - 1 for d in conv.dilations]),
                    _array(pads[:rank]), _array(pads[rank:]), None,
                )
            )  # fmt: skip
        try:
            return _answer(conv, pd)
        finally:
            library.dnnl_primitive_desc_destroy(pd)
    except (_Refused, LayoutError):
        return None


def output_shape(conv: ConvShape) -> tuple[int, ...]:
    rank = conv.spatial_rank
    space = tuple(
        (conv.image[d] + conv.pads[d] + conv.pads[rank + d] - conv.dilations[d] * (conv.kernel[d] - 1) - 1)
        // conv.strides[d]
        + 1
        for d in range(rank)
    )
    return conv.batch, conv.outputs, *space


def _answer(conv: ConvShape, pd: c_void_p) -> Answer:
    library, _ = _library()
    name = c_char_p()
    _check(library.dnnl_primitive_desc_query(pd, _IMPLEMENTATION, 0, byref(name)))
    src, wei, dst = (
        _numbers(c_void_p(library.dnnl_primitive_desc_query_md(pd, what, 0)))
        for what in (_SRC, _WEIGHTS, _DST)
    )
    weights: Format | None = None
    with suppress(LayoutError):
        weights = _weights(wei, conv.spatial_rank, conv.group)
    return Answer(_activation(src), weights, _activation(dst), (name.value or b"").decode())


@lru_cache(maxsize=4096)
def _activation(desc: BlockingDesc) -> Format:
    """The shape-free Format of a descriptor: a usual one where that has the same bytes. Raises LayoutError for none."""
    rank = len(desc.dims) - 2
    layout = desc.layout()
    usual = [activation(rank, "nSc"), activation(rank, "ncS")]
    usual += [activation(rank, "ncS", ("c", block)) for block in (8, 16)]
    for fmt in usual:
        if fmt.bind(desc.dims).same_map(layout):
            return fmt
    found = Format(usual[0].names, tuple(_factors(desc)), pad="zero" if desc.inner_blks else "undef")
    if not found.bind(desc.dims).same_map(layout):
        raise LayoutError(f"no shape-free format for {layout}")
    return found


@lru_cache(maxsize=4096)
def _weights(desc: BlockingDesc, spatial_rank: int, group: int) -> Format:
    """The shape-free Format of weights; the library's dim of groups is the outer part of our output channels."""
    names = weight(spatial_rank, "oiS").names
    pad = "zero" if desc.inner_blks else "undef"
    if group == 1:
        return Format(names, tuple(_factors(desc)), pad=pad)
    if any(padded != extent for padded, extent in zip(desc.padded_dims[1:], desc.dims[1:], strict=True)):
        raise LayoutError("channels that are padded per group have no shape-free format")
    outer = desc.dims[1] // desc.blocks[1]
    factors: list[Factor] = []
    for factor in _factors(desc):
        if factor.dim == 1 and factor.size is None:
            if outer > 1:
                factors.append(Factor(0, outer))
        else:
            factors.append(Factor(max(factor.dim - 1, 0), factor.size))
    open_ = [k for k, factor in enumerate(factors) if factor.dim == 0 and factor.size is None]
    if not open_ or any(factor.dim == 0 for factor in factors[: open_[0]]):
        raise LayoutError("groups inside their channels have no shape-free format")
    return Format(names, tuple(factors), pad=pad)


def _factors(desc: BlockingDesc) -> Iterator[Factor]:
    """Outer factors by falling stride, then the inner blocks."""
    for dim in sorted(range(len(desc.dims)), key=lambda d: -desc.strides[d]):
        yield Factor(dim)
    for size, dim in zip(desc.inner_blks, desc.inner_idxs, strict=True):
        yield Factor(dim, size)


# The C API -----------------------------------------------------------------------------------------------------------


def _check(status: int) -> None:
    if status:
        raise _Refused(status)


def _array(values: Sequence[int]) -> ctypes.Array[c_int64]:
    return (c_int64 * MAX_NDIMS)(*values)


@contextmanager
def _desc(dims: Sequence[int], dtype: str, fmt: Format | None) -> Generator[c_void_p]:
    """A memory descriptor: `any` without a Format, else the one of its layout."""
    library, _ = _library()
    handle = c_void_p()
    if fmt is None:
        call = library.dnnl_memory_desc_create_with_tag
        _check(call(byref(handle), len(dims), _array(dims), element_type(dtype).onednn, _TAG_ANY))
    else:
        call = library.dnnl_memory_desc_create_with_string_tag
        tag = _tag(fmt)
        _check(call(byref(handle), len(dims), _array(dims), element_type(dtype).onednn, tag.encode()))
    try:
        yield handle
    finally:
        library.dnnl_memory_desc_destroy(handle)


def _tag(fmt: Format) -> str:
    """The canonical tag of a shape-free Format: a letter per outer dim in memory order, then sizes and letters of
    blocks."""
    blocked = {factor.dim for factor in fmt.factors if factor.size is not None}
    text = ""
    for factor in fmt.factors:
        letter = "abcdefghijkl"[factor.dim]
        text += (
            f"{factor.size}{letter}"
            if factor.size is not None
            else letter.upper()
            if factor.dim in blocked
            else letter
        )
    return text


def _numbers(md: c_void_p) -> BlockingDesc:
    library, _ = _library()

    def number(what: int) -> int:
        value = c_int64() if what == _OFFSET else c_int()
        _check(library.dnnl_memory_desc_query(md, what, byref(value)))
        return value.value

    def vector(what: int, count: int) -> tuple[int, ...]:
        value = POINTER(c_int64)()
        _check(library.dnnl_memory_desc_query(md, what, byref(value)))
        return tuple(value[:count]) if count else ()

    n, blocks = number(_NUMBER_OF_DIMS), number(_INNER_COUNT)
    return BlockingDesc(
        vector(_DIMS, n), vector(_PADDED, n), vector(_PADDED_OFFSETS, n), number(_OFFSET), vector(_STRIDES, n),
        vector(_INNER_BLOCKS, blocks), vector(_INNER_DIMS, blocks),
    )  # fmt: skip
