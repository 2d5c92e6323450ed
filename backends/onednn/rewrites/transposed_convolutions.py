"""Transposed convolutions as convolutions, for which there are more kernels.

* Those with strides of 1 are convolutions with the kernel flipped.
* Those with larger strides, in groups, for which the library has but products over windows, are one convolution per
  phase: the elements r, r + stride, ... of the result take every stride-th weight each, and are put
  between those of the other phases. 64 depthwise channels of 56x56 with windows of 4x4 and strides of 2 took 3.3 ms
  with AVX2, as four convolutions of 2x2 and two copies 0.7 ms.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps, elements_of
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of, is_any
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array

MOST_PHASES = 64
"""Each is a step of the plan: those of strides 8 by 8, up to which convolutions were faster."""


class _Phase(NamedTuple):
    """Which weights the elements r, r + stride, ... of a dim of the result take, and the pads of x for these."""

    first: int
    begin: int
    end: int


def replace_transposed_convolutions(module: ModuleOp) -> None:
    """Replaces, in place, those of f32 with constant weights and open layouts that need no element of x taken away."""
    for op in list(module.walk()):
        if isinstance(op, nn.ConvTransposeOp) and is_any(op.result.type) and dtype_of(op.x.type) == "f32":
            weights = elements_of(op.w)
            if weights is None or 0 in shape_of(op.x):
                continue
            if set(op.strides) == {1}:
                if min(min(border) for border in op.borders()) >= 0:
                    _flip(op, weights)
            elif op.group > 1:
                _take_phases(op, weights)


def _flip(op: nn.ConvTransposeOp, weights: Array) -> None:
    begins, ends = zip(*op.borders(), strict=True)
    ops = InsertedOps(op)
    w = ops.constant(_flipped(weights, op.group))
    attributes = {"pads": (*begins, *ends), "dilations": op.dilations, "group": op.group}
    ops.replace(ops.apply(nn.ConvOp, op.x, w, op.b, **attributes))


def _flipped(weights: Array, group: int) -> Array:
    """The weights of the convolution that adds up what the transposed one spreads."""
    inputs, outputs, *window = weights.shape
    turned = weights.reshape(group, inputs // group, outputs, *window).swapaxes(1, 2)
    turned = np.flip(turned, tuple(range(3, 3 + len(window))))
    return turned.reshape(group * outputs, inputs // group, *window)


def _take_phases(op: nn.ConvTransposeOp, weights: Array) -> None:
    strides, rank = op.strides, len(op.strides)
    if set(op.dilations) != {1} or prod(strides) > MOST_PHASES:
        return
    phases = [of_dim for dim in range(rank) if (of_dim := _phases(op, dim)) is not None]
    if len(phases) < rank:
        return
    ops = InsertedOps(op)
    batch, channels, *extents = shape_of(op.result)
    rounds = [-(-extent // stride) for extent, stride in zip(extents, strides, strict=True)]
    parts: list[SSAValue] = []
    for found in product(*phases):
        places = tuple(slice(phase.first, None, stride) for phase, stride in zip(found, strides, strict=True))
        w = ops.constant(_flipped(weights[(slice(None), slice(None), *places)], op.group))
        pads = (*(phase.begin for phase in found), *(phase.end for phase in found))
        part = ops.apply(nn.ConvOp, op.x, w, op.b, pads=pads, group=op.group)
        parts.append(ops.insert(ReshapeOp(part, (batch, channels, 1, *rounds))))
    apart = ops.insert(
        ReshapeOp(ops.apply(nn.ConcatOp, *parts, axis=2), (batch, channels, *strides, *rounds))
    )
    order = (0, 1, *(place for dim in range(rank) for place in (2 + rank + dim, 2 + dim)))
    whole = [count * stride for count, stride in zip(rounds, strides, strict=True)]
    made = ops.insert(ReshapeOp(ops.insert(PermuteOp(apart, order)), (batch, channels, *whole)))
    if whole != extents:
        made = ops.apply(nn.SliceOp, made, starts=(0,) * (2 + rank), sizes=shape_of(op.result))
    ops.replace(made)


def _phases(op: nn.ConvTransposeOp, dim: int) -> list[_Phase] | None:
    """The phases of a dim; None where one of them has no weights, or takes less than all of x.

    Element q * stride + r of the result takes weight k of element q + (r + pad - k) / stride of x, for those k that
    leave a whole number: k = first + stride * t, that is element q + shift - t.
    """
    stride, pad = op.strides[dim], op.pads[dim]
    extent, window, result = shape_of(op.x)[2 + dim], shape_of(op.w)[2 + dim], shape_of(op.result)[2 + dim]
    rounds = -(-result // stride)
    found: list[_Phase] = []
    for r in range(stride):
        shift, first = divmod(r + pad, stride)
        count = -(-(window - first) // stride)
        begin, end = count - 1 - shift, rounds - 1 + shift - (extent - 1)
        if count < 1 or begin < 0 or end < 0:
            return None
        found.append(_Phase(first, begin, end))
    return found
