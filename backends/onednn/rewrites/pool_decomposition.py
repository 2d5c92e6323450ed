"""MaxPool with indices: what each window holds, gathered; where the largest element of it is; and that element.

In pads there is nothing. A place of a window that is outside of the tensor is the first one that is inside: it is no
larger than that, and as the first of equal elements counts, it is the place that is found either way.
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReshapeOp
from layout_ir.dialects.nn.tensor_types import Shape, shape_of
from layout_ir.elements.numpy_types import Array


def pooled_with_indices(node: OpaqueNode) -> list[SSAValue | None]:
    """The largest elements of all windows, and the numbers (i64) that they have among all elements."""
    x, kernel = node.input(0), tuple(node.attribute("kernel_shape", ()))
    [values, _] = node.op.results
    shape, result = shape_of(x), shape_of(values)
    if not kernel or not prod(shape) or not prod(result):
        raise Unsupported
    windows = node.windows(x, kernel)
    places = _places(shape[2:], result[2:], kernel, **windows)  # places of a window, windows
    planes, size, count = prod(shape[:2]), prod(shape[2:]), prod(result[2:])
    images = node.insert(ReshapeOp(x, (planes, size)))
    held = node.apply(nn.GatherOp, images, node.constant(places, "i64"), axis=1)
    number = node.apply(nn.ArgMaxOp, held, axis=1, keepdims=False)
    entry = _sum(node, _product(node, number, count), np.arange(count))
    first = np.arange(planes)[:, None] * size

    def found(table: Array) -> SSAValue:
        among = node.apply(nn.GatherOp, node.constant(table.reshape(-1), "i64"), entry, axis=0)
        return _sum(node, among, first)

    indices = found(places)
    elements = node.apply(nn.GatherOp, node.insert(ReshapeOp(x, (planes * size,))), indices, axis=0)
    if node.attribute("storage_order", 0):
        by_columns = np.arange(size).reshape(shape[2:], order="F").reshape(-1)
        indices = found(by_columns[places])
    return [node.insert(ReshapeOp(value, result)) for value in (elements, indices)]


def _places(
    extents: Shape, counts: Shape, kernel: Shape, *, strides: Shape, pads: Shape, dilations: Shape
) -> Array:
    """The number that each place of a window has in an image, for all windows: places of a window by windows.

    Raises Unsupported where a window is all in pads.
    """
    steps = zip(strides, pads, dilations, counts, kernel, strict=False)
    along = [
        np.arange(window)[:, None] * apart + np.arange(count) * stride - before
        for stride, before, apart, count, window in steps
    ]
    shape = (*kernel, *counts)
    rank, inside, numbers = len(kernel), np.ones(shape, np.bool_), np.zeros(shape, np.int64)
    for dim, (at, extent) in enumerate(zip(along, extents, strict=True)):
        spread = at.reshape([n if d % rank == dim else 1 for d, n in enumerate(shape)])
        inside &= (spread >= 0) & (spread < extent)
        numbers = numbers * extent + spread
    inside, numbers = (array.reshape(prod(kernel), prod(counts)) for array in (inside, numbers))
    if not inside.any(0).all():
        raise Unsupported
    firsts = np.take_along_axis(numbers, inside.argmax(0)[None], 0)
    return np.where(inside, numbers, firsts)


def _sum(node: OpaqueNode, value: SSAValue, numbers: Array) -> SSAValue:
    return node.apply(nn.AddOp, value, node.constant(numbers, "i64"))


def _product(node: OpaqueNode, value: SSAValue, number: int) -> SSAValue:
    return node.apply(nn.MulOp, value, node.constant(np.array(number), "i64"))
