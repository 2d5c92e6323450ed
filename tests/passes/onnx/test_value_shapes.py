"""What types say of values."""

from __future__ import annotations

import onnx
import pytest

from layout_ir.passes.onnx.orders import Shape
from layout_ir.passes.onnx.value_shapes import bits_of, without_made_up


@pytest.mark.parametrize(
    ("word", "bits"),
    [("FLOAT", 32), ("BFLOAT16", 16), ("FLOAT8E5M2", 8), ("UINT4", 4), ("BOOL", 8), ("COMPLEX128", 128)],
)
def test_bits_of_elements(word: str, bits: int):
    assert bits_of(onnx.TensorProto.DataType.Value(word)) == bits


def test_names_that_inference_made_up_say_only_which_extents_are_the_same():
    shapes, names = without_made_up([("unk__3", 4, "n"), None, ("unk__5", "unk__3")])
    assert names == ["unk__3", "unk__5"]
    assert shapes == without_made_up([("unk__7", 4, "n"), None, ("unk__0", "unk__7")])[0]


@pytest.mark.parametrize(
    "other",
    [
        [("unk__3", 4, "n"), ("unk__5", "unk__5")],
        [("unk__3", 4, "n"), ("unk__3", "unk__5")],
        [("unk__3", 4, "m"), ("unk__5", "unk__3")],
        [("m", 4, "n"), ("unk__5", "m")],
        [(0, 4, "n"), (1, 0)],
        [("unk__3", 4, None), ("unk__5", "unk__3")],
    ],
    ids=str,
)
def test_negative_shapes_differ_in_what_is_the_same_and_in_all_that_was_not_made_up(other: list[Shape]):
    assert without_made_up([("unk__3", 4, "n"), ("unk__5", "unk__3")])[0] != without_made_up(other)[0]
