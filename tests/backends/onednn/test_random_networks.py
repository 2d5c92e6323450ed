"""Random small networks: the library and the reference agree, on memory that holds NaN before each call."""

from __future__ import annotations

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn.library import library, unavailable
from layout_ir.elements.numpy_types import widen
from tests.backends.onednn.random_networks import random_network
from tests.backends.onednn.small_programs import needs_library
from tests.seeds import seeds

pytestmark = needs_library


def check(seed: int) -> None:
    module, inputs = random_network(seed, few=seed < 200)
    expected = li.run(module, inputs, reorders="reference")
    executable = li.compile(module, checked=True, threads=1 + (seed % 10 == 1), fuse=seed % 5 > 0)
    before = executable(inputs)
    for _ in range(2):
        found = executable(inputs)
        assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(found, before, strict=True))
        for ours, theirs in zip(found, expected, strict=True):
            scale = max(float(np.max(np.abs(theirs), initial=0.0)), 1e-3)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * scale, err_msg=f"seed {seed}")


@pytest.mark.parametrize("group", seeds(4, 50))
def test_networks_of_random_ops(group: int):
    for seed in range(20 * group, 20 * group + 20):
        check(seed)


def check_quantized(seed: int) -> None:
    module, inputs = random_network(seed, few=True, quantized=True)
    (expected,) = li.run(module, inputs, reorders="reference")
    executable = li.compile(module, checked=True, threads=1 + (seed % 10 == 1), fuse=seed % 5 > 0)
    for _ in range(2):
        (found,) = executable(inputs)
        difference = np.abs(found.astype(int) - expected.astype(int))
        # A number between two integers is rounded to either, before the convolution, too.
        assert difference.max() <= 1, f"seed {seed}"
        assert np.count_nonzero(difference) <= max(0.02 * difference.size, 2), f"seed {seed}"


@pytest.mark.parametrize("group", seeds(1, 10))
def test_networks_with_a_quantized_convolution(group: int):
    for seed in range(20 * group, 20 * group + 20):
        check_quantized(seed)


@pytest.mark.skipif(
    unavailable() is not None or not library().computes("bf16"), reason="the CPU computes nothing in bf16"
)
@pytest.mark.parametrize("group", seeds(1, 10))
def test_networks_on_bf16(group: int):
    for seed in range(20 * group, 20 * group + 20):
        module, inputs = random_network(seed, few=True, dtype="bf16")
        expected = li.run(module, inputs, reorders="reference")
        for ours, theirs in zip(li.compile(module, checked=True)(inputs), expected, strict=True):
            ours, theirs = widen(ours, "bf16"), widen(theirs, "bf16")
            scale = max(float(np.max(np.abs(theirs), initial=0.0)), 1e-3)
            # Each of up to nine ops rounds to eight bits in the reference.
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=2**-5 * scale, err_msg=f"seed {seed}")
