"""Reorders move behind elementwise ops, which then join the op that computes their operand.

    relu(reorder(conv(x)))     becomes   reorder(relu(conv(x)))

By its price an elementwise op may as well stand on the other side of a reorder, where it is a step of its own; as a
post-op, or as a part of a loop, it costs next to nothing. The measure: elementwise ops behind reorders of what a
convolution, a product or another elementwise op computes.
"""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, dtype_of, encoding_of, with_format
from layout_ir.passes.fold_reorders import fold_reorders
from layout_ir.passes.selection.costs.moved_share import JOINED


def sink_reorders(module: ModuleOp) -> None:
    """Applies the rule above, in place, to a module whose layouts are chosen; reorders that meet become one."""
    if sum(_sinks(op) for op in list(module.walk()) if isinstance(op, nn.ElementwiseOp)):
        fold_reorders(module, rewrites=())


def _sinks(op: nn.ElementwiseOp) -> bool:
    """Whether `op` was moved in front of a reorder."""
    # What is broadcast may lie as it likes.
    full = op.formatted_operands()
    reorder = full[0].owner if len(full) == 1 else None
    if not isinstance(reorder, ReorderOp) or not reorder.keeps_elements:
        return False
    source = reorder.input
    if not isinstance(source.owner, JOINED) or not source.has_one_use() or not reorder.result.has_one_use():
        return False
    if layout_at_run_time(source.type).is_padded or dtype_of(source.type) != dtype_of(op.result.type):
        # Pads would have to hold what the op makes of them, and the bytes that are moved be others.
        return False
    build = Builder(InsertPoint.before(op))
    operands = [source if value is reorder.result else value for value in op.operands]
    type = with_format(op.result.type, encoding_of(source.type))
    made = op.create(operands=operands, result_types=[type], properties=dict(op.properties))
    made.location = op.location
    build.insert(made)
    after = ReorderOp.create(
        operands=made.results, result_types=[op.result.type], properties=dict(reorder.properties)
    )
    after.location = reorder.location
    build.insert(after)
    op.result.replace_all_uses_with(after.results[0])
    Rewriter.erase_op(op)
    Rewriter.erase_op(reorder)
    return True
