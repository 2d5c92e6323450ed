"""Nodes that only move elements, as gathers and transpositions.

GatherElements       a gather from all elements as one row, at indices that count the elements before
GatherND             the same, of slices at vectors of indices
Col2Im               patches side by side: a transposition of their rows
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.computed_index import indices_of, place
from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.dialects.nn.windows import window_shape


def gathered_elements(node: OpaqueNode) -> SSAValue:
    """The element at each index along an axis, at the same place of all other dims."""
    data, indices = node.input(0), indices_of(node, node.input(1))
    shape, places = shape_of(data), shape_of(indices)
    if len(shape) != len(places) or not shape or not prod(shape):
        raise Unsupported
    axis = node.axis(0, len(shape))
    if any(places[dim] > shape[dim] for dim in range(len(shape)) if dim != axis):
        raise Unsupported
    others = tuple(1 if dim == axis else extent for dim, extent in enumerate(places))
    before = np.ravel_multi_index(tuple(np.indices(others)), shape) if prod(others) else np.zeros(others)
    along = place(node, indices, shape[axis], prod(shape[axis + 1 :]))
    count = node.apply(nn.AddOp, along, node.constant(np.asarray(before), "i64"))
    return node.apply(nn.GatherOp, node.insert(ReshapeOp(data, (prod(shape),))), count, axis=0)


def gathered_slices(node: OpaqueNode) -> SSAValue:
    """The slices of the data at vectors of indices, which are the last dim of the second operand."""
    data, indices = node.input(0), node.input(1)
    shape, places = shape_of(data), shape_of(indices)
    batch = node.attribute("batch_dims", 0)
    if dtype_of(indices.type) != "i64" or not places or not prod(shape) or not prod(places):
        raise Unsupported
    *lead, length = places
    if not 0 <= batch < min(len(shape), len(places)) or tuple(lead[:batch]) != shape[:batch]:
        raise Unsupported
    indexed = batch + length
    if not 1 <= length <= len(shape) - batch:
        raise Unsupported
    if indexed == 1:
        return node.apply(nn.GatherOp, data, node.insert(ReshapeOp(indices, lead)), axis=0)
    count: SSAValue | None = None
    if batch:
        first = np.arange(prod(shape[:batch])) * prod(shape[batch:indexed])
        ones = (1,) * (len(lead) - batch)
        count = node.constant(first.reshape(*shape[:batch], *ones), "i64")
    for number, dim in enumerate(range(batch, indexed)):
        column = node.apply(nn.SliceOp, indices, starts=(*(0 for _ in lead), number), sizes=(*lead, 1))
        index = node.insert(ReshapeOp(column, lead))
        along = place(node, index, shape[dim], prod(shape[dim + 1 : indexed]))
        count = along if count is None else node.apply(nn.AddOp, count, along)
    rows = node.insert(ReshapeOp(data, (prod(shape[:indexed]), *shape[indexed:])))
    return node.apply(nn.GatherOp, rows, count, axis=0)


def images_of_patches(node: OpaqueNode) -> SSAValue:
    """Col2Im: a transposition where patches neither overlap nor leave gaps, else a transposed convolution whose weights
    put each row of a patch at its place."""
    columns, image, block = node.input(0), node.constant_input(1), node.constant_input(2)
    if image is None or block is None:
        raise Unsupported
    sizes, window = tuple(map(int, image.reshape(-1))), tuple(map(int, block.reshape(-1)))
    rank = len(sizes)
    plain = (
        tuple(node.attribute("strides", (1,) * rank)) == window
        and not any(node.attribute("pads", ()))
        and set(node.attribute("dilations", (1,))) == {1}
    )
    if not all(window) or len(shape_of(columns)) != 3 or shape_of(columns)[1] % prod(window):
        raise Unsupported
    if not plain or any(size % step for size, step in zip(sizes, window, strict=True)):
        return _sums_of_patches(node, columns, sizes, window)
    counts = tuple(size // step for size, step in zip(sizes, window, strict=True))
    batch, rows, patches = shape_of(columns)
    if patches != prod(counts) or rows % prod(window):
        raise Unsupported
    channels = rows // prod(window)
    apart = node.insert(ReshapeOp(columns, (batch, channels, *window, *counts)))
    order = [0, 1]
    for dim in range(rank):
        order += [2 + rank + dim, 2 + dim]
    return node.insert(ReshapeOp(node.insert(PermuteOp(apart, order)), (batch, channels, *sizes)))


def _sums_of_patches(
    node: OpaqueNode, columns: SSAValue, sizes: tuple[int, ...], window: tuple[int, ...]
) -> SSAValue:
    """Col2Im of any patches. A channel is a group, each of its rows an input channel with one weight that is not 0."""
    rank = len(sizes)
    strides, dilations = (tuple(node.attribute(name, (1,) * rank)) for name in ("strides", "dilations"))
    pads = tuple(node.attribute("pads", (0,) * (2 * rank)))
    batch, rows, patches = shape_of(columns)
    counts = window_shape(sizes, window, strides=strides, pads=pads, dilations=dilations)
    if patches != prod(counts) or dtype_of(columns.type) != "f32" or not prod(shape_of(columns)):
        raise Unsupported
    covered = [
        (counts[d] - 1) * strides[d] + (window[d] - 1) * dilations[d] + 1 - pads[d] - pads[rank + d]
        for d in range(rank)
    ]
    channels = rows // prod(window)
    weights = np.tile(np.eye(prod(window), dtype=np.float32), (channels, 1)).reshape(rows, 1, *window)
    made = node.apply(
        nn.ConvTransposeOp,
        node.insert(ReshapeOp(columns, (batch, rows, *counts))),
        node.constant(weights),
        strides=strides,
        pads=pads,
        dilations=dilations,
        output_padding=tuple(size - extent for size, extent in zip(sizes, covered, strict=True)),
        group=channels,
    )
    return made
