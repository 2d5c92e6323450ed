"""The one error of ONNX import."""

from __future__ import annotations

from layout_ir.errors import LayoutError


class OnnxImportError(LayoutError):
    """The model cannot be imported; the message says which node, value or file, why, and what to do."""
