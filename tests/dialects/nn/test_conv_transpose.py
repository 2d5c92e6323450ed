"""Transposed convolution: the shape that ONNX says, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from tests.dialects.nn.building import result, value
from tests.dialects.nn.onnx_shapes import onnx_shape


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2]},
        {"dilations": [2, 3], "group": 3},
    ],
)
@pytest.mark.parametrize("kernel", [(3, 2), (1, 1), (4, 5)])
def test_the_shape_is_that_of_onnx(kernel: tuple[int, ...], attributes: dict[str, Any]):
    x, w = (2, 6, 5, 4), (6, 4, *kernel)
    try:
        ours = result(nn.ConvTransposeOp(value(x), value(w), **attributes)).get_shape()
    except LayoutError as error:
        assert "leave nothing" in str(error)
        return
    assert ours == onnx_shape("ConvTranspose", [x, w], **attributes)


def test_borders_are_those_of_the_convolution_that_computes_it():
    # 5 elements 2 apart and a kernel of 3: 2 zeros around, less the pads; the result ends one element later.
    op = nn.ConvTransposeOp(value((1, 2, 5)), value((2, 2, 3)), strides=[2], pads=[1, 0], output_padding=[1])
    assert op.borders() == [(1, 3)]
    assert result(op).get_shape() == (1, 2, (5 - 1) * 2 + 1 + 1 + 3 - 2)


def test_depthwise_has_its_own_weights_for_each_channel():
    x = value((1, 6, 5))
    assert nn.ConvTransposeOp(x, value((6, 1, 3)), group=6).is_depthwise
    assert not nn.ConvTransposeOp(x, value((6, 2, 3)), group=6).is_depthwise
    assert not nn.ConvTransposeOp(x, value((6, 1, 3)), group=3).is_depthwise


def test_negative_an_input_without_elements():
    with pytest.raises(LayoutError, match=r"input = \[0, 4\] has an entry below 1"):
        nn.ConvTransposeOp(value((1, 6, 0, 4)), value((6, 1, 3, 3)))
