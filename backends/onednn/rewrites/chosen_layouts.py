"""Windows in chosen layouts that this library has no kernel for: they run in another one, between two reorders.

    conv(x, w) : nCw8c     becomes   reorder(conv(reorder(x) : nwc, w) : nwc) : nCw8c

Layouts are chosen by prices and rules that hold for most CPUs. Where the library refuses a choice, the op would run by
the NumPy reference. Measured on a Zen 3, depthwise windows of 15 along one dim, 144 channels of 40: 568 us by the
reference on blocks of 8, 96 by the library on channels last. The measure that falls: ops without a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.builder import Builder
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.algebra.format import Format
from layout_ir.backends.onednn.library import Library
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.backends.onednn.post_op_fusion import single_op_group
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.dialects import nn
from layout_ir.dialects.layout import FormatAttr, ReorderOp, with_format

_WINDOWS = (nn.ConvOp, nn.ConvTransposeOp, nn.MaxPoolOp, nn.AvgPoolOp)


def move_ops_without_kernels(function: FuncOp, library: Library) -> None:
    """Applies the rule above, in place, to ops whose layouts are chosen."""
    values = Values(library)
    for op in list(function.walk()):
        if isinstance(op, _WINDOWS) and single_op_group(op, values).primitive is None:
            _move(op, values)


def _move(op: nn.ConvOp | nn.ConvTransposeOp | nn.MaxPoolOp | nn.AvgPoolOp, values: Values) -> None:
    given = [layout_at_run_time(value.type).format for value in (op.operands[0], op.results[0])]
    for fmt in _formats(given[0].names):
        if given == [fmt, fmt]:
            continue
        build = Builder(InsertPoint.before(op))
        x = build.insert(ReorderOp(op.operands[0], FormatAttr(fmt)))
        result = with_format(op.results[0].type, fmt)
        operands = [x.result, *op.operands[1:]]
        inner = op.create(operands=operands, result_types=[result], properties=dict(op.properties))
        inner.attributes.update(op.attributes)
        build.insert(inner)
        if single_op_group(inner, values).primitive is None:
            Rewriter.erase_op(inner)
            Rewriter.erase_op(x)
            continue
        behind = build.insert(ReorderOp.create(operands=inner.results, result_types=[op.results[0].type]))
        for made in (x, inner, behind):
            made.location = op.location
        op.results[0].replace_all_uses_with(behind.results[0])
        Rewriter.erase_op(op)
        return


def _formats(names: tuple[str, ...]) -> Iterator[Format]:
    """Channels last, then row-major."""
    yield Format.parse(f"({', '.join(names)}) : [{', '.join((names[0], *names[2:], names[1]))}]")
    yield Format.row_major(names)
