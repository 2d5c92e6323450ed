"""The classes of the IR that are contract: what a program that walks or builds ours may name.

    from layout_ir.ir import ReorderOp

    moved = [op for op in module.walk() if isinstance(op, ReorderOp)]

Ops and attributes of the dialect `layout` stand here by their names, those of `nn` in `nn`: `ir.nn.ConvOp`. Their
constructors, operands, results and properties keep their names and meanings from release to release, as do the texts
that they print as. `docs/stability.md` lists the modules that are contract.
"""

from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    AnyAttr,
    CastOp,
    FillPadsOp,
    FormatAttr,
    LayoutDialect,
    OpaqueAttr,
    OptionAttr,
    PermuteOp,
    ReorderOp,
    ReshapeOp,
    SliceOp,
    TagAttr,
    encoding_of,
    format_of,
    is_any,
    strip_type,
    with_format,
)

__all__ = [
    "AnyAttr",
    "CastOp",
    "FillPadsOp",
    "FormatAttr",
    "LayoutDialect",
    "OpaqueAttr",
    "OptionAttr",
    "PermuteOp",
    "ReorderOp",
    "ReshapeOp",
    "SliceOp",
    "TagAttr",
    "encoding_of",
    "format_of",
    "is_any",
    "nn",
    "strip_type",
    "with_format",
]
