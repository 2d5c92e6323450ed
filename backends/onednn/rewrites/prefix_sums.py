"""Sums of all elements up to each, as sums of ever longer pieces: the library has no primitive for them.

    s(1) = x        s(2k)[i] = s(k)[i] + s(k)[i - k]        where s(k)[i] is the sum of the k elements up to i

A tensor with n elements along the axis is added to itself log2(n) times, shifted by k (Hillis and Steele, Data parallel
algorithms, 1986).
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReshapeOp, dtype_of, is_any
from layout_ir.dialects.nn.tensor_types import shape_of

_ELEMENTS = ("f32", "i32", "i64")


def decompose_prefix_sums(module: ModuleOp) -> None:
    """Replaces, in place, the prefix sums whose layouts are open by shifts and sums."""
    for op in list(module.walk()):
        if isinstance(op, nn.CumSumOp) and is_any(op.result.type) and dtype_of(op.x.type) in _ELEMENTS:
            _decompose(op)


def _decompose(op: nn.CumSumOp) -> None:
    ops = InsertedOps(op)
    shape = shape_of(op.x)
    rank, extent = len(shape), shape[op.axis]

    def shifted(value: SSAValue, count: int) -> SSAValue:
        """`value`, zeros first, `count` later along the axis, or earlier for sums from the end."""
        first, last = (-count, count) if op.reverse else (count, -count)
        pads = [first if dim == op.axis else 0 for dim in range(rank)]
        pads += [last if dim == op.axis else 0 for dim in range(rank)]
        return ops.apply(nn.PadOp, value, pads=pads)

    sums = shifted(op.x, min(1, extent)) if op.exclusive else op.x
    length = 1
    while length < extent:
        sums = ops.apply(nn.AddOp, sums, shifted(sums, length))
        length *= 2
    ops.replace(ops.insert(ReshapeOp(sums, shape)) if sums is op.x else sums)
