"""Convolutions of integers by packed weights, beside sums taken one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.dialects.nn.integer_products import PackedIntegerConv, Requantization

Array = np.ndarray[Any, Any]


def summed(x: Array, weights: Array, strides: tuple[int, ...], dilations: tuple[int, ...]) -> Array:
    """The sums of a convolution without pads of x (N, *spatial, C), by weights (O, *kernel, C), one by one."""
    kernel = weights.shape[1:-1]
    extents = [
        (e - d * (k - 1) - 1) // s + 1
        for e, k, s, d in zip(x.shape[1:-1], kernel, strides, dilations, strict=True)
    ]
    found = np.zeros((x.shape[0], *extents, weights.shape[0]), np.int64)
    for place in np.ndindex(found.shape):
        n, *at, o = place
        for tap in np.ndindex(kernel):
            index = [a * s + t * d for a, s, t, d in zip(at, strides, tap, dilations, strict=True)]
            left, right = x[(n, *index)].tolist(), weights[(o, *tap)].tolist()
            found[place] += sum(a * b for a, b in zip(left, right, strict=True))
    return found


@pytest.mark.parametrize(
    ("kernel", "strides", "dilations", "spatial"),
    [
        ((), (), (), ()),
        ((3,), (2,), (1,), (8,)),
        ((1, 1), (1, 1), (1, 1), (3, 2)),
        ((3, 2), (1, 2), (2, 1), (6, 5)),
        ((2, 3), (1, 1), (1, 2), (3, 7)),
        ((2, 1, 2), (1, 2, 1), (1, 1, 1), (3, 4, 3)),
    ],
)
@pytest.mark.parametrize(("channels", "columns", "panel"), [(1, 1, 4), (3, 5, 2), (8, 16, 16)])
def test_packed_weights_are_those_that_were_packed(
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    spatial: tuple[int, ...],
    channels: int,
    columns: int,
    panel: int,
):
    draw = np.random.default_rng(0)
    x = draw.integers(-255, 256, (2, *spatial, channels)).astype(np.int16)
    weights = draw.integers(-128, 128, (columns, *kernel, channels))
    conv = PackedIntegerConv(kernel, strides, dilations, columns, panel)
    packed = conv.packed(weights)
    assert packed.dtype == np.int8 and packed.shape == conv.packed_shape(channels)
    np.testing.assert_array_equal(conv.unpacked(packed, channels), weights)
    np.testing.assert_array_equal(conv(x, packed), summed(x, weights, strides, dilations))


def test_groups_have_channels_of_their_own():
    draw = np.random.default_rng(0)
    x = draw.integers(-255, 256, (2, 5, 4, 6)).astype(np.int16)
    weights = draw.integers(-128, 128, (15, 2, 3, 2))
    conv = PackedIntegerConv((2, 3), (1, 1), (1, 1), 15, 4, 3)
    packed = conv.packed(weights)
    assert packed.shape == conv.packed_shape(2)
    np.testing.assert_array_equal(conv.unpacked(packed, 2), weights)
    parts = zip(np.split(x, 3, -1), np.split(weights, 3), strict=True)
    expected = np.concatenate([summed(*part, (1, 1), (1, 1)) for part in parts], -1)
    np.testing.assert_array_equal(conv(x, packed), expected)


def test_weights_that_fit_no_byte_take_two():
    conv = PackedIntegerConv((), (), (), 2, 4)
    weights = np.array([[-129, 3], [255, 0]])
    assert conv.packed(weights).dtype == np.int16
    np.testing.assert_array_equal(conv.unpacked(conv.packed(weights), 2), weights)


def test_negative_weights_that_fit_no_two_bytes_are_refused():
    with pytest.raises(ValueError, match="16 bits"):
        PackedIntegerConv((), (), (), 1, 4).packed(np.array([[1 << 15]]))


@pytest.mark.parametrize("requantization", [None, Requantization(0.0, 6.0, 12.5, 3, "ui8")])
def test_attributes_say_all_of_a_node(requantization: Requantization | None):
    conv = PackedIntegerConv((3, 1), (1, 2), (1, 1), 14, 16, 7, requantization)
    attributes = conv.attributes()
    assert PackedIntegerConv.of_node(attributes.get) == conv


def test_sums_are_quantized_as_onnx_quantizes_real_numbers():
    sums = np.array([[-1000, 25], [3, 5], [1 << 20, -7]], np.int32)
    made = Requantization(-np.inf, np.inf, 0.5, -3, "i8")
    # -100 + 1, 0.3 + 1 and so on: halves are rounded to even numbers.
    found = made(sums, np.array([0.1, 1.0], np.float32), np.array([1.0, 0.0], np.float32))
    np.testing.assert_array_equal(found, [[-53, 9], [-2, -1], [127, -7]])
    bounded = Requantization(0.0, 6.0, 10.0, 7, "ui8")
    np.testing.assert_array_equal(
        bounded(sums, np.ones(2, np.float32), np.zeros(2, np.float32)), [[7, 67], [37, 57], [67, 7]]
    )


@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (0.0, 6.0), (-0.3, 0.4), (3.0, -3.0), (900.0, 1e30)])
@pytest.mark.parametrize(("zero_point", "dtype"), [(-3, "i8"), (120, "ui8")])
def test_bounds_may_come_behind_the_rounding(bounds: tuple[float, float], zero_point: int, dtype: str):
    made = Requantization(*bounds, 12.5, zero_point, dtype)
    sums, scale, addend = np.arange(-3000, 3000, dtype=np.int32)[:, None], np.float32(0.013), np.float32(0.07)
    steps = np.rint((sums.astype(np.float32) * scale + addend) * np.float32(12.5)) + np.float32(zero_point)
    np.testing.assert_array_equal(
        made(sums, np.full(1, scale), np.full(1, addend)).astype(int),
        np.minimum(np.maximum(steps, made.step_bounds[0]), made.step_bounds[1]).astype(int),
    )
