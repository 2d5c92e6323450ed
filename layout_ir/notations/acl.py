"""Arm Compute Library: data layouts, and the fixed weight formats `OHWIo<a>i<b>`.

`OHWIo8i4` interleaves by 8 outputs and blocks by 4 inputs: [O/8][H][W][I/4][8][4], both rounded up. The `_bf16` names
are the same places for elements of another type.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

from layout_ir.algebra.format import Format
from layout_ir.notations.named import NamedNotation

_DATA = {
    "NCHW": ("(n, c, h, w) : [n, c, h, w]",),
    "NHWC": ("(n, c, h, w) : [n, h, w, c]",),
    "NCDHW": ("(n, c, d, h, w) : [n, c, d, h, w]",),
    "NDHWC": ("(n, c, d, h, w) : [n, d, h, w, c]",),
    "OHWI": ("(o, i, h, w) : [o, h, w, i]",),
}
_INTERLEAVED = {
    1: (2, 4, 8, 16, 32, 64, 128),
    2: (4, 8, 16, 32, 64),
    4: (4, 8, 16, 32, 64),
    8: (2, 4, 8, 16, 32, 64),
}
"""Per block of inputs, the interleavings of outputs that the library names."""


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[Format, ...]]:
    table = {name: tuple(Format.parse(text) for text in texts) for name, texts in _DATA.items()}
    for block, interleaved in _INTERLEAVED.items():
        for by in interleaved:
            inner = f", i:{block}" if block > 1 else ""
            format = Format.parse(f"(o, i, h, w) : [o, h, w, i, o:{by}{inner}]")
            name = f"OHWIo{by}" + (f"i{block}" if block > 1 else "")
            table[name] = (format,)
            if block in (2, 4):
                table[f"{name}_bf16"] = (format,)
    return table


class AclNotation(NamedNotation):
    """`OHWIo8i4`."""

    name: ClassVar[str] = "acl"
    about: ClassVar[str] = "Arm Compute Library: data layouts and weight formats such as OHWIo8i4"
    order: ClassVar[str] = (
        "the logical dims n, c, h, w (o, i, h, w for weights), whatever the order in memory, no TensorShape"
    )
    by_index: ClassVar[bool] = False
    example: ClassVar[str] = "OHWIo8i4"

    def table(self, dtype: str | None) -> Mapping[str, tuple[Format, ...]]:
        """The weight formats of ACL; they do not depend on `dtype`."""
        return _table()
