"""Conversions against NumPy and exact arithmetic: every half, every edge of rounding, with instructions and without."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.backends.llvm.emission.kernels.conversion_arithmetic import (
    Arithmetic,
    has_rounding,
    lane_type,
)
from layout_ir.backends.llvm.emission.kernels.lanes import has_halves, literal
from layout_ir.backends.llvm.emission.llvm_builder import Builder
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from tests.backends.llvm.cases import machine_here
from tests.backends.llvm.emission.bodies import run

CPUS = pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
KINDS = {"bf16": np.uint16, "ui8": np.uint8, "ui32": np.uint32, "ui64": np.uint64} | {
    name: np.dtype(name.replace("f", "float").replace("i", "int")).type
    for name in ("f16", "f32", "f64", "i8", "i16", "i32", "i64")
}


def _cast(cpu: str, src: str, dst: str, data: NDArray[Any]) -> NDArray[Any]:
    """`data` (bf16: its bits) as elements of `dst`, 16 at a time."""
    machine = machine_here(cpu)
    data = np.ascontiguousarray(np.resize(data, -(-data.size // 16) * 16), KINDS[src])
    found = np.zeros(data.size, KINDS[dst])
    b = Builder()
    with b.loop(0, data.size // 16) as i:
        value = b.load(f"<16 x {lane_type(src)}>", "%src", b.mul(i, 16 * data.itemsize))
        value = Arithmetic(b, machine, 16).cast(value, src, dst)
        b.store(f"<16 x {lane_type(dst)}>", value, "%dst", b.mul(i, 16 * found.itemsize))
    run(b, data, found, machine=machine)
    return found


HALVES = np.arange(1 << 16, dtype=np.uint16)


@CPUS
def test_every_half_is_a_single(cpu: str):
    found, wanted = (
        _cast(cpu, "f16", "f32", HALVES.view(np.float16)),
        HALVES.view(np.float16).astype(np.float32),
    )
    assert np.array_equal(found, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(wanted))
    found = _cast(cpu, "bf16", "f32", HALVES)
    wanted = (HALVES.astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(wanted))


def _singles() -> NDArray[np.float32]:
    """All halves, the middles between them and what is next to these; random bits."""
    halves = HALVES.view(np.float16).astype(np.float32)
    near = (halves.view(np.uint32)[:, None] + np.array([-1, 0, 1, 0xFFF, 0x1000, 0x1001], np.int32)).astype(
        np.uint32
    )
    bits = np.random.default_rng(3).integers(0, 1 << 32, 20_000, np.uint32)
    edges = (bits & 0xFFFF0000)[:, None] + np.array([0x7FFF, 0x8000, 0x8001], np.uint32)
    return np.concatenate([near.ravel(), bits, edges.astype(np.uint32).ravel()]).view(np.float32)


@CPUS
def test_singles_are_rounded_to_the_nearest_half(cpu: str):
    data = _singles()
    with np.errstate(all="ignore"):
        wanted = data.astype(np.float16)
    found = _cast(cpu, "f32", "f16", data)[: data.size]
    assert np.array_equal(found, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(wanted))


def _to_bf16(numbers: list[Fraction]) -> list[int]:
    """The bits of the nearest bf16, ties to even; positive numbers in its normal range."""
    result: list[int] = []
    for number in numbers:
        exponent = number.numerator.bit_length() - number.denominator.bit_length()
        exponent -= Fraction(2) ** exponent > number
        mantissa = number / Fraction(2) ** (exponent - 7)  # 128 to 256
        result.append(((exponent + 127) << 7) + round(mantissa) - 128)  # `round` of a Fraction: ties to even
    return result


@CPUS
@pytest.mark.parametrize("src", ["f32", "f64", "i32", "ui32", "i64", "ui64"])
def test_bf16_is_rounded_once(cpu: str, src: str):
    rng = np.random.default_rng(9)
    shift = {"f64": 20, "i64": 31, "ui64": 31}.get(src, 0)
    ties = [
        (2 * int(x) + 1) << int(k) + shift
        for x, k in zip(rng.integers(128, 256, 400), rng.integers(1, 21, 400), strict=True)
    ]
    numbers = [tie + near for tie in ties for near in (-1, 0, 1)]
    data = np.array(numbers, KINDS[src])
    kept = [Fraction(x.item()) for x in data]
    assert _cast(cpu, src, "bf16", data)[: data.size].tolist() == _to_bf16(kept)


@CPUS
@pytest.mark.parametrize("dst, infinity", [("bf16", 0x7F80), ("f16", 0x7C00)])
def test_doubles_between_two_neighbours_are_rounded_once(cpu: str, dst: str, infinity: int):
    """All numbers, all that lie midway between two, and the doubles next to those, subnormal ones included."""
    codes = np.arange(infinity, dtype=np.uint16)
    if dst == "bf16":
        numbers = (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    else:
        numbers = codes.view(np.float16).astype(np.float64)
    # Behind the last number is what infinity would be, one place further.
    above = np.append(numbers[1:], 2 * numbers[-1] - numbers[-2])
    middle, even = (numbers + above) / 2, codes + codes % 2
    data = np.concatenate(
        [numbers, middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf), [np.inf, 1e300]]
    )
    wanted = np.concatenate([codes, even, codes, codes + 1, [infinity, infinity]]).astype(np.uint16)
    for signed, sign in ((data, 0), (-data, 0x8000)):
        assert np.array_equal(_cast(cpu, "f64", dst, signed)[: data.size].view(np.uint16), wanted | sign)


@CPUS
@pytest.mark.parametrize("src", ["i8", "ui8", "i16", "i32", "ui32", "i64"])
@pytest.mark.parametrize("dst", ["i8", "ui8", "i16", "i32", "ui32", "i64"])
def test_integers_saturate(cpu: str, src: str, dst: str):
    old, new = np.iinfo(KINDS[src]), np.iinfo(KINDS[dst])
    edges = [x + k for x in (0, int(old.min), int(old.max), int(new.min), int(new.max)) for k in (-1, 0, 1)]
    numbers = [x for x in edges if old.min <= x <= old.max]
    wanted = [min(max(x, int(new.min)), int(new.max)) for x in numbers]
    assert _cast(cpu, src, dst, np.array(numbers, KINDS[src]))[: len(numbers)].tolist() == wanted


@CPUS
@pytest.mark.parametrize("src", ["f32", "f64"])
@pytest.mark.parametrize("dst", ["i8", "ui8", "i16", "i32", "ui32", "i64", "ui64"])
def test_floats_become_the_nearest_integer_in_range(cpu: str, src: str, dst: str):
    limits = np.iinfo(KINDS[dst])
    near = [
        0.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        float(limits.min),
        float(limits.max),
        1e30,
        -1e30,
        np.inf,
        -np.inf,
        np.nan,
    ]
    data = np.array([x + k for x in near for k in (-1, -0.5, -0.25, 0, 0.25, 0.5, 1)], KINDS[src])
    data = np.concatenate([data, np.nextafter(data, KINDS[src](0))])

    def wanted(x: float) -> int:
        if np.isnan(x) or np.isinf(x):
            return 0 if np.isnan(x) else int(limits.max if x > 0 else limits.min)
        return min(max(round(x), int(limits.min)), int(limits.max))  # `round`: ties to even, exact

    assert _cast(cpu, src, dst, data)[: data.size].tolist() == [wanted(x.item()) for x in data]


def test_literals_are_the_nearest_number_of_the_type():
    for value in (0.1, -3.25, 1e-45, 3e38, float("inf")):
        for dtype, kind in (("f32", np.float32), ("f64", np.float64)):
            bits = int(literal(value, dtype), 16)
            [found] = struct.unpack(">d", struct.pack(">Q", bits))
            assert found == float(kind(value))


def test_negative_the_oldest_registers_have_no_instructions_for_halves_and_rounding():
    assert [has_halves(machine_named(cpu)) for cpu in ("x86-64-v2", "x86-64-v3", "aarch64")] == [
        False,
        True,
        True,
    ]
    assert [has_rounding(machine_named(cpu)) for cpu in ("x86-64-v2", "x86-64-v3", "aarch64")] == [
        False,
        True,
        True,
    ]
    assert [lane_type(dtype) for dtype in ("i4", "i1", "bf16", "f64")] == ["i8", "i8", "i16", "i64"]
