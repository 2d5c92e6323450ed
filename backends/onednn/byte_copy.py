"""Copies of bytes that lie together on both sides, by the C library: nothing is compiled for them.

A network of concats has as many of them as it has sizes of parts: DenseNet-121 58 in blocked channels, each of which
took LLVM 5 ms.
"""

from __future__ import annotations

from dataclasses import replace

from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.call import threads_for
from layout_ir.backends.onednn.plan_steps import ByteCopy
from layout_ir.elements.numpy_types import storage


def byte_copy(source: Layout, destination: Layout, dtype: str, threads: int) -> ByteCopy | None:
    """The copy between two layouts of a shape whose elements lie in one row, alike on both sides.

    None for others, and for what is large enough that threads share it or stores pass the caches: a compiled reorder
    does both.
    """
    if source.is_padded or destination.is_padded or not source.nelems or not source.is_dense():
        return None
    nbytes = source.nelems * storage(dtype).itemsize
    if 2 * nbytes >= host().profile.streaming_volume_few or threads_for(2 * nbytes, threads) > 1:
        return None
    alike = replace(source, offset=0, pad="undef").same_map(replace(destination, offset=0, pad="undef"))
    return ByteCopy(nbytes) if alike else None
