"""Pools of row-major floats by machine code, beside windows taken one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_ir.backends.llvm.loops.row_pooling import RowPooling, RowWindows, has_row_code
from layout_ir.errors import LayoutError
from tests.backends.llvm.loops.guarded_runs import Array, run_guarded


def found(windows: RowWindows, x: Array, parts: int = 1) -> Array:
    """The result, computed in parts as threads do; nothing around it is written, and nothing around the source read."""
    kernel = RowPooling(windows, "f32" if x.dtype == np.float32 else "f64")
    shape = (x.shape[0], *windows.results)
    around = np.full(x.size + 256, np.nan, x.dtype)
    around[128:-128] = x.reshape(-1)
    return run_guarded(kernel, [around[128:-128]], shape, x.dtype, parts)


def expected(windows: RowWindows, x: Array) -> Array:
    """The largest of what is inside of each window, -inf where nothing is; or its sum over the count, in f64."""
    is_mean = windows.counts is not None
    result = np.full((x.shape[0], *windows.results), 0.0 if is_mean else -np.inf)
    for place in np.ndindex(windows.results):
        to = (slice(None), *place)
        for tap in np.ndindex(windows.kernel):
            per_dim = zip(place, windows.strides, windows.before, tap, windows.dilations, strict=True)
            at = tuple(k * stride - before + t * d for k, stride, before, t, d in per_dim)
            if all(0 <= k < extent for k, extent in zip(at, x.shape[1:], strict=True)):
                number = x[(slice(None), *at)].astype(np.float64)
                result[to] = result[to] + number if is_mean else np.maximum(result[to], number)
        if windows.counts is not None:
            for of_dim, k in zip(windows.counts, tuple[int, ...](place), strict=True):
                result[to] /= max(of_dim[k], 1)
    return result


@settings(max_examples=30, deadline=None)
@given(data=st.data(), parts=st.integers(1, 3), mean=st.booleans(), double=st.booleans())
def test_any_pool_is_the_largest_or_the_mean_of_each_window(
    data: st.DataObject, parts: int, mean: bool, double: bool
):
    rank = data.draw(st.integers(1, 3))
    small, pad = st.integers(1, 3), st.sampled_from([0, 0, 1, 2, 9])
    kernel = tuple(data.draw(st.sampled_from([1, 2, 3, 5])) for _ in range(rank))
    strides, dilations = (tuple(data.draw(small) for _ in range(rank)) for _ in range(2))
    before = tuple(data.draw(pad) for _ in range(rank))
    results = (*(data.draw(st.integers(1, 4)) for _ in range(rank - 1)), data.draw(st.integers(1, 40)))
    # The last windows may leave the source, as with pads behind it and in `ceil_mode`.
    reach = zip(results, strides, kernel, dilations, before, strict=True)
    spatial = [max((n - 1) * s + (k - 1) * d + 1 - p - data.draw(pad), 1) for n, s, k, d, p in reach]
    shape = (data.draw(small), *spatial)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float64 if double else np.float32)
    counts = tuple(tuple(data.draw(st.integers(0, 5)) for _ in range(n)) for n in results) if mean else None
    windows = RowWindows(shape, kernel, strides, dilations, before, results, counts)
    np.testing.assert_allclose(found(windows, x, parts), expected(windows, x), rtol=1e-5, atol=1e-5)


WINDOWS = RowWindows((1, 4, 70), (3, 3), (1, 1), (1, 1), (1, 1), (4, 70))


@pytest.mark.parametrize("place", [(0, 0), (1, 33), (3, 69)])
def test_a_nan_is_handed_on_by_the_windows_that_have_it_and_no_others(place: tuple[int, int]):
    x = np.random.default_rng(0).standard_normal((1, 4, 70)).astype(np.float32)
    x[(0, *place)] = np.nan
    has = np.zeros((4, 70), bool)
    rows, columns = (slice(max(k - 1, 0), k + 2) for k in place)
    has[rows, columns] = True
    counts = tuple((3,) * n for n in WINDOWS.results)
    for windows in (WINDOWS, replace(WINDOWS, counts=counts)):
        np.testing.assert_array_equal(np.isnan(found(windows, x)[0]), has)


def test_the_largest_of_infinities_is_the_infinity():
    x = np.full((1, 4, 70), -np.inf, np.float32)
    assert (found(WINDOWS, x) == -np.inf).all()
    x[0, 2, 5] = np.inf
    np.testing.assert_array_equal(found(WINDOWS, x), expected(WINDOWS, x))


@pytest.mark.parametrize(
    ("windows", "dtype"),
    [
        (replace(WINDOWS, results=(4, 0)), "f32"),
        (replace(WINDOWS, source=(0, 4, 70)), "f32"),
        (replace(WINDOWS, kernel=(3, 3), dilations=(1, 1000)), "f32"),
        (WINDOWS, "f16"),
    ],
)
def test_negative_without_results_for_wide_windows_and_other_elements_there_is_no_code(
    windows: RowWindows, dtype: str
):
    assert has_row_code(WINDOWS, "f32") and not has_row_code(windows, dtype)
    with pytest.raises(LayoutError, match="no code"):
        RowPooling(windows, dtype)
