"""Elementwise ops as functions of the library: of one operand, of two, of one and a number."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isinf
from typing import Any

from xdsl.ir import Operation, SSAValue

from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn.op_primitives.primitive_operands import (
    Candidates,
    Operand,
    OpPrimitive,
    Values,
    lie_alike,
)
from layout_ir.backends.onednn.primitives import (
    INFERENCE,
    Algorithm,
    Argument,
    EltwisePostOp,
    Request,
)
from layout_ir.dialects import nn


def _gelu(op: nn.GeluOp) -> EltwisePostOp:
    return EltwisePostOp(Algorithm.GELU_TANH if op.approximate == "tanh" else Algorithm.GELU_ERF)


FUNCTIONS: dict[type[Operation], Callable[[Any], EltwisePostOp]] = {
    nn.ReluOp: lambda op: EltwisePostOp(Algorithm.RELU),
    nn.LeakyReluOp: lambda op: EltwisePostOp(Algorithm.RELU, op.alpha),
    nn.EluOp: lambda op: EltwisePostOp(Algorithm.ELU, op.alpha),
    nn.TanhOp: lambda op: EltwisePostOp(Algorithm.TANH),
    nn.AbsOp: lambda op: EltwisePostOp(Algorithm.ABS),
    nn.SqrtOp: lambda op: EltwisePostOp(Algorithm.SQRT),
    nn.NegOp: lambda op: EltwisePostOp(Algorithm.LINEAR, -1.0, 0.0),
    nn.ReciprocalOp: lambda op: EltwisePostOp(Algorithm.POW, 1.0, -1.0),
    nn.ExpOp: lambda op: EltwisePostOp(Algorithm.EXP),
    nn.LogOp: lambda op: EltwisePostOp(Algorithm.LOG),
    nn.ClipOp: lambda op: EltwisePostOp(Algorithm.CLIP, op.min, op.max),
    nn.SigmoidOp: lambda op: EltwisePostOp(Algorithm.LOGISTIC),
    nn.SwishOp: lambda op: EltwisePostOp(Algorithm.SWISH, op.alpha),
    nn.HardSigmoidOp: lambda op: EltwisePostOp(Algorithm.HARD_SIGMOID, op.alpha, op.beta),
    nn.HardSwishOp: lambda op: EltwisePostOp(Algorithm.HARD_SWISH, 1 / 6, 0.5),
    nn.MishOp: lambda op: EltwisePostOp(Algorithm.MISH),
    nn.GeluOp: _gelu,
    nn.RoundOp: lambda op: EltwisePostOp(Algorithm.ROUND),
}
"""The function of the library that a unary op is. Softplus is a compiled loop: below -10, where it is e^x, the library
(3.2, AVX2) gives multiples of 4e-6, 0 among them, of which a logarithm is no number."""


def function_of(op: Operation, values: Values) -> tuple[SSAValue, EltwisePostOp] | None:
    """The one operand of which `op` is a function of the library, and that function; a constant number is part of it.

    None where `op` is none.
    """
    make = FUNCTIONS.get(type(op))
    if make is not None:
        return op.operands[0], make(op)
    if not isinstance(op, nn.BinaryOp):
        return None
    for constant, value in ((op.rhs, op.lhs), (op.lhs, op.rhs)):
        number = values.scalar(constant)
        if number is None or values.layout(value).shape != values.layout(op.result).shape:
            continue
        found = _with_number(op, number, constant is op.lhs)
        if found is not None:
            return value, found
    return None


def _with_number(op: nn.BinaryOp, number: float, is_first: bool) -> EltwisePostOp | None:
    """The function of x that a binary op of x and a number is; `is_first`: the number stands in front."""
    if number != number or isinf(number):
        return None
    match op:
        case nn.AddOp():
            return EltwisePostOp(Algorithm.LINEAR, 1.0, number)
        case nn.MulOp():
            return EltwisePostOp(Algorithm.LINEAR, number, 0.0)
        case nn.SubOp():
            return EltwisePostOp(Algorithm.LINEAR, *((-1.0, number) if is_first else (1.0, -number)))
        case nn.DivOp() if is_first:
            return EltwisePostOp(Algorithm.POW, number, -1.0)
        case nn.DivOp() if 1e-30 < abs(number) < 1e30:
            return EltwisePostOp(Algorithm.LINEAR, 1 / number, 0.0)
        case nn.MaxOp():
            return EltwisePostOp(Algorithm.CLIP, number, inf)
        case nn.MinOp():
            return EltwisePostOp(Algorithm.CLIP, -inf, number)
        case nn.PowOp() if not is_first and number == 2:
            return EltwisePostOp(Algorithm.SQUARE)
        case nn.PowOp() if not is_first and number == 0.5:
            return EltwisePostOp(Algorithm.SQRT)
        case nn.PowOp() if not is_first:
            return EltwisePostOp(Algorithm.POW, 1.0, number)
        case nn.PReluOp() if not is_first:
            return EltwisePostOp(Algorithm.RELU, number)
        case _:
            return None


BINARY: dict[type[Operation], Algorithm] = {
    nn.AddOp: Algorithm.ADD,
    nn.SubOp: Algorithm.SUB,
    nn.MulOp: Algorithm.MUL,
    nn.DivOp: Algorithm.DIV,
    nn.MaxOp: Algorithm.MAX,
    nn.MinOp: Algorithm.MIN,
}


COMMUTATIVE = (nn.AddOp, nn.MulOp, nn.MaxOp, nn.MinOp)


def eltwise(op: nn.ElementwiseOp, values: Values) -> Candidates:
    """A function of one operand, on the whole buffer where both lie alike."""
    found = function_of(op, values)
    if found is None:
        return
    value, function = found
    x, y = values.layout(value), values.layout(op.result)
    if lie_alike(x, y):
        source = target = descriptors.row_major(values.library, (y.extent,), values.dtype(op.result))
        extents: tuple[int, ...] = (y.extent,)
    else:
        source, target = values.descriptor(value), values.descriptor(op.result, writes=True)
        extents = y.shape
    arguments = (INFERENCE, function.algorithm, source, target, function.alpha, function.beta)
    yield OpPrimitive(
        Request("eltwise_forward", arguments), {Argument.SRC: Operand(value, source)}, target, extents
    )


def binary_alike(op: nn.BinaryOp, values: Values) -> Candidates:
    """The primitive that runs over whole buffers, pads included; none where the tensors do not lie alike."""
    y = values.layout(op.result)
    if not all(
        lie_alike(values.layout(value), y) and values.constant(value) is None for value in op.operands
    ):
        return
    flat = descriptors.row_major(values.library, (y.extent,), values.dtype(op.result))
    request = Request("binary", (BINARY[type(op)], flat, flat, flat))
    operands: dict[int, Operand] = {
        Argument.SRC: Operand(op.lhs, flat),
        Argument.SRC_1: Operand(op.rhs, flat),
    }
    yield OpPrimitive(request, operands, flat, (y.extent,))


def binary(op: nn.BinaryOp, values: Values) -> Candidates:
    """The first operand of the shape of the result, the second broadcast to it."""
    shape = values.layout(op.result).shape
    lhs, rhs = op.lhs, op.rhs
    if values.layout(lhs).shape != shape or (
        values.constant(lhs) is not None and isinstance(op, COMMUTATIVE)
    ):
        lhs, rhs = rhs, lhs
        if not isinstance(op, COMMUTATIVE):
            return
    if values.layout(lhs).shape != shape or not shape:
        return
    y = values.descriptor(op.result, writes=True)
    x, source = values.operand(lhs)
    other = values.layout(rhs).shape
    second, wanted = values.operand(rhs, (1,) * (len(shape) - len(other)) + other)
    request = Request("binary", (BINARY[type(op)], source, wanted, y))
    yield OpPrimitive(request, {Argument.SRC: x, Argument.SRC_1: second}, y, shape)


def prelu(op: nn.PReluOp, values: Values) -> Candidates:
    """Slopes broadcast to x; those that are no constant lie as the library takes them, row-major."""
    shape = values.layout(op.result).shape
    if values.layout(op.lhs).shape != shape or not shape:
        return
    x, y = values.descriptor(op.lhs), values.descriptor(op.result, writes=True)
    other = values.layout(op.rhs).shape
    slopes, wanted = values.operand(op.rhs, (1,) * (len(shape) - len(other)) + other, chosen=True)
    request = Request("prelu_forward", (INFERENCE, x, wanted, y))
    yield OpPrimitive(request, {Argument.SRC: Operand(op.lhs, x), Argument.WEIGHTS: slopes}, y, shape)
