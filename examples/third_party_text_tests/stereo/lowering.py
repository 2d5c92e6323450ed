"""`convert-stereo-to-nn`: the ops of `stereo` as ops of `nn`."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, ModuleOp, TensorType
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from layout_ir.diagnostics import remark
from layout_ir.dialects.nn import AddOp, ConstantOp, MulOp
from stereo.dialect import MidOp


class LowerMid(RewritePattern):
    """(left + right) * 0.5."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MidOp, rewriter: PatternRewriter) -> None:
        type = op.result.type
        assert isinstance(type, TensorType)
        if not isinstance(type.element_type, AnyFloat):
            remark(op, f"stays: the mean of two {type.element_type} is none")
            return
        scalar = TensorType(type.element_type, [])
        half = ConstantOp(DenseIntOrFPElementsAttr.from_list(scalar, [0.5]), scalar)
        total = AddOp(op.left, op.right, result_type=type)
        mean = MulOp(total, half, result_type=type)
        rewriter.replace(op, [half, total, mean])


class ConvertStereoToNn(ModulePass):
    """Lowers `stereo.mid` on floats and says of every other why it stays."""

    name = "convert-stereo-to-nn"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(LowerMid(), apply_recursively=False).rewrite_module(op)
