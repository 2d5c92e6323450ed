"""Normalizations: what they take, and what they need of pads."""

from __future__ import annotations

import math

import pytest

from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from layout_ir.interfaces import PadRead
from tests.dialects.nn.building import error_of, result, tensor, value


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5, 6)])
def test_normalizations_keep_the_shape(shape: tuple[int, ...]):
    x, p = value(shape), value((3,))
    for op in (
        nn.BatchNormOp(x, p, p, p, p),
        nn.LrnOp(x, size=3),
        nn.SoftmaxOp(x),
        nn.LogSoftmaxOp(x, axis=0),
    ):
        assert result(op).get_shape() == shape


def test_negative_batch_norm_parameters():
    x, p, q = value((2, 3, 4)), value((3,)), value((3, 1))
    with pytest.raises(LayoutError, match="shape mismatch between var and the channels of 2x3x4: 3x1 != 3"):
        nn.BatchNormOp(x, p, p, p, q)


def test_negative_no_channels():
    p = value((3,))
    for make in (lambda: nn.BatchNormOp(p, p, p, p, p), lambda: nn.LrnOp(p, size=1)):
        with pytest.raises(LayoutError, match="needs a channel dim 1, but operand 0 is 3"):
            make()


def test_negative_lrn_size():
    with pytest.raises(LayoutError, match="size = 0 is below 1"):
        nn.LrnOp(value((2, 3)), size=0)


@pytest.mark.parametrize("axis", [-1, 2])
def test_negative_axis(axis: int):
    with pytest.raises(LayoutError, match=rf"axis = {axis} is no dim of 2x3: not in 0..1"):
        nn.SoftmaxOp(value((2, 3)), axis=axis)


def test_negative_softmax_of_a_scalar():
    with pytest.raises(LayoutError, match="axis = -1 is no dim of scalar"):
        nn.SoftmaxOp(value(()))


def test_reduced_dims_need_neutral_pads():
    x, p = value((2, 3, 4)), value((3,))
    assert nn.SoftmaxOp(x).pad_reads(0) == (PadRead(2, -math.inf),)
    assert nn.LogSoftmaxOp(x, axis=1).pad_reads(0) == (PadRead(1, -math.inf),)
    assert nn.LrnOp(x, size=3).pad_reads(0) == (PadRead(1, 0.0),)
    assert nn.BatchNormOp(x, p, p, p, p).pad_reads(0) == ()


def test_parameters_of_batch_norm_may_lie_as_they_like():
    x, p = value((2, 16, 4, 4), fmt="nChw8c"), value((16,))
    assert error_of(nn.BatchNormOp(x, p, p, p, p, result_type=tensor((2, 16, 4, 4), fmt="nChw8c"))) == ""
