"""Layouts in which the library has no kernel for an op are opened: those of the op itself, not of its neighbours.

    conv(x, w) : nChw16c     becomes   reorder(conv(reorder(x) : any, w) : any) : nChw16c

A program whose layouts were chosen for one CPU asks for kernels that another does not have, as for blocks of 16 where
vectors have 8 elements. Two reorders cost little beside a convolution by the NumPy reference. The measure: ops without
a kernel that have one where their operands and results are row-major.
"""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.dialects.builtin import NoneAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.backends.onednn.library import Library
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.backends.onednn.post_op_fusion import single_op_group
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.backends.reference.tensor import is_row_major
from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, ReorderOp, is_any, with_format

_HEAVY = (
    nn.ConvOp, nn.ConvTransposeOp, nn.MatmulOp, nn.GemmOp,
    nn.MaxPoolOp, nn.AvgPoolOp, nn.GlobalMaxPoolOp, nn.GlobalAvgPoolOp,
)  # fmt: skip
"""Ops that there are no compiled loops for; all others run in any layout."""


def open_layouts_without_kernels(function: FuncOp, library: Library) -> None:
    """Applies the rule above, in place, to ops whose layouts are fixed."""
    values = Values(library)
    for op in list(function.walk()):
        if isinstance(op, _HEAVY) and not any(is_any(value.type) for value in (*op.operands, *op.results)):
            _open(op, values)


def _open(op: nn.NNOp, values: Values) -> None:
    if all(map(_is_plain, (*op.operands, *op.results))) or single_op_group(op, values).primitive is not None:
        return
    build = Builder(InsertPoint.before(op))
    reorders = {value: _row_major(value, build) for value in op.operands if not _is_plain(value)}
    plain = [reorders[value].result if value in reorders else value for value in op.operands]
    result = with_format(op.results[0].type, NoneAttr())
    inner = op.create(operands=plain, result_types=[result], properties=dict(op.properties))
    inner.attributes.update(op.attributes)
    inner.location = op.location
    build.insert(inner)
    if single_op_group(inner, values).primitive is None:
        for made in (inner, *reorders.values()):
            Rewriter.erase_op(made)
        return
    for value in (*(reorder.result for reorder in reorders.values()), inner.results[0]):
        Rewriter.replace_value_with_new_type(value, with_format(value.type, AnyAttr()))
    behind = ReorderOp.create(operands=inner.results, result_types=[op.results[0].type])
    behind.location = op.location
    build.insert(behind)
    op.results[0].replace_all_uses_with(behind.results[0])
    Rewriter.erase_op(op)


def _row_major(value: SSAValue, build: Builder) -> ReorderOp:
    """A reorder that makes a row-major tensor of `value`."""
    return build.insert(ReorderOp(value, NoneAttr()))


def _is_plain(value: SSAValue) -> bool:
    """Whether `value` is row-major without pads."""
    layout = layout_at_run_time(value.type)
    return is_row_major(layout) and not layout.is_padded
