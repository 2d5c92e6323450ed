"""Resizing by which the library has no primitive, as products with constant matrices, one per dim that changes.

The library resamples by nearest elements and linearly, with the positions of `half_pixel`: cubic interpolation, and
linear interpolation between corners (`align_corners`), are left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.backends.onednn.op_primitives import resampled_by_library
from layout_ir.backends.onednn.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, PermuteOp, dtype_of, is_any, with_format
from layout_ir.dialects.nn.constant import literal
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
    return _multiplied(value, matrices, node.constant, node.insert)


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
            made = _Inserter(op)
            op.result.replace_all_uses_with(_multiplied(op.x, matrices, made.constant, made.insert))
            Rewriter.erase_op(op)


class _Inserter:
    """Ops of open layouts in front of another, which they stand for."""

    def __init__(self, op: Operation) -> None:
        self._location = op.location
        self._build = Builder(InsertPoint.before(op))

    def insert(self, op: Operation) -> SSAValue:
        op.location = self._location
        result = self._build.insert(op).results[0]
        return Rewriter.replace_value_with_new_type(result, with_format(result.type, AnyAttr()))

    def constant(self, values: Array) -> SSAValue:
        type = TensorType(f32, values.shape)
        data = literal(type, np.ascontiguousarray(values, "<f4").tobytes())
        return self.insert(nn.ConstantOp(data, with_format(type, AnyAttr())))


def _multiplied(
    value: SSAValue,
    matrices: Mapping[int, Array],
    constant: Callable[[Array], SSAValue],
    insert: Callable[[Operation], SSAValue],
) -> SSAValue:
    """`value` with each of these dims multiplied by its matrix."""
    rank = len(shape_of(value))
    for dim, matrix in matrices.items():
        if dim == rank - 2:
            value = insert(nn.MatmulOp(constant(matrix), value))
            continue
        # The dim is exchanged with the last one, the columns of the product.
        order = [*range(rank)]
        order[dim], order[-1] = order[-1], order[dim]
        moved = value if dim == rank - 1 else insert(PermuteOp(value, order))
        product = insert(nn.MatmulOp(moved, constant(matrix.T)))
        value = product if dim == rank - 1 else insert(PermuteOp(product, order))
    return value
