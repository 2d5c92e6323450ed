"""Transposed convolutions with strides of 1, as convolutions with the kernel backwards: more kernels to choose from."""

from __future__ import annotations

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.backends.reference.semantics import literal_array
from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, dtype_of, is_any, with_format
from layout_ir.dialects.nn.constant import literal
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type


def replace_transposed_convolutions(module: ModuleOp) -> None:
    """Replaces, in place, those of f32 with constant weights and open layouts that need no element of x taken away."""
    for op in list(module.walk()):
        if (
            isinstance(op, nn.ConvTransposeOp)
            and is_any(op.result.type)
            and dtype_of(op.x.type) == "f32"
            and set(op.strides) == {1}
            and isinstance(op.w.owner, nn.ConstantOp)
            and min(min(border) for border in op.borders()) >= 0
        ):
            _replace(op, op.w.owner)


def _replace(op: nn.ConvTransposeOp, weights: nn.ConstantOp) -> None:
    build = Builder(InsertPoint.before(op))
    inputs, outputs, *window = shape_of(op.w)
    group = op.group
    turned = np.broadcast_to(literal_array(weights), shape_of(op.w)).reshape(
        group, inputs // group, outputs, *window
    )
    turned = np.flip(turned.swapaxes(1, 2), tuple(range(3, 3 + len(window))))
    shape = (group * outputs, inputs // group, *window)
    type = TensorType(tensor_type(op.w).element_type, shape)
    data = literal(type, np.ascontiguousarray(turned, "<f4").tobytes())
    constant = build.insert(nn.ConstantOp(data, with_format(type, AnyAttr())))
    begins, ends = zip(*op.borders(), strict=True)
    operands = (op.x, constant.result) if op.b is None else (op.x, constant.result, op.b)
    made = build.insert(
        nn.ConvOp(
            *operands,
            pads=(*begins, *ends),
            dilations=op.dilations,
            group=group,
            result_type=tensor_type(op.result),
        )
    )
    constant.location = weights.location
    made.location = op.location
    op.result.replace_all_uses_with(made.result)
    Rewriter.erase_op(op)
