"""Element types by name, and their width. The names are MLIR's, with the short forms of other systems accepted."""

from __future__ import annotations

from layout_ir.errors import LayoutError

_BITS = {
    "f64": 64, "f32": 32, "f16": 16, "bf16": 16, "f8E4M3FN": 8, "f8E5M2": 8,
    "i64": 64, "i32": 32, "i16": 16, "i8": 8, "i4": 4, "i1": 8,
    "ui64": 64, "ui32": 32, "ui16": 16, "ui8": 8, "ui4": 4,
}  # fmt: skip
_SHORT = {
    "s64": "i64", "s32": "i32", "s16": "i16", "s8": "i8", "s4": "i4",
    "u64": "ui64", "u32": "ui32", "u16": "ui16", "u8": "ui8", "u4": "ui4",
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "ui8", "bool": "i1",
}  # fmt: skip


def canonical_name(dtype: str) -> str:
    """The MLIR spelling of an element type: "u8" is "ui8". Raises LayoutError for an unknown name."""
    name = _SHORT.get(dtype, dtype) if isinstance(dtype, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if name not in _BITS:
        raise LayoutError(f"unknown element type '{dtype}': known are {', '.join(_BITS)}")
    return name


def bits_of(dtype: str | int) -> int:
    """Bits one element takes in memory (an i1 takes a byte). An int is taken as that many bits."""
    if isinstance(dtype, int):
        if dtype < 1:
            raise LayoutError(f"an element of {dtype} bits does not exist")
        return dtype
    return _BITS[canonical_name(dtype)]
