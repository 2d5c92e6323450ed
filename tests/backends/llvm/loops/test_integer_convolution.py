"""Convolutions of integers by machine code, beside their definition, which is tested beside plain sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_ir.backends.llvm.loops.integer_convolution import IntegerConvolution, panel_columns
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.dialects.nn.integer_products import PackedIntegerConv, Requantization
from layout_ir.errors import LayoutError
from tests.backends.llvm.loops.guarded_runs import Array, run_guarded


def found(
    conv: PackedIntegerConv, x: Array, weights: Array, *columns: Array, parts: int = 1, threads: int = 1
) -> Array:
    """The result, computed in parts as threads do; nothing around it is written."""
    packed = conv.packed(weights)
    kernel = IntegerConvolution(conv, x.shape, "i8" if packed.itemsize == 1 else "i16", threads=threads)
    shape = conv.result_shape(x.shape)
    dtype = np.dtype(np.int32 if conv.requantization is None else np.uint8)
    result = run_guarded(kernel, [x, packed, *columns], shape, dtype, parts)
    return result.view(np.int8) if conv.requantization and conv.requantization.dtype == "i8" else result


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[PackedIntegerConv, tuple[int, ...]]:
    """A convolution, and the shape of a source that it has results for."""
    small = st.integers(1, 3)
    rank = draw(st.integers(0, 3))
    kernel, strides, dilations = (tuple(draw(small) for _ in range(rank)) for _ in range(3))
    spatial = [d * (k - 1) + draw(st.integers(1, 9)) for k, d in zip(kernel, dilations, strict=True)]
    shape = (draw(st.integers(1, 9)), *spatial, draw(st.integers(1, 40)))
    group = draw(st.sampled_from([1, 1, 2, 5]))
    columns, shape = group * draw(st.integers(1, 50)), (*shape[:-1], group * shape[-1])
    return PackedIntegerConv(kernel, strides, dilations, columns, panel_columns(host()), group), shape


@settings(max_examples=60, deadline=None)
@given(
    made=convolutions(),
    wide=st.booleans(),
    parts=st.integers(1, 3),
    quantized=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_convolution_is_its_definition(
    made: tuple[PackedIntegerConv, tuple[int, ...]], wide: bool, parts: int, quantized: bool, seed: int
):
    conv, shape = made
    rng = np.random.default_rng(seed)
    x = rng.integers(-255, 256, shape).astype(np.int16)
    limit = 255 if wide else 127
    weights = rng.integers(-limit, limit + 1, (conv.columns, *conv.kernel, shape[-1] // conv.group))
    columns: list[Array] = []
    if quantized:
        low, high = (float(x) for x in np.sort(rng.uniform(-2, 2, 2)).astype(np.float32))
        if seed % 3 == 0:
            low, high = -np.inf, np.inf
        dtype, zero_point = ("i8", -3) if seed % 2 else ("ui8", 120)
        conv = replace(conv, requantization=Requantization(low, high, 40.0, zero_point, dtype))
        columns = [rng.uniform(1e-6, 1e-4, conv.columns).astype(np.float32) for _ in range(2)]
    expected = conv(x, conv.packed(weights), *columns)
    np.testing.assert_array_equal(found(conv, x, weights, *columns, parts=parts), expected)


@pytest.mark.parametrize("rows", [*range(1, 16), 128])
def test_the_largest_numbers_do_not_saturate(rows: int):
    conv = PackedIntegerConv((), (), (), 19, panel_columns(host()))
    x, weights = np.full((rows, 700), 255, np.int16), np.full((19, 700), 127)
    assert (found(conv, x, weights) == 700 * 255 * 127).all()
    assert (found(conv, -x, weights) == -700 * 255 * 127).all()


@pytest.mark.parametrize("columns", [3, 16, 40])
@pytest.mark.parametrize("rows", [63, 200, 1000])
def test_many_rows_of_few_columns_are_shared_by_threads(
    rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
):
    def available(threads: int) -> int:
        return threads

    monkeypatch.setattr(thread_pool, "available", available)
    rng = np.random.default_rng(0)
    x = rng.integers(-255, 256, (rows, 600)).astype(np.int16)
    weights = rng.integers(-127, 128, (columns, 600))
    conv = PackedIntegerConv((), (), (), columns, panel_columns(host()))
    kernel = IntegerConvolution(conv, x.shape, "i8", threads=8)
    assert kernel.threads == 8 or rows * columns * 600 < 1 << 20
    expected = x.astype(np.int64) @ weights.T
    for parts in (1, 3, 8):
        np.testing.assert_array_equal(found(conv, x, weights, parts=parts, threads=8), expected)


def test_sums_wrap_around_as_integers_of_32_bits_do():
    conv = PackedIntegerConv((), (), (), 3, panel_columns(host()))
    x, weights = np.full((2, 40000), 255, np.int16), np.full((3, 40000), 255)
    assert (found(conv, x, weights) == np.int64(40000 * 255 * 255).astype(np.int32)).all()


def test_negative_without_a_result_there_is_no_code():
    conv = PackedIntegerConv((3,), (1,), (1,), 4, panel_columns(host()))
    with pytest.raises(LayoutError, match="no code"):
        IntegerConvolution(conv, (0, 5, 2), "i8")


def test_negative_panels_of_another_machine_have_no_code():
    conv = PackedIntegerConv((), (), (), 4, panel_columns(host()) + 1)
    with pytest.raises(LayoutError, match="panels"):
        IntegerConvolution(conv, (2, 5), "i8")
