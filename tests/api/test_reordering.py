"""Reorders of NumPy arrays of physical shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.algebra.format import Format
from layout_ir.api.reordering import (
    physical_array,
    reorder,
)
from layout_ir.errors import LayoutError


def _ramp(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_plain_to_channels_last_is_a_transposition():
    x = _ramp(2, 17, 5, 4)
    y = li.reorder(x, "nchw", "nhwc")
    assert np.array_equal(y, x.transpose(0, 2, 3, 1))
    assert np.array_equal(li.reorder(y, "nhwc", "nchw"), x)


def test_blocks_have_an_axis_of_their_own_and_zero_pads():
    x = _ramp(2, 17, 5, 4) + 1
    y = li.reorder(x, "nchw", "nChw8c")
    padded = np.pad(x, ((0, 0), (0, 7), (0, 0), (0, 0)))
    assert np.array_equal(y, padded.reshape(2, 3, 8, 5, 4).transpose(0, 1, 3, 4, 2))
    assert np.array_equal(li.reorder(y, "nChw8c", "nchw", shape=(2, 17, 5, 4)), x)


def test_a_blocked_array_without_a_shape_is_full():
    assert li.reorder(np.ones((2, 3, 5, 4, 8), np.float32), "nChw8c", "nchw").shape == (2, 24, 5, 4)


def test_out_is_written_and_returned():
    x, out = _ramp(3, 4), np.empty((4, 3), np.float32)
    assert li.reorder(x, "ab", "ba", out=out) is out
    assert np.array_equal(out, x.T)


@pytest.mark.parametrize(
    "shape, formats", [((41, 0), "ab ab"), ((5, 0), "ab aB8b"), ((0, 5), "ab ba"), ((3, 0, 4), "abc acb")]
)
def test_what_is_empty_is_written_to_what_is_empty(shape: tuple[int, ...], formats: str):
    x = np.zeros(shape, np.float32)
    source, destination = formats.split()
    wanted = li.reorder(x, source, destination)
    out = np.zeros(wanted.shape, np.float32)
    assert li.reorder(x, source, destination, out=out) is out


def test_a_row_pitch_is_a_strided_view():
    x = _ramp(3, 4)
    y = li.reorder(x, "ab", "(a, b) : [a*6, b]")
    assert y.strides == (24, 4)
    assert np.array_equal(y, x)


def test_bfloat16_is_moved_as_bits():
    x = np.arange(12, dtype=np.uint16).reshape(3, 4)
    assert np.array_equal(li.reorder(x, "ab", "ba", dtype="bf16"), x.T)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_arrays_of_ml_dtypes_stay_what_they_are(name: str):
    x = np.arange(12).reshape(3, 4).astype(getattr(pytest.importorskip("ml_dtypes"), name))
    for given in (None, name):
        for destination in ("ba", "(a, b) : [a*6, b]"):
            moved = li.reorder(x, "ab", destination, source_dtype=given)
            assert moved.dtype == x.dtype
            assert moved.tolist() == (x.T if destination == "ba" else x).tolist()


def test_uint16_is_a_type_of_its_own():
    x = np.array([[0, 1000, 65535], [7, 32768, 2]], np.uint16)
    moved = li.reorder(x, "ab", "ba")
    assert moved.dtype == np.uint16 and np.array_equal(moved, x.T)
    assert np.array_equal(li.reorder(x, "ab", "ba", dtype="f32"), x.T.astype(np.float32))
    assert li.reorder(x, "ab", "ab", dtype="i16").tolist() == [[0, 1000, 32767], [7, 32767, 2]]
    assert li.reorder(x, "ab", "ab", dtype="f16").tolist() == [[0, 1000, np.inf], [7, 32768, 2]]


def test_an_array_is_quantized_and_back():
    x = _ramp(2, 3, 4, 5) / 8 - 4
    q = li.reorder(x, "nchw", "nhwc", dtype="i8", scale=0.25, zero_point=3)
    assert np.array_equal(q, (np.rint(x * 4) + 3).transpose(0, 2, 3, 1).astype(np.int8))
    back = li.reorder(q, "nhwc", "nchw", dtype="f32", scale=0.25, zero_point=3)
    assert np.array_equal(back, np.rint(x * 4) / 4)


def test_channels_have_scales_of_their_own():
    x = _ramp(2, 3, 4, 5)
    scale, zero = np.array([1, 2, 4], np.float32), [0, 5, -5]
    q = li.reorder(x, "nchw", "nChw8c", dtype="i32", scale=scale, zero_point=zero, dim=1)
    wanted = np.rint(x / scale[:, None, None]) + np.array(zero)[:, None, None]
    assert np.array_equal(li.reorder(q, "nChw8c", "nchw", shape=x.shape), wanted)


def test_integers_on_both_sides_need_to_be_told_apart():
    x = np.arange(12, dtype=np.int8).reshape(3, 4)
    y = li.reorder(x, "ab", "ba", dtype="ui8", scale=(0.5, 0.25), zero_point=(None, 7))
    assert np.array_equal(y, (x * 2 + 7).T)
    with pytest.raises(li.LayoutError, match="a scale for i8 to ui8 may be meant for either side"):
        li.reorder(x, "ab", "ba", dtype="ui8", scale=0.5)


def test_beta_adds_to_what_is_there():
    x, out = _ramp(3, 4), np.ones((4, 3), np.float32)
    li.reorder(x, "ab", "ba", out=out, beta=0.5)
    assert np.array_equal(out, x.T + 0.5)


def test_elements_of_four_bits_are_rows_of_bytes():
    x = np.array([[-9, -8, -1], [0, 7, 8]], np.float32)
    row = li.reorder(x, "ab", "ba", dtype="i4")
    assert row.tolist() == [0x08, 0x78, 0x7F]
    assert li.reorder(row, "ba", "ab", shape=(2, 3), source_dtype="i4", dtype="f32").tolist() == [
        [-8, -8, -1],
        [0, 7, 7],
    ]


def test_bfloat16_is_rounded_to():
    x = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, np.inf], np.float32)
    assert li.reorder(x, "a", "a", dtype="bf16").tolist() == [0x3F80, 0x3F80, 0x3F82, 0x7F80]
    bits = np.array([0x3F80, 0xC000], np.uint16)
    assert li.reorder(bits, "a", "a", source_dtype="bf16", dtype="f32").tolist() == [1, -2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "i8", "scale": 0.0}, "scale 0.0 of i8 is not a positive number"),
        ({"dtype": "i8", "scale": [1.0, 2.0]}, "scale has 2 numbers, expected one"),
        ({"dtype": "i8", "scale": [1.0, 2.0], "dim": 1}, "scale has 2 numbers, expected one or 4"),
        (
            {"dtype": "i8", "scale": [1.0, 2, 0, 4], "dim": 1},
            "scale 0.0 for channel 2 of i8 is not a positive",
        ),
        (
            {"dtype": "i8", "zero_point": (None, (1, 2, 3)), "dim": 1},
            "zero point has 3 numbers, expected one or 4",
        ),
        ({"dtype": "i8", "scale": (None, (1.0, 2, 3, 4))}, "expected one"),
        ({"dtype": "i8", "zero_point": 128}, "zero point 128.0 of i8: expected integers from -128 to 127"),
        ({"dim": 1}, "dim = 1 says along which dim"),
        ({"dtype": "i8", "scale": 0.5, "zero_point": 3, "dim": 1}, "neither has: give a list or an array"),
        ({"dtype": "i8", "scale": [1.0, 2.0], "dim": 2}, "channels along dim 2 of a tensor of rank 2"),
        ({"dtype": "i8", "scale": [1.0, 2.0], "dim": -1}, "channels along dim -1 of a tensor of rank 2"),
        ({"dtype": "i8", "scale": "wide"}, "scale 'wide' is no number"),
        ({"dtype": "i8", "scale": 10**400}, "scale 10+ is no number: int too large"),
        ({"dtype": "i8", "scale": 1e-320}, "is no positive number of f32, in which it would act"),
        ({"dtype": "i8", "scale": np.array(1e300)}, "is no number of f32, in which it would act"),
        ({"dtype": "i8", "zero_point": (1, None)}, "zero point 1.0 of f32"),
        ({"dtype": "i8", "scale": (1, 2, 3)}, "not 3 numbers"),
        ({"source_dtype": "bf16"}, "elements of 32 bits, bf16 is kept in uint16"),
        ({"dtype": "i8", "out": np.zeros((4, 3), np.float32)}, "expected a C-contiguous .* of int8"),
    ],
)
def test_negative_numbers_that_do_not_fit(options: Any, message: str):
    with pytest.raises(li.LayoutError, match=message):
        li.reorder(_ramp(3, 4), "ab", "ba", **options)


@pytest.mark.parametrize(
    ("formats", "options", "message"),
    [
        (("abc", "cba"), {}, r"the array has 2 axes, .* has 3 factors"),
        (("ab", "ba"), {"shape": (3, 5)}, r"the array has shape \(3, 4\), .* has \(3, 5\)"),
        (("ab", "ba"), {"out": np.empty((3, 4), np.float32)}, "out is"),
    ],
)
def test_negative_what_does_not_fit_is_refused(formats: tuple[str, str], options: Any, message: str):
    with pytest.raises(li.LayoutError, match=message):
        li.reorder(_ramp(3, 4), *formats, **options)


def test_negative_element_types_without_a_name():
    for dtype in (None, "f64", "i64"):  # as wide, and another type
        with pytest.raises(li.LayoutError, match="complex64 cannot be reordered"):
            li.reorder(_ramp(3, 4).astype(np.complex64), "ab", "ba", dtype=dtype)


def test_again_for_arrays_of_the_same_shape():
    for k in range(3):
        x = _ramp(2, 17, 5, 4) + k
        out = np.full((2, 3, 5, 4, 8), np.nan, np.float32)
        assert li.reorder(x, "nchw", "nChw8c", out=out) is out
        assert np.array_equal(out, li.reorder(x, "nchw", "nChw8c"))
        assert np.array_equal(out.transpose(0, 1, 4, 2, 3).reshape(2, 24, 5, 4)[:, :17], x)
        turned = np.ascontiguousarray(x.transpose(3, 2, 1, 0)).transpose(3, 2, 1, 0)
        assert np.array_equal(li.reorder(turned, "nchw", "nChw8c"), out)


def test_negative_again_with_arrays_that_do_not_fit():
    x = _ramp(3, 4)
    li.reorder(x, "ab", "ba")
    with pytest.raises(li.LayoutError, match="out is"):
        li.reorder(x, "ab", "ba", out=np.empty((3, 4), np.float32))
    with pytest.raises(li.LayoutError, match="out is"):
        li.reorder(x, "ab", "ba", out=np.empty((4, 3), np.int32))
    with pytest.raises(li.LayoutError, match="out is"):
        li.reorder(x, "ab", "ba", out=np.empty((4, 6), np.float32)[:, ::2])
    with pytest.raises(li.LayoutError, match="overlap"):
        li.reorder(x, "ab", "ba", out=x.reshape(4, 3))
    frozen = np.empty((4, 3), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(li.LayoutError, match="read-only"):
        li.reorder(x, "ab", "ba", out=frozen)


@pytest.mark.parametrize("threads", [None, 1])
def test_arrays_in_another_byte_order_are_their_numbers(threads: int | None):
    x = _ramp(3, 4) - 5
    foreign = x.astype(x.dtype.newbyteorder())
    padded = "(a, b) : [a, b, b:3], pad = 1.5"
    given: tuple[dict[str, Any], ...] = ({}, {"dtype": "i32"}, {"dtype": "i8", "scale": 0.5, "zero_point": 3})
    for options in given:
        wanted = li.reorder(x, "ab", "ba", **options)
        found = li.reorder(foreign, "ab", "ba", **options, threads=threads)
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted)
    assert np.array_equal(li.reorder(foreign, "ab", padded), li.reorder(x, "ab", padded))


@pytest.mark.parametrize(
    "format",
    [
        "(a, b) : [a*1, b*2]",
        "(a, b) : [a*3, b*-1], offset = 2",
        "(a, b) : [a*-3, b*-1], offset = 5",
        "(a, b) : [a*4, b]",
        "(a, b) : [a, b], size = 9",
    ],
)
def test_an_array_of_the_physical_shape_is_read_and_written_axis_by_axis(format: str):
    """One factor per dim: whatever the strides, the array of physical shape is the tensor itself."""
    x = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(reorder(x, format, "ab"), x)
    assert np.array_equal(reorder(x, "ab", format), x)
    out = np.zeros((2, 3))
    try:
        assert np.array_equal(reorder(x, "ab", format, out=out), x)
    except LayoutError as error:  # a buffer that no C-contiguous array is
        assert "out is" in str(error) or "its layout needs" in str(error)
        assert not out.any()


@pytest.mark.parametrize(
    "format, match",
    [
        ("(a, b) : [a*1, b*1]", "keeps several elements at one address"),
        ("(a, b) : [a*0, b]", "keeps several elements at one address"),
        ("(a, b) : [a@lane, b]", "has places on other axes than memory"),
        ("(a, b) : [a*3, b*-1]", "2 elements below address 0"),
    ],
)
def test_negative_sources_that_no_array_of_their_shape_is(format: str, match: str):
    with pytest.raises(LayoutError, match=match):
        reorder(np.arange(6.0).reshape(2, 3), format, "ab")


def test_negative_physical_arrays_outside_of_their_buffer():
    row = np.arange(100.0)
    for text, match in (
        ("(a, b) : [a*3, b*-1]", "2 elements below address 0"),
        ("(a, b) : [a, b], swizzle = (1, 0, 1)", "a swizzle"),
        ("(a, b) : [a@lane, b]", "places on other axes"),
    ):
        with pytest.raises(LayoutError, match=match):
            physical_array(row, Format.parse(text).bind((2, 3)))
    shifted = Format.parse("(a, b) : [a*3, b*-1], offset = 7").bind((2, 3))
    assert physical_array(row, shifted).tolist() == [[7, 6, 5], [10, 9, 8]]


@pytest.mark.parametrize("zero_point", [(-1, None), (-1, 3), ([2] * 3, None)])
def test_negative_a_zero_point_of_floats(zero_point: Any):
    x = np.zeros((2, 3), np.float32)
    match = r"zero point .* of f32: expected integers, but elements of the source are floats and have none"
    with pytest.raises(LayoutError, match=match):
        reorder(x, "ab", "ab", dtype="i8", zero_point=zero_point, dim=1)
