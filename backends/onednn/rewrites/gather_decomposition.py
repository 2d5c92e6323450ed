"""Nodes that only move elements, as gathers and transpositions.

GatherElements       a gather from all elements as one row, at indices that count the elements before
Col2Im               patches side by side: a transposition of their rows
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of


def gathered_elements(node: OpaqueNode) -> SSAValue:
    """The element at each index along an axis, at the same place of all other dims."""
    data, indices = node.input(0), node.input(1)
    shape, places = shape_of(data), shape_of(indices)
    if dtype_of(indices.type) != "i64" or len(shape) != len(places) or not shape or not prod(shape):
        raise Unsupported
    axis = int(node.attribute("axis", 0)) % len(shape)
    if any(places[dim] > shape[dim] for dim in range(len(shape)) if dim != axis):
        raise Unsupported
    others = tuple(1 if dim == axis else extent for dim, extent in enumerate(places))
    before = np.ravel_multi_index(tuple(np.indices(others)), shape) if prod(others) else np.zeros(others)
    zero, extent = node.constant(np.array(0), "i64"), node.constant(np.array(shape[axis]), "i64")
    stride = node.constant(np.array(prod(shape[axis + 1 :])), "i64")
    from_start = node.apply(
        nn.WhereOp,
        node.apply(nn.LessOp, indices, zero),
        node.apply(nn.AddOp, indices, extent),
        indices,
    )
    count = node.apply(
        nn.AddOp,
        node.apply(nn.MulOp, from_start, stride),
        node.constant(np.asarray(before), "i64"),
    )
    return node.apply(nn.GatherOp, node.insert(ReshapeOp(data, (prod(shape),))), count, axis=0)


def pictures_of_patches(node: OpaqueNode) -> SSAValue:
    """Col2Im of patches that neither overlap nor leave gaps."""
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
    if not plain or not all(window) or len(shape_of(columns)) != 3:
        raise Unsupported
    if any(size % step for size, step in zip(sizes, window, strict=True)):
        raise Unsupported
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
