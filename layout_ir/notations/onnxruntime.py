"""ONNX Runtime: the layouts of its CPU kernels, by the names of their functions.

The block of NCHWc is a property of the machine (8 or 16), so it is part of the name here. Filters are reordered into
`OIHWBiBo` (both channels blocked) or `OIHWBo`. Pads hold zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

from layout_ir.algebra.format import Format
from layout_ir.algebra.pads import PadPolicy
from layout_ir.notations.named import NamedNotation


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[Format, ...]]:
    texts = {"NCHW": "(n, c, h, w) : [n, c, h, w]", "NHWC": "(n, c, h, w) : [n, h, w, c]"}
    for block in (8, 16):
        texts[f"NCHWc/{block}"] = f"(n, c, h, w) : [n, c, h, w, c:{block}], pad = zero"
        texts[f"OIHWBiBo/{block}"] = f"(o, i, h, w) : [o, i, h, w, i:{block}, o:{block}], pad = zero"
        texts[f"OIHWBo/{block}"] = f"(o, i, h, w) : [o, i, h, w, o:{block}], pad = zero"
    return {name: (Format.parse(text),) for name, text in texts.items()}


class OnnxRuntimeNotation(NamedNotation):
    """`NCHWc/8`."""

    name: ClassVar[str] = "onnxruntime"
    about: ClassVar[str] = "ONNX Runtime CPU layouts: NCHWc/8, OIHWBiBo/16"
    order: ClassVar[str] = (
        "the dims of ONNX: n, c, h, w (o, i, h, w for weights), whatever the order in memory"
    )
    by_index: ClassVar[bool] = False
    example: ClassVar[str] = "NCHWc/8"
    pads: ClassVar[PadPolicy] = "zero"

    def table(self, dtype: str | None) -> Mapping[str, tuple[Format, ...]]:
        """The blocked formats of ONNX Runtime; they do not depend on `dtype`."""
        return _table()
