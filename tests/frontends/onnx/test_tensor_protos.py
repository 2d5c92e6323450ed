"""Tensors of models have the elements that were put into them, however they are stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper as onh
import pytest
from numpy.typing import NDArray

from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.tensor_protos import array_of

_KINDS = [np.float32, np.float64, np.float16, np.int64, np.int32, np.int8, np.uint8, np.uint64, np.bool_]


def _array(kind: type[np.generic]) -> NDArray[Any]:
    return np.array([[0, 1, 2], [3, 100, 7]]).astype(kind)


@pytest.mark.parametrize("kind", _KINDS)
def test_elements_that_are_listed_are_those_that_are_stored_as_bytes(kind: type[np.generic]):
    array = _array(kind)
    number = oh.np_dtype_to_tensor_dtype(array.dtype)
    listed = oh.make_tensor("x", number, array.shape, array.ravel().tolist())
    assert not listed.HasField("raw_data")
    for tensor in (listed, onh.from_array(array, "x")):
        found = array_of(tensor, None, "x")
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_negative_lists_of_another_length_than_the_shape_are_refused():
    tensor = onnx.TensorProto(name="x", data_type=onnx.TensorProto.INT64, dims=[3], int64_data=[1, 2])
    with pytest.raises(LayoutError, match="its 2 values do not fill: 3 are needed"):
        array_of(tensor, None, "x")


def test_negative_shapes_with_an_extent_below_zero_are_refused():
    tensor = onnx.TensorProto(name="x", data_type=onnx.TensorProto.INT64, dims=[2, -1])
    with pytest.raises(LayoutError, match="an extent is negative"):
        array_of(tensor, None, "x")
