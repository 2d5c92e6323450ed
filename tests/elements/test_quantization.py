"""Scales and zero points: what they make of two sides, and what stored elements stand for."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from layout_ir.elements.quantization import (
    PARAMETERS,
    Conversion,
    check_quantization,
    computing_type,
    conversion_between,
    number_text,
    rounded,
    sides_of,
    to_real,
    to_stored,
)
from layout_ir.errors import LayoutError


@pytest.mark.parametrize(("dtype", "low", "high"), [("i8", -128, 127), ("ui8", 0, 255), ("i4", -8, 7)])
def test_every_element_comes_back_from_the_real_number_it_stands_for(dtype: str, low: int, high: int):
    stored = np.arange(low, high + 1)
    for scale, zero_point in ((1.0, 0), (0.125, 3), (0.1, low), (7.0, high)):
        real = to_real(stored, scale, zero_point)
        exact = [float(np.float32(float((Fraction(int(s)) - zero_point) * Fraction(scale)))) for s in stored]
        assert real.tolist() == exact
        assert to_stored(real, dtype, scale, zero_point).tolist() == stored.tolist()


def test_real_numbers_are_rounded_to_even_and_saturate():
    values = [-math.inf, -1000, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 126.5, 127.5, 1000, math.inf, math.nan]
    expected = [-128, -128, -2, -2, 0, 0, 2, 2, 126, 127, 127, 127, 0]
    assert to_stored(values, "i8", 1.0, 0).tolist() == expected
    # Rounded first, then shifted, as ONNX does: halves go to the even number of steps.
    assert to_stored([0.5, 1.5, 2.5], "i8", 1.0, 1).tolist() == [1, 3, 3]
    assert to_stored(values[:4], "f32", 2.0, 0).tolist() == [-math.inf, -500, -1.25, -0.75]


@pytest.mark.parametrize(("dtype", "bound"), [("i64", 2**63 - 1), ("ui64", 2**64 - 1)])
def test_no_real_number_leaves_the_range_of_wide_integers(dtype: str, bound: int):
    (most,) = to_stored([1e30], dtype, 1.0, 0).tolist()
    assert bound - 2048 <= most <= bound


def _of(src: str, dst: str, **given: Any) -> Conversion:
    return conversion_between(src, dst, **given)[0]


def test_scales_act_one_after_the_other_and_neutral_numbers_are_no_step():
    both = _of("i8", "ui8", scale=(0.5, 0.25), zero_point=(3, 4))
    assert both.parameters == {"src_zero": 3.0, "src_scale": 0.5, "dst_scale": 0.25, "dst_zero": 4.0}
    assert list(both.parameters) == [name for name in PARAMETERS if name in both.parameters]
    assert _of("i8", "f32", scale=0.5) == Conversion("i8", "f32", src_scale=0.5)
    assert _of("f32", "i8", scale=0.5) == Conversion("f32", "i8", dst_scale=0.5)
    assert _of("f32", "i8", scale=1.0, zero_point=0, beta=0.0) == Conversion("f32", "i8")
    assert _of("f32", "f32").is_identity and not _of("f32", "f32", beta=1.0).is_identity


def test_numbers_of_channels_that_are_all_the_same_are_one():
    apart = _of("i8", "f32", scale=((0.5, 1.0), None), dim=1, channels=2)
    assert apart.src_scale == (0.5, 1.0) and (apart.dim, apart.channels) == (1, 2)
    alike = _of("i8", "f32", scale=((0.5, 0.5), None), dim=1, channels=2)
    assert alike == _of("i8", "f32", scale=0.5)


def test_arrays_come_with_the_call_as_they_were():
    scale, zero = np.array([0.5, 2.0]), np.array(7.0)
    conversion, values = conversion_between("i8", "f32", scale=scale, zero_point=zero, dim=0, channels=2)
    assert conversion.at_run_time == ("src_zero", "src_scale")
    assert conversion.src_zero == "tensor" and conversion.src_scale == "channel"
    scale[:] = zero[...] = 0
    assert values["src_scale"].tolist() == [0.5, 2.0] and values["src_zero"] == 7


@pytest.mark.parametrize(
    ("src", "dst", "given"),
    [
        ("i8", "ui8", {"scale": 0.5}),  # of which side?
        ("f32", "f64", {"zero_point": 1}),
        ("i8", "f32", {"scale": 0.0}),
        ("i8", "f32", {"scale": -1.0}),
        ("i8", "f32", {"scale": math.nan}),
        ("i8", "f32", {"scale": math.inf}),
        ("i8", "f32", {"zero_point": 128}),
        ("i8", "f32", {"zero_point": 0.5}),
        ("i8", "f32", {"zero_point": (None, 1)}),
        ("i8", "f32", {"scale": [1.0, 2.0], "dim": 0, "channels": 3}),
        ("i8", "f32", {"scale": [1.0, 2.0], "channels": 2}),  # along which dim?
        ("i8", "f32", {"scale": [[1.0]], "dim": 0, "channels": 1}),
        ("i8", "f32", {"scale": "much"}),
        ("i8", "f32", {"scale": (1.0, 2.0, 3.0)}),
        ("i8", "i8", {"scale": (1e300, None)}),  # no number of f32
        ("i8", "i8", {"scale": (1.0, 1e-300)}),  # 0 as f32
        ("i8", "f32", {"beta": 1e300}),  # no number of f32
        ("i8", "f32", {"beta": float("nan")}),
        ("i8", "f32", {"beta": np.array(np.inf)}),
    ],
)
def test_negative_numbers_that_mean_nothing_are_refused(src: str, dst: str, given: dict[str, Any]):
    with pytest.raises(LayoutError):
        conversion_between(src, dst, **given)


def test_one_number_belongs_to_the_only_side_of_narrow_floats():
    assert sides_of(5, "f8E5M2", "f32", "scale") == (5, None)
    assert sides_of(5, "bf16", "f4E2M1FN", "scale") == (None, 5)
    assert conversion_between("f32", "f8E4M3FN", scale=0.5)[0] == Conversion("f32", "f8E4M3FN", dst_scale=0.5)


def test_negative_one_number_between_two_quantized_sides():
    for src, dst in (("i8", "f8E5M2"), ("f8E4M3FN", "f8E5M2"), ("f32", "bf16")):
        with pytest.raises(LayoutError, match="either side"):
            sides_of(5, src, dst, "scale")


def test_saturating_is_asked_of_floats_that_could_be_infinity_or_nan():
    assert conversion_between("f32", "f8E5M2", saturate=True)[0] == Conversion("f32", "f8E5M2", saturate=True)
    # What saturates anyway is the same conversion.
    for dst in ("f4E2M1FN", "i8"):
        assert conversion_between("f32", dst, saturate=True) == conversion_between("f32", dst)


def test_negative_wide_floats_do_not_saturate():
    with pytest.raises(LayoutError, match="becomes infinity"):
        conversion_between("f32", "f16", saturate=True)


def test_one_number_belongs_to_the_only_side_of_integers():
    assert sides_of(5, "i8", "f32", "scale") == (5, None) and sides_of(5, "f32", "i8", "scale") == (None, 5)
    assert sides_of((1, 2), "i8", "i8", "scale") == (1, 2) and sides_of(None, "i8", "i8", "scale") == (
        None,
        None,
    )


def test_arithmetic_is_f32_unless_a_side_has_numbers_that_f32_has_not():
    assert computing_type("i8", "bf16") == computing_type("i32", "f32") == "f32"
    assert computing_type("i64", "f32") == computing_type("f32", "f64") == "f64"
    assert (
        computing_type("i32", "i8", shifts=True) == "f64"
        and computing_type("i16", "i8", shifts=True) == "f32"
    )
    assert rounded(0.1, "f32") == float(np.float32(0.1)) != rounded(0.1, "f64") == 0.1


@pytest.mark.parametrize("value", [0.1, 1e-30, 1e30, 1e16, -2.5, 3.0, 5e-324, 1.7976931348623157e308])
def test_the_text_of_a_number_reads_back_and_has_a_point(value: float):
    assert float(number_text(value)) == value and "." in number_text(value)


def test_a_type_holds_its_zero_points_and_negative_no_others():
    check_quantization("ui8", 0.5, 255)
    check_quantization("f32", None, 0)
    for dtype, scale, zero_point in (("ui8", 0.5, -1), ("i8", 0.0, 0), ("i8", math.inf, 0), ("f32", 1.0, 1)):
        with pytest.raises(LayoutError):
            check_quantization(dtype, scale, zero_point)


@pytest.mark.parametrize(
    "given",
    [
        {"src_scale": (1.0, 2.0)},
        {"dst_scale": 1.5, "dim": 0},
        {"src_scale": (1.0, 2.0), "dim": 0, "channels": 3},
        {"src_scale": 1e300},
        {"dst_scale": 1e-300},
        {"dst_scale": 0.0},
    ],
)
def test_negative_conversions_whose_channels_or_numbers_do_not_fit(given: dict[str, Any]):
    with pytest.raises(LayoutError):
        Conversion("i8", "f32", **given)
