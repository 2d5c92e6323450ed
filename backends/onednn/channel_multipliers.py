"""Convolutions with one input channel per group and several output channels, as depthwise ones side by side.

    conv(x, w) in groups of 1 to m channels    is    channel c * m + j = depthwise conv(x, w[c * m + j])

The library has kernels for depthwise convolutions, and for these none but its reference. The m results are put side by
side along a dim of their own, behind the channels: with strides above 1 they are smaller than x.
"""

from __future__ import annotations

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.backends.reference.semantics import literal_array
from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, ReshapeOp, dtype_of, is_any, with_format
from layout_ir.dialects.nn.constant import literal
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type


def split_channel_multipliers(module: ModuleOp) -> None:
    """Replaces, in place, convolutions of f32 with constant weights whose layouts are open."""
    for op in list(module.walk()):
        if isinstance(op, nn.ConvOp) and is_any(op.result.type) and dtype_of(op.x.type) == "f32":
            channels, (outputs, depth) = shape_of(op.x)[1], shape_of(op.w)[:2]
            if depth == 1 and 1 < channels == op.group < outputs and _are_constant(op):
                _split(op, outputs // channels)


def _are_constant(op: nn.ConvOp) -> bool:
    return all(value is None or isinstance(value.owner, nn.ConstantOp) for value in (op.w, op.b))


def _split(op: nn.ConvOp, multiplier: int) -> None:
    build = Builder(InsertPoint.before(op))
    attributes = {name: getattr(op, name) for name in op.__fields__}
    batch, outputs, *spatial = shape_of(op.result)
    column = (batch, outputs // multiplier, 1, *spatial)
    parts: list[SSAValue] = []
    for number in range(multiplier):
        constants = [_every(build, value, number, multiplier) for value in (op.w, op.b) if value is not None]
        made = build.insert(nn.ConvOp(op.x, *constants, **attributes))
        typed = Rewriter.replace_value_with_new_type(made.result, with_format(made.result.type, AnyAttr()))
        parts.append(build.insert(ReshapeOp(typed, column)).result)
        made.location = op.location
    joined = build.insert(nn.ConcatOp(*parts, axis=2))
    columns = Rewriter.replace_value_with_new_type(joined.result, with_format(joined.result.type, AnyAttr()))
    whole = build.insert(ReshapeOp(columns, (batch, outputs, *spatial)))
    joined.location = whole.location = op.location
    op.result.replace_all_uses_with(whole.result)
    Rewriter.erase_op(op)


def _every(build: Builder, value: SSAValue, first: int, step: int) -> SSAValue:
    """A constant with entries `first`, `first + step`, ... of dim 0 of another."""
    assert isinstance(value.owner, nn.ConstantOp)
    elements = np.broadcast_to(literal_array(value.owner), shape_of(value))[first::step]
    type = TensorType(tensor_type(value).element_type, elements.shape)
    data = literal(type, np.ascontiguousarray(elements, "<f4").tobytes())
    made = build.insert(nn.ConstantOp(data, with_format(type, AnyAttr())))
    made.location = value.owner.location
    return made.result
