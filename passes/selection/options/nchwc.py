"""The blocked kernels of ONNX Runtime as a target: what they accept, and nothing else.

    convolution    f32, two spatial dims, constant weights; blocked output. Input in nchw where there are fewer
                   channels than a block, else blocked, where the channels are a multiple of 4; depthwise of a
                   multiple of 4; groups of whole blocks
    pools          channels a multiple of the block
    relu, sigmoid, tanh, hard_sigmoid, batch_norm    any blocked tensor
    add, mul       two blocked tensors of one shape
    mul            by a constant per channel: it becomes a depthwise convolution
    concat         of channels, every part a multiple of the block
    resize         up, by whole factors of the spatial dims

Everything else is row-major, an add of a [C,1,1] constant above all. The table is what version 1.31 does to models of
one op; `tests/passes/selection/options/test_nchwc.py` asks the installed version again. A convolution that the blocked
kernels accept never runs in row-major: the comparison is about where reorders go, not about slower kernels. Constants
per channel that are multiplied or added right behind a convolution vanish into its weights, as ONNX Runtime folds
them before it looks at layouts; such ops run in whatever the convolution gives.

The block is one vector of floats: 16 where the processor has AVX-512, 8 otherwise. A fully connected layer behind a
blocked tensor needs it in row-major: packing its weights in another order is no kernel of ONNX Runtime. Views look at
row-major bytes; where a blocked tensor has the same bytes (one element per channel), that costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, ViewOp, dtype_of, is_tensor
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.options.conv_kernels import (
    ConvKernel,
    ConvShape,
    Target,
    activation,
    blocked_kernels,
    row_major_kernel,
)
from layout_ir.passes.selection.options.tensor_formats import bound, shape_of

_ANY_BLOCKED = (nn.ReluOp, nn.SigmoidOp, nn.TanhOp, nn.HardSigmoidOp, nn.BatchNormOp)
_POOLS = (nn.MaxPoolOp, nn.AvgPoolOp, nn.GlobalAvgPoolOp, nn.GlobalMaxPoolOp)

ALIGNMENT = 4
"""Channels of a blocked input are a multiple of this; its reorders move so many at a time."""


def target(block: int) -> Target:
    """The target with blocks of `block` channels."""

    def conv_kernels(conv: ConvShape) -> Iterator[ConvKernel]:
        if conv.dtype == "f32" and conv.spatial_rank == 2:
            row_major = activation(2, "ncS")
            direct = conv.group == 1 and conv.channels < block
            for kernel in blocked_kernels(conv, block, 80):
                if (kernel.x == row_major) == direct and (direct or conv.channels % ALIGNMENT == 0):
                    yield kernel
        yield row_major_kernel(conv, 60)

    def refine(op: Operation, options: Iterable[LayoutOption]) -> Iterable[LayoutOption]:
        return _refine(op, options, block)

    return Target(
        f"ort-nchwc{block}", f"blocked kernels of ONNX Runtime, {block} channels", conv_kernels, refine
    )


def _refine(op: Operation, options: Iterable[LayoutOption], block: int) -> Iterable[LayoutOption]:
    if isinstance(op, nn.ConstantOp | ReorderOp):
        return options
    if isinstance(op, ViewOp):
        return [option for option in options if _starts_plain(op.input, option.ins[0])]
    if isinstance(op, nn.ConvOp):
        kept = list(options)
        constant = all(isinstance(value.owner, nn.ConstantOp) for value in op.operands[1:])
        blocked = [option for option in kept if not _is_plain(option.outs[0], op.result)]
        return blocked if constant and blocked else [option for option in kept if option not in blocked]
    accepts = _accepts_blocked(op, block)
    return [option for option in options if _all(op, option, accepts, block)]


def _all(op: Operation, option: LayoutOption, accepts: bool, block: int) -> bool:
    values = [*(v for v in op.operands if is_tensor(v.type)), *op.results]
    formats = [*option.ins, *option.outs]
    for value, fmt in zip(values, formats, strict=True):
        if fmt is None or _is_plain(fmt, value):
            continue
        if not accepts or len(fmt.names) != 4 or not _same(fmt, activation(2, "ncS", ("c", block)), value):
            return False
    return True


def _accepts_blocked(op: Operation, block: int) -> bool:
    if not isinstance(op, nn.NNOp) or dtype_of(op.result.type) != "f32" or len(shape_of(op.result)) != 4:
        return False
    if isinstance(op, _ANY_BLOCKED):
        return True
    if isinstance(op, _POOLS):
        return shape_of(op.operands[0])[1] % block == 0
    if isinstance(op, nn.AddOp | nn.MulOp):
        if shape_of(op.operands[0]) == shape_of(op.operands[1]):
            return True
        return _is_folded(op) or (isinstance(op, nn.MulOp) and _scaled(op, scalars=False) is not None)
    if isinstance(op, nn.ConcatOp):
        return op.axis % 4 == 1 and all(shape_of(value)[1] % block == 0 for value in op.operands)
    if isinstance(op, nn.ResizeOp):
        return _is_upsampling(op)
    return False


def _scaled(op: nn.AddOp | nn.MulOp, *, scalars: bool) -> SSAValue | None:
    """The tensor of an op whose other operand is a constant per channel (or one for all), or None."""
    for data, other in (tuple(op.operands), tuple(op.operands)[::-1]):
        if isinstance(other.owner, nn.ConstantOp) and len(shape_of(data)) == 4:
            channels = shape_of(data)[1]
            if shape_of(other) in ((channels, 1, 1), (1, channels, 1, 1), *(((), (1,)) if scalars else ())):
                return data
    return None


def _is_folded(op: nn.AddOp | nn.MulOp) -> bool:
    """Whether the op vanishes into the convolution before it: constants between them, and no other use."""
    data: SSAValue = op.result
    while isinstance(data.owner, nn.AddOp | nn.MulOp):
        before = _scaled(data.owner, scalars=True)
        if before is None or len(list(before.uses)) != 1:
            return False
        data = before
    return isinstance(data.owner, nn.ConvOp)


def _is_upsampling(op: nn.ResizeOp) -> bool:
    before, after = shape_of(op.operands[0]), shape_of(op.result)
    whole = before[:2] == after[:2] and all(b % a == 0 for a, b in zip(before[2:], after[2:], strict=True))
    nearest = op.coordinates == "asymmetric" and op.nearest_mode == "floor"
    return whole and (op.mode == "linear" or nearest)


def _starts_plain(value: SSAValue, fmt: Format | None) -> bool:
    """Whether a view looks at row-major bytes, or at another view of such."""
    return fmt is None or isinstance(value.owner, ViewOp) or _is_plain(fmt, value)


def _is_plain(fmt: Format, value: SSAValue) -> bool:
    return _same(fmt, Format.row_major(fmt.names), value)


def _same(fmt: Format, other: Format, value: SSAValue) -> bool:
    """Whether both Formats put every element of `value` at the same address; False where one does not fit it."""
    one, two = bound(fmt, value), bound(other, value)
    return one is not None and two is not None and one.same_map(two)
