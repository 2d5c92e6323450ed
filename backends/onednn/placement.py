"""Which values lie in a part of another's buffer from the beginning, so that nothing is moved to join or to split them.

    y = concat(a, b)     a and b are written where they lie in y
    b = slice(x)         b is read where it lies in x

Both ask that the part is laid out like a tensor of its own: contiguous where that is dense, as along the outermost dim
that has more than one element (rows of a matrix, channels of one image in nchw or in blocks). Channels of nhwc are
not: the library's kernels write dense tensors.

A value is joined once: where two concats take it, or one takes it twice, it is moved into the others. Parts of parts
are followed to the buffer in which they all lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.parts import part_offset
from layout_ir.backends.onednn.op_group import VIEWS
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of


@dataclass(frozen=True, slots=True)
class Part:
    """A value that lies in the buffer of `whole`, `offset` elements behind the beginning."""

    whole: SSAValue
    offset: int


def parts_of_concats(ops: Sequence[Operation], values: Values) -> dict[SSAValue, Part]:
    """Where operands of concats may be written instead of a buffer of their own."""
    found: dict[SSAValue, Part] = {}
    for op in ops:
        if not isinstance(op, nn.ConcatOp) or dtype_of(op.result.type) != dtype_of(op.operands[0].type):
            continue
        start = 0
        for operand in op.operands:
            shape = values.layout(operand).shape
            starts = tuple(start if d == op.axis else 0 for d in range(len(shape)))
            offset = part_offset(values.layout(op.result), values.layout(operand), starts)
            if offset is not None and operand not in found and _is_computed(operand):
                found[operand] = Part(op.result, offset)
            start += shape[op.axis]
    return found


def sharing(ops: Sequence[Operation], parts: Mapping[SSAValue, Part]) -> set[SSAValue]:
    """The values whose memory others may have a part of, beyond their own last use."""
    found = {*parts, *(part.whole for part in parts.values())}
    for op in ops:
        if isinstance(op, nn.SliceOp):
            found |= {op.operands[0], op.results[0]}
    return found


def part_of_slice(op: Operation, values: Values) -> Part | None:
    """Where the result of a slice lies in its operand; None where it is laid out otherwise."""
    if not isinstance(op, nn.SliceOp) or any(step != 1 for step in op.steps):
        return None
    source = op.operands[0]
    offset = part_offset(values.layout(source), values.layout(op.result), op.starts)
    return None if offset is None else Part(source, offset)


def _is_computed(value: SSAValue) -> bool:
    """Whether an op writes the value: no argument, no constant, no view of another value."""
    return isinstance(value.owner, Operation) and not isinstance(
        value.owner, (nn.ConstantOp, nn.SliceOp, *VIEWS)
    )
