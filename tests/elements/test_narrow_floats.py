"""Narrow floats against ml_dtypes, PyTorch, ONNX's reference and exact arithmetic: every code, every half."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.elements.element_types import ELEMENT_TYPES, element_type
from layout_ir.elements.narrow_floats import decoded, encoded

ml_dtypes: Any = pytest.importorskip("ml_dtypes")
NARROW = [known.name for known in ELEMENT_TYPES if known.is_narrow_float]
OF_EIGHT_BITS = [name for name in NARROW if element_type(name).bits == 8]
HALVES = np.arange(1 << 16, dtype=np.uint16)
every_type = pytest.mark.parametrize("name", NARROW)


def kind(name: str) -> np.dtype[Any]:
    """The type that ml_dtypes adds to NumPy."""
    return np.dtype(getattr(ml_dtypes, element_type(name).array_name))


def codes(name: str) -> NDArray[np.uint8]:
    return np.arange(1 << element_type(name).bits, dtype=np.uint8)


def singles(name: str) -> NDArray[np.float32]:
    """All f16 and bf16, all numbers of the type, the middles between them, what is next to either; random bits."""
    numbers = decoded(codes(name), name)
    numbers = np.sort(numbers[np.isfinite(numbers)])
    ties = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2, numbers * np.float32(1.0625)])
    near = [ties, *(np.nextafter(ties, np.float32(end)).astype(np.float32) for end in (inf, -inf))]
    random = np.random.default_rng(4).integers(0, 1 << 32, 50_000, np.uint32).view(np.float32)
    halves = [HALVES.view(np.float16).astype(np.float32), (HALVES.astype(np.uint32) << 16).view(np.float32)]
    special = np.array([inf, -inf, nan, 0.0, -0.0], np.float32)
    return np.concatenate([*near, random, *halves, special]).astype(np.float32)


@every_type
def test_every_code_stands_for_the_number_of_ml_dtypes(name: str):
    wanted = codes(name).view(kind(name)).astype(np.float32)
    found = decoded(codes(name), name)
    assert np.array_equal(found, wanted, equal_nan=True)
    numbers = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])


@pytest.mark.filterwarnings("ignore:invalid value")
@every_type
def test_numbers_are_rounded_as_in_ml_dtypes(name: str):
    x = singles(name)
    if name == "f4E2M1FN":  # whose NaN is -0 there
        x = x[~np.isnan(x)]
    with np.errstate(all="ignore"):
        wanted = x.astype(kind(name)).view(np.uint8)
    assert np.array_equal(encoded(x, name, saturate=False), wanted)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", OF_EIGHT_BITS)
def test_saturating_is_what_onnx_casts_do(name: str):
    onnx: Any = pytest.importorskip("onnx.reference.ops.op_cast")
    cast, to = onnx.cast_to, getattr(onnx.onnx.TensorProto, f"FLOAT8{name[2:]}")
    x = singles(name)
    with np.errstate(all="ignore"):
        wanted = cast(x, to, True).view(np.uint8), cast(x, to, False).view(np.uint8)
    assert np.array_equal(encoded(x, name, saturate=True), wanted[0])
    assert np.array_equal(encoded(x, name, saturate=False), wanted[1])
    assert not np.array_equal(*wanted)


@pytest.mark.parametrize("name", OF_EIGHT_BITS)
def test_pytorch_has_the_same_numbers(name: str):
    torch: Any = pytest.importorskip("torch")
    to = getattr(torch, element_type(name).array_name)
    read = torch.from_numpy(codes(name)).view(to).to(torch.float32).numpy()
    assert np.array_equal(decoded(codes(name), name), read, equal_nan=True)
    x = singles(name)
    x = x[np.abs(x) <= np.nanmax(read[np.isfinite(read)])]  # beyond, releases of PyTorch differ
    written = torch.from_numpy(x).to(to).view(torch.uint8).numpy()
    assert np.array_equal(encoded(x, name, saturate=False), written)


@every_type
def test_f64_is_rounded_once(name: str):
    """A hair beside the middle of two neighbours, which f32 cannot tell from it."""
    numbers = decoded(codes(name), name).astype(np.float64)
    numbers = np.unique(np.abs(numbers[np.isfinite(numbers)]))
    middles = (numbers[1:] + numbers[:-1]) / 2
    found = encoded(
        np.concatenate([middles * (1 - 2.0**-50), middles * (1 + 2.0**-50)]), name, saturate=False
    )
    assert np.array_equal(decoded(found, name), np.concatenate([numbers[:-1], numbers[1:]]))


@every_type
def test_the_nearest_number_is_taken_and_the_even_one_of_two(name: str):
    finite = [(Fraction(float(x)), k) for k, x in enumerate(decoded(codes(name), name)) if np.isfinite(x)]
    largest = max(value for value, _ in finite)
    x = np.random.default_rng(5).normal(0, float(largest) / 8, 300).astype(np.float32)
    x = x[np.abs(x) <= float(largest)]
    for value, code in zip(x, encoded(x, name, saturate=False), strict=True):
        exact = Fraction(float(value))
        least = min(abs(candidate - exact) for candidate, _ in finite)
        nearest = [k for candidate, k in finite if abs(candidate - exact) == least]
        assert code in nearest and (len(nearest) == 1 or code & 1 == 0)


def test_whole_numbers_are_numbers():
    x = np.array([0, -1, 7, -448, 449, 1 << 62, -(1 << 62)])
    assert encoded(x, "f8E4M3FN", saturate=True).tolist() == [0, 0xB8, 0x4E, 0xFE, 0x7E, 0x7E, 0xFE]


def test_four_bits_have_no_nan_and_saturate_always():
    x = np.array([nan, -nan, inf, -inf, 1e30, -5.1], np.float32)
    for saturate in (False, True):
        assert encoded(x, "f4E2M1FN", saturate=saturate).tolist() == [7, 15, 7, 15, 7, 15]
