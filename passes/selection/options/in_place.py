"""Options that write a result over an operand: whether the operand's buffer may be overwritten.

An option may say `in_place = [0 -> 0]`: operand 0 and result 0 are one buffer. Then both have one format, and nothing
may read the operand, or a view of it, behind the op. A buffer that others may read later is never overwritten: that of
a constant, of an argument, or of a value from outside of the block. A use in front of the op does no harm. One behind
it does, even if it will need another format, whose reorder would stand in front: which format it needs is not known
yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from layout_ir.diagnostics import name_of_op
from layout_ir.dialects import nn
from layout_ir.dialects.layout import CastOp, FillPadsOp, ReorderOp, ViewOp, dtype_of
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.options.tensor_formats import shape_of

ATTRIBUTE = "layout.in_place"
"""The attribute of an op after selection that has the pairs of its option, as [operand, result]."""

_CARRIERS = {"scf.for", "scf.if", "scf.while", "scf.yield", "scf.condition", "func.call"}
"""Names of ops of control flow, whose results may be the buffers of their operands or of what their regions yield."""

_SAME_BUFFER = (ViewOp, CastOp, FillPadsOp, ReorderOp)


def check_pairs(option: LayoutOption, operands: Sequence[SSAValue], results: Sequence[SSAValue]) -> None:
    """Raises LayoutError where a pair of the option cannot be one buffer. Numbers are among the tensors of the op."""
    for k, r in option.in_place:
        if k >= len(operands) or r >= len(results):
            raise LayoutError(
                f"in_place pairs operand {k} with result {r}: the op has {len(operands)} and {len(results)}"
            )
        source, target = operands[k], results[r]
        if (shape_of(source), dtype_of(source.type)) != (shape_of(target), dtype_of(target.type)):
            raise LayoutError(
                f"in_place pairs {source.type} with {target.type}: shape or element type differ"
            )
        fmt = option.ins[k]
        if fmt is None or not fmt.bind(shape_of(source)).same_store(option.outs[r].bind(shape_of(target))):
            raise LayoutError(
                f"in_place pairs format {fmt or '_'} with {option.outs[r]}: one buffer has one format"
            )
    for side in zip(*option.in_place, strict=True):
        if len(set(side)) != len(side):
            raise LayoutError("in_place names an operand or a result twice")


def obstacle(option: LayoutOption, op: Operation, operands: Sequence[SSAValue]) -> str | None:
    """Why an operand of `op` that the option writes over must be kept, in words; None where all may be overwritten."""
    for k, _ in option.in_place:
        reason = _kept(operands[k], op)
        if reason is not None:
            return f"operand {k} {reason}"
    return None


def _kept(value: SSAValue, op: Operation) -> str | None:
    while isinstance(value.owner, _SAME_BUFFER):
        value = value.owner.operands[0]
    owner = value.owner
    if not isinstance(owner, Operation):
        return "is an argument, whose buffer belongs to someone else"
    if isinstance(owner, nn.ConstantOp):
        return "is a constant"
    if owner.name in _CARRIERS:
        return f"is what {owner.name} gives, which may be the buffer of something else"
    if owner.parent is not op.parent or op.parent is None:
        return "comes from outside of the block"
    same = [value]
    for alias in same:
        for use in alias.uses:
            place = op.parent.find_ancestor_op_in_block(use.operation)
            if place is not op and use.operation.name in _CARRIERS:
                return f"goes through {use.operation.name}, whose results may be the same buffer"
            if isinstance(use.operation, _SAME_BUFFER):
                same.append(use.operation.results[0])
            elif place is not op and (place is None or not place.is_before_in_block(op)):
                return f"is used again by {name_of_op(use.operation)}"
    if sum(operand in same for operand in op.operands) > 1:
        return "is read twice by the op that writes over it"
    return None
