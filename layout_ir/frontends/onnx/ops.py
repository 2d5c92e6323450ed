"""The table of ONNX ops that are supported, put together from the families."""

from __future__ import annotations

from layout_ir.frontends.onnx import ops_elementwise, ops_layers, ops_shapes
from layout_ir.frontends.onnx.translation import Translation

TRANSLATIONS: dict[str, Translation] = {
    **ops_elementwise.TRANSLATIONS,
    **ops_layers.TRANSLATIONS,
    **ops_shapes.TRANSLATIONS,
}
