"""The k largest elements of rows by machine code, beside a stable sort of NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.llvm.loops.largest_elements import LargestElements

TYPES: dict[str, Any] = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "i8": np.int8, "ui8": np.uint8, "i32": np.int32, "i64": np.int64,
}  # fmt: skip


def found(x: Any, axis: int, k: int, dtype: str, largest: bool) -> tuple[Any, Any]:
    kernel = LargestElements(x.shape, axis, k, dtype, largest=largest)
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    values, indices = np.zeros(shape, x.dtype), np.zeros(shape, np.int64)
    arguments = kernel.arguments()
    arguments[:3] = [x.ctypes.data, indices.ctypes.data, values.ctypes.data]
    import ctypes

    signature: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    signature(kernel.address)(int(arguments.ctypes.data), 0, 0, 1)
    return values, indices


def expected(x: Any, axis: int, k: int, largest: bool) -> tuple[Any, Any]:
    """What is no number is sorted behind all numbers, and so in front of them where the largest come first."""
    rows = np.moveaxis(x, axis, -1)
    ranks = np.unique(rows, return_inverse=True, equal_nan=True)[1].reshape(rows.shape)
    order = np.argsort(-ranks if largest else ranks, axis=-1, kind="stable")[..., :k]
    return np.moveaxis(np.take_along_axis(rows, order, -1), -1, axis), np.moveaxis(order, -1, axis)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis", "k"),
    [((3, 40), 1, 7), ((40, 3), 0, 40), ((2, 30, 5), 1, 4), ((9,), 0, 1), ((4, 1), 1, 1)],
)
def test_elements_in_order(shape: tuple[int, ...], axis: int, k: int, largest: bool, dtype: str):
    x = np.random.default_rng(0).integers(0, 20, shape).astype(TYPES[dtype])
    if dtype != "ui8":
        x -= TYPES[dtype](10)
    for ours, theirs in zip(found(x, axis, k, dtype, largest), expected(x, axis, k, largest), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["f32", "i64"])
@pytest.mark.parametrize("k", [1, 2, 300, 4999, 5000])
def test_long_rows_of_many_equal_elements(k: int, dtype: str):
    x = np.random.default_rng(1).integers(0, 999, (2, 5000)).astype(TYPES[dtype])
    for ours, theirs in zip(found(x, 1, k, dtype, True), expected(x, 1, k, True), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("largest", [True, False])
def test_zeros_infinities_and_what_is_no_number(largest: bool, dtype: str):
    kind = TYPES[dtype]
    least = np.finfo(kind).smallest_subnormal
    x = np.array([0.0, -0.0, np.nan, -1, np.inf, -np.inf, 0.0, -np.nan, 1, least], kind)
    for k in range(1, len(x) + 1):
        _, indices = found(x, 0, k, dtype, largest)
        np.testing.assert_array_equal(indices, expected(x, 0, k, largest)[1])


@pytest.mark.parametrize("largest", [True, False])
def test_elements_of_bf16_are_ordered_as_those_of_f32_are(largest: bool):
    wide = np.random.default_rng(0).standard_normal(500).astype(np.float32)
    wide[::50], wide[1::50], wide[2::50] = np.nan, -np.inf, -0.0
    bits = (wide.view(np.uint32) >> 16).astype(np.uint16)
    wide = (bits.astype(np.uint32) << 16).view(np.float32)
    values, indices = found(bits, 0, 500, "bf16", largest)
    np.testing.assert_array_equal(indices, expected(wide, 0, 500, largest)[1])
    np.testing.assert_array_equal(values, bits[indices])


@pytest.mark.parametrize("dtype", ["i8", "ui8", "i32", "i64"])
@pytest.mark.parametrize("largest", [True, False])
def test_the_ends_of_integers(largest: bool, dtype: str):
    bounds = np.iinfo(TYPES[dtype])
    x = np.array([bounds.max, 1, bounds.min, bounds.max, bounds.min, 0], TYPES[dtype])
    for ours, theirs in zip(found(x, 0, 6, dtype, largest), expected(x, 0, 6, largest), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("shape", "k", "dtype"),
    [((3, 4), 5, "f32"), ((3, 4), 0, "f32"), ((0, 4), 2, "f32"), ((3, 4), 2, "f8E5M2")],
)
def test_negative_rows_that_have_no_such_elements(shape: tuple[int, ...], k: int, dtype: str):
    with pytest.raises(li.LayoutError, match="no code for"):
        LargestElements(shape, 1, k, dtype, largest=True)
