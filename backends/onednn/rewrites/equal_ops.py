"""Ops that compute the same from the same operands are computed once.

    relu(conv(x, w)), tanh(conv(x, w))     becomes   y = conv(x, w); relu(y), tanh(y)

Constants are compared by what they hold: a model that was traced has each of its branches with constants of its own.
Opaque nodes stay, since some of them draw random numbers. The measure: the number of ops.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from layout_ir.dialects import nn
from layout_ir.dialects.layout.layout_op import LayoutDialectOp


def merge_equal_ops(module: ModuleOp) -> None:
    """Applies the rule above, in place, within each block."""
    known: dict[object, Operation] = {}
    for op in list(module.walk()):
        if not isinstance(op, nn.NNOp | LayoutDialectOp) or isinstance(op, nn.ConstantOp | nn.OpaqueOp):
            continue
        key = (
            type(op), op.parent, tuple(map(_identity, op.operands)), tuple(result.type for result in op.results),
            tuple(sorted(op.properties.items())), tuple(sorted(op.attributes.items())),
        )  # fmt: skip
        first = known.setdefault(key, op)
        if first is not op:
            for old, new in zip(op.results, first.results, strict=True):
                old.replace_all_uses_with(new)
            Rewriter.erase_op(op)


def _identity(value: SSAValue) -> object:
    """What two values have in common that are equal whatever the inputs are."""
    op = value.owner
    return (op.value, value.type) if isinstance(op, nn.ConstantOp) else value
