"""Pad policies and element types: what pads can hold, and what a conversion makes of a policy."""

from __future__ import annotations

import pytest

from layout_ir.algebra.pads import PadPolicy, check_pad, pad_after
from layout_ir.elements.element_types import element_type
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError


@pytest.mark.parametrize(
    ("pad", "dtype"),
    [("undef", "f32"), ("zero", "i4"), ("zp", "i8"), (-128, "i8"), (255, "ui8"), (0.5, "f32")],
)
def test_pads_hold_what_the_element_type_can(pad: PadPolicy, dtype: str):
    check_pad(pad, element_type(dtype))


@pytest.mark.parametrize(
    ("pad", "dtype", "message"),
    [
        ("zp", "f32", "the quantized zero, which elements of f32 do not have"),
        (-129, "i8", "integers from -128 to 127"),
        (256, "ui8", "integers from 0 to 255"),
    ],
)
def test_negative_pads_do_not_hold_what_the_type_cannot(pad: PadPolicy, dtype: str, message: str):
    with pytest.raises(LayoutError, match=message):
        check_pad(pad, element_type(dtype))


def test_zp_becomes_the_zero_point_that_is_compiled_in():
    assert pad_after("zp", Conversion("f32", "i8", dst_zero=3.0)) == 3


@pytest.mark.parametrize("pad", ["undef", "zero", 7])
def test_negative_other_policies_stay(pad: PadPolicy):
    assert pad_after(pad, Conversion("f32", "i8", dst_zero=3.0)) == pad
    assert pad_after("zp", Conversion("f32", "i8")) == "zp"


@pytest.mark.parametrize(
    ("conversion", "message"),
    [
        (Conversion("f32", "i8", dst_zero=(1.0, 2.0), dim=1, channels=2), "one for each index of dim 1"),
        (Conversion("f32", "i8", dst_zero="tensor"), "which each call brings along"),
    ],
)
def test_negative_there_must_be_one_zero_point_that_is_known(conversion: Conversion, message: str):
    with pytest.raises(LayoutError, match=message):
        pad_after("zp", conversion)
