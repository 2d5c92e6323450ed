"""Functions of floats against NumPy in double precision: dense samples of all floats, and what is exceptional."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.backends.llvm.loops.loop_runs import Array, computed

BOUND = 2e-7
"""The relative error that no function exceeds where its result is normal."""


def erf(x: Array) -> Array:
    """The error function of f64."""
    return np.fromiter(map(math.erf, x.tolist()), np.float64, x.size)


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh, "erf": erf, "sin": np.sin,
    "cos": np.cos, "sqrt": np.sqrt, "rint": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
}  # fmt: skip

SPECIAL = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 1e-38, 3.4e38, -3.4e38, 0.5, 88.7, 88.8, -87.3,
           -103.9, -104.1, 0.34657359, 1.4142135, 0.70710678, 2**-24, 16777216, 0.625, 0.92, 4.0, 9.0]  # fmt: skip


def check(found: Array, expected: Array) -> None:
    """Asserts that f32 are near f64: where these are normal within `BOUND`, else within two places."""
    with np.errstate(all="ignore"):
        single = expected.astype(np.float32)
    exceptional = ~np.isfinite(single)
    np.testing.assert_array_equal(found[exceptional], single[exceptional])
    assert np.isfinite(found[~exceptional]).all()
    np.testing.assert_array_equal(np.signbit(found[single == 0]), np.signbit(single[single == 0]))
    normal = ~exceptional & (np.abs(expected) >= 2.0**-126)
    error = np.abs(found[normal] - expected[normal]) / np.abs(expected[normal])
    assert error.max(initial=0) <= BOUND
    rest = ~exceptional & ~normal
    assert np.abs(found[rest] - expected[rest]).max(initial=0) <= 2 * 2.0**-149


def samples(count: int) -> Array:
    """Random bits, and numbers of middling size, as f32."""
    rng = np.random.default_rng(1)
    parts = [
        rng.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32),
        rng.uniform(-1, 1, count).astype(np.float32),
        rng.uniform(-12, 12, count).astype(np.float32),
        rng.uniform(-110, 90, count).astype(np.float32),
        np.array(SPECIAL, np.float32),
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("width", [0, 32, 16])
def test_a_function_is_within_its_bound_on_registers_of_any_width(name: str, width: int):
    x = samples(200_000 if not width else 5_000)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x.astype(np.float64))
    if name in (
        "sin",
        "cos",
    ):  # of what is no number; NumPy's f64 reduces the others by as many bits as it takes
        expected[~np.isfinite(x)] = np.nan
    check(computed(lambda np, x: getattr(np, name)(x), x, bytes_of_vector=width), expected)


@pytest.mark.deep
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "expm1", "log1p", "sin", "cos"])
def test_a_function_of_every_1024th_float_is_within_its_bound(name: str):
    x = np.arange(7, 1 << 32, 1024, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x.astype(np.float64))
    check(computed(lambda np, x: getattr(np, name)(x), x), expected)


def test_powers_of_samples_and_of_what_is_exceptional():
    rng = np.random.default_rng(2)
    base = [0, -0.0, 1, -1, 2, -2, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 1.0000001, -3, 3]
    power = [
        0,
        -0.0,
        1,
        -1,
        2,
        3,
        -3,
        0.5,
        -0.5,
        np.inf,
        -np.inf,
        np.nan,
        1e-30,
        126,
        -126.5,
        16777216,
        16777215,
        1e10,
    ]
    pairs = np.array([(x, y) for x in base for y in power], np.float32)
    x = np.concatenate([pairs[:, 0], rng.uniform(0, 8, 100_000).astype(np.float32)])
    y = np.concatenate([pairs[:, 1], rng.uniform(-30, 30, 100_000).astype(np.float32)])
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64))
    check(computed(lambda np, x, y: np.power(x, y), x, y), expected)


def test_negative_a_function_of_f64_is_refused():
    from layout_ir.backends.llvm.loops.compiled_loop import compile_loop
    from layout_ir.errors import LayoutError
    from tests.backends.llvm.loops.loop_runs import program_of

    program: Any = program_of(lambda np, x: np.erf(x), 8, "f64", result="f64")
    with pytest.raises(LayoutError, match="no erf of f64"):
        compile_loop(program)
