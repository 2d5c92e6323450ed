"""The model of a node, by its operator."""

from __future__ import annotations

from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.node_option import NodeModel
from layout_ir.passes.onnx.node_models.products import PRODUCTS
from layout_ir.passes.onnx.node_models.same_order import SAME_ORDER
from layout_ir.passes.onnx.node_models.shapes import SHAPES
from layout_ir.passes.onnx.node_models.windows import WINDOWS

MODELS: dict[str, NodeModel] = {**SAME_ORDER, **WINDOWS, **SHAPES, **PRODUCTS}
"""By operator, with its domain in front where that is not ONNX's own."""


def model_of(node: Node) -> NodeModel | None:
    """The model of a node; None where it is known on the dims of the model only."""
    if node.captures:
        return None
    return MODELS.get(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
