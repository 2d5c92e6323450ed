"""Resizing by which the library has no primitive, as products with constant matrices, one per dim that changes.

The library resamples by nearest elements and linearly, with the positions of `half_pixel`: cubic interpolation, and
linear interpolation between corners (`align_corners`), are left.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.inserted_ops import InsertedOps
from layout_ir.backends.onednn.op_primitives import resampled_by_library
from layout_ir.backends.onednn.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, dtype_of, is_any
from layout_ir.dialects.nn.source_positions import linear_matrix, resize_scales
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array
from layout_ir.frontends.onnx.cubic_resize import cubic_matrices


def resized(node: OpaqueNode) -> SSAValue:
    """The result of a Resize node of mode cubic on f32."""
    value = node.input(0)
    if node.attribute("mode", "nearest") != "cubic" or dtype_of(value.type) != "f32":
        raise Unsupported
    matrices = cubic_matrices(shape_of(value), node.constant_input(2), node.constant_input(3), node.attribute)
    if not matrices:
        raise Unsupported
    return _multiplied(node, value, matrices)


def decompose_resizes(module: ModuleOp) -> None:
    """Replaces, in place, linear resizes of f32 with open layouts that the library does not resample."""
    for op in list(module.walk()):
        if (
            not isinstance(op, nn.ResizeOp)
            or not is_any(op.result.type)
            or dtype_of(op.x.type) != "f32"
            or op.mode != "linear"
            or not all((*shape_of(op.x), *shape_of(op.result)))
            or resampled_by_library(op)
        ):
            continue
        x, y = shape_of(op.x), shape_of(op.result)
        scales = resize_scales(x, op.sizes, op.scales)
        matrices = {
            dim: linear_matrix(y[dim], x[dim], scales[dim], op.coordinates)
            for dim in range(len(x))
            if y[dim] != x[dim] or scales[dim] != 1
        }
        if matrices:
            ops = InsertedOps(op)
            ops.replace(_multiplied(ops, op.x, matrices))


def _multiplied(ops: InsertedOps, value: SSAValue, matrices: Mapping[int, Array]) -> SSAValue:
    """`value` with each of these dims multiplied by its matrix."""
    rank = len(shape_of(value))
    for dim, matrix in matrices.items():
        if dim == rank - 2:
            value = ops.apply(nn.MatmulOp, ops.constant(matrix), value)
            continue
        # The dim is exchanged with the last one, the columns of the product.
        order = [*range(rank)]
        order[dim], order[-1] = order[-1], order[dim]
        moved = value if dim == rank - 1 else ops.insert(PermuteOp(value, order))
        product = ops.apply(nn.MatmulOp, moved, ops.constant(matrix.T))
        value = product if dim == rank - 1 else ops.insert(PermuteOp(product, order))
    return value
