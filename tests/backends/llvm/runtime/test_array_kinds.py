"""Kernels look at the kind of the elements that they are given, whichever way they are called."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.errors import LayoutError

N = 2, None  # extents of the first dim: known, and open


def _kernel(first: int | None, source: str, destination: str | None = None) -> Any:
    shape = (first, 3)
    src, dst = li.TensorDesc(shape, source, "ab"), li.TensorDesc(shape, destination or source, "ba")
    return li.compile_reorder(src, dst)


@pytest.mark.parametrize("first", N)
@pytest.mark.parametrize(
    "dtype", ["f8", "i8", "u8", "V8", "S8", "M8[ns]", "m8[s]", "c8", "U2", "q", "Q", "l"]
)
def test_plain_memory_of_the_right_width_is_moved(first: int | None, dtype: str):
    x = np.arange(6, dtype=np.int64).view(dtype).reshape(2, 3)
    y = np.zeros((3, 2), dtype)
    _kernel(first, "f64")(x, y)
    assert y.tobytes() == np.arange(6, dtype=np.int64).reshape(2, 3).T.tobytes()


_OTHER = ">" if sys.byteorder == "little" else "<"
_WRONG = [
    (object, "references to Python objects"),
    ([("a", "O")], "references to Python objects"),
    ([("a", "f4"), ("b", "i4")], "holds records"),
    (f"{_OTHER}f8", "in the other byte order"),
    (f"{_OTHER}i8", "in the other byte order"),
]


@pytest.mark.parametrize("first", N)
@pytest.mark.parametrize("dtype, message", _WRONG)
@pytest.mark.parametrize("destination", ["f64", "f32"])
def test_negative_objects_records_and_the_other_byte_order(
    first: int | None, dtype: Any, message: str, destination: str
):
    x = np.zeros((2, 3), dtype)
    before = x.tolist()
    with pytest.raises(LayoutError, match=f"the source holds .*{message}|the source {message}"):
        _kernel(first, "f64", destination)(
            x, np.zeros((3, 2), destination.replace("f64", "f8").replace("f32", "f4"))
        )
    assert x.tolist() == before
    y = np.zeros((3, 2), dtype)
    with pytest.raises(LayoutError, match=f"the destination holds .*{message}|the destination {message}"):
        _kernel(first, "f64" if destination == "f64" else "f32", "f64")(
            np.zeros((2, 3), "f8" if destination == "f64" else "f4"), y
        )
    assert y.tolist() == np.zeros((3, 2), dtype).tolist()


@pytest.mark.parametrize("first", N)
@pytest.mark.parametrize(
    "source, destination, given, taken",
    [
        ("f64", "f32", "i8", "f4"), ("f64", "f32", "u8", "f4"), ("f64", "f32", "M8[ns]", "f4"),
        ("f64", "f32", "f8", "i4"), ("f32", "i8", "f4", "u1"), ("f32", "ui8", "f4", "i1"), ("f32", "i8", "i4", "i1"),
        ("f32", "i8", "f4", "?"), ("i32", "f32", "u4", "f4"), ("f16", "f32", "u2", "f4"), ("bf16", "f32", "f2", "f4"),
        ("f32", "bf16", "f4", "f2"), ("i64", "f64", "f8", "f8"), ("i8", "f32", "S1", "f4"),
    ],
)  # fmt: skip
def test_negative_numbers_of_another_kind_than_is_converted(
    first: int | None, source: str, destination: str, given: str, taken: str
):
    with pytest.raises(
        LayoutError, match=rf"holds elements of type \S+, the kernel converts ({source}|{destination})$"
    ):
        _kernel(first, source, destination)(np.zeros((2, 3), given), np.zeros((3, 2), taken))


@pytest.mark.parametrize("first", N)
@pytest.mark.parametrize("given", ["u2", "i2", "V2", "bfloat16"])
def test_types_that_numpy_has_not_are_taken_as_bits_or_by_name(first: int | None, given: str):
    if given == "bfloat16":
        given = pytest.importorskip("ml_dtypes").bfloat16
    numbers = np.array([[1.0, -2.0, 3.5], [0.25, 128.0, -0.0]], np.float32)
    bits = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    y = np.full((3, 2), np.nan, np.float32)
    _kernel(first, "bf16", "f32")(bits.view(given), y)
    assert np.array_equal(y.T, numbers)
    back = np.zeros((3, 2), np.uint16).view(given)
    _kernel(first, "f32", "bf16")(numbers, back)
    assert np.array_equal(back.view(np.uint16).T, bits)


def test_bytes_of_either_sign_hold_two_elements_of_four_bits():
    for dtype in ("u1", "i1", "V1"):
        source, destination = (li.TensorDesc((4,), name, "a") for name in ("i4", "i8"))
        y = np.zeros(4, np.int8)
        li.compile_reorder(source, destination)(np.array([0x21, 0xF7], np.uint8).view(dtype), y)
        assert y.tolist() == [1, 2, 7, -1]


def test_booleans_are_booleans_or_bytes():
    for dtype in ("?", "u1", "i1"):
        y = np.zeros((3, 2), np.float32)
        _kernel(2, "i1", "f32")(np.array([[0, 1, 0], [1, 1, 0]], dtype), y)
        assert y.T.tolist() == [[0, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize("first", N)
@pytest.mark.parametrize("wrong", [None, "abc", [1.0] * 6, 1.5, True, object(), {}, np.zeros])
def test_negative_what_is_no_buffer(first: int | None, wrong: Any):
    kernel, x, y = _kernel(first, "f64"), np.zeros((2, 3)), np.zeros((3, 2))
    with pytest.raises(LayoutError, match=f"the source is a {type(wrong).__name__}"):
        kernel(wrong, y)
    with pytest.raises(LayoutError, match=f"the destination is a {type(wrong).__name__}"):
        kernel(x, wrong)


@pytest.mark.parametrize("address", [0, -8, 1 << 64, (1 << 64) - 8])
def test_negative_addresses_where_nothing_can_begin(address: int):
    kernel, x, y = _kernel(2, "f64"), np.zeros((2, 3)), np.zeros((3, 2))
    with pytest.raises(LayoutError, match="the source cannot begin at address"):
        kernel(address, y)
    with pytest.raises(LayoutError, match="the destination cannot begin at address"):
        kernel(x, address)


@pytest.mark.parametrize("shape", [(2.5, 3), ("2", 3), (None, 3), 5, "23", (2 + 0j, 3)])
def test_negative_shapes_that_are_no_integers(shape: Any):
    with pytest.raises(LayoutError, match="is no list of integers"):
        _kernel(None, "f64")(np.zeros((2, 3)), np.zeros((3, 2)), shape)
    _kernel(None, "f64")(np.zeros((2, 3)), np.zeros((3, 2)), np.array([2, 3]))


@pytest.mark.parametrize("values", [(2, 3), "ratio", [1.0]])
def test_negative_parameters_that_are_no_dict(values: Any):
    with pytest.raises(LayoutError, match="parameters are a dict of arrays by name"):
        _kernel(2, "f64")(np.zeros((2, 3)), np.zeros((3, 2)), values)
