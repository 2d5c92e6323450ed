"""What the installed oneDNN answers to `any`."""

from __future__ import annotations

import pytest

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.options import onednn_query
from layout_ir.passes.selection.options.conv_kernels import ConvShape
from tests.passes.selection.options.convs import conv_of

pytestmark = pytest.mark.skipif(
    onednn_query.unavailable() is not None, reason=str(onednn_query.unavailable())
)

CONVS = [
    conv_of(64, 64, image=56),
    conv_of(3, 64, kernel=7, stride=2, image=224),
    conv_of(60, 60, 60),
    conv_of(64, 128, 4),
    conv_of(17, 13),
    conv_of(16, 16, rank=1),
    conv_of(16, 16, rank=3, image=6),
    ConvShape(2, 8, 24, 1, (9, 11), (3, 2), (2, 1), (0, 1, 1, 0), (1, 2), "f32", True),
]


@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_an_answer_fits_the_convolution(conv: ConvShape) -> None:
    answer = onednn_query.ask(conv, None, None)
    assert answer is not None
    answer.x.bind((conv.batch, conv.channels, *conv.image))
    assert answer.w is not None
    weights = answer.w.bind((conv.outputs, conv.inputs_per_group, *conv.kernel))
    # Every weight has an address of its own.
    addresses = weights.addresses().ravel()
    assert len(set(addresses.tolist())) == addresses.size
    assert answer.implementation


@pytest.mark.parametrize("tag", ["nchw", "nhwc", "nChw8c", "nChw16c"])
def test_formats_that_are_given_come_back(tag: str) -> None:
    fmt = Format.from_tag(tag)
    answer = onednn_query.ask(conv_of(64, 64), fmt, fmt)
    assert answer is not None
    assert (answer.x, answer.y) == (fmt, fmt)


def test_weights_that_are_padded_per_group_have_no_name_and_the_kernel_is_known_all_the_same() -> None:
    last = Format.from_tag("nhwc")
    answer = onednn_query.ask(conv_of(272, 68, 4, kernel=1), last, last)
    assert answer is not None and answer.w is None
    assert (answer.x, answer.y) == (last, last) and "ref" not in answer.implementation


def test_the_reference_implementation_says_so() -> None:
    # The library has no compiled kernel from row-major to blocks of so many channels.
    answer = onednn_query.ask(conv_of(64, 64), Format.from_tag("nchw"), Format.from_tag("nChw8c"))
    assert answer is not None
    assert "ref" in answer.implementation


def test_negative_a_convolution_it_refuses_has_no_answer() -> None:
    wrong = ConvShape(1, 8, 8, 1, (2, 2), (5, 5), (1, 1), (0, 0, 0, 0), (1, 1))
    assert onednn_query.ask(wrong, None, None) is None
