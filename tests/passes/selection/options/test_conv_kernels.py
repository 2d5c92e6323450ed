"""Kernels that several targets have."""

from __future__ import annotations

import pytest

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.options.conv_kernels import (
    activation,
    blocked_kernels,
    channels_last_kernel,
    row_major_kernel,
    weight,
)
from tests.passes.selection.options.convs import conv_of


def _formats(channels: int, outputs: int, group: int = 1) -> list[tuple[str, str, str]]:
    kernels = blocked_kernels(conv_of(channels, outputs, group), 8, 80)
    names = {fmt: tag for tag in ("nchw", "nChw8c") for fmt in (Format.from_tag(tag),)}
    names |= {fmt: tag for tag in ("OIhw8i8o", "Ohwi8o", "Oihw8o") for fmt in (Format.from_tag(tag),)}
    return [(names[k.x], names[k.w], names[k.y]) for k in kernels]


def test_formats_are_those_of_the_tags() -> None:
    assert activation(2, "ncS") == Format.from_tag("nchw")
    assert activation(2, "nSc") == Format.from_tag("nhwc")
    assert activation(2, "ncS", ("c", 16)) == Format.from_tag("nChw16c")
    assert activation(3, "ncS", ("c", 8)) == Format.from_tag("nCdhw8c")
    assert activation(1, "ncS") == Format.from_tag("ncw")
    assert weight(2, "oiS", ("i", 8), ("o", 8)) == Format.from_tag("OIhw8i8o")


def test_a_full_block_is_read_and_written_in_blocks() -> None:
    assert _formats(64, 32) == [("nChw8c", "OIhw8i8o", "nChw8c")]


def test_few_channels_may_also_be_read_as_they_come() -> None:
    assert _formats(3, 32) == [("nChw8c", "OIhw8i8o", "nChw8c"), ("nchw", "Ohwi8o", "nChw8c")]


def test_depthwise_needs_no_whole_blocks_groups_do() -> None:
    assert _formats(20, 20, 20) == [("nChw8c", "Oihw8o", "nChw8c")]
    assert _formats(64, 32, 4) == [("nChw8c", "OIhw8i8o", "nChw8c")]


@pytest.mark.parametrize(("channels", "outputs", "group"), [(48, 32, 4), (64, 48, 4), (20, 40, 20)])
def test_negative_groups_of_broken_blocks_have_no_kernel(channels: int, outputs: int, group: int) -> None:
    assert _formats(channels, outputs, group) == []


def test_a_kernel_fits_its_convolution_in_every_rank() -> None:
    for rank in (1, 2, 3):
        conv = conv_of(16, 32, rank=rank)
        for kernel in (
            row_major_kernel(conv, 1),
            channels_last_kernel(conv, 1),
            *blocked_kernels(conv, 8, 1),
        ):
            kernel.x.bind((conv.batch, conv.channels, *conv.image))
            kernel.w.bind((conv.outputs, conv.inputs_per_group, *conv.kernel))
            kernel.y.bind((conv.batch, conv.outputs, *conv.image))
