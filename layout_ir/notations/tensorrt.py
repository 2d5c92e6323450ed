"""TensorRT: the names of `nvinfer1::TensorFormat`.

Vectorised formats hold ceil(C / V) vectors; `kHWC8` and its like only round the pitch of C up. `kDLA_LINEAR` rounds the
rows of W up to 64 bytes, so it needs the element type. `kDLA_HWC4` is left out: its pitch depends on the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

from layout_ir.algebra.format import Format
from layout_ir.elements.element_types import bits_of
from layout_ir.notations.named import NamedNotation

_4D, _5D = "(n, c, h, w) : ", "(n, c, d, h, w) : "
_TEXTS: dict[str, tuple[str, ...]] = {
    "kLINEAR": ("(n, c) : [n, c]", "(n, c, w) : [n, c, w]", _4D + "[n, c, h, w]", _5D + "[n, c, d, h, w]"),
    "kCHW2": (_4D + "[n, c, h, w, c:2]",),
    "kCHW4": (_4D + "[n, c, h, w, c:4]",),
    "kCHW16": (_4D + "[n, c, h, w, c:16]",),
    "kCHW32": (_4D + "[n, c, h, w, c:32]",),
    "kCDHW32": (_5D + "[n, c, d, h, w, c:32]",),
    "kHWC": (_4D + "[n, h, w, c]",),
    "kDHWC": (_5D + "[n, d, h, w, c]",),
    "kHWC8": (_4D + "[n, h, w, c, c:8]",),
    "kHWC16": (_4D + "[n, h, w, c, c:16]",),
    "kDHWC8": (_5D + "[n, d, h, w, c, c:8]",),
}


@lru_cache(maxsize=64)
def _table(row: int | None) -> dict[str, tuple[Format, ...]]:
    table = {name: tuple(Format.parse(text) for text in texts) for name, texts in _TEXTS.items()}
    if row:
        table["kDLA_LINEAR"] = (Format.parse(f"{_4D}[n, c, h, w, w:{row}]"),)
    return table


class TensorRtNotation(NamedNotation):
    """`kCHW32`."""

    name: ClassVar[str] = "tensorrt"
    about: ClassVar[str] = (
        "TensorRT tensor formats: kLINEAR, kCHW32, kHWC8 (kDLA_LINEAR with an element type)"
    )
    order: ClassVar[str] = "the dims of nvinfer1::Dims: n, c, h, w, whatever the order in memory"
    by_index: ClassVar[bool] = False
    example: ClassVar[str] = "kCHW32"
    qualifier: ClassVar[str] = r"(?:nvinfer1::)?TensorFormat::"
    beginning: ClassVar[str] = qualifier

    def table(self, dtype: str | None) -> Mapping[str, tuple[Format, ...]]:
        """The tensor formats of TensorRT; kDLA ones count bytes, so they exist for a `dtype` only."""
        return _table(None if dtype is None else 512 // bits_of(dtype))
