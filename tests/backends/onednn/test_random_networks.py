"""Random small networks: the library and the reference agree, on memory that holds NaN before each call."""

from __future__ import annotations

import numpy as np
import pytest

import layout_ir as li
from tests.backends.onednn.random_networks import random_network
from tests.backends.onednn.small_programs import needs_library

pytestmark = needs_library


def check(seed: int) -> None:
    module, inputs = random_network(seed, few=seed < 200)
    expected = li.run(module, inputs, reorders="reference")
    executable = li.compile(module, checked=True, threads=1 + (seed % 10 == 1), fuse=seed % 5 > 0)
    for _ in range(2):
        for ours, theirs in zip(executable(inputs), expected, strict=True):
            scale = max(float(np.max(np.abs(theirs), initial=0.0)), 1e-3)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * scale, err_msg=f"seed {seed}")


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_networks_of_random_ops(first: int):
    for seed in range(first, first + 20):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(200, 1000, 100))
def test_more_networks_of_random_ops(first: int):
    for seed in range(first, first + 100):
        check(seed)
