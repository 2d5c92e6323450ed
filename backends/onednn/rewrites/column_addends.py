"""Columns and single numbers that a Gemm adds, as an op of their own: kernels add rows and whole matrices.

alpha * A * B + beta * C        (alpha * A * B) + beta * C        for a computed C of shape (M, 1), (1,) or ()
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of, is_any
from layout_ir.dialects.nn.tensor_types import shape_of


def split_column_addends(module: ModuleOp) -> None:
    """Takes such addends out of products on f32, in place, where layouts are open."""
    for op in list(module.walk()):
        if (
            isinstance(op, nn.GemmOp)
            and op.c is not None
            and op.beta != 0
            and is_any(op.result.type)
            and dtype_of(op.result.type) == "f32"
            and not isinstance(op.c.owner, nn.ConstantOp)
        ):
            _split(op)


def _split(op: nn.GemmOp) -> None:
    assert op.c is not None
    rows, columns = shape_of(op.result)
    shape = (1, 1, *shape_of(op.c))[-2:]
    if shape[1] == columns and shape[0] in (1, rows):
        return
    ops = InsertedOps(op)
    product = ops.apply(nn.GemmOp, op.a, op.b, alpha=op.alpha, trans_a=op.trans_a, trans_b=op.trans_b)
    addend = op.c if op.beta == 1 else ops.apply(nn.MulOp, op.c, ops.constant(np.array(op.beta)))
    ops.replace(ops.apply(nn.AddOp, product, addend))
