"""How much of what an op reads and writes is moved when the program is executed.

What is laid out like a part of a concat, or of what a slice is taken of, is written or read where it lies
(`backends/onednn/placement.py`), so that this costs nothing. An elementwise op behind a convolution, a product or
another elementwise op is computed with it, on numbers that are still in registers
(`backends/onednn/post_op_fusion.py`): it moves its other operands alone.

A value can be written into one concat. Where several take it, it is written into one and moved into the others, so each
of n is said to move an (n - 1)-th of n parts of it: the sum over all of them is right, whichever it is.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.parts import part_offset
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ViewOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOption

JOINED = (nn.ConvOp, nn.ConvTransposeOp, nn.MatmulOp, nn.GemmOp, nn.BatchNormOp, nn.ElementwiseOp)
"""Ops that elementwise ops behind them join."""

_MOVING = (
    nn.AbsOp, nn.AddOp, nn.ClipOp, nn.HardSigmoidOp, nn.HardSwishOp, nn.LeakyReluOp, nn.MaxOp, nn.MinOp, nn.MulOp,
    nn.NegOp, nn.ReluOp, nn.SubOp,
)  # fmt: skip
"""Elementwise ops that take the time in which their tensors are moved; all others compute for longer, joined or not."""


def concats_of(value: SSAValue) -> int:
    """How many operands of concats the value is; 0 where no op writes it, so that it is moved into each."""
    if not isinstance(value.owner, Operation) or isinstance(value.owner, nn.ConstantOp | nn.SliceOp | ViewOp):
        return 0
    return sum(isinstance(use.operation, nn.ConcatOp) for use in value.uses)


def moved_share(op: Operation, option: LayoutOption) -> Fraction:
    """The part of the elements that `op` reads and writes which is moved in these Formats.

    And 1 where the option says nothing of operands: those of an op whose layouts are fixed are no part of the choice.
    """
    if not option.ins:
        return Fraction(1)
    try:
        if isinstance(op, nn.SliceOp):
            return _of_slice(op, option)
        if isinstance(op, nn.ConcatOp):
            return _of_concat(op, option)
        if isinstance(op, _MOVING):
            return _of_elementwise(op, option)
    except LayoutError:  # a Format that does not fit the shape
        pass
    return Fraction(1)


def _of_slice(op: nn.SliceOp, option: LayoutOption) -> Fraction:
    (source,), (made,) = option.ins, option.outs
    if source is None or any(step != 1 for step in op.steps):
        return Fraction(1)
    whole, part = source.bind(shape_of(op.operands[0])), made.bind(shape_of(op.results[0]))
    return Fraction(int(part_offset(whole, part, op.starts) is None))


def _of_elementwise(op: nn.ElementwiseOp, option: LayoutOption) -> Fraction:
    full = op.formatted_operands()
    if not any(_is_joined(op, value, option) for value in full):
        return Fraction(1)
    return Fraction(len(full) - 1, len(full) + 1)


def _is_joined(op: nn.ElementwiseOp, value: SSAValue, option: LayoutOption) -> bool:
    """Whether `op` is computed with the op that makes `value`.

    A product takes a constant row where its own rows are dense, and otherwise none: it is computed as the product of
    the transposes then, whose rows are columns here.
    """
    if not (isinstance(value.owner, JOINED) and value.has_one_use()):
        return False
    if not isinstance(value.owner, nn.MatmulOp | nn.GemmOp):
        return True
    fmt = next(fmt for other, fmt in zip(op.operands, option.ins, strict=True) if other is value)
    has_row = any(isinstance(o.owner, nn.ConstantOp) and prod(shape_of(o)) > 1 for o in op.operands)
    return not has_row or fmt is None or fmt.factors[-1].dim == fmt.rank - 1


def _of_concat(op: nn.ConcatOp, option: LayoutOption) -> Fraction:
    (made,), result = option.outs, op.results[0]
    whole, elements = made.bind(shape_of(result)), prod(shape_of(result))
    if not elements or dtype_of(result.type) != dtype_of(op.operands[0].type):
        return Fraction(1)
    moved, start = Fraction(0), 0
    for operand, fmt in zip(op.operands, option.ins, strict=True):
        shape = shape_of(operand)
        starts = tuple(start if d == op.axis else 0 for d in range(len(shape)))
        count = concats_of(operand)
        in_place = count and fmt is not None and part_offset(whole, fmt.bind(shape), starts) is not None
        moved += prod(shape) * (Fraction(count - 1, count) if in_place else 1)
        start += shape[op.axis]
    return moved / elements
