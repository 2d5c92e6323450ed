"""Transposed convolutions with strides of 1, as convolutions with the kernel flipped: more kernels to choose from."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps, elements_of
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of, is_any
from layout_ir.elements.numpy_types import Array


def replace_transposed_convolutions(module: ModuleOp) -> None:
    """Replaces, in place, those of f32 with constant weights and open layouts that need no element of x taken away."""
    for op in list(module.walk()):
        if isinstance(op, nn.ConvTransposeOp) and is_any(op.result.type) and dtype_of(op.x.type) == "f32":
            weights = elements_of(op.w)
            fits = set(op.strides) == {1} and min(min(border) for border in op.borders()) >= 0
            if fits and weights is not None:
                _replace(op, weights)


def _replace(op: nn.ConvTransposeOp, weights: Array) -> None:
    inputs, outputs, *window = weights.shape
    turned = weights.reshape(op.group, inputs // op.group, outputs, *window).swapaxes(1, 2)
    turned = np.flip(turned, tuple(range(3, 3 + len(window))))
    shape = (op.group * outputs, inputs // op.group, *window)
    begins, ends = zip(*op.borders(), strict=True)
    ops = InsertedOps(op)
    ops.replace(
        ops.apply(
            nn.ConvOp,
            op.x,
            ops.constant(turned.reshape(shape)),
            op.b,
            pads=(*begins, *ends),
            dilations=op.dilations,
            group=op.group,
        )
    )
