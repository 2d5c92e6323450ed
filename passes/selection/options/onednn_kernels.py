"""The convolution kernels that oneDNN 3 has on x86, by the width of its vectors: 8 floats of AVX2, 16 of AVX-512.

They are what the library answers where it is asked for formats and its instructions are capped (ONEDNN_MAX_CPU_ISA);
the tests ask it again. Kernels of channels in blocks take blocks of one vector, and AVX-512 those of AVX2 as well:

* no groups, as many channels as a block has, or windows of one element without strides: nChw8c, OIhw8i8o;
* fewer channels than a block has: nchw to nChw8c, Ohwi8o, in groups where their outputs are whole blocks of 8;
* depthwise in two dims: nChw8c, Goihw8g;
* groups of whole blocks, which may be of 4 channels for AVX-512.

Channels last have a kernel of their own without groups, depthwise in two dims, and in groups of some width. All else,
and anything row-major, is a matrix product over unrolled windows, as long as these fit in memory. Rates are operations
per ns of one core, and rough: on layers of ResNet-50, AVX2 was measured at 79 in blocks, 100 with channels last and 62
row-major, and AVX-512 is taken to be twice as fast. Prices of the kernels themselves come with the package, as
`onednn-avx2` and `onednn-avx512`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.options.conv_kernels import (
    ConvKernel,
    ConvShape,
    activation,
    grouped_rate,
    row_major_kernel,
    weight,
)

BLOCKED, LAST, PRODUCT = 79, 100, 62
"""Operations per ns with vectors of 8 floats: channels in blocks, channels last, row-major."""


def kernels(conv: ConvShape, vector: int) -> Iterator[ConvKernel]:
    """The kernels of one convolution with vectors of `vector` floats; those of an element type that the library does
    not compute in are those of f32."""
    rank = conv.spatial_rank
    yield _channels_last(conv, vector)
    # Windows beyond their image are for the other kernels.
    fits = all(window <= extent for window, extent in zip(conv.kernel, conv.image, strict=True))
    for block in _blocks(conv, vector) if fits else ():
        blocked = activation(rank, "ncS", ("c", block))
        rate = BLOCKED * block // 8
        yield ConvKernel(
            blocked, _blocked_weights(conv, block), blocked, rate // 2 if conv.is_depthwise else rate
        )
    for block in _first_blocks(conv, vector) if fits else ():
        blocked = activation(rank, "ncS", ("c", block))
        few = weight(rank, "oSi", ("o", block))
        yield ConvKernel(activation(rank, "ncS"), few, blocked, BLOCKED * block // 8)
    if conv.batch * conv.outputs > 1:
        # A single image of one channel is channels last as well, and the library finds no kernel between the two.
        yield row_major_kernel(conv, PRODUCT * vector // 8)


def _blocks(conv: ConvShape, vector: int) -> Sequence[int]:
    """The blocks of channels that kernels read and write, the largest first."""
    sizes = (16, 8) if vector == 16 else (8,)
    if conv.group == 1:
        enough = max(conv.kernel) == max(conv.strides) == 1
        return [block for block in sizes if enough or conv.channels >= block]
    if conv.is_depthwise:
        return sizes if conv.spatial_rank == 2 else ()
    widths = conv.inputs_per_group, conv.outputs_per_group
    whole = [block for block in sizes if all(width % block == 0 for width in widths)]
    return whole or [4] if vector == 16 and all(width % 4 == 0 for width in widths) else whole


def _first_blocks(conv: ConvShape, vector: int) -> Sequence[int]:
    """The blocks of channels that kernels write which read few channels as they come, the largest first."""
    if conv.group > 1:
        return [8] if conv.channels < 8 and conv.outputs_per_group % 8 == 0 else ()
    return [block for block in (16, 8) if conv.channels < block <= vector]


def _blocked_weights(conv: ConvShape, block: int) -> Format:
    rank = conv.spatial_rank
    if conv.is_depthwise:
        return weight(rank, "oiS", ("o", block))
    if block == 16 and conv.dtype == "bf16":
        # Pairs of inputs, as the instructions take them.
        return weight(rank, "oiS", ("i", 8), ("o", 16), ("i", 2))
    return weight(rank, "oiS", ("i", block), ("o", block))


def _channels_last(conv: ConvShape, vector: int) -> ConvKernel:
    rank = conv.spatial_rank
    last = activation(rank, "nSc")
    rate = LAST * vector // 8
    if conv.is_depthwise and rank == 2:
        return ConvKernel(last, weight(rank, "iSo", ("o", vector)), last, rate // 2)
    if conv.group > 1:
        # How the library packs weights of groups has no shape-free name: they stay until the network is compiled.
        inputs, outputs = conv.inputs_per_group, conv.outputs_per_group
        own = vector == 16 or outputs >= 16 or (inputs % 8 == outputs % 8 == 0)
        rate = rate if own and not conv.is_depthwise else PRODUCT * vector // 8
        return ConvKernel(last, weight(rank, "oiS"), last, grouped_rate(rate, inputs, outputs))
    if conv.dtype == "bf16" and vector == 16:
        return ConvKernel(last, _blocked_weights(conv, 16), last, rate)
    # Columns of weights: whole vectors without pads, else one or two. The library takes more or fewer by its cache.
    wide = [count * vector for count in (4, 3, 2) if conv.outputs % (count * vector) == 0]
    columns = wide[0] if wide else vector if conv.outputs <= vector else 2 * vector
    return ConvKernel(last, weight(rank, "oSi", ("o", columns)), last, rate)
