"""layout-ir: memory layouts of tensors as a language.

    import layout_ir as li
    li.Format.from_tag("nChw8c").bind((2, 17, 5, 4)).address((1, 16, 4, 3))      # 952

`layout_ir.format` explains what a layout is. Names below are loaded on first use, so that importing the package
costs nothing and the algebra never needs a compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from layout_ir.errors import LayoutError
    from layout_ir.format import Factor, Format
    from layout_ir.layout import HOLE, Index, Layout, Pad
    from layout_ir.refinement import Nest, refine

__version__ = "0.1.0"

_WHERE = {
    "LayoutError": "layout_ir.errors",
    "Factor": "layout_ir.format",
    "Format": "layout_ir.format",
    "HOLE": "layout_ir.layout",
    "Index": "layout_ir.layout",
    "Layout": "layout_ir.layout",
    "Pad": "layout_ir.layout",
    "Nest": "layout_ir.refinement",
    "refine": "layout_ir.refinement",
}

__all__ = ["HOLE", "Factor", "Format", "Index", "Layout", "LayoutError", "Nest", "Pad", "refine"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'layout_ir' has no attribute '{name}'")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
