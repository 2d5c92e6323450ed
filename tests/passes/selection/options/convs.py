"""Convolutions by their shapes alone, for tests of targets."""

from __future__ import annotations

from layout_ir.passes.selection.options.conv_kernels import ConvShape


def conv_of(
    channels: int,
    outputs: int,
    group: int = 1,
    *,
    image: int = 14,
    kernel: int = 3,
    stride: int = 1,
    dtype: str = "f32",
    rank: int = 2,
) -> ConvShape:
    """A square convolution with "same" padding."""
    pad = kernel // 2
    return ConvShape(
        1, channels, outputs, group, (image,) * rank, (kernel,) * rank, (stride,) * rank, (pad,) * 2 * rank,
        (1,) * rank, dtype,
    )  # fmt: skip
