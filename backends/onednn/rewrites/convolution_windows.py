"""Convolutions whose windows reach far beyond the operand, as those with large dilations do on small images.

* Weights that meet nothing but pads are left out: a window of 3x3 with dilations of 12 on 8x8 pixels reads one.
* Where the library has no kernel for that many pads, those of the last dim become elements of the operand.
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


def shrink_windows(module: ModuleOp, library: Library) -> None:
    """Replaces, in place, convolutions of f32 with constant weights and open layouts."""
    for op in list(module.walk()):
        if isinstance(op, nn.ConvOp) and is_any(op.result.type) and dtype_of(op.x.type) == "f32":
            weights = elements_of(op.w)
            if any(op.pads) and weights is not None:
                op = _without_idle_weights(op, weights)
            _with_padded_operand(op, library)


def _without_idle_weights(op: nn.ConvOp, weights: Array) -> nn.ConvOp:
    """The convolution that computes the same without the weights that meet pads alone, or `op`."""
    rank = len(op.strides)
    extents, results, window = shape_of(op.x)[2:], shape_of(op.result)[2:], shape_of(op.w)[2:]
    begins, ends = list(op.pads[:rank]), list(op.pads[rank:])
    kept = [slice(None), slice(None)]
    for d in range(rank):
        used = _used(extents[d], results[d], window[d], op.strides[d], begins[d], op.dilations[d])
        first, last = (int(used[0]), int(used[-1])) if len(used) else (0, window[d] - 1)
        before, behind = first * op.dilations[d], (window[d] - 1 - last) * op.dilations[d]
        if before > begins[d] or behind > ends[d]:
            first, last, before, behind = 0, window[d] - 1, 0, 0
        begins[d] -= before
        ends[d] -= behind
        kept.append(slice(first, last + 1))
    if (*begins, *ends) == tuple(op.pads):
        return op
    ops = InsertedOps(op)
    return replaced(op, ops, op.x, ops.constant(weights[tuple(kept)]), pads=(*begins, *ends))


def _used(extent: int, result: int, window: int, stride: int, begin: int, dilation: int) -> Array:
    """The weights of a dim that meet an element for some element of the result."""
    # Weight k meets element i * stride - offset for the results i between `first` and `last`.
    offset = begin - np.arange(window) * dilation
    first = np.maximum(-(-offset // stride), 0)
    last = np.minimum((extent - 1 + offset) // stride, result - 1)
    return np.flatnonzero(first <= last)


def _with_padded_operand(op: nn.ConvOp, library: Library) -> None:
    """Has the operand hold the pads of the last dim where only then blocks of channels have a kernel, or any format."""
    rank = len(op.strides)
    pads = list(op.pads)
    begin, end = pads[rank - 1], pads[-1]
    shape = list(shape_of(op.x))
    if not (begin or end) or not all(shape):
        return
    padded = [*shape[:-1], shape[-1] + begin + end]
    pads[rank - 1] = pads[-1] = 0
    for tag in tags_of(op):
        if has_kernel(op, library, tag):
            return
        if has_kernel(op, library, tag, shape=padded, pads=pads):
            break
    else:
        return
    zeros = [0] * (len(shape) - 1)
    ops = InsertedOps(op)
    padded_x = ops.apply(nn.PadOp, op.x, pads=(*zeros, begin, *zeros, end))
    replaced(op, ops, padded_x, op.w, pads=tuple(pads))
