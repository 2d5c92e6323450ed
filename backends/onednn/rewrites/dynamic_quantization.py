"""DynamicQuantizeLinear: reductions, and what they make of each number."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.backends.onednn.rewrites.opaque_node import Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import attribute_of, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of


def quantized_by_range(
    node: InsertedOps, x: SSAValue, ranged: SSAValue | None = None
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Integers of 8 bits for all numbers of a tensor, with the scale and zero point that its range, 0 among it, asks
    for; the range is that of `ranged` where it is given."""
    ranged = x if ranged is None else ranged
    shape = shape_of(ranged)
    if dtype_of(x.type) != "f32":
        raise Unsupported

    def number(value: float) -> SSAValue:
        return node.constant(np.array(value, np.float32))

    def integers(value: SSAValue) -> SSAValue:
        return node.apply(nn.CastOp, value, result_type=TensorType(attribute_of("ui8"), shape_of(value)))

    def end(reduce: type[nn.ReduceMaxOp | nn.ReduceMinOp]) -> SSAValue:
        if not prod(shape):
            return number(0)
        return node.apply(reduce, ranged, axes=tuple(range(len(shape))), keepdims=False) if shape else ranged

    high = node.apply(nn.MaxOp, end(nn.ReduceMaxOp), number(0))
    low = node.apply(nn.MinOp, end(nn.ReduceMinOp), number(0))
    width = node.apply(nn.SubOp, high, low)
    # Of zeros alone, ONNX Runtime has a scale of 1.
    is_zero = node.apply(nn.EqualOp, width, number(0))
    scale = node.apply(nn.WhereOp, is_zero, number(1), node.apply(nn.DivOp, width, number(255)))
    start = node.apply(nn.NegOp, node.apply(nn.DivOp, low, scale))
    zero_point = node.apply(nn.RoundOp, node.apply(nn.ClipOp, start, min=0.0, max=255.0))
    steps = node.apply(nn.RoundOp, node.apply(nn.DivOp, x, scale))
    # A cast saturates.
    return integers(node.apply(nn.AddOp, steps, zero_point)), scale, integers(zero_point)
