"""Convolutions in groups of few channels, in groups of more: several become one, with zeros between them.

    groups of 4 channels:  [a 0]        one group of 8 channels, the weights of the one
                           [0 b]        group being zeros for channels of the other

The kernels of the library compute vectors of channels of one group. With AVX2 it has products over unrolled windows
instead for groups of 2 to 6 channels, group by group: 128 channels of 56x56 in 32 groups took 13.9 ms, in 16 groups, of
which half the weights are zeros, 1.5 ms.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from layout_ir.backends.onednn.library import Library
from layout_ir.backends.onednn.rewrites.convolution_kernels import has_kernel, replaced, tags_of
from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps, elements_of
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of, is_any
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array

MOST_CHANNELS = 16
"""The most channels of a merged group. Work grows with their number: where it was measured, with AVX2, groups of 24
were up to 6 % faster than the smallest with a kernel, those of 32 and more slower."""


def merge_groups(module: ModuleOp, library: Library) -> None:
    """Replaces, in place, convolutions of f32 with constant weights and open layouts that have no kernel in groups as
    they are, and one in the next larger groups."""
    for op in list(module.walk()):
        if not (isinstance(op, nn.ConvOp) and is_any(op.result.type) and dtype_of(op.x.type) == "f32"):
            continue
        weights = elements_of(op.w)
        if op.group > 1 and weights is not None and weights.size and 0 not in shape_of(op.x):
            count = _merged(op, library)
            if count > 1:
                ops = InsertedOps(op)
                merged = ops.constant(block_diagonal(weights, op.group, count))
                replaced(op, ops, op.x, merged, group=op.group // count)


def _merged(op: nn.ConvOp, library: Library) -> int:
    """How many groups are to become one; 1 where there is a kernel for them as they are, or none for more."""
    outputs, depth = shape_of(op.w)[:2]
    widest = max(outputs // op.group, depth)
    for count in range(1, MOST_CHANNELS // widest + 1):
        if op.group % count == 0 and any(
            has_kernel(op, library, tag, group=op.group // count) for tag in tags_of(op)
        ):
            return count
    return 1


def block_diagonal(weights: Array, group: int, count: int) -> Array:
    """The weights (outputs, channels of a group, window) of groups that are `count` of the old ones each."""
    outputs, depth, *window = weights.shape
    old = weights.reshape(group // count, count, outputs // group, depth, *window)
    new = np.zeros((group // count, count, outputs // group, count, depth, *window), weights.dtype)
    for k in range(count):
        new[:, k, :, k] = old[:, k]
    return new.reshape(outputs, count * depth, *window)
