"""The models of all operators of ONNX, and of those that ONNX Runtime writes."""

from __future__ import annotations

from layout_ir.passes.onnx.node_models.node_option import NodeModel
from layout_ir.passes.onnx.node_models.products import PRODUCTS
from layout_ir.passes.onnx.node_models.quantized_operators import QUANTIZED
from layout_ir.passes.onnx.node_models.resized_dims import RESIZES
from layout_ir.passes.onnx.node_models.same_order import SAME_ORDER
from layout_ir.passes.onnx.node_models.shapes import SHAPES
from layout_ir.passes.onnx.node_models.spatial_windows import WINDOWS

MODELS: dict[str, NodeModel] = {**SAME_ORDER, **RESIZES, **WINDOWS, **SHAPES, **PRODUCTS, **QUANTIZED}
"""By operator, with its domain in front where that is not ONNX's own."""
