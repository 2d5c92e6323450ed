"""DequantizeLinear whose scales are computed, or belong to blocks of their own: what its formula says, in f32."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.inserted_ops import elements_of
from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported, integers_of
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReshapeOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array


def dequantized_by_values(node: OpaqueNode) -> SSAValue:
    """The real numbers of integers, less their zero points, times their scales; constants stay constants."""
    x, scale, zero_point = node.input(0), node.input(1), node.optional(2)
    [result] = node.op.results
    if dtype_of(result.type) != "f32" or dtype_of(scale.type) != "f32":
        raise Unsupported
    integers, scales, zeros = (None if side is None else elements_of(side) for side in (x, scale, zero_point))
    if integers is not None and scales is not None and (zero_point is None or zeros is not None):
        numbers = integers.astype(np.int64)
        if zeros is not None:
            numbers = numbers - _spread_constant(node, zeros.astype(np.int64))
        return node.constant(numbers.astype(np.float32) * _spread_constant(node, scales))
    if integers_of(x) == "i32":  # of which f32 does not have all
        raise Unsupported
    numbers = _real(node, x)
    if zero_point is not None:
        numbers = node.apply(nn.SubOp, numbers, _spread(node, _real(node, zero_point)))
    return node.apply(nn.MulOp, numbers, _spread(node, scale))


def _real(node: OpaqueNode, value: SSAValue) -> SSAValue:
    return node.apply(nn.CastOp, value, result_type=node.type_of("f32", shape_of(value)))


def _shape_and_places(node: OpaqueNode, side: tuple[int, ...]) -> tuple[tuple[int, ...], int, Array | None]:
    """For scales or zero points of the shape `side`, the shape in which they meet the integers; a dim; and, where each
    belongs to a block, which of them each index of that dim has."""
    shape, block = shape_of(node.input(0)), node.attribute("block_size", 0)
    axis: int = node.attribute("axis", 1)
    if prod(side) == 1 and len(side) <= 1:
        return (), 0, None
    if not -len(shape) <= axis < len(shape):
        raise Unsupported
    axis %= len(shape)
    if not block:
        if side != (shape[axis],):
            raise Unsupported
        return tuple(n if dim == axis else 1 for dim, n in enumerate(shape)), axis, None
    places: Array = np.arange(shape[axis]) // int(block)
    if side != (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :]):
        raise Unsupported
    return side, axis, places


def _spread_constant(node: OpaqueNode, side: Array) -> Array:
    shape, axis, places = _shape_and_places(node, side.shape)
    side = side.reshape(shape)
    return side if places is None else np.take(side, places, axis)


def _spread(node: OpaqueNode, side: SSAValue) -> SSAValue:
    shape, axis, places = _shape_and_places(node, shape_of(side))
    side = node.insert(ReshapeOp(side, shape))
    return side if places is None else node.apply(nn.GatherOp, side, node.constant(places, "i64"), axis=axis)
