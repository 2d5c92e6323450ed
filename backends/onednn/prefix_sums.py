"""Sums of all elements up to each, as sums of ever longer pieces: kernels for which neither the library nor loops have.

    s(1) = x        s(2k)[i] = s(k)[i] + s(k)[i - k]        where s(k)[i] is the sum of the k elements up to i

A tensor with n elements along the axis is added to itself log2(n) times, shifted by k (Hillis and Steele, Data parallel
algorithms, 1986).
"""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, dtype_of, is_any, with_format
from layout_ir.dialects.nn.tensor_types import shape_of

_ELEMENTS = ("f32", "i32", "i64")


def decompose_prefix_sums(module: ModuleOp) -> None:
    """Replaces, in place, the prefix sums whose layouts are open by shifts and sums."""
    for op in list(module.walk()):
        if isinstance(op, nn.CumSumOp) and is_any(op.result.type) and dtype_of(op.x.type) in _ELEMENTS:
            build = Builder(InsertPoint.before(op))
            op.result.replace_all_uses_with(_summed(op, build))
            Rewriter.erase_op(op)


def _summed(op: nn.CumSumOp, build: Builder) -> SSAValue:
    def insert(made: nn.NNOp) -> SSAValue:
        made.location = op.location
        result = build.insert(made).results[0]
        return Rewriter.replace_value_with_new_type(result, with_format(result.type, AnyAttr()))

    def shifted(value: SSAValue, count: int) -> SSAValue:
        """`value`, zeros first, `count` later along the axis, or earlier for sums from the end."""
        first, last = (-count, count) if op.reverse else (count, -count)
        pads = [first if dim == op.axis else 0 for dim in range(rank)]
        pads += [last if dim == op.axis else 0 for dim in range(rank)]
        return insert(nn.PadOp(value, pads=pads))

    shape = shape_of(op.x)
    rank = len(shape)
    extent = shape[op.axis]
    if op.exclusive:
        sums = shifted(op.x, min(1, extent))
    else:
        sums = insert(nn.PadOp(op.x, pads=[0] * (2 * rank))) if extent < 2 else op.x
    length = 1
    while length < extent:
        sums = insert(nn.AddOp(sums, shifted(sums, length)))
        length *= 2
    return sums
