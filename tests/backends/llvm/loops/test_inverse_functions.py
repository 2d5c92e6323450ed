"""Tangent, inverse and hyperbolic functions against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.llvm.loops.vector_numpy import INVERSE_FUNCTIONS
from tests.backends.llvm.loops.loop_runs import computed
from tests.backends.llvm.loops.test_float_functions import check, samples


@pytest.mark.parametrize("name", INVERSE_FUNCTIONS)
def test_a_function_is_within_its_bound(name: str):
    near = np.float32(10) ** np.random.default_rng(3).uniform(-9, 3, 20_000).astype(np.float32)
    x = np.concatenate([samples(40_000), near, -near, 1 - near, near - 1, 1 + near])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype(np.float64))
    check(computed(lambda np, x: getattr(np, name)(x), x), expected)


@pytest.mark.parametrize("name", ["arcsin", "arctanh", "tan"])
@pytest.mark.parametrize("width", [16, 32])
def test_a_function_on_registers_of_any_width(name: str, width: int):
    x = samples(500)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype(np.float64))
    check(computed(lambda np, x: getattr(np, name)(x), x, bytes_of_vector=width), expected)


@pytest.mark.parametrize(
    ("name", "outside"),
    [("arcsin", [1.5, -np.inf]), ("arccos", [-2, np.inf]), ("arccosh", [0.5, -3]), ("arctanh", [1.5])],
)
def test_negative_outside_of_its_domain_a_function_is_no_number(name: str, outside: list[float]):
    found = computed(lambda np, x: getattr(np, name)(x), np.array(outside, np.float32))
    assert np.isnan(found).all()
