"""Reorders of NumPy arrays of physical shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li


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


def test_a_row_pitch_is_a_strided_view():
    x = _ramp(3, 4)
    y = li.reorder(x, "ab", "(a, b) : [a*6, b]")
    assert y.strides == (24, 4)
    assert np.array_equal(y, x)


def test_bfloat16_is_moved_as_bits():
    x = np.arange(12, dtype=np.uint16).reshape(3, 4)
    assert np.array_equal(li.reorder(x, "ab", "ba", dtype="bf16"), x.T)


def test_descriptors_bring_their_element_type():
    source, destination = li.TensorDesc((3, 4), "i8", "ab"), li.TensorDesc((3, 4), "i8", "ba")
    x, y = np.arange(12, dtype=np.int8), np.zeros(12, np.int8)
    li.compile_reorder(source, destination)(x, y)
    assert np.array_equal(y.reshape(4, 3), x.reshape(3, 4).T)


def test_negative_descriptors_of_different_elements():
    with pytest.raises(li.LayoutError, match="keeps the element type: f32 != i8"):
        li.compile_reorder(li.TensorDesc((3, 4), "f32", "ab"), li.TensorDesc((3, 4), "i8", "ba"))


@pytest.mark.parametrize(
    ("formats", "options", "message"),
    [
        (("abc", "cba"), {}, r"the array has 2 axes, .* has 3 factors"),
        (("ab", "ba"), {"shape": (3, 5)}, r"the array has shape \(3, 4\), .* has \(3, 5\)"),
        (("ab", "ba"), {"dtype": "f64"}, "elements of 32 bits, f64 has 64"),
        (("ab", "ba"), {"out": np.empty((3, 4), np.float32)}, "out is"),
    ],
)
def test_negative_what_does_not_fit_is_refused(formats: tuple[str, str], options: Any, message: str):
    with pytest.raises(li.LayoutError, match=message):
        li.reorder(_ramp(3, 4), *formats, **options)


def test_negative_element_types_without_a_name():
    with pytest.raises(li.LayoutError, match="complex64 cannot be reordered"):
        li.reorder(_ramp(3, 4).astype(np.complex64), "ab", "ba")


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
