"""Element types: one table of what is known of each, and its lookup by name.

The names are MLIR's. Short forms of oneDNN ("s8", "u8") and names of NumPy ("float32") are accepted wherever an element
type is named. Integers of the IR may have any width; those outside of the table (`integer_type`) have a range, but no
buffer can hold them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf
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
    aliases: tuple[str, ...] = ()
    """Other names that are accepted for it."""
    array_name: str = ""
    """The name in PyTorch, ONNX, and NumPy with ml_dtypes."""
    storage: str = ""
    """The name of the NumPy type that buffers are arrays of: one with the same bits where NumPy itself has no such
    type, bytes for elements of 4 bits."""
    array_kinds: str = ""
    """The letters that NumPy, the array interface and the buffer protocol have for arrays that hold such elements."""
    dlpack: int = -1
    """DLPack's DLDataTypeCode."""
    mantissa: int = 0
    """Of a float, the bits of its mantissa that are stored; the exponent has the others but for the sign."""

    @property
    def is_float(self) -> bool:
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
    def is_moved_only(self) -> bool:
        """Whether elements are moved, but not converted: floats of 8 bits."""
        return self.is_float and self.bits == 8

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
    # name, bits, kind, aliases, name in array libraries, storage, kinds of arrays, DLPack code, mantissa
    ElementType("f64", 64, "float", ("float64",), "float64", "float64", "f", 2, 52),
    ElementType("f32", 32, "float", ("float32",), "float32", "float32", "f", 2, 23),
    ElementType("f16", 16, "float", ("float16",), "float16", "float16", "f", 2, 10),
    ElementType("bf16", 16, "float", ("bfloat16",), "bfloat16", "uint16", "ui", 4, 7),
    ElementType("f8E4M3FN", 8, "float", (), "float8_e4m3fn", "uint8", "ui", 10, 3),
    ElementType("f8E5M2", 8, "float", (), "float8_e5m2", "uint8", "ui", 12, 2),
    ElementType("i64", 64, "signed", ("s64", "int64"), "int64", "int64", "i", 0),
    ElementType("i32", 32, "signed", ("s32", "int32"), "int32", "int32", "i", 0),
    ElementType("i16", 16, "signed", ("s16", "int16"), "int16", "int16", "i", 0),
    ElementType("i8", 8, "signed", ("s8", "int8"), "int8", "int8", "i", 0),
    ElementType("i4", 4, "signed", ("s4",), "int4", "uint8", "ui", 0),
    ElementType("i1", 8, "bool", ("bool",), "bool", "bool", "bui", 6),
    ElementType("ui64", 64, "unsigned", ("u64",), "uint64", "uint64", "u", 1),
    ElementType("ui32", 32, "unsigned", ("u32",), "uint32", "uint32", "u", 1),
    ElementType("ui16", 16, "unsigned", ("u16",), "uint16", "uint16", "u", 1),
    ElementType("ui8", 8, "unsigned", ("u8", "uint8"), "uint8", "uint8", "u", 1),
    ElementType("ui4", 4, "unsigned", ("u4",), "uint4", "uint8", "ui", 1),
)
_BY_NAME = {name: known for known in ELEMENT_TYPES for name in (known.name, *known.aliases)}


def element_type(dtype: str) -> ElementType:
    """The element type of that name. Raises LayoutError for an unknown one."""
    known = _BY_NAME.get(dtype) if isinstance(dtype, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if known is None:
        names = ", ".join(known.name for known in ELEMENT_TYPES)
        raise LayoutError(f"unknown element type '{dtype}': known are {names}")
    return known


def canonical_name(dtype: str) -> str:
    """The MLIR spelling of an element type: "u8" is "ui8". Raises LayoutError for an unknown name."""
    return element_type(dtype).name


def bits_of(dtype: str | int) -> int:
    """Bits one element takes in memory (an i1 takes a byte). An int is taken as that many bits."""
    if isinstance(dtype, int):
        if dtype < 1:
            raise LayoutError(f"an element of {dtype} bits does not exist")
        return dtype
    return element_type(dtype).bits


@cache
def integer_type(width: int, *, signed: bool) -> ElementType:
    """The integers of `width` bits as the IR has them, of any width; i1 is the truth value."""
    name = f"{'' if signed else 'u'}i{width}"
    return _BY_NAME.get(name) or ElementType(name, width, "signed" if signed else "unsigned")
