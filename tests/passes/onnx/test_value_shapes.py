"""What types say of values."""

from __future__ import annotations

import onnx
import pytest

from layout_ir.passes.onnx.value_shapes import bits_of


@pytest.mark.parametrize(
    ("word", "bits"),
    [("FLOAT", 32), ("BFLOAT16", 16), ("FLOAT8E5M2", 8), ("UINT4", 4), ("BOOL", 8), ("COMPLEX128", 128)],
)
def test_bits_of_elements(word: str, bits: int):
    assert bits_of(onnx.TensorProto.DataType.Value(word)) == bits
