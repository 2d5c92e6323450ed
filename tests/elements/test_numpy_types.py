"""Conversions between element types round once, saturate where they say so, and agree with PyTorch and ml_dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.elements.numpy_types import (
    convert,
    narrow,
    poison,
    saturated,
    storage,
    stored_number,
    widen,
)
from layout_ir.errors import LayoutError
from tests.backends.reference.catalog.numbers import TYPES, as_stored, as_torch, to_stored, torch

ALL_BITS = np.arange(1 << 16, dtype=np.uint16)


def same_or_nan(ours: NDArray[Any], theirs: NDArray[Any]) -> None:
    nan = widen(theirs, "bf16") != widen(theirs, "bf16")
    np.testing.assert_array_equal(np.isnan(widen(ours, "bf16")), nan)
    np.testing.assert_array_equal(ours[~nan], theirs[~nan])


def test_every_bf16_widens_to_what_pytorch_has():
    theirs = as_torch(ALL_BITS, "bf16").to(torch.float32).numpy()
    np.testing.assert_array_equal(widen(ALL_BITS, "bf16").view(np.uint32), theirs.view(np.uint32))


def test_every_bf16_comes_back_from_f32():
    same_or_nan(narrow(widen(ALL_BITS, "bf16"), "bf16"), ALL_BITS)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_f32_rounds_to_nearest_even_bf16():
    bits = np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint32)
    ties = (bits & 0xFFFF0000) | 0x8000
    values = np.concatenate([bits, ties, ties + 1, ties - 1]).view(np.float32)
    same_or_nan(narrow(values, "bf16"), to_stored(torch.from_numpy(values), "bf16"))


def test_f64_rounds_to_bf16_once():
    """Just above a tie: by way of f32 the bit that decides is lost."""
    tie = np.float64(1 + 2**-8)
    above, below = tie * (1 + 2.0**-50), tie * (1 - 2.0**-50)
    assert narrow(np.array([above]), "bf16")[0] == 0x3F81
    assert narrow(np.array([below]), "bf16")[0] == 0x3F80
    assert narrow(np.array([tie]), "bf16")[0] == 0x3F80


def test_f64_rounds_to_bf16_as_exact_arithmetic_does():
    """The nearest of all 2^16 candidates, by distance; also negative, tiny, huge."""
    random = np.random.default_rng(1)
    values = random.standard_normal(300) * 2.0 ** random.integers(-140, 127, 300)
    finite = ALL_BITS[np.isfinite(widen(ALL_BITS, "bf16"))]
    candidates = widen(finite, "bf16").astype(np.float64)
    for value, got in zip(values, narrow(values, "bf16"), strict=True):
        distance = np.abs(candidates - value)
        best = finite[distance == distance.min()]
        assert got in best


def test_large_integers_round_to_bf16_once():
    """2^62 plus half a step of bf16 plus one: f64 alone would drop the one and then round to even, downwards."""
    value = np.array([(1 << 62) + (1 << 54) + 1, -(1 << 62) - (1 << 54) - 1, (1 << 62) + (1 << 54)])
    assert narrow(value, "bf16").tolist() == [0x5E81, 0xDE81, 0x5E80]


def test_bf16_overflow_is_infinity_and_nan_stays_nan():
    values = np.array([3.4e38, -3.4e38, 1e300, np.inf, np.nan])
    assert narrow(values, "bf16")[:4].tolist() == [0x7F80, 0xFF80, 0x7F80, 0x7F80]
    quiet_bit_lost = np.array([0x7F800001], np.uint32).view(np.float32)
    for nan in (values[4:], quiet_bit_lost):
        assert np.isnan(widen(narrow(nan, "bf16"), "bf16")).all()


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_numbers_in_range_convert_as_in_pytorch(source: str, target: str):
    values = torch.tensor([0, 1, 2, 3.5, 7.75, 99.9, 127]).to(TYPES[source])
    got = convert(as_stored(values), source, target, rounding="truncate")
    assert got.dtype == storage(target)
    np.testing.assert_array_equal(got, to_stored(values, target))


def test_floats_saturate_when_they_become_integers():
    values = np.array([-1e30, -129.0, -128.9, 127.9, 128.0, 1e30, np.nan, np.inf], np.float32)
    assert convert(values, "f32", "i8", rounding="truncate").tolist() == [
        -128,
        -128,
        -128,
        127,
        127,
        127,
        0,
        127,
    ]
    assert convert(values, "f32", "ui8", rounding="truncate").tolist() == [0, 0, 0, 127, 128, 255, 0, 255]


def test_bounds_of_i64_are_not_passed_in_floats():
    values = np.array([9.2e18, 9.223372036854775807e18, 1e19, -9.223372036854775808e18, -1e19])
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    assert convert(values, "f64", "i64", rounding="truncate").tolist() == [int(9.2e18), high, high, low, low]
    assert saturated(np.array([2147483647.0, 2147483648.0]), "i32").tolist() == [2147483647, 2147483647]


def test_nearest_is_to_even_and_truncate_is_towards_zero():
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.6])
    assert convert(values, "f64", "i32", rounding="nearest").tolist() == [0, 2, 2, 0, -2, 3]
    assert convert(values, "f64", "i32", rounding="truncate").tolist() == [0, 1, 2, 0, -1, 2]


def test_integers_wrap_when_truncated_and_saturate_when_rounded():
    values = np.array([300, -1, 127, -200], np.int32)
    assert convert(values, "i32", "i8", rounding="truncate").tolist() == [44, -1, 127, 56]
    assert convert(values, "i32", "i8", rounding="nearest").tolist() == [127, -1, 127, -128]
    assert convert(values, "i32", "ui8", rounding="nearest").tolist() == [255, 0, 127, 0]


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_float_poison_is_nan(dtype: str):
    assert np.isnan(poison(dtype)) and poison(dtype).dtype == storage(dtype)


def test_other_poison_is_recognizable():
    assert np.isnan(widen(np.array([poison("bf16")]), "bf16"))[0]
    assert (poison("i8"), poison("ui8"), poison("i32"), bool(poison("i1"))) == (0x5A, 0x5A, 0x5A5A5A5A, True)


def test_policy_numbers_are_rounded_to_the_element_type():
    assert stored_number(0.1, "f16") == np.float16(0.1)
    assert stored_number(1.5, "bf16") == 0x3FC0
    assert stored_number(-np.inf, "bf16") == 0xFF80
    assert stored_number(31, "ui8") == np.uint8(31)


def test_negative_an_element_type_without_a_numpy_type_is_refused():
    with pytest.raises(LayoutError, match="buffers of i4 are not supported: known are f64"):
        storage("i4")
