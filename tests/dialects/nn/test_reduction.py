"""Reductions: NumPy's shapes, and the neutral element in pads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from layout_ir.interfaces import PadRead
from tests.dialects.nn.building import error_of, result, tensor, value


@given(st.lists(st.integers(1, 3), max_size=5).map(tuple), st.data(), st.booleans())
def test_reductions_have_the_shape_numpy_gives_them(
    shape: tuple[int, ...], data: st.DataObject, keepdims: bool
):
    axes = sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))) if shape else []
    wanted = np.sum(np.zeros(shape), axis=tuple(axes), keepdims=keepdims).shape
    assert result(nn.ReduceSumOp(value(shape), axes=axes, keepdims=keepdims)).get_shape() == wanted


def test_without_axes_all_dims_are_reduced():
    assert result(nn.ReduceMaxOp(value((2, 3)))).get_shape() == (1, 1)
    assert result(nn.ReduceMaxOp(value((2, 3)), keepdims=False)).get_shape() == ()


@pytest.mark.parametrize("axes", [[1, 0], [1, 1]])
def test_negative_axes_out_of_order(axes: list[int]):
    with pytest.raises(LayoutError, match="are not ascending and distinct"):
        nn.ReduceSumOp(value((2, 3)), axes=axes)


def test_negative_axes_out_of_range():
    with pytest.raises(LayoutError, match=r"axis = -1 is no dim of 2x3: not in 0\.\.1"):
        nn.ReduceSumOp(value((2, 3)), axes=[-1])


@pytest.mark.parametrize(
    ("op", "element", "neutral"),
    [
        (nn.ReduceSumOp, "f32", 0.0),
        (nn.ReduceMeanOp, "f32", 0.0),
        (nn.ReduceProdOp, "f32", 1.0),
        (nn.ReduceMaxOp, "f32", -math.inf),
        (nn.ReduceMinOp, "f32", math.inf),
        (nn.ReduceMaxOp, "i8", -128.0),
        (nn.ReduceMinOp, "i8", 127.0),
        (nn.ReduceMaxOp, "ui8", 0.0),
        (nn.ReduceMinOp, "ui8", 255.0),
    ],
)
def test_pads_of_reduced_dims_hold_the_neutral_element(op: type[nn.ReduceOp], element: str, neutral: float):
    assert op(value((2, 3), element), axes=[1]).pad_reads(0) == (PadRead(1, neutral),)


def test_the_result_keeps_the_format_where_it_keeps_the_dims():
    x, fmt = value((2, 16, 4, 4), fmt="nChw8c"), "nChw8c"
    assert error_of(nn.ReduceSumOp(x, axes=[2, 3], result_type=tensor((2, 16, 1, 1), fmt=fmt))) == ""
    assert (
        error_of(nn.ReduceSumOp(x, axes=[2, 3], keepdims=False, result_type=tensor((2, 16), fmt="ba"))) == ""
    )


def test_negative_another_format_with_kept_dims():
    op = nn.ReduceSumOp(value((2, 16, 4, 4), fmt="nChw8c"), axes=[0], result_type=tensor((1, 16, 4, 4)))
    assert "nn.reduce_sum needs one format" in error_of(op)
