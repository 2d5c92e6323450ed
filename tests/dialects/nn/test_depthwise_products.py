"""Depthwise convolutions of integers by packed weights, beside sums taken one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.dialects.nn.depthwise_products import DepthwiseIntegerConv
from layout_ir.dialects.nn.integer_products import Requantization
from layout_ir.errors import LayoutError
from tests.dialects.nn.test_integer_products import summed

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize(
    ("kernel", "strides", "dilations", "pads", "spatial"),
    [
        ((3,), (2,), (1,), (1, 0), (8,)),
        ((1, 1), (1, 1), (1, 1), (0, 0, 0, 0), (3, 2)),
        ((3, 2), (1, 2), (2, 1), (1, 0, 2, 1), (6, 5)),
        ((2, 3), (1, 1), (1, 2), (0, 0, 0, 0), (3, 7)),
        ((2, 3, 2), (1, 2, 1), (1, 1, 1), (1, 0, 0, 0, 2, 1), (3, 4, 3)),
    ],
)
def test_packed_weights_are_those_that_were_packed(
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[int, ...],
    spatial: tuple[int, ...],
):
    draw = np.random.default_rng(0)
    x = draw.integers(0, 256, (2, *spatial, 5)).astype(np.uint8)
    weights = draw.integers(-255, 256, (5, *kernel))
    conv = DepthwiseIntegerConv(kernel, strides, dilations, pads)
    packed = conv.packed(weights)
    assert packed.dtype == np.int16 and packed.shape == conv.packed_shape(5)
    np.testing.assert_array_equal(conv.unpacked(packed), weights)
    rank = len(kernel)
    around = [(0, 0), *zip(pads[:rank], pads[rank:], strict=True), (0, 0)]
    padded = np.pad(x.astype(np.int64) - 7, around)
    found = conv(x, np.asarray(7, np.uint8), packed)
    for c in range(5):
        expected = summed(padded[..., c : c + 1], weights[c : c + 1, ..., None], strides, dilations)
        np.testing.assert_array_equal(found[..., c], expected[..., 0])


def test_negative_weights_that_fit_no_two_bytes_are_refused():
    with pytest.raises(ValueError, match="16 bits"):
        DepthwiseIntegerConv((1,), (1,), (1,), (0, 0)).packed(np.array([[1 << 15]]))


@pytest.mark.parametrize("requantization", [None, Requantization(0.0, 6.0, 12.5, 3, "ui8")])
def test_attributes_say_all_of_a_node(requantization: Requantization | None):
    conv = DepthwiseIntegerConv((3, 1), (1, 2), (1, 1), (0, 1, 2, 0), requantization)
    attributes = conv.attributes()
    assert DepthwiseIntegerConv.of_node(attributes.get) == conv


@pytest.mark.parametrize(
    "change", [{"pads": (1, 1)}, {"pads": (0, 0, 0, -1)}, {"kernel": ()}, {"dtype": "f32"}]
)
def test_negative_attributes_that_say_none(change: dict[str, Any]):
    attributes = DepthwiseIntegerConv((3, 1), (1, 2), (1, 1), (0, 1, 2, 0)).attributes() | change
    with pytest.raises(LayoutError, match="DepthwiseIntegerConv"):
        DepthwiseIntegerConv.of_node(attributes.get)
