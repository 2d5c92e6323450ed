"""Resizing that is done best as products with constant matrices, one per dim that changes.

The library resamples linearly, with the positions of `half_pixel`, and loops choose nearest elements and interpolate
linearly in two dims, between corners (`align_corners`), too. Cubic interpolation, antialiasing and more dims are left,
and linear interpolation of small images that are results: where neighbours along a row are not in one vector, both
are slow. Where no dim changes, each mode reads all elements at their own places.

Integers are resampled as floats and cut off again where f32 has all bits of the results, as in sizes that double: where
it rounds, a result could be one off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from layout_ir.backends.onednn.choice_loops import MOST_INTERPOLATED
from layout_ir.backends.onednn.op_primitives.resizes import resampled_by_library
from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.backends.reference.tensor import is_row_major
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReorderOp, ReshapeOp, dtype_of, is_any
from layout_ir.dialects.nn.source_positions import linear_matrix, resize_scales, resized_dims
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
    """Replaces, in place, linear resizes of f32 with open layouts that products do best, those of integers that f32
    computes without rounding, and those that change nothing."""
    for op in list(module.walk()):
        if isinstance(op, nn.ResizeOp) and is_any(op.result.type) and _is_exact_in_floats(op):
            _resample_as_floats(op)
    for op in list(module.walk()):
        if not isinstance(op, nn.ResizeOp) or not is_any(op.result.type):
            continue
        x, y = shape_of(op.x), shape_of(op.result)
        if not all((*x, *y)):
            continue
        scales = resize_scales(x, op.sizes, op.scales)
        dims = resized_dims(x, y, scales)
        ops = InsertedOps(op)
        if not dims:
            ops.replace(ops.insert(ReshapeOp(op.x, y)))
        elif (
            dtype_of(op.x.type) == "f32"
            and op.mode == "linear"
            and _are_small(op.x, y, dims)
            and (
                _is_small_result(op, dims) or (len(dims) > MOST_INTERPOLATED and not resampled_by_library(op))
            )
        ):
            matrices = {dim: linear_matrix(y[dim], x[dim], scales[dim], op.coordinates) for dim in dims}
            ops.replace(_multiplied(ops, op.x, matrices))


def _resample_as_floats(op: nn.ResizeOp) -> None:
    """Replaces a resize of integers, in place, by one of floats between casts."""
    ops = InsertedOps(op)
    x, y, element = shape_of(op.x), shape_of(op.result), dtype_of(op.x.type)
    real = ops.apply(nn.CastOp, op.x, result_type=ops.type_of("f32", x))
    extents = {"sizes": op.sizes} if op.sizes else {"scales": op.scales}
    resampled = ops.apply(nn.ResizeOp, real, mode=op.mode, coordinates=op.coordinates, **extents)
    ops.replace(ops.apply(nn.CastOp, resampled, result_type=ops.type_of(element, y)))


def _is_exact_in_floats(op: nn.ResizeOp) -> bool:
    """Whether it is linear, of small integers, with weights of so few bits that f32 rounds nothing."""
    bits = _INTEGER_BITS.get(dtype_of(op.x.type))
    x, y = shape_of(op.x), shape_of(op.result)
    if bits is None or op.mode != "linear" or not all((*x, *y)):
        return False
    scales = resize_scales(x, op.sizes, op.scales)
    dims = resized_dims(x, y, scales)
    if not dims or not (resampled_by_library(op) or _are_small(op.x, y, dims)):
        return False
    for dim in dims:
        matrix = linear_matrix(y[dim], x[dim], scales[dim], op.coordinates)
        while bits <= _FLOAT_BITS and (matrix != np.floor(matrix)).any():
            matrix, bits = 2 * matrix, bits + 1
    return bits <= _FLOAT_BITS


_INTEGER_BITS = {"ui8": 8, "i8": 8, "ui16": 16, "i16": 16}
_FLOAT_BITS = 24
"""The bits of the significand of f32."""


_SHORT = 64
"""Extents up to which a product is faster than what goes along rows. Measured on a Zen 4, 21 channels of 33 x 33 to
257 x 257: 1.3 ms by products, 2.2 by a loop, 2.3 by the library; 32 of 112 x 112 to 224 x 224: 5.1 by products, 2.5 by
either, and 0.3 with channels in blocks."""


def _is_small_result(op: nn.ResizeOp, dims: Iterable[int]) -> bool:
    """Whether a dim is made of few elements only, for a result that is asked for in row-major."""
    shape = shape_of(op.x)
    if max(shape[dim] for dim in dims) > _SHORT:
        return False
    return all(_makes_row_major(use.operation) for use in op.result.uses)


def _makes_row_major(op: Operation) -> bool:
    """Whether `op` is a reorder to row-major: what a result of the program is asked for in."""
    return (
        isinstance(op, ReorderOp)
        and not is_any(op.result.type)
        and is_row_major(layout_at_run_time(op.result.type))
    )


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
