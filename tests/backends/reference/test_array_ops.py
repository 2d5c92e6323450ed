"""Matrix products, normalizations and moves of elements against NumPy's own and against their definitions."""

from __future__ import annotations

import math
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from layout_ir.backends.reference import array_ops

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad_is_that_of_numpy(mode: Any):
    rng = Random(mode)
    for _ in range(50):
        shape = tuple(rng.randint(2, 6) for _ in range(rng.randint(1, 3)))
        pads = [rng.randint(0, min(shape) - 1) for _ in range(2 * len(shape))]
        x = RNG.integers(0, 99, shape)
        widths = list(zip(pads[: len(shape)], pads[len(shape) :], strict=True))
        options: Any = {"constant_values": 7} if mode == "constant" else {}
        wanted: Any = np.pad(x, widths, mode, **options)
        np.testing.assert_array_equal(array_ops.pad(x, pads, mode, 7), wanted)


def test_negative_pads_take_elements_away():
    x = RNG.integers(0, 99, (5, 4))
    np.testing.assert_array_equal(array_ops.pad(x, [-1, 0, -2, 1], "constant", 7)[:, :4], x[1:3])


def test_slices_with_steps_of_either_sign():
    x = RNG.integers(0, 99, (7,))
    for start, size, step in product(range(7), range(5), (-3, -1, 1, 2)):
        places = [start + k * step for k in range(size)]
        if all(0 <= place < 7 for place in places):
            np.testing.assert_array_equal(array_ops.slice_elements(x, [start], [size], [step]), x[places])


def test_softmax_by_definition_and_without_overflow():
    x = RNG.standard_normal((3, 5))
    power = [[math.exp(v) for v in row] for row in x.tolist()]
    wanted = np.array([[v / math.fsum(row) for v in row] for row in power])
    np.testing.assert_allclose(array_ops.softmax(np, x, 1), wanted, rtol=1e-14)
    np.testing.assert_allclose(array_ops.log_softmax(np, x, 1), np.log(wanted), rtol=1e-12)
    np.testing.assert_allclose(array_ops.softmax(np, x + 1e4, 1), wanted, rtol=1e-10)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_lrn_by_definition(size: int):
    x = RNG.standard_normal((2, 5, 3))
    wanted = np.empty_like(x)
    for n, c, k in product(*map(range, x.shape)):
        around = range(max(0, c - (size - 1) // 2), min(4, c + size // 2) + 1)
        wanted[n, c, k] = x[n, c, k] / (2 + 0.3 / size * sum(x[n, d, k] ** 2 for d in around)) ** 0.75
    np.testing.assert_allclose(array_ops.lrn(x, size, 0.3, 0.75, 2.0), wanted, rtol=1e-13)


def test_matmul_of_arrays_that_blas_cannot_read():
    blocked = RNG.standard_normal((4, 3, 8)).transpose(1, 0, 2)[:, :, ::2]
    splat = np.broadcast_to(np.float64(3), (4, 5))
    np.testing.assert_allclose(
        array_ops.matmul(blocked, splat), blocked.sum(-1, keepdims=True) * np.full((1, 5), 3.0)
    )


def test_gemm_cuts_integers_off_after_each_factor():
    a, b, c = np.array([[1, 2]]), np.array([[3], [4]]), np.array([[3]])
    result = array_ops.gemm(a, b, c, alpha=0.5, beta=0.5, trans_a=False, trans_b=False)
    assert result.tolist() == [[math.trunc(11 * 0.5) + math.trunc(3 * 0.5)]]
    swapped = array_ops.gemm(a.T, b.T, None, alpha=1.0, beta=1.0, trans_a=True, trans_b=True)
    assert swapped.tolist() == [[11]]
