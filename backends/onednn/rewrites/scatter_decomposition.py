"""Scatters and MaxUnpool: what assignments to slices, and sums by index, become when a network is exported.

Updates of a box are put between slices of the data, dim by dim: concatenations, which the executor writes in place.
Updates of other constant places are rows behind those of the data, of which one gather takes the newest for each place.
All others, at places that are computed or with a reduction, are a ScatterND of rows at vectors of one index, for which
there is a loop. So are the elements that MaxUnpool puts back among zeros, as rows of one.
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.computed_index import indices_of, place
from layout_ir.backends.onednn.rewrites.inserted_ops import elements_of
from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReshapeOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type
from layout_ir.elements.numpy_types import Array


def scattered(node: OpaqueNode) -> SSAValue:
    """The data of a ScatterND node with its updates in their places."""
    data, indices, updates = node.input(0), elements_of(node.input(1)), node.input(2)
    shape = shape_of(data)
    if indices is None or node.attribute("reduction", "none") != "none":
        return _updated_slices(node, data, node.input(1), updates)
    if not indices.ndim:
        raise Unsupported
    length = indices.shape[-1]
    if not 1 <= length <= len(shape) or indices.dtype.kind != "i":
        raise Unsupported
    slice_shape = shape[length:]
    if shape_of(updates) != (*indices.shape[:-1], *slice_shape):
        raise Unsupported
    vectors = indices.reshape(-1, length)
    extents = np.array(shape[:length])
    if np.any(vectors < -extents) or np.any(vectors >= extents):
        raise Unsupported
    vectors = np.where(vectors < 0, vectors + extents, vectors)
    if not vectors.size or not prod(slice_shape):
        return node.insert(ReshapeOp(data, shape))
    starts = vectors.min(axis=0)
    sizes = vectors.max(axis=0) - starts + 1
    if len(vectors) == prod(sizes) and np.array_equal(vectors, starts + _counted(sizes)):
        box = node.insert(ReshapeOp(updates, (*map(int, sizes), *slice_shape)))
        lows = [*map(int, starts), *(0 for _ in slice_shape)]
        return _put(node, data, box, lows)
    return _newest_rows(node, data, updates, vectors, shape[:length], prod(slice_shape))


def scattered_elements(node: OpaqueNode) -> SSAValue:
    """The data of a ScatterElements node with its updates in their places."""
    data, indices, updates = node.input(0), indices_of(node, node.input(1)), node.input(2)
    shape, places = shape_of(data), shape_of(indices)
    if len(shape) != len(places) or not shape or shape_of(updates) != places:
        raise Unsupported
    axis = int(node.attribute("axis", 0))
    if not -len(shape) <= axis < len(shape):
        raise Unsupported
    axis %= len(shape)
    if any(places[dim] > shape[dim] for dim in range(len(shape)) if dim != axis):
        raise Unsupported
    if not prod(places):
        return node.insert(ReshapeOp(data, shape))
    if not prod(shape):
        raise Unsupported
    others = tuple(1 if dim == axis else extent for dim, extent in enumerate(places))
    before = np.ravel_multi_index(tuple(np.indices(others)), shape)
    along = place(node, indices, shape[axis], prod(shape[axis + 1 :]))
    count = node.apply(nn.AddOp, along, node.constant(np.asarray(before), "i64"))
    return _updated_rows(node, data, prod(shape), count, updates)


def unpooled(node: OpaqueNode) -> SSAValue:
    """Zeros with the elements of a MaxUnpool node where their indices, which count all elements, say."""
    x, indices = node.input(0), node.input(1)
    shape, window = shape_of(x), tuple(node.attribute("kernel_shape", ()))
    ones, none = (1,) * len(window), (0,) * (2 * len(window))
    strides, pads = tuple(node.attribute("strides", ones)), tuple(node.attribute("pads", none))
    result = shape_of(node.op.results[0])
    if dtype_of(indices.type) != "i64" or shape_of(indices) != shape or len(shape) != len(window) + 2:
        raise Unsupported
    extents = [
        (shape[2 + dim] - 1) * strides[dim] - pads[dim] - pads[len(window) + dim] + window[dim]
        for dim in range(len(window))
    ]
    # Where another size is asked for, implementations do not agree whose elements the indices count.
    if result != (*shape[:2], *extents) or not prod(shape):
        raise Unsupported
    zeros = node.constant(np.zeros(result), dtype_of(x.type))
    return _updated_rows(node, zeros, prod(result), indices, x)


def _updated_slices(node: OpaqueNode, data: SSAValue, indices: SSAValue, updates: SSAValue) -> SSAValue:
    """The data with slices updated at computed vectors of indices."""
    shape, places = shape_of(data), shape_of(indices)
    if dtype_of(indices.type) != "i64" or not places:
        raise Unsupported
    *lead, length = places
    if not 1 <= length <= len(shape) or shape_of(updates) != (*lead, *shape[length:]):
        raise Unsupported
    if not prod(lead):
        return node.insert(ReshapeOp(data, shape))
    if not prod(shape):
        raise Unsupported
    count: SSAValue | None = None if length > 1 else indices
    for number in range(length if length > 1 else 0):
        column = node.apply(nn.SliceOp, indices, starts=(*(0 for _ in lead), number), sizes=(*lead, 1))
        along = place(node, column, shape[number], prod(shape[number + 1 : length]))
        count = along if count is None else node.apply(nn.AddOp, count, along)
    assert count is not None
    return _updated_rows(node, data, prod(shape[:length]), count, updates)


def _updated_rows(
    node: OpaqueNode, data: SSAValue, rows: int, count: SSAValue, updates: SSAValue
) -> SSAValue:
    """The data, seen as so many rows, with those updated that `count` says."""
    op, type = node.op, tensor_type(data)
    width, number = prod(shape_of(data)) // rows, prod(shape_of(count))
    made = nn.OpaqueOp.of_node(
        "ScatterND",
        "",
        op.versions,
        [
            node.insert(ReshapeOp(data, (rows, width))),
            node.insert(ReshapeOp(count, (number, 1))),
            node.insert(ReshapeOp(updates, (number, width))),
        ],
        {},
        {name: value for name, value in op.node_attributes.data.items() if name == "reduction"},
        [TensorType(type.element_type, (rows, width), type.encoding)],
    )
    return node.insert(ReshapeOp(node.insert(made), shape_of(data)))


def _counted(sizes: Array) -> Array:
    """All vectors of indices in a box that starts at 0, in row-major order."""
    return np.stack(np.unravel_index(np.arange(prod(sizes)), sizes), -1)


def _put(node: OpaqueNode, data: SSAValue, box: SSAValue, lows: list[int]) -> SSAValue:
    """`data` with `box`, whose first element is at `lows`, in place of what was there."""
    shape, sizes = shape_of(data), shape_of(box)
    # What surrounds the box: first that in the last dim that it does not fill, then all that is outside of it.
    for dim in reversed(range(len(shape))):
        if sizes[dim] == shape[dim]:
            continue
        around = [
            _slice(
                node, data, [*lows[:dim], start, *lows[dim + 1 :]], [*sizes[:dim], size, *sizes[dim + 1 :]]
            )
            for start, size in ((0, lows[dim]), (lows[dim] + sizes[dim], shape[dim] - lows[dim] - sizes[dim]))
            if size
        ]
        parts = [*around[: lows[dim] > 0], box, *around[lows[dim] > 0 :]]
        box = node.apply(nn.ConcatOp, *parts, axis=dim)
        lows = [*lows[:dim], 0, *lows[dim + 1 :]]
        sizes = shape_of(box)
    return box


def _slice(node: OpaqueNode, x: SSAValue, starts: list[int], sizes: list[int]) -> SSAValue:
    return node.apply(nn.SliceOp, x, starts=starts, sizes=sizes)


def _newest_rows(
    node: OpaqueNode,
    data: SSAValue,
    updates: SSAValue,
    vectors: Array,
    extents: tuple[int, ...],
    width: int,
) -> SSAValue:
    """`data` with rows of `width` elements taken from `updates` where `vectors` say so; the last one counts."""
    count = prod(extents)
    rows = np.arange(count)
    rows[np.ravel_multi_index(tuple(vectors.T), extents)] = count + np.arange(len(vectors))
    table = node.apply(
        nn.ConcatOp,
        node.insert(ReshapeOp(data, (count, width))),
        node.insert(ReshapeOp(updates, (len(vectors), width))),
        axis=0,
    )
    newest = node.apply(nn.GatherOp, table, node.constant(rows, "i64"), axis=0)
    return node.insert(ReshapeOp(newest, shape_of(data)))
