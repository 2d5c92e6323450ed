"""The `layout` dialect: formats as attributes of tensor types, and the ops that change or look through them."""

from xdsl.ir import Dialect

from layout_ir.dialects.layout.attributes import AnyAttr, FormatAttr, OpaqueAttr, OptionAttr, TagAttr
from layout_ir.dialects.layout.ops import CastOp, FillPadsOp, ReorderOp
from layout_ir.dialects.layout.types import (
    Encoding,
    attribute_of,
    dtype_of,
    element_type_of,
    encoding_of,
    format_of,
    has_layout,
    is_any,
    is_number,
    is_tensor,
    layout_of,
    nbytes_of,
    strip_type,
    verify_encoding,
    with_format,
)
from layout_ir.dialects.layout.view_ops import PermuteOp, ReshapeOp, SliceOp, ViewOp

LayoutDialect = Dialect(
    "layout",
    [ReorderOp, CastOp, FillPadsOp, PermuteOp, ReshapeOp, SliceOp],
    [FormatAttr, AnyAttr, OpaqueAttr, OptionAttr, TagAttr],
)

__all__ = [
    "AnyAttr",
    "CastOp",
    "Encoding",
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
    "ViewOp",
    "attribute_of",
    "dtype_of",
    "element_type_of",
    "encoding_of",
    "format_of",
    "has_layout",
    "is_any",
    "is_number",
    "is_tensor",
    "layout_of",
    "nbytes_of",
    "strip_type",
    "verify_encoding",
    "with_format",
]
