"""In which Formats an op can run that runs in any as long as the dims that it treats specially are not in the way.

A concat of whole blocks joins blocked tensors, a gather along rows does not care how channels lie, and no kernel takes
a mean over pads. What is kept here has a physical form (`passes.physical`) without a transposition.
"""

from __future__ import annotations

from collections.abc import Callable

from layout_ir.algebra.format import Format
from layout_ir.dialects import nn
from layout_ir.passes.selection.options.tensor_formats import cuts_at_blocks, shape_of, widens_at_blocks


def format_filter(op: nn.NNOp) -> Callable[[Format], bool]:
    """Whether the op can run in a Format: which dims it treats specially, and what they must be like."""
    if isinstance(op, nn.ConcatOp):
        return lambda fmt: _concat_keeps(op, fmt)
    if isinstance(op, nn.SliceOp):
        return lambda fmt: _slice_keeps(op, fmt)
    if isinstance(op, nn.PadOp):
        return lambda fmt: _pad_keeps(op, fmt)
    if isinstance(op, nn.ResizeOp):
        old, new = shape_of(op.operands[0]), shape_of(op.result)
        changed = [d for d in range(len(old)) if old[d] != new[d]]
        return lambda fmt: all(fmt.blocks()[d] == 1 for d in changed)
    if isinstance(op, nn.ConvTransposeOp):
        return lambda fmt: _conv_transpose_keeps(op, fmt)
    if isinstance(op, nn.TileOp):
        many = [d for d, count in enumerate(op.repeats) if count != 1]
        return lambda fmt: all(fmt.blocks()[d] == 1 for d in many)
    if isinstance(op, nn.CumSumOp):
        return lambda fmt: fmt.blocks()[op.axis] == 1
    if isinstance(op, nn.GatherOp):
        return lambda fmt: fmt.blocks()[op.axis] == 1
    if isinstance(op, nn.ArgMaxOp | nn.ArgMinOp):
        return lambda fmt: (
            fmt.blocks()[op.axis] == 1 and op.axis not in fmt.bind(shape_of(op.x)).padded_dims()
        )
    if isinstance(op, nn.LayerNormOp | nn.RmsNormOp):
        # A mean over pads is another one.
        return lambda fmt: not set(op.axes).intersection(fmt.bind(shape_of(op.x)).padded_dims())
    if isinstance(op, nn.GroupNormOp):
        return lambda fmt: _group_norm_keeps(op, fmt)
    if isinstance(op, nn.DivOp) and op.pad_reads(1):
        # Integers: a division by a pad ends the program, so there are none.
        return lambda fmt: not fmt.bind(shape_of(op.result)).is_padded
    return lambda fmt: True


def _slice_keeps(op: nn.SliceOp, fmt: Format) -> bool:
    """Whether a slice takes whole blocks of each dim."""
    dims = zip(fmt.blocks(), shape_of(op.operands[0]), op.starts, op.sizes, op.steps, strict=True)
    return all(cuts_at_blocks(*dim) for dim in dims)


def _pad_keeps(op: nn.PadOp, fmt: Format) -> bool:
    """Whether the elements of x stay in their blocks; those of other modes than constant are copies from anywhere."""
    rank = fmt.rank
    dims = zip(fmt.blocks(), shape_of(op.operands[0]), op.pads[:rank], op.pads[rank:], strict=True)
    return all(
        block == 1
        or begin == end == 0
        or (op.mode == "constant" and widens_at_blocks(block, extent, begin, end))
        for block, extent, begin, end in dims
    )


def _concat_keeps(op: nn.ConcatOp, fmt: Format) -> bool:
    """Whether each part of a concat starts at a block of its own."""
    axis = op.axis % fmt.rank
    return all(shape_of(value)[axis] % fmt.blocks()[axis] == 0 for value in op.operands[:-1])


def _conv_transpose_keeps(op: nn.ConvTransposeOp, fmt: Format) -> bool:
    """Whether no dim of space is in blocks, and no channel a pad; groups of several channels need N, C, space."""
    if op.group != 1 and not op.is_depthwise:
        return [factor.dim for factor in fmt.all_factors] == list(range(fmt.rank))
    padded = fmt.bind(shape_of(op.x)).padded_dims()
    return all(block == 1 for block in fmt.blocks()[2:]) and all(dim == 0 for dim in padded)


def _group_norm_keeps(op: nn.GroupNormOp, fmt: Format) -> bool:
    """Whether the dims of a mean have no pads, and each block of channels lies in one group or is whole groups."""
    layout = fmt.bind(shape_of(op.x))
    first = 2 if op.group_size == 1 else 1
    if any(dim >= first for dim in layout.padded_dims()):
        return False
    size = op.group_size
    return all(
        digit.unit >= size or (size % digit.unit == 0 and _divides(size // digit.unit, digit.count))
        for digit in layout.digits[1]
    )


def _divides(number: int, other: int) -> bool:
    """Whether one of the two is a multiple of the other."""
    return number % other == 0 or other % number == 0
