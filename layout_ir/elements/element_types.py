"""Element types: one table of what is known of each, and its lookup by name.

The names are MLIR's. Wherever an element type is named, three spellings of every type are read: MLIR's ("ui8"), that of
NumPy, ml_dtypes, PyTorch and ONNX ("uint8"), and the short ones of oneDNN and XLA ("u8"). Integers of the IR may have
any width; those outside of the table (`integer_type`) have a range, but no buffer can hold them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf
from operator import index
from typing import Literal

from layout_ir.errors import LayoutError


@dataclass(frozen=True, slots=True)
class ElementType:
    """What the elements of a tensor are: the numbers they stand for, and how buffers and other libraries hold them."""

    name: str
    """The MLIR spelling: "f32", "i8", "ui8"."""
    bits: int
    """Bits one element takes in memory: 8 for an i1; two elements of 4 bits share a byte."""
    kind: Literal["float", "signed", "unsigned", "bool"]
    array_name: str = ""
    """The name in PyTorch, ONNX, and NumPy with ml_dtypes."""
    short_names: tuple[str, ...] = ()
    """The names in oneDNN and XLA, where they are not `name`."""
    storage: str = ""
    """The name of the NumPy type that buffers are arrays of: one with the same bits where NumPy itself has no such
    type, bytes for elements of 4 bits."""
    array_kinds: str = ""
    """The letters that NumPy, the array interface and the buffer protocol have for arrays that hold such elements."""
    dlpack: int = -1
    """DLPack's DLDataTypeCode."""
    onednn: int = 0
    """oneDNN's dnnl_data_type_t; 0 where it has no such type."""
    mantissa: int = 0
    """Of a float, the bits of its mantissa that are stored; the exponent has the others but for the sign."""
    bias: int = 0
    """Of a float of 8 bits or fewer, what is subtracted from the stored exponent."""
    nonfinite: Literal["ieee", "nan", "negative zero", "none"] = "ieee"
    """Of a float, which bits stand for no finite number: the greatest exponent for infinity and NaN, as IEEE 754 has
    it; all ones for NaN alone; those of -0 for NaN alone, so that there is one zero; or none."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every name that `element_type` reads as this type, its own first."""
        return tuple(dict.fromkeys(name for name in (self.name, self.array_name, *self.short_names) if name))

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats; bf16 and 8-bit floats are."""
        return self.kind == "float"

    @property
    def is_signed(self) -> bool:
        """Whether the elements are integers that may be negative."""
        return self.kind == "signed"

    @property
    def is_packed(self) -> bool:
        """Whether several elements share a byte."""
        return self.bits < 8

    @property
    def is_narrow_float(self) -> bool:
        """Whether the elements are floats of 8 bits or fewer, which nothing computes in: they are converted."""
        return self.is_float and self.bits <= 8

    @property
    def is_quantized(self) -> bool:
        """Whether a scale that is given for one side alone is meant for these elements: integers, narrow floats."""
        return self.is_narrow_float or self.kind in ("signed", "unsigned")

    @property
    def largest_code(self) -> int:
        """Of a narrow float, the bits of its greatest finite number."""
        ones = (1 << self.bits - 1) - 1
        return ones - {"ieee": 1 << self.mantissa, "nan": 1}.get(self.nonfinite, 0)

    @property
    def nan_code(self) -> int | None:
        """Of a narrow float, the bits that NaN becomes; None where there are none. The sign is beside them, but for
        types whose NaN is negative zero."""
        match self.nonfinite:
            case "ieee":
                return (1 << self.bits - 1) - 1 - (1 << self.mantissa - 1) + 1
            case "nan":
                return (1 << self.bits - 1) - 1
            case "negative zero":
                return 1 << self.bits - 1
            case "none":
                return None

    @property
    def overflow_code(self) -> int:
        """Of a narrow float, the bits that a number beyond the greatest becomes where it does not saturate.

        Infinity, else NaN, else the greatest number.
        """
        if self.nonfinite == "ieee":
            return self.largest_code + 1
        return self.largest_code if self.nan_code is None else self.nan_code

    @property
    def may_saturate(self) -> bool:
        """Whether there are two ways to convert a number beyond the greatest: to it, or to `overflow_code`."""
        return self.is_narrow_float and self.overflow_code != self.largest_code

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest value: exact integers, or the infinities of a float type."""
        match self.kind:
            case "float":
                return -inf, inf
            case "bool":
                return 0, 1
            case "unsigned":
                return 0, (1 << self.bits) - 1
            case "signed":
                return -(1 << self.bits - 1), (1 << self.bits - 1) - 1

    def holds(self, value: float) -> bool:
        """Whether `value` is an integer in range. A float type holds every number, rounded."""
        low, high = self.range
        return self.is_float or (low <= value <= high and value == int(value))


ELEMENT_TYPES = (
    # name, bits, kind, array name, short names, storage, kinds of arrays, DLPack and oneDNN codes, mantissa, bias, ...
    ElementType("f64", 64, "float", "float64", (), "float64", "f", 2, 7, 52),
    ElementType("f32", 32, "float", "float32", (), "float32", "f", 2, 3, 23),
    ElementType("f16", 16, "float", "float16", (), "float16", "f", 2, 1, 10),
    ElementType("bf16", 16, "float", "bfloat16", (), "uint16", "ui", 4, 2, 7),
    ElementType(
        "f8E4M3FN", 8, "float", "float8_e4m3fn", ("f8_e4m3", "f8e4m3fn"), "uint8", "ui", 10, 10, 3, 7, "nan"
    ),
    ElementType("f8E5M2", 8, "float", "float8_e5m2", ("f8_e5m2", "f8e5m2"), "uint8", "ui", 12, 9, 2, 15),
    ElementType(
        "f8E4M3FNUZ",
        8,
        "float",
        "float8_e4m3fnuz",
        ("f8e4m3fnuz",),
        "uint8",
        "ui",
        11,
        0,
        3,
        8,
        "negative zero",
    ),
    ElementType(
        "f8E5M2FNUZ",
        8,
        "float",
        "float8_e5m2fnuz",
        ("f8e5m2fnuz",),
        "uint8",
        "ui",
        13,
        0,
        2,
        16,
        "negative zero",
    ),
    ElementType(
        "f4E2M1FN", 4, "float", "float4_e2m1fn", ("f4_e2m1", "f4e2m1fn"), "uint8", "ui", 17, 14, 1, 1, "none"
    ),
    ElementType("i64", 64, "signed", "int64", ("s64",), "int64", "i", 0),
    ElementType("i32", 32, "signed", "int32", ("s32",), "int32", "i", 0, 4),
    ElementType("i16", 16, "signed", "int16", ("s16",), "int16", "i", 0),
    ElementType("i8", 8, "signed", "int8", ("s8",), "int8", "i", 0, 5),
    ElementType("i4", 4, "signed", "int4", ("s4",), "uint8", "ui", 0, 11),
    ElementType("i1", 8, "bool", "bool", ("boolean", "pred"), "bool", "bui", 6, 8),
    ElementType("ui64", 64, "unsigned", "uint64", ("u64",), "uint64", "u", 1),
    ElementType("ui32", 32, "unsigned", "uint32", ("u32",), "uint32", "u", 1),
    ElementType("ui16", 16, "unsigned", "uint16", ("u16",), "uint16", "u", 1),
    ElementType("ui8", 8, "unsigned", "uint8", ("u8",), "uint8", "u", 1, 6),
    ElementType("ui4", 4, "unsigned", "uint4", ("u4",), "uint8", "ui", 1, 12),
)
_BY_NAME = {name: known for known in ELEMENT_TYPES for name in known.spellings}


def element_type(dtype: str) -> ElementType:
    """The element type that `dtype` spells. Raises LayoutError for what spells none."""
    known = _BY_NAME.get(dtype) if isinstance(dtype, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if known is None:
        names = ", ".join(known.name for known in ELEMENT_TYPES)
        if not isinstance(dtype, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LayoutError(f"unknown element type {dtype!r}, which is no str: known are {names}")
        raise LayoutError(f"unknown element type '{dtype}': known are {names}")
    return known


def canonical_name(dtype: str) -> str:
    """The MLIR spelling of an element type: "u8" is "ui8". Raises LayoutError for an unknown name."""
    return element_type(dtype).name


def bits_of(dtype: str | int) -> int:
    """Bits one element takes in memory (an i1 takes a byte). An int is taken as that many bits."""
    if isinstance(dtype, str):
        return element_type(dtype).bits
    if isinstance(dtype, bool) or not hasattr(dtype, "__index__"):
        raise LayoutError(f"unknown element type {dtype!r}, which is neither a str nor a number of bits")
    if dtype < 1:
        raise LayoutError(f"an element of {dtype} bits does not exist")
    return index(dtype)


@cache
def integer_type(width: int, *, signed: bool) -> ElementType:
    """The integers of `width` bits as the IR has them, of any width; i1 is the truth value."""
    name = f"{'' if signed else 'u'}i{width}"
    return _BY_NAME.get(name) or ElementType(name, width, "signed" if signed else "unsigned")
