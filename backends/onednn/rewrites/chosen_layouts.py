"""Ops in layouts that this library has no kernel for run in others, between reorders.

    conv(x, w) : nCw8c     becomes   reorder(conv(reorder(x) : nwc, w) : nwc) : nCw8c

Layouts are chosen by prices and rules that hold for most CPUs, or were chosen for another one, as blocks of 16 channels
where vectors have 8 elements. What the library refuses would run by the NumPy reference. Measured on a
Zen 3, depthwise windows of 15 along one dim, 144 channels of 40: 568 us by the reference on blocks of 8, 96 by the
library on channels last. Pools are moved as well where the library has only code that takes element after element, and
there is no loop (`has_row_pool`): over 64 channels of 56x56, windows of 3x3 took 3150 us row-major, 142 on channels
last with both reorders. A concat whose parts begin within a block, or that has pads itself, is joined in channels last
and moved from there. The measure that falls: ops without a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.builder import Builder
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.backends.onednn.library import Library
from layout_ir.backends.onednn.op_group import single_op_group
from layout_ir.backends.onednn.op_loops import has_row_pool
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.dialects import nn
from layout_ir.dialects.layout import FormatAttr, ReorderOp, with_format
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.options.conv_kernels import activation

_POOLS = (nn.MaxPoolOp, nn.AvgPoolOp, nn.GlobalMaxPoolOp, nn.GlobalAvgPoolOp)
_WINDOWS = (nn.ConvOp, nn.ConvTransposeOp, *_POOLS)
_PRODUCTS = (nn.MatmulOp, nn.GemmOp)
"""With windows, the ops that there are no compiled loops for, or but for some layouts: all others run in any."""


def move_ops_without_kernels(function: FuncOp, library: Library) -> None:
    """Applies the rule above, in place, to ops whose layouts are chosen."""
    values = Values(library)
    for op in list(function.walk()):
        if isinstance(op, (*_WINDOWS, *_PRODUCTS)) and not _has_kernel(op, values):
            _move(op, values)
        elif isinstance(op, nn.ConcatOp) and not _is_joined_by_moves(op):
            _join_elsewhere(op)


def _has_kernel(op: nn.NNOp, values: Values) -> bool:
    """Whether there is a kernel for `op` in its layouts: for a pool, one that takes several elements at once."""
    if has_row_pool(op):
        return True
    group = single_op_group(op, values)
    if not isinstance(op, _POOLS) or group.descriptor is None:
        return group.primitive is not None
    return group.descriptor.is_vectorized


def _is_joined_by_moves(op: nn.ConcatOp) -> bool:
    """Whether each part of a concat can be moved to where it lies in the result."""
    result, start = layout_at_run_time(op.result.type), 0
    if result.is_padded:
        return False
    for operand in op.operands:
        shape = layout_at_run_time(operand.type).shape
        try:
            result.slice(tuple(start if dim == op.axis else 0 for dim in range(result.rank)), shape)
        except LayoutError:
            return False
        start += shape[op.axis]
    return True


def _join_elsewhere(op: nn.ConcatOp) -> None:
    """Joins the parts of a concat in channels last, where there are channels, else row-major."""
    layout = layout_at_run_time(op.result.type)
    # Of any number of dims: a transposed convolution by phases joins its results in more than five.
    order = [0, *range(2, layout.rank), 1] if layout.rank > 2 else range(layout.rank)
    fmt = Format(layout.names, tuple(map(Factor, order)))
    build = Builder(InsertPoint.before(op))
    inner = op.create(
        operands=op.operands,
        result_types=[with_format(op.result.type, fmt)],
        properties=dict(op.properties),
    )
    inner.attributes.update(op.attributes)
    build.insert(inner)
    behind = build.insert(ReorderOp.create(operands=inner.results, result_types=[op.result.type]))
    inner.location = behind.location = op.location
    op.result.replace_all_uses_with(behind.results[0])
    Rewriter.erase_op(op)


def _move(op: nn.NNOp, values: Values) -> None:
    tensors = (*op.operands, op.results[0])
    for formats in _formats(op):
        if all(map(_lies_in, tensors, formats)):
            continue
        build = Builder(InsertPoint.before(op))
        reorders = {
            value: build.insert(ReorderOp(value, FormatAttr(fmt)))
            for value, fmt in zip(op.operands, formats, strict=False)
            if not _lies_in(value, fmt)
        }
        operands = [reorders[value].result if value in reorders else value for value in op.operands]
        result = with_format(op.results[0].type, formats[-1])
        inner = op.create(operands=operands, result_types=[result], properties=dict(op.properties))
        inner.attributes.update(op.attributes)
        build.insert(inner)
        if not _has_kernel(inner, values):
            for made in (inner, *reorders.values()):
                Rewriter.erase_op(made)
            continue
        behind = build.insert(ReorderOp.create(operands=inner.results, result_types=[op.results[0].type]))
        for made in (*reorders.values(), inner, behind):
            made.location = op.location
        op.results[0].replace_all_uses_with(behind.results[0])
        Rewriter.erase_op(op)
        return


def _formats(op: nn.NNOp) -> Iterator[Sequence[Format]]:
    """The formats of operands and result: channels last, where there are channels, then row-major."""
    x, *others = [Format.row_major(layout_at_run_time(v.type).names) for v in (*op.operands, op.results[0])]
    if isinstance(op, _WINDOWS):
        last = activation(x.rank - 2, "nSc")
        yield last, *others[:-1], last
    yield x, *others


def _lies_in(value: SSAValue, fmt: Format) -> bool:
    """Whether `value` lies in a Format without pads."""
    layout = layout_at_run_time(value.type)
    return not layout.is_padded and fmt.bind(layout.shape).same_map(layout)
