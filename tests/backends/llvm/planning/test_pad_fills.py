"""The bits of a pad are those that NumPy gives the number; for bf16 those of the nearest of all its values."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from layout_ir.backends.llvm.planning.pad_fills import pad_bits
from layout_ir.elements.element_types import ELEMENT_TYPES
from layout_ir.elements.narrow_floats import encoded
from layout_ir.errors import LayoutError

NUMBERS = [
    65519,
    65520,
    -70000.0,
    0.0,
    -0.0,
    1.0,
    -0.5,
    3.14159,
    1e-40,
    -1e-7,
    65504.0,
    65520.0,
    -1e38,
    1e300,
    math.inf,
    -math.inf,
]


@pytest.mark.parametrize("dtype, name", [("f64", "float64"), ("f32", "float32"), ("f16", "float16")])
@pytest.mark.parametrize("number", NUMBERS)
def test_floats_have_the_bits_of_numpy(dtype: str, name: str, number: float):
    with np.errstate(over="ignore"):
        assert pad_bits(number, dtype) == int.from_bytes(np.array(number, name).tobytes(), "little")


def _bf16(bits: int) -> float:
    [value] = struct.unpack("<f", struct.pack("<I", bits << 16))
    return value


@pytest.mark.parametrize(
    "number", [0.0, -0.0, 1.0, 1.00390625, 1.01171875, -3.14159, 1e-40, 31, 1e38, -math.inf]
)
def test_bf16_is_the_nearest_and_of_two_the_even_one(number: float):
    finite = [bits for bits in range(1 << 16) if not math.isnan(_bf16(bits))]
    near = min(
        finite, key=lambda bits: (abs(_bf16(bits) - number) if _bf16(bits) != number else 0.0, bits % 2)
    )
    found = pad_bits(number, "bf16")
    assert _bf16(found) == _bf16(near)
    assert math.copysign(1, _bf16(found)) == math.copysign(1, number)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("nan", [math.nan, *struct.unpack("<ff", b"\xff\xff\xff\x7f\xff\xff\xff\xff")])
def test_a_nan_stays_one(dtype: str, nan: float):
    bits = pad_bits(nan, dtype)
    width = {"f64": 8, "f32": 4}.get(dtype, 2)
    if dtype == "bf16":
        assert math.isnan(_bf16(bits))
    else:
        assert np.isnan(np.frombuffer(bits.to_bytes(width, "little"), f"<f{width}")).all()


@pytest.mark.parametrize("dtype", ["i8", "ui8", "i16", "i32", "ui32", "i64"])
def test_integers_are_in_twos_complement(dtype: str):
    kind = np.dtype(dtype.replace("ui", "uint") if dtype[0] == "u" else dtype.replace("i", "int"))
    for number in (np.iinfo(kind).min, -1 if dtype[0] == "i" else 1, 0, 77, np.iinfo(kind).max):
        wanted = int.from_bytes(np.array(number, kind).tobytes(), "little")
        assert pad_bits(int(number), dtype) == wanted


def test_half_bytes_have_four_bits():
    assert [pad_bits(number, "i4") for number in (-8, -1, 0, 7)] == [8, 15, 0, 7]
    assert pad_bits(15, "ui4") == 15


@pytest.mark.parametrize("policy", ["undef", "zero"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "i4", "f8E4M3FN"])
def test_policies_without_a_number_of_their_own_are_zero(policy: str, dtype: str):
    assert pad_bits(policy, dtype) == 0


@pytest.mark.parametrize("number, dtype", [(128, "i8"), (-1, "ui8"), (0.5, "i32"), (8, "i4"), (2, "i1")])
def test_negative_numbers_that_an_integer_type_does_not_have(number: float, dtype: str):
    with pytest.raises(LayoutError, match=dtype):
        pad_bits(number, dtype)


@pytest.mark.parametrize("dtype", [known.name for known in ELEMENT_TYPES if known.is_narrow_float])
def test_narrow_floats_are_rounded_as_conversions_round(dtype: str):
    numbers = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.5,
        0.75,
        1e-9,
        -1e-9,
        448.0,
        463.0,
        464.0,
        61440.0,
        1e30,
        *(math.inf, -math.inf),
    ]
    numbers += [math.nan, *(k / 32 for k in range(-200, 200)), *(2.0**-k for k in range(20))]
    wanted = encoded(np.array(numbers), dtype, saturate=False).tolist()
    assert [pad_bits(number, dtype) for number in numbers] == wanted
