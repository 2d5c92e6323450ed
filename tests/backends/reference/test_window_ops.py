"""Window kernels on plain arrays against PyTorch: every rank, stride, dilation, group and asymmetric pad."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.backends.reference import window_ops
from layout_ir.backends.reference.window_ops import Window, avg_pool, col2im, conv, max_pool
from tests.backends.reference.catalog.numbers import F, torch
from tests.backends.reference.catalog.windows import pool_by_definition


def random_window(rng: Random, rank: int) -> Window:
    kernel = tuple(rng.randint(1, 4) for _ in range(rank))
    return Window(
        kernel,
        tuple(rng.randint(1, 3) for _ in kernel),
        tuple(rng.randint(0, 3) for _ in kernel * 2),
        tuple(rng.randint(1, 3) for _ in kernel),
    )


def fitting_extents(rng: Random, window: Window) -> tuple[int, ...]:
    reach = window.covered((1,) * window.rank)
    return tuple(rng.randint(max(r - sum(b), 1), r + 6) for r, b in zip(reach, window.borders(), strict=True))


def torch_conv(
    x: NDArray[Any], w: NDArray[Any], b: NDArray[Any] | None, window: Window, group: int
) -> NDArray[Any]:
    pads = [p for border in reversed(window.borders()) for p in border]
    function = (F.conv1d, F.conv2d, F.conv3d)[window.rank - 1]
    bias = None if b is None else torch.from_numpy(b)
    padded = F.pad(torch.from_numpy(x), pads)
    return function(padded, torch.from_numpy(w), bias, window.strides, 0, window.dilations, group).numpy()


@pytest.mark.parametrize("bound", [1, 64, 1 << 20], ids=["row", "rows", "whole"])
@pytest.mark.parametrize("seed", range(60))
def test_conv_agrees_with_pytorch(seed: int, bound: int, monkeypatch: pytest.MonkeyPatch):
    """However many rows of windows fit into the matrix at a time."""
    monkeypatch.setattr(window_ops, "_WINDOW_ELEMENTS", bound)
    rng, random = Random(seed), np.random.default_rng(seed)
    window = random_window(rng, rng.randint(1, 3))
    group = rng.choice((1, 1, 2, 3, 5))
    depth, rows = rng.randint(1, 5), rng.randint(1, 4)
    x = random.standard_normal((rng.randint(1, 3), group * depth, *fitting_extents(rng, window)))
    w = random.standard_normal((group * rows, depth, *window.kernel))
    b = random.standard_normal(group * rows) if seed % 2 else None
    np.testing.assert_allclose(
        conv(x, w, b, window, group), torch_conv(x, w, b, window, group), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize(
    ("channels", "group", "kernel", "stride"),
    [(64, 1, 1, 1), (64, 1, 1, 2), (96, 96, 3, 1), (240, 3, 1, 1), (3, 1, 7, 2)],
    ids=["pixel", "strided-pixel", "depthwise", "shuffle", "stem"],
)
def test_convolutions_of_networks_agree_with_pytorch(channels: int, group: int, kernel: int, stride: int):
    random = np.random.default_rng(0)
    x = random.standard_normal((1, channels, 28, 28), np.float32)
    w = random.standard_normal(
        (2 * group * 16 // group * group, channels // group, kernel, kernel), np.float32
    )
    window = Window((kernel,) * 2, (stride,) * 2, (kernel // 2,) * 4, (1, 1))
    expected = torch_conv(x.astype(np.float64), w.astype(np.float64), None, window, group)
    np.testing.assert_allclose(conv(x, w, None, window, group), expected, rtol=1e-4, atol=1e-4)


def test_conv_reads_strided_and_splat_operands():
    """Views of blocked buffers, and one element that stands for all."""
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 9, 8, 6)).transpose(0, 3, 1, 2)
    w = np.broadcast_to(np.float64(0.5), (4, 6, 3, 3))
    window = Window((3, 3), (1, 1), (1, 1, 1, 1), (1, 1))
    dense = torch_conv(np.ascontiguousarray(x), np.ascontiguousarray(w), None, window, 1)
    np.testing.assert_allclose(conv(x, w, None, window, 1), dense)


def test_conv_without_channels_or_results():
    window = Window((1,), (1,), (0, 0), (1,))
    bias = np.array([1.0, 2.0])
    assert conv(np.zeros((1, 0, 4)), np.zeros((2, 0, 1)), bias, window, 1)[0].tolist() == [
        [1.0] * 4,
        [2.0] * 4,
    ]
    assert conv(np.zeros((0, 3, 4)), np.zeros((2, 3, 1)), None, window, 1).shape == (0, 2, 4)


def test_nan_in_x_reaches_exactly_the_windows_that_cover_it():
    x = np.zeros((1, 1, 7, 7))
    x[0, 0, 3, 3] = np.nan
    result = conv(x, np.ones((1, 1, 3, 3)), None, Window((3, 3), (1, 1), (0, 0, 0, 0), (1, 1)), 1)
    spoilt = np.zeros((5, 5), bool)
    spoilt[1:4, 1:4] = True
    np.testing.assert_array_equal(np.isnan(result[0, 0]), spoilt)


@pytest.mark.parametrize("seed", range(80))
def test_pools_agree_with_their_definition(seed: int):
    rng, random = Random(seed), np.random.default_rng(seed)
    window = random_window(rng, rng.randint(1, 3))
    # Some element in every window, as ONNX leaves the rest open.
    pads = tuple(min(p, k - 1) for p, k in zip(window.pads, window.kernel * 2, strict=True))
    window = Window(window.kernel, window.strides, pads, (1,) * window.rank)
    x = random.standard_normal((rng.randint(1, 2), rng.randint(1, 3), *fitting_extents(rng, window)))
    options: dict[str, Any] = {
        "kernel": window.kernel,
        "strides": window.strides,
        "pads": pads,
        "dilations": window.dilations,
    }
    for ceil_mode in (False, True):
        largest = pool_by_definition(x, True, ceil_mode=ceil_mode, **options)
        counts = largest.shape[2:]
        if not ceil_mode:
            assert counts == window.counts(x.shape[2:])
        np.testing.assert_array_equal(max_pool(x, window, counts), largest)
        for include in (False, True):
            mean = pool_by_definition(x, False, ceil_mode=ceil_mode, count_include_pad=include, **options)
            got = avg_pool(x, window, counts, count_include_pad=include)
            np.testing.assert_allclose(got, mean, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_max_pool_agrees_with_pytorch(seed: int):
    rng, random = Random(seed), np.random.default_rng(seed)
    kernel, stride, dilation = rng.randint(2, 4), rng.randint(1, 3), rng.randint(1, 2)
    pad, ceil_mode = rng.randint(0, kernel // 2), rng.random() < 0.5
    x = random.standard_normal((2, 3, rng.randint(9, 14), rng.randint(9, 14)))
    expected = F.max_pool2d(torch.from_numpy(x), kernel, stride, pad, dilation, ceil_mode).numpy()
    window = Window((kernel,) * 2, (stride,) * 2, (pad,) * 4, (dilation,) * 2)
    np.testing.assert_array_equal(max_pool(x, window, expected.shape[2:]), expected)


def test_max_pool_of_integers_starts_at_the_lowest_one():
    x = np.full((1, 1, 3), -128, np.int8)
    assert max_pool(x, Window((3,), (1,), (1, 1), (1,)), (3,)).tolist() == [[[-128] * 3]]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_reach_is_what_counts_windows_cover(rank: int):
    for seed in range(50):
        window = random_window(Random(seed), rank)
        extents = fitting_extents(Random(seed), window)
        counts = window.counts(extents)
        padded = [extent + sum(border) for extent, border in zip(extents, window.borders(), strict=True)]
        assert all(
            0 <= p - r < s for p, r, s in zip(padded, window.covered(counts), window.strides, strict=True)
        )
        assert prod(counts) > 0


@pytest.mark.parametrize("seed", range(40))
def test_images_of_windows(seed: int):
    """Beside PyTorch's fold."""
    random = np.random.default_rng(seed)
    kernel, strides, dilations = (tuple(map(int, random.integers(1, 4, 2))) for _ in range(3))
    pads = tuple(map(int, random.integers(0, 3, 2)))
    extents = tuple(
        int(random.integers(max((k - 1) * d + 1 - 2 * p, 1), 12))
        for k, d, p in zip(kernel, dilations, pads, strict=True)
    )
    window = Window(kernel, strides, (*pads, *pads), dilations)
    columns = random.normal(size=(2, 3 * prod(kernel), prod(window.counts(extents)))).astype(np.float32)
    wanted = F.fold(
        torch.from_numpy(columns), extents, kernel, dilation=dilations, padding=pads, stride=strides
    )
    np.testing.assert_allclose(col2im(columns, extents, window), wanted.numpy(), atol=1e-5)


def test_negative_columns_that_are_no_windows():
    with pytest.raises(ValueError, match="cannot reshape"):
        col2im(np.zeros((1, 4, 5), np.float32), (3, 3), Window((2, 2), (1, 1), (0, 0, 0, 0), (1, 1)))
