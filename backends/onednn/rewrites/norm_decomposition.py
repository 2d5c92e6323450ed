"""Nodes that take norms, as powers, sums and roots: LpNormalization, LpPool, GlobalLpPool.

The norm of order p of some numbers is the root of order p of the sum of their magnitudes to that power. Sums of windows
are averages times the number of elements of a window, pads counted: they are zeros.
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.nn.tensor_types import Shape, shape_of
from layout_ir.dialects.nn.windows import window_shape


def normalized_by_norm(node: OpaqueNode) -> SSAValue:
    """Rows divided by their norms of order 1 or 2; 0 where the norm is."""
    x = node.input(0)
    axis, order = node.axis(-1, len(shape_of(x))), node.attribute("p", 2)
    if order not in (1, 2):
        raise Unsupported
    norm = node.apply(nn.ReduceL1Op if order == 1 else nn.ReduceL2Op, x, axes=(axis,), keepdims=True)
    zero = node.constant(np.zeros(()), dtype_of(x.type))
    one = node.constant(np.ones(()), dtype_of(x.type))
    divisor = node.apply(nn.WhereOp, node.apply(nn.EqualOp, norm, zero), one, norm)
    return node.apply(nn.DivOp, x, divisor)


def pooled_by_norm(node: OpaqueNode) -> SSAValue:
    """The norm of each window."""
    x = node.input(0)
    order, kernel = node.attribute("p", 2), node.attribute("kernel_shape")
    if kernel is None:
        raise Unsupported
    windows = node.windows(x, kernel)
    if node.attribute("ceil_mode", 0):
        windows["pads"] = _pads_of_all(shape_of(x)[2:], kernel, **windows)
    averages = node.apply(
        nn.AvgPoolOp, _powers(node, x, order), kernel=kernel, count_include_pad=True, **windows
    )
    count = node.constant(np.array(prod(kernel)), dtype_of(x.type))
    return _root(node, node.apply(nn.MulOp, averages, count), order)


def _pads_of_all(extents: Shape, kernel: Shape, *, strides: Shape, pads: Shape, dilations: Shape) -> Shape:
    """The pads with those at the ends that windows of `ceil_mode` reach: zeros there change no sum."""
    rank = len(extents)
    counts = window_shape(extents, kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=True)
    ends: list[int] = []
    for dim, count in enumerate(counts):
        reach = (count - 1) * strides[dim] + (kernel[dim] - 1) * dilations[dim] + 1
        ends.append(max(reach - extents[dim] - pads[dim], 0))
    return (*pads[:rank], *ends)


def pooled_globally_by_norm(node: OpaqueNode) -> SSAValue:
    """The norm of each channel."""
    x, order = node.input(0), node.attribute("p", 2)
    axes = tuple(range(2, len(shape_of(x))))
    if not axes:
        raise Unsupported
    return _root(node, node.apply(nn.ReduceSumOp, _powers(node, x, order), axes=axes, keepdims=True), order)


def _powers(node: OpaqueNode, x: SSAValue, order: int) -> SSAValue:
    if order < 1 or dtype_of(x.type) not in ("f32", "f16", "bf16"):
        raise Unsupported
    if order == 2:
        return node.apply(nn.MulOp, x, x)
    size = node.apply(nn.AbsOp, x)
    if order == 1:
        return size
    return node.apply(nn.PowOp, size, node.constant(np.array(order), dtype_of(x.type)))


def _root(node: OpaqueNode, x: SSAValue, order: int) -> SSAValue:
    if order == 1:
        return x
    if order == 2:
        return node.apply(nn.SqrtOp, x)
    return node.apply(nn.PowOp, x, node.constant(np.array(1 / order), dtype_of(x.type)))
