"""Resizing by which the library has no primitive, as products with constant matrices, one per dim that changes.

The library resamples linearly, with the positions of `half_pixel`, and loops choose nearest elements: cubic
interpolation, antialiasing, and linear interpolation between corners (`align_corners`), are left. Where no dim changes,
each mode reads all elements at their own places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.op_primitives.resizes import resampled_by_library
from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of, is_any
from layout_ir.dialects.nn.source_positions import linear_matrix, resize_scales
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array
from layout_ir.frontends.onnx.matrix_resize import matrix_resize


def resized(node: OpaqueNode) -> SSAValue:
    """The result of a Resize node on f32, of mode cubic or with antialiasing."""
    value = node.input(0)
    if dtype_of(value.type) != "f32":
        raise Unsupported
    found = matrix_resize(shape_of(value), node.constant_input(2), node.constant_input(3), node.attribute)
    result = shape_of(node.op.results[0])
    if found is None or found.result != result:
        raise Unsupported
    if not found.changes:
        return node.insert(ReshapeOp(value, result))
    if not _are_small(value, result, found.changes):
        raise Unsupported
    return _multiplied(node, value, {dim: found.matrix(dim) for dim in found.changes})


def decompose_resizes(module: ModuleOp) -> None:
    """Replaces, in place, linear resizes of f32 with open layouts that the library does not resample, and those that
    change nothing."""
    for op in list(module.walk()):
        if not isinstance(op, nn.ResizeOp) or not is_any(op.result.type):
            continue
        x, y = shape_of(op.x), shape_of(op.result)
        if not all((*x, *y)):
            continue
        scales = resize_scales(x, op.sizes, op.scales)
        dims = [dim for dim in range(len(x)) if y[dim] != x[dim] or scales[dim] != 1]
        ops = InsertedOps(op)
        if not dims:
            ops.replace(ops.insert(ReshapeOp(op.x, y)))
        elif (
            dtype_of(op.x.type) == "f32"
            and op.mode == "linear"
            and not resampled_by_library(op)
            and _are_small(op.x, y, dims)
        ):
            matrices = {dim: linear_matrix(y[dim], x[dim], scales[dim], op.coordinates) for dim in dims}
            ops.replace(_multiplied(ops, op.x, matrices))


def _are_small(value: SSAValue, result: Sequence[int], dims: Iterable[int]) -> bool:
    """Whether the matrices of these dims have no more elements than the tensors: a product is no way to resize rows."""
    shape = shape_of(value)
    return sum(shape[dim] * result[dim] for dim in dims) <= prod(shape) + prod(result)


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
