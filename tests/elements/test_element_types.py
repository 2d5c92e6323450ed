"""The table of element types says what NumPy, ml_dtypes, PyTorch, DLPack and MLIR say of their types."""

from __future__ import annotations

import ctypes
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, f16, f64

from layout_ir.dialects.layout import attribute_of, dtype_of, element_type_of
from layout_ir.elements.element_types import (
    ELEMENT_TYPES,
    ElementType,
    bits_of,
    canonical_name,
    element_type,
    integer_type,
)
from layout_ir.errors import LayoutError


def _name(known: ElementType) -> str:
    return known.name


every_type = pytest.mark.parametrize("known", ELEMENT_TYPES, ids=_name)
NAMED = [known for known in ELEMENT_TYPES if known.storage == known.array_name]
"""Those that NumPy itself has."""


@every_type
def test_every_name_finds_its_type(known: ElementType):
    for name in known.spellings:
        assert element_type(name) is known
        assert canonical_name(name) == known.name and bits_of(name) == known.bits


def test_no_name_means_two_types():
    names = [name for known in ELEMENT_TYPES for name in known.spellings]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("names", "name"),
    [
        # MLIR, NumPy and its kin, oneDNN, XLA
        ("f64 float64 f64 f64", "f64"), ("f32 float32 f32 f32", "f32"), ("f16 float16 f16 f16", "f16"),
        ("bf16 bfloat16 bf16 bf16", "bf16"), ("f8E4M3FN float8_e4m3fn f8_e4m3 f8e4m3fn", "f8E4M3FN"),
        ("f8E5M2 float8_e5m2 f8_e5m2 f8e5m2", "f8E5M2"),
        ("f8E4M3FNUZ float8_e4m3fnuz f8e4m3fnuz", "f8E4M3FNUZ"),
        ("f8E5M2FNUZ float8_e5m2fnuz f8e5m2fnuz", "f8E5M2FNUZ"),
        ("f4E2M1FN float4_e2m1fn f4_e2m1 f4e2m1fn", "f4E2M1FN"), ("i64 int64 s64", "i64"), ("i32 int32 s32 s32", "i32"),
        ("i16 int16 s16", "i16"), ("i8 int8 s8 s8", "i8"), ("i4 int4 s4 s4", "i4"), ("i1 bool boolean pred", "i1"),
        ("ui64 uint64 u64", "ui64"), ("ui32 uint32 u32", "ui32"), ("ui16 uint16 u16", "ui16"),
        ("ui8 uint8 u8 u8", "ui8"), ("ui4 uint4 u4 u4", "ui4"),
    ],
)  # fmt: skip
def test_every_type_is_read_in_every_spelling(names: str, name: str):
    assert {canonical_name(spelled) for spelled in names.split()} == {name}


@every_type
def test_onednn_has_the_code(known: ElementType):
    from tests.oracles.onednn import DTYPES

    if known.name in DTYPES:
        assert known.onednn == DTYPES[known.name]


@pytest.mark.parametrize("name", ["f31", "F32", "", "i7", "uint16 ", 5, None, ["f32"], np.dtype("f4")])
def test_negative_unknown_names(name: Any):
    with pytest.raises(LayoutError, match=r"^unknown element type .*: known are f64, f32, f16, bf16, "):
        element_type(name)


@every_type
def test_a_buffer_has_the_bits_of_the_type(known: ElementType):
    stored = np.dtype(known.storage)
    assert stored.kind in known.array_kinds
    assert 8 * stored.itemsize == max(known.bits, 8)
    assert known.is_packed == (known.bits < 8)


@every_type
def test_the_range_is_that_of_the_array_libraries(known: ElementType):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.dtype(known.array_name) if known in NAMED else np.dtype(getattr(ml_dtypes, known.array_name))
    if known.is_float:
        info = ml_dtypes.finfo(kind)
        assert (known.bits, known.mantissa, known.range) == (info.bits, info.nmant, (-inf, inf))
    elif known.kind == "bool":
        assert kind == np.bool_ and known.range == (0, 1)
    else:
        info = ml_dtypes.iinfo(kind)
        assert (known.bits, *known.range) == (info.bits, info.min, info.max)
        assert known.is_signed == (info.min < 0)


@pytest.mark.parametrize("known", [known for known in ELEMENT_TYPES if not known.is_float], ids=_name)
def test_an_integer_type_holds_the_whole_numbers_of_its_range(known: ElementType):
    low, high = known.range
    assert all(map(known.holds, (low, high, 0, 1, 1.0)))


@pytest.mark.parametrize("known", [known for known in ELEMENT_TYPES if not known.is_float], ids=_name)
def test_negative_an_integer_type_does_not_hold_other_numbers(known: ElementType):
    low, high = known.range
    assert not any(map(known.holds, (low - 1, high + 1, 0.5, inf, -inf, nan, 2.0**64)))


@pytest.mark.parametrize("known", [known for known in ELEMENT_TYPES if known.is_float], ids=_name)
def test_a_float_type_holds_every_number(known: ElementType):
    assert all(map(known.holds, (0, -1, 0.1, 1e300, inf, -inf)))


@every_type
def test_pytorch_has_the_name_and_the_code_of_dlpack(known: ElementType):
    torch: Any = pytest.importorskip("torch")
    kind = getattr(torch, known.array_name, None)
    if known.is_packed:
        pytest.skip("PyTorch has no tensors of 4 bits")
    assert kind is not None and 8 * kind.itemsize == known.bits
    assert (kind.is_floating_point, kind.is_signed) == (known.is_float, known.is_float or known.is_signed)
    try:
        capsule = torch.zeros(1, dtype=kind).__dlpack__()
    except BufferError:
        pytest.skip(f"this PyTorch has no code for {kind}")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    code, bits = (ctypes.c_uint8 * 2).from_address(pointer(capsule, b"dltensor") + 20)
    assert (code, bits) == (known.dlpack, known.bits)


@pytest.mark.parametrize("known", [known for known in ELEMENT_TYPES if not known.is_narrow_float], ids=_name)
def test_mlir_has_the_name(known: ElementType):
    attribute = attribute_of(known.name)
    assert str(attribute) == known.name
    assert element_type_of(attribute) is known and dtype_of(TensorType(attribute, [2])) == known.name


@pytest.mark.parametrize("width", [2, 7, 24, 128])
def test_integers_of_the_ir_have_any_width(width: int):
    for signedness, name in (
        (Signedness.SIGNLESS, "i"),
        (Signedness.SIGNED, "i"),
        (Signedness.UNSIGNED, "ui"),
    ):
        known = element_type_of(IntegerType(width, signedness))
        assert known is not None and known is integer_type(width, signed=name == "i")
        assert known.name == f"{name}{width}"
        low, high = known.range
        assert high - low == 2**width - 1 and low == (0 if name == "ui" else -(2 ** (width - 1)))


def test_negative_types_without_a_layout():
    assert element_type_of(f16) is not None and element_type_of(TensorType(f64, [2])) is None


def test_bits_are_integers_of_any_kind():
    assert [bits_of(bits) for bits in (8, np.int64(8), np.uint8(8), "i8")] == [8] * 4  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.float32, 1.5, None])
def test_negative_an_element_type_is_a_text(dtype: Any):
    with pytest.raises(
        LayoutError, match=r"^unknown element type .*, which is neither a str nor a number of bits$"
    ):
        bits_of(dtype)
    with pytest.raises(LayoutError, match=r"^unknown element type .*, which is no str: known are f64, f32"):
        element_type(dtype)
