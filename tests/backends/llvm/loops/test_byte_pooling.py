"""Pools of bytes by machine code, beside windows taken one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_ir.backends.llvm.loops.byte_pooling import BytePooling
from layout_ir.backends.llvm.loops.channel_windows import ChannelWindows
from layout_ir.errors import LayoutError
from tests.backends.llvm.loops.guarded_runs import Array, run_guarded


def found(windows: ChannelWindows, x: Array, parts: int) -> Array:
    """The result, computed in parts as threads do; nothing around it is written."""
    kernel = BytePooling(windows, "i8" if x.dtype == np.int8 else "ui8")
    shape = (x.shape[0], *windows.results, x.shape[-1])
    return run_guarded(kernel, [x], shape, x.dtype, parts)


def expected(windows: ChannelWindows, x: Array) -> Array:
    """The largest of what is inside of each window; the lowest number where nothing is."""
    result = np.full((x.shape[0], *windows.results, x.shape[-1]), np.iinfo(x.dtype).min, x.dtype)
    for place in np.ndindex(windows.results):
        for tap in np.ndindex(windows.kernel):
            per_dim = zip(place, windows.strides, windows.before, tap, windows.dilations, strict=True)
            at = tuple(k * stride - before + t * d for k, stride, before, t, d in per_dim)
            if all(0 <= k < extent for k, extent in zip(at, x.shape[1:-1], strict=True)):
                to = (slice(None), *place)
                result[to] = np.maximum(result[to], x[(slice(None), *at)])
    return result


@settings(max_examples=20, deadline=None)
@given(data=st.data(), parts=st.integers(1, 3), signed=st.booleans())
def test_any_pool_is_the_largest_of_each_window(data: st.DataObject, parts: int, signed: bool):
    rank = data.draw(st.integers(1, 3))
    small, pad = st.integers(1, 3), st.sampled_from([0, 0, 1, 2])
    kernel = tuple(data.draw(st.sampled_from([1, 2, 3, 5, 9])) for _ in range(rank))
    strides, dilations = (tuple(data.draw(small) for _ in range(rank)) for _ in range(2))
    before = tuple(data.draw(pad) for _ in range(rank))
    results = tuple(data.draw(st.integers(1, 7)) for _ in range(rank))
    # The last windows may leave the source, as with pads behind it and in `ceil_mode`.
    reach = zip(results, strides, kernel, dilations, before, strict=True)
    spatial = [max((n - 1) * s + (k - 1) * d + 1 - p - data.draw(pad), 1) for n, s, k, d, p in reach]
    shape = (data.draw(small), *spatial, data.draw(st.integers(1, 100)))
    x = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    x = x.view(np.int8) if signed else x
    windows = ChannelWindows(shape, kernel, strides, dilations, before, results)
    np.testing.assert_array_equal(found(windows, x, parts), expected(windows, x))


def test_negative_without_a_result_there_is_no_code():
    with pytest.raises(LayoutError, match="no code"):
        BytePooling(ChannelWindows((1, 5, 2), (3,), (1,), (1,), (0,), (0,)), "i8")
