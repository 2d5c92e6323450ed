"""Gather and the indices of largest elements: shapes, element types, and where dims of x are in the result."""

from __future__ import annotations

import pytest
from onnx import TensorProto

from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from tests.dialects.nn.building import error_of, result, tensor, value
from tests.dialects.nn.onnx_shapes import onnx_shape

X = (2, 3, 4)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("keepdims", [True, False])
def test_the_shape_of_an_arg_max_is_that_of_onnx(axis: int, keepdims: bool):
    op = nn.ArgMaxOp(value(X), axis=axis, keepdims=keepdims)
    wanted = onnx_shape("ArgMax", [X], result=TensorProto.INT64, axis=axis, keepdims=int(keepdims))
    assert result(op).get_shape() == wanted
    assert str(result(op).element_type) == "i64"


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_shape_of_a_gather_is_that_of_onnx(axis: int):
    op = nn.GatherOp(value(X), value((5,), "i64"), axis=axis)
    assert result(op).get_shape() == onnx_shape("Gather", [X], [(TensorProto.INT64, [0] * 5)], axis=axis)
    assert result(nn.GatherOp(value(X), value((), "i64"), axis=1)).get_shape() == (2, 4)
    assert result(nn.GatherOp(value(X), value((6, 7), "i64"), axis=1)).get_shape() == (2, 6, 7, 4)


def test_dims_of_x_are_found_in_the_result():
    x = value(X)
    assert nn.GatherOp(x, value((), "i64"), axis=1).dim_images() == ((0,), (), (1,))
    assert nn.GatherOp(x, value((6, 7), "i64"), axis=1).dim_images() == ((0,), (1, 2), (3,))
    assert nn.ArgMaxOp(x, axis=0, keepdims=False).dim_images() == ((), (0,), (1,))
    assert nn.ReduceSumOp(x, axes=(0, 1), keepdims=False).dim_images() == ((), (), (0,))


def test_negative_where_the_rank_stays_the_format_is_one():
    x = value(X)
    assert nn.GatherOp(x, value((5,), "i64"), axis=1).dim_images() is None
    assert nn.ArgMaxOp(x, axis=0).dim_images() is None
    assert nn.ReduceSumOp(x, axes=(0, 1)).dim_images() is None


def test_negative_axis():
    for make in (
        lambda: nn.GatherOp(value(X), value((5,), "i64"), axis=3),
        lambda: nn.ArgMinOp(value(X), axis=3),
    ):
        with pytest.raises(LayoutError, match=r"axis = 3 is no dim of 2x3x4: not in 0..2"):
            make()


def test_negative_no_element_is_the_largest():
    with pytest.raises(LayoutError, match="dim 1 of operand 0 has no elements"):
        nn.ArgMaxOp(value((2, 0)), axis=1)


def test_negative_element_types():
    op = nn.GatherOp(value(X), value((5,)))
    assert "the indices of nn.gather have element type f32, expected one of i32, i64" in error_of(op)
    op = nn.ArgMaxOp(value(X), result_type=tensor((1, 3, 4), "i32"))
    assert "the result of nn.arg_max has element type i32, expected i64" in error_of(op)
