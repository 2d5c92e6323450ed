"""One kind of layout for the convolutions of a whole network: a target with fewer of its kernels.

What prices cannot say of a kernel, such as how it reads weights that come from memory, it says of all kernels of its
kind. So the choices that may beat the one of least price are those in which every convolution is of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from layout_ir.passes.selection.options.conv_kernels import (
    ConvKernel,
    ConvKernels,
    ConvShape,
    Target,
    activation,
    no_kernels,
)

Kind = Callable[[ConvShape, ConvKernel], bool]
"""Whether a kernel of a convolution is of the kind."""


def _is_plain(conv: ConvShape, kernel: ConvKernel) -> bool:
    return kernel.x == kernel.y == activation(conv.spatial_rank, "ncS")


def _is_channels_last(conv: ConvShape, kernel: ConvKernel) -> bool:
    return kernel.x == kernel.y == activation(conv.spatial_rank, "nSc")


def _writes_blocks(size: int) -> Kind:
    def is_of_kind(conv: ConvShape, kernel: ConvKernel) -> bool:
        return kernel.y == activation(conv.spatial_rank, "ncS", ("c", size))

    return is_of_kind


KINDS: dict[str, Kind] = {
    "plain": _is_plain,
    "channels last": _is_channels_last,
    "blocks of 8": _writes_blocks(8),
    "blocks of 16": _writes_blocks(16),
}


def kernels_of(kernels: ConvKernels, kind: Kind) -> ConvKernels:
    """The `kernels` that are of one kind; all of them for a convolution that has none."""

    def of_kind(conv: ConvShape) -> Iterable[ConvKernel]:
        found = list(kernels(conv))
        return [kernel for kernel in found if kind(conv, kernel)] or found

    return of_kind


def uniform_targets(target: Target) -> dict[str, Target]:
    """The target with kernels of one kind, by the name of the kind; none where it has no convolutions."""
    if target.conv_kernels is no_kernels:
        return {}
    return {
        name: replace(
            target,
            name=f"{target.name}-{name.replace(' ', '-')}",
            conv_kernels=kernels_of(target.conv_kernels, kind),
        )
        for name, kind in KINDS.items()
    }
