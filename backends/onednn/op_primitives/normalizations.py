"""Softmax, and normalizations with their factors and statistics."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn.library import Refused
from layout_ir.backends.onednn.op_primitives.primitive_operands import (
    Candidates,
    Operand,
    OpPrimitive,
    Values,
)
from layout_ir.backends.onednn.primitives import (
    GLOBAL_STATISTICS,
    INFERENCE,
    WITH_SCALE,
    WITH_SHIFT,
    Algorithm,
    Argument,
    Request,
)
from layout_ir.dialects import nn


def softmax(op: nn.SoftmaxOp | nn.LogSoftmaxOp, values: Values) -> Candidates:
    """The primitive of a softmax; none where the dim that it goes along has pads."""
    if op.axis in values.layout(op.x).padded_dims():
        return  # its pads hold -inf
    x, y = values.descriptor(op.x), values.descriptor(op.result, writes=True)
    algorithm = Algorithm.SOFTMAX if isinstance(op, nn.SoftmaxOp) else Algorithm.LOG_SOFTMAX
    request = Request("softmax_forward", (INFERENCE, algorithm, x, y, op.axis))
    yield OpPrimitive(request, {Argument.SRC: Operand(op.x, x)}, y, values.layout(op.result).shape)


def layer_norm(op: nn.LayerNormOp, values: Values) -> Candidates:
    """Over the last dims, which the primitive sees as one, of rows side by side: in 3.2 it takes others for such."""
    shape = values.layout(op.x).shape
    first = len(shape) - len(op.axes)
    if sorted(op.axes) != list(range(first, len(shape))):
        return
    rows, columns = prod(shape[:first]), prod(shape[first:])
    x = values.descriptor(op.x, (rows, columns))
    y = values.descriptor(op.result, (rows, columns), writes=True)
    if rows > 1 and any(lying.blocking().strides != (columns, 1) for lying in (x, y)):
        return
    operands: dict[int, Operand] = {Argument.SRC: Operand(op.x, x)}
    flags = WITH_SCALE
    for argument, value in ((Argument.SCALE, op.scale), (Argument.SHIFT, op.bias)):
        if value is None:
            continue
        constant = values.constant(value)
        if constant is not None and (constant.ndim <= len(op.axes) or constant.size == 1):
            wide = np.broadcast_to(constant, shape[first:]) if constant.size > 1 else constant.reshape(-1)
            operands[argument], _ = values.packed(np.broadcast_to(wide.reshape(-1), (columns,)))
        elif values.layout(value).shape == shape[first:]:
            operands[argument] = _parameter(value, values, (columns,))
        else:
            return
        flags |= WITH_SHIFT if argument == Argument.SHIFT else 0
    statistics = descriptors.row_major(values.library, (rows,))
    request = Request("layer_normalization_forward", (INFERENCE, x, y, statistics, op.epsilon, flags))
    yield OpPrimitive(request, operands, y, (rows, columns))


def _parameter(value: SSAValue, values: Values, shape: tuple[int, ...] | None = None) -> Operand:
    """A factor or statistic, which the library takes as f32. Raises Refused where it is computed in another type."""
    constant = values.constant(value)
    if constant is not None:
        return values.packed(constant)[0]
    if values.dtype(value) != "f32":
        raise Refused("factors and statistics are f32")
    return values.operand(value, shape)[0]


def batch_norm(op: nn.BatchNormOp, values: Values) -> Candidates:
    """The primitive of a batch normalization whose statistics are operands."""
    x, y = values.descriptor(op.x), values.descriptor(op.result, writes=True)
    operands: dict[int, Operand] = {Argument.SRC: Operand(op.x, x)}
    for argument, value in (
        (Argument.SCALE, op.scale), (Argument.SHIFT, op.bias), (Argument.MEAN, op.mean), (Argument.VARIANCE, op.var)
    ):  # fmt: skip
        operands[argument] = _parameter(value, values)
    flags = GLOBAL_STATISTICS | WITH_SCALE | WITH_SHIFT
    request = Request("batch_normalization_forward", (INFERENCE, x, y, op.epsilon, flags))
    yield OpPrimitive(request, operands, y, values.layout(op.result).shape)


def lrn(op: nn.LrnOp, values: Values) -> Candidates:
    """An even window is not symmetric, which the library's is."""
    if op.size % 2 == 0:
        return
    x, y = values.descriptor(op.x), values.descriptor(op.result, writes=True)
    arguments = (INFERENCE, Algorithm.LRN, x, y, op.size, op.alpha, op.beta, op.bias)
    operands: dict[int, Operand] = {Argument.SRC: Operand(op.x, x)}
    yield OpPrimitive(Request("lrn_forward", arguments), operands, y, values.layout(op.result).shape)
