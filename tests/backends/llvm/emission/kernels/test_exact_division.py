"""Division by numbers that are compiled in, beside NumPy's division."""

from __future__ import annotations

import platform
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import compile_reorder
from layout_ir.backends.llvm.emission.kernels.exact_division import divisor_of, has_fused_multiplication
from layout_ir.backends.llvm.machine.known_cpus import machine_named, with_features
from layout_ir.elements.numpy_types import storage
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.cases import machine_here

NARROW = {"i8": -37.0, "ui8": 121.0, "i16": 0.0, "ui16": 30001.0}
"""Types, each with a zero point."""


def _scales() -> list[float]:
    """Random ones of all magnitudes, and those whose significands are the least and the greatest."""
    rng = np.random.default_rng(0)
    drawn = rng.uniform(1, 2, 12) * 2.0 ** rng.integers(-55, 55, 12)
    ends = [
        1.0,
        float(np.nextafter(np.float32(2), np.float32(0))),
        float(np.nextafter(np.float32(1), np.float32(2))),
    ]
    return [float(np.float32(scale)) for scale in (*ends, 0.1, *drawn)]


def _next_to_ties(scale: float, dtype: str) -> NDArray[np.float32]:
    """Numbers around the middles between two integers, 4 on each side, and those that no quotient survives."""
    low, high = np.iinfo(storage(dtype)).min, np.iinfo(storage(dtype)).max
    ties = (np.arange(low - high - 2, high - low + 2) + 0.5) * np.float64(scale)
    bits = ties.astype(np.float32).view(np.int32)[:, None] + np.arange(-4, 5, dtype=np.int32)
    special = np.array([np.inf, -np.inf, np.nan, -np.nan, 0, -0.0, 3e38, -3e38, 1e-45, -1e-40], np.float32)
    return np.concatenate([bits.view(np.float32).ravel(), special])


def _quantized(x: NDArray[np.float32], scale: float, zero_point: float, dtype: str) -> NDArray[Any]:
    kind = storage(dtype)
    with np.errstate(all="ignore"):
        shifted = np.rint(x / np.float32(scale)) + np.float32(zero_point)
    return np.clip(np.nan_to_num(shifted, nan=0), np.iinfo(kind).min, np.iinfo(kind).max).astype(kind)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is for x86")
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("shifted", [False, True])
def test_quotients_are_rounded_once_and_then_to_an_integer(cpu: str, dtype: str, shifted: bool):
    machine = machine_here(cpu)
    zero_point = NARROW[dtype] if shifted else 0.0
    for scale in _scales():
        x = _next_to_ties(scale, dtype)
        conversion = Conversion("f32", dtype, dst_scale=scale, dst_zero=zero_point if shifted else None)
        layout = Format.of("a").bind(x.shape)
        found = np.zeros(x.size, storage(dtype))
        compile_reorder(layout, layout, conversion=conversion, target=machine)(x, found)
        assert np.array_equal(found, _quantized(x, scale, zero_point, dtype)), scale


def test_scales_beyond_the_exponents_that_stay_exact_divide_as_well():
    for scale in (1e-40, 2.0**-100, 2.0**100):
        assert divisor_of(machine_named("x86-64-v3"), Conversion("f32", "i8", dst_scale=scale)) is None
        x = (np.arange(-300, 300) * np.float64(scale) / 2).astype(np.float32)
        found, layout = np.zeros(x.size, np.int8), Format.of("a").bind(x.shape)
        compile_reorder(layout, layout, conversion=Conversion("f32", "i8", dst_scale=scale))(x, found)
        assert np.array_equal(found, _quantized(x, scale, 0, "i8"))


def test_negative_it_needs_a_known_scale_a_small_integer_and_an_instruction():
    known = Conversion("f32", "i8", dst_scale=0.1, dst_zero=3.0)
    machine = machine_named("x86-64-v3")
    assert divisor_of(machine, known) is not None
    for other in (
        replace(known, dst_scale="tensor"),
        replace(known, dst_scale=None),
        replace(known, dst_zero="tensor"),
        replace(known, beta=1.0),
        replace(known, dst="i32"),
        replace(known, dst="f16", dst_zero=None),
        replace(known, src="f64"),
    ):
        assert divisor_of(machine, other) is None, other
    assert divisor_of(machine_named("x86-64-v2"), known) is None
    assert not has_fused_multiplication(with_features(machine, "-fma"))
    assert has_fused_multiplication(machine_named("aarch64"))
