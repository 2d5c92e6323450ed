"""What of a weight is a task: a part of its reorder, or some of its blocks of channels.

Sums of a channel are made by whoever has written all of its weights, so a weight with compensation is cut along its
channels: each piece is a reorder of its own between slices of both layouts. Pieces of one size are one kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod
from operator import index
from typing import Any

from numpy.typing import NDArray

from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.emission.emit import module_text
from layout_ir.backends.llvm.emission.kernels.channel_sums import emit_channel_sums
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.call import prepared
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.backends.llvm.runtime.task_list import Task
from layout_ir.caches import keeps_kernels
from layout_ir.elements.cache_line import LINE
from layout_ir.elements.element_types import bits_of
from layout_ir.elements.quantization import Conversion, is_per_channel
from layout_ir.errors import LayoutError

_TASK = 512 << 10
"""Bytes of source and destination of a task, about: so many that taking it costs nothing, so few that L2 still holds
what its sums read."""

Values = Mapping[str, NDArray[Any]]


def weight_tasks(
    pair: int,
    src: Layout,
    dst: Layout,
    conversion: Conversion,
    values: Values,
    channels: tuple[int, ...],
    sums: tuple[int | None, int | None],
    threads: int,
    volume: int,
) -> Iterator[Task]:
    """The tasks of a reorder between the buffers number `pair`; `values` are its runtime parameters.

    `channels` are the dims of output channels, the last one fastest. Their compensation sums, times -128 and times -1,
    are i32 that begin so many bytes behind the destination's start, None for none. `volume` is how many bytes the whole
    list reads and writes: the caches hold a small weight of a large list no more than a large one. Raises LayoutError
    where no kernel moves the layouts, and for sums of elements other than i8, of shared addresses, or of pads that hold
    anything.
    """
    if any(at is not None for at in sums):
        if conversion.dst != "i8":
            raise LayoutError(f"compensation sums are those of i8, the weights become {conversion.dst}")
        if dst.is_injective() is not True:
            raise LayoutError(f"compensation sums of {dst.format}: elements may share an address there")
    else:
        return _parts(pair, src, dst, conversion, values, threads, volume)
    return _pieces(pair, src, dst, conversion, values, channels, sums, volume)


def _parts(
    pair: int,
    src: Layout,
    dst: Layout,
    conversion: Conversion,
    values: Values,
    threads: int,
    volume: int,
) -> Iterator[Task]:
    """Parts of one reorder."""
    kernel = prepared(src, dst, conversion, threads, host(), volume=volume)
    size = index(kernel.plan.src_bytes) + index(kernel.plan.dst_bytes)
    # Two parts might write one byte where two elements share it.
    parts = 1 if kernel.plan.shares_bytes else max(1, size // _TASK)
    for part in range(parts):
        yield Task(pair, kernel, part=part, parts=parts, parameters=dict(values))


def _pieces(
    pair: int,
    src: Layout,
    dst: Layout,
    conversion: Conversion,
    values: Values,
    channels: tuple[int, ...],
    sums: tuple[int | None, int | None],
    volume: int,
) -> Iterator[Task]:
    """Pieces of some channels each, with their sums, which are read from what was written: nothing is streamed."""
    dim, step = _cut(src, dst, conversion, channels)
    behind = prod(dst.padded_shape[d] for d in channels if d > dim)
    for start in range(0, dst.shape[dim], step):
        size = min(step, dst.shape[dim] - start)
        (source, src_at), (target, dst_at) = (
            piece(layout, dim, start, size) or (layout, 0) for layout in (src, dst)
        )
        part, own = conversion, dict(values)
        if conversion.dim == dim:
            part = replace(conversion, channels=size)
            own = {
                name: x[start : start + size] if is_per_channel(conversion.parameters[name]) else x
                for name, x in values.items()
            }
        yield Task(
            pair,
            prepared(source, target, part, 1, host(), volume=volume, stream=False),
            src_at * bits_of(conversion.src) // 8,
            dst_at * bits_of(conversion.dst) // 8,
            parameters=own,
            sums=None if sums == (None, None) else _sums(target, channels),
            shifted=None if sums[0] is None else sums[0] + 4 * start * behind,
            zero=None if sums[1] is None else sums[1] + 4 * start * behind,
        )


def _cut(src: Layout, dst: Layout, conversion: Conversion, channels: tuple[int, ...]) -> tuple[int, int]:
    """The dim of channels that is cut, and how many of them are a piece: all where no cut serves both layouts."""
    coarsest = {dim: dst.digits[dim][-1] for dim in channels if dst.digits[dim]}
    dim = max(coarsest, key=lambda d: (coarsest[d].count > 1, coarsest[d].stride), default=channels[0])
    extent = dst.shape[dim]
    if dim not in coarsest or min(bits_of(conversion.src), bits_of(conversion.dst)) < 8:
        return dim, max(extent, 1)
    digit = coarsest[dim]
    total = (src.nelems * bits_of(conversion.src) + dst.span * bits_of(conversion.dst)) // 8
    most = max(1, digit.count * _TASK // max(total, 1))
    blocks = next((n for n in range(most, most // 2, -1) if digit.count % n == 0), most)
    # A line is written by one thread.
    width = digit.stride * bits_of(conversion.dst) // 8
    while blocks * width % LINE and width < LINE and blocks < digit.count:
        blocks += 1
    step = blocks * digit.unit
    if step >= extent:
        return dim, max(extent, 1)
    last = (extent - 1) // step * step
    cuts = [
        piece(layout, dim, start, min(step, extent - start))
        for layout in (src, dst)
        for start in (0, step, last)
    ]
    return (dim, extent) if None in cuts else (dim, step)


def piece(layout: Layout, dim: int, start: int, size: int) -> tuple[Layout, int] | None:
    """The slice of `size` indices of `dim` as a layout that begins where `layout` does, and by how many elements its
    buffer begins later. None where the slice begins inside of a block, or loses what its pads hold."""
    starts, sizes = [0] * layout.rank, list(layout.shape)
    starts[dim], sizes[dim] = start, size
    slice_ = layout.slice(starts, sizes)
    if slice_.lo != layout.lo or (slice_.is_padded and slice_.pad != layout.pad):
        return None
    return replace(slice_, offset=layout.offset), slice_.offset - layout.offset


@keeps_kernels
@lru_cache(maxsize=1024)
def _sums(layout: Layout, channels: tuple[int, ...]) -> Code:
    text = module_text([emit_channel_sums(layout, channels, host())], host())
    return Code(text, host(), ("sums",), key=text)
