"""Depthwise convolutions of integers by machine code, beside their definition, which is tested beside plain sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_ir.backends.llvm.loops.depthwise_convolution import DepthwiseConvolution, has_code
from layout_ir.dialects.nn.depthwise_products import DepthwiseIntegerConv
from layout_ir.dialects.nn.integer_products import Requantization
from layout_ir.errors import LayoutError
from tests.backends.llvm.loops.guarded_runs import Array, run_guarded


def found(
    conv: DepthwiseIntegerConv, x: Array, zero_point: Array, weights: Array, *columns: Array, parts: int = 1
) -> Array:
    """The result, computed in parts as threads do; nothing around it is written."""
    kernel = DepthwiseConvolution(conv, x.shape, "i8" if x.dtype == np.int8 else "ui8")
    shape = conv.result_shape(x.shape)
    dtype = np.dtype(np.int32 if conv.requantization is None else np.uint8)
    result = run_guarded(kernel, [x, zero_point, conv.packed(weights), *columns], shape, dtype, parts)
    return result.view(np.int8) if conv.requantization and conv.requantization.dtype == "i8" else result


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[DepthwiseIntegerConv, tuple[int, ...]]:
    """A convolution, and the shape of a source that it has results for."""
    small, pad = st.integers(1, 3), st.sampled_from([0, 0, 1, 2, 5])
    rank = draw(st.integers(1, 3))
    kernel = tuple(draw(st.integers(1, 5 if rank < 3 else 3)) for _ in range(rank))
    strides, dilations = (tuple(draw(small) for _ in range(rank)) for _ in range(2))
    pads = tuple(draw(pad) for _ in range(2 * rank)) if draw(st.booleans()) else (0,) * 2 * rank
    spatial = [
        max(d * (k - 1) + draw(st.integers(1, 9)) - pads[n] - pads[rank + n], 1)
        for n, (k, d) in enumerate(zip(kernel, dilations, strict=True))
    ]
    shape = (draw(small), *spatial, draw(st.integers(1, 50)))
    return DepthwiseIntegerConv(kernel, strides, dilations, pads), shape


@settings(max_examples=25, deadline=None)
@given(made=convolutions(), parts=st.integers(1, 3), quantized=st.booleans(), seed=st.integers(0, 99))
def test_any_convolution_is_its_definition(
    made: tuple[DepthwiseIntegerConv, tuple[int, ...]], parts: int, quantized: bool, seed: int
):
    conv, shape = made
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, shape).astype(np.uint8)
    zero_point = np.asarray(rng.integers(0, 256), np.uint8)
    if seed % 4 < 2:
        x, zero_point = x.view(np.int8), zero_point.view(np.int8)
    weights = rng.integers(-255, 256, (shape[-1], *conv.kernel))
    columns: list[Array] = []
    if quantized:
        low, high = (float(x) for x in np.sort(rng.uniform(-2, 2, 2)).astype(np.float32))
        if seed % 3 == 0:
            low, high = -np.inf, np.inf
        dtype, shift = ("i8", -3) if seed % 2 else ("ui8", 120)
        conv = replace(conv, requantization=Requantization(low, high, 40.0, shift, dtype))
        columns = [rng.uniform(1e-6, 1e-4, shape[-1]).astype(np.float32) for _ in range(2)]
    expected = conv(x, zero_point, conv.packed(weights), *columns)
    np.testing.assert_array_equal(found(conv, x, zero_point, weights, *columns, parts=parts), expected)


def test_the_largest_numbers_do_not_saturate():
    conv = DepthwiseIntegerConv((7, 7), (1, 1), (1, 1), (0, 0, 0, 0))
    x, weights = np.full((1, 9, 9, 19), 255, np.uint8), np.full((19, 7, 7), 255)
    assert (found(conv, x, np.asarray(0, np.uint8), weights) == 49 * 255 * 255).all()
    assert (found(conv, x - x, np.asarray(255, np.uint8), weights) == -49 * 255 * 255).all()


def test_negative_without_a_result_there_is_no_code():
    conv = DepthwiseIntegerConv((3,), (1,), (1,), (0, 0))
    with pytest.raises(LayoutError, match="no code"):
        DepthwiseConvolution(conv, (0, 5, 2), "i8")


def test_long_rows_of_windows_are_taken_in_smaller_tiles():
    x = np.random.default_rng(0).integers(0, 256, (1, 200, 3)).astype(np.uint8)
    conv = DepthwiseIntegerConv((128,), (1,), (1,), (5, 9))
    weights, zero_point = np.random.default_rng(1).integers(-127, 128, (3, 128)), np.asarray(7, np.uint8)
    expected = conv(x, zero_point, conv.packed(weights))
    np.testing.assert_array_equal(found(conv, x, zero_point, weights), expected)
    assert not has_code(DepthwiseIntegerConv((129,), (1,), (1,), (0, 0)), x.shape)


def test_negative_windows_that_the_stack_does_not_hold_have_no_code():
    windows = ((31, 31), (1, 1), (1, 1))
    assert has_code(DepthwiseIntegerConv(*windows, (0, 0, 0, 0)), (1, 40, 40, 512))
    assert has_code(DepthwiseIntegerConv(*windows, (15, 15, 15, 15)), (1, 40, 40, 64))
    assert not has_code(DepthwiseIntegerConv(*windows, (15, 15, 15, 15)), (1, 40, 40, 512))
