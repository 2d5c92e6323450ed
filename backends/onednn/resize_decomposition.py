"""Resize by cubic interpolation, as products with constant matrices: one per dim whose extent changes.

The library resamples by nearest elements and linearly only.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from layout_ir.backends.onednn.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.frontends.onnx.cubic_resize import cubic_matrices


def resized(node: OpaqueNode) -> SSAValue:
    """The result of a Resize node of mode cubic on f32."""
    value = node.input(0)
    if node.attribute("mode", "nearest") != "cubic" or dtype_of(value.type) != "f32":
        raise Unsupported
    matrices = cubic_matrices(shape_of(value), node.constant_input(2), node.constant_input(3), node.attribute)
    if not matrices:
        raise Unsupported
    rank = len(shape_of(value))
    for dim, matrix in matrices.items():
        if dim == rank - 2:
            value = node.apply(nn.MatmulOp, node.constant(matrix), value)
            continue
        # The dim is exchanged with the last one, the rows of the product.
        order = [*range(rank)]
        order[dim], order[-1] = order[-1], order[dim]
        moved = value if dim == rank - 1 else node.insert(PermuteOp(value, order))
        product = node.apply(nn.MatmulOp, moved, node.constant(matrix.T))
        value = product if dim == rank - 1 else node.insert(PermuteOp(product, order))
    return value
