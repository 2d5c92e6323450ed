"""Convolutions with one input channel per group and several output channels, as depthwise ones side by side.

    conv(x, w) in groups of 1 to m channels    is    channel c * m + j = depthwise conv(x, w[c * m + j])

The library has kernels for depthwise convolutions, and for these none but its reference. The m results are put side by
side along a dim of their own, behind the channels: with strides above 1 they are smaller than x.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps, elements_of
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReshapeOp, dtype_of, is_any
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array


def split_channel_multipliers(module: ModuleOp) -> None:
    """Replaces, in place, convolutions of f32 with constant weights whose layouts are open."""
    for op in list(module.walk()):
        if isinstance(op, nn.ConvOp) and is_any(op.result.type) and dtype_of(op.x.type) == "f32":
            channels, (outputs, depth) = shape_of(op.x)[1], shape_of(op.w)[:2]
            if depth == 1 and 1 < channels == op.group < outputs:
                constants = [elements_of(value) for value in (op.w, op.b) if value is not None]
                if all(elements is not None for elements in constants):
                    _split(op, outputs // channels, [x for x in constants if x is not None])


def _split(op: nn.ConvOp, multiplier: int, constants: list[Array]) -> None:
    ops = InsertedOps(op)
    attributes = {name: getattr(op, name) for name in op.__fields__}
    batch, outputs, *spatial = shape_of(op.result)
    column = (batch, outputs // multiplier, 1, *spatial)
    parts = [
        ops.apply(nn.ConvOp, op.x, *(ops.constant(x[number::multiplier]) for x in constants), **attributes)
        for number in range(multiplier)
    ]
    columns = ops.apply(nn.ConcatOp, *(ops.insert(ReshapeOp(part, column)) for part in parts), axis=2)
    ops.replace(ops.insert(ReshapeOp(columns, (batch, outputs, *spatial))))
