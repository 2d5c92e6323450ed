"""DeformConv as gathers and a product: each weight of a window reads where its offset says.

What all weights read is an image with a channel per channel and weight, between pixels interpolated and 0 outside, as
GridSample computes it; over it goes a convolution with windows of one pixel.
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.grid_decomposition import Positions, weighed_sum
from layout_ir.backends.onednn.rewrites.inserted_ops import elements_of
from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array


def deformed_convolution(node: OpaqueNode) -> SSAValue:
    """The result of a DeformConv node on images of f32."""
    x, w, offsets, bias, mask = (*map(node.optional, range(5)),)
    if x is None or w is None or offsets is None or any(dtype_of(v.type) != "f32" for v in (x, w, offsets)):
        raise Unsupported
    result = shape_of(node.op.results[0])
    if len(result) != 4 or not prod(result) or not prod(shape_of(x)):
        raise Unsupported
    batch, channels, *extents = shape_of(x)
    window, counts = shape_of(w)[2:], result[2:]
    groups, size = node.attribute("offset_group", 1), prod(window)
    places = (batch, groups, size, *counts)
    if groups < 1 or channels % groups or shape_of(offsets) != (batch, groups * size * 2, *counts):
        raise Unsupported
    apart = node.insert(ReshapeOp(offsets, (batch, groups, size, 2, *counts)))
    positions = Positions(node, "zeros")
    taps: list[list[tuple[SSAValue, SSAValue | None]]] = []
    for dim, extent in enumerate(extents):
        part = node.apply(
            nn.SliceOp, apart, starts=(0, 0, 0, dim, 0, 0), sizes=(batch, groups, size, 1, *counts)
        )
        moved = node.insert(ReshapeOp(part, places))
        begin = node.constant(_window_places(node, window, counts, dim))
        taps.append(positions.around(node.apply(nn.AddOp, moved, begin), extent))
    each = channels // groups
    pixels = node.insert(ReshapeOp(x, (batch, groups, each, *extents)))
    pixels = node.insert(PermuteOp(pixels, (0, 1, 3, 4, 2)))
    rows = node.insert(ReshapeOp(pixels, (batch * groups * prod(extents), each)))
    starts = np.arange(batch * groups, dtype=np.int64) * prod(extents)
    found = weighed_sum(node, rows, taps, starts.reshape(batch, groups, 1, 1, 1), extents, places)
    if mask is not None:
        found = node.apply(nn.MulOp, found, node.insert(ReshapeOp(mask, (*places, 1))))
    read = node.insert(PermuteOp(found, (0, 1, 5, 2, 3, 4)))
    read = node.insert(ReshapeOp(read, (batch, channels * size, *counts)))
    shape = (shape_of(w)[0], shape_of(w)[1] * size, 1, 1)
    known = elements_of(w)
    weights = node.insert(ReshapeOp(w, shape)) if known is None else node.constant(known.reshape(shape))
    return node.apply(nn.ConvOp, read, weights, bias, group=node.attribute("group", 1))


def _window_places(node: OpaqueNode, window: tuple[int, ...], counts: tuple[int, ...], dim: int) -> Array:
    """Where each weight of each window lies along a dim without an offset, (1, 1, weights, windows...)."""
    stride, begin, gap = (
        node.attribute(name, default)[dim]
        for name, default in (("strides", (1, 1)), ("pads", (0, 0, 0, 0)), ("dilations", (1, 1)))
    )
    weight = np.indices(window)[dim].reshape(1, 1, -1, 1, 1) * gap
    return (np.indices(counts)[dim] * stride - begin + weight).astype(np.float32)
