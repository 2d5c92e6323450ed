"""Ops whose dims have an order of their own, windows (N, C, space) and matrices (rows, columns), on physical dims.

Such an op stays itself where no transposition brings its operands into that order, nor its result out of it. Else it
is written as loops over the digits of the dims (`generic_ops`), with the bias, sums and factors of the op behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation

from layout_ir.algebra.physical import PhysicalDim, PhysicalTensor, row_major
from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from layout_ir.passes.physical import generic_ops
from layout_ir.passes.physical.physical_builder import (
    PhysicalBuilder,
    PhysicalValue,
    moves_nothing,
)


def in_order(
    build: PhysicalBuilder, op: nn.NNOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    """An op whose dims have a fixed order: N, C, space."""
    build.check_row_major(result)
    plain = [build.row_major(x, number) for number, x in enumerate(operands)]
    return build.nn(op, plain, row_major(result.extents))


def is_in_order(operands: Sequence[PhysicalValue], result: PhysicalTensor) -> bool:
    """Whether no transposition brings the operands into the order of their dims, nor the result out of it."""
    return all(moves_nothing(x.tensor, row_major(x.tensor.extents)) for x in operands) and moves_nothing(
        row_major(result.extents), result
    )


# Windows --------------------------------------------------------------------------------------------------------------


def conv(
    build: PhysicalBuilder, op: nn.ConvOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    """The op, or its loops on digits and the sum with its bias."""
    if is_in_order(operands, result):
        return in_order(build, op, operands, result)
    return _with_bias(build, generic_ops.conv(build, op, operands, result), operands, result)


def conv_transpose(
    build: PhysicalBuilder, op: nn.ConvTransposeOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    """The op, or its loops on digits and the sum with its bias."""
    if is_in_order(operands, result):
        return in_order(build, op, operands, result)
    return _with_bias(build, generic_ops.conv_transpose(build, op, operands, result), operands, result)


def _with_bias(
    build: PhysicalBuilder, y: PhysicalValue, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    """The sum of `y` and the bias per channel that operand 2 is, if there is one, in the element type of operand 0."""
    if len(operands) == 3:
        spatial = (1,) * (len(result.extents) - 2)
        bias = build.row_major(operands[2], 2)
        bias = build.reshaped(bias, row_major((*bias.tensor.extents, *spatial)))
        bias = generic_ops.widened(build, bias, y.element)
        y = build.new(nn.AddOp, [y, build.broadcast(bias, y.tensor)], y.tensor, y.element)
    return generic_ops.narrowed(build, y, operands[0].element)


def pool(
    build: PhysicalBuilder,
    op: nn.MaxPoolOp | nn.AvgPoolOp,
    operands: Sequence[PhysicalValue],
    result: PhysicalTensor,
) -> PhysicalValue:
    """The op, or its loops on digits."""
    if is_in_order(operands, result):
        return in_order(build, op, operands, result)
    return generic_ops.narrowed(build, generic_ops.pool(build, op, operands, result), operands[0].element)


_GLOBAL: dict[type[Operation], type[nn.ReduceOp]] = {
    nn.GlobalAvgPoolOp: nn.ReduceMeanOp,
    nn.GlobalMaxPoolOp: nn.ReduceMaxOp,
}


def global_pool(
    build: PhysicalBuilder, op: nn.GlobalAvgPoolOp | nn.GlobalMaxPoolOp, operands: Sequence[PhysicalValue],
    result: PhysicalTensor,
) -> PhysicalValue:  # fmt: skip
    """A reduction over the spatial dims, wherever they are."""
    if is_in_order(operands, result):
        return in_order(build, op, operands, result)
    (x,) = operands
    spatial = range(2, len(x.tensor.extents))
    for dim in spatial:
        x = build.trimmed(x, dim)
    dims = tuple(
        replace(place, count=1, unit=1) if place.dim in spatial else place for place in x.tensor.dims
    )
    tensor = PhysicalTensor(result.extents, dims, x.tensor.lo)
    axes = tuple(k for k, place in enumerate(x.tensor.dims) if place.dim in spatial)
    return build.new(_GLOBAL[type(op)], [x], tensor, x.element, axes=axes)


# Matrices -------------------------------------------------------------------------------------------------------------


def matmul(
    build: PhysicalBuilder, op: nn.MatmulOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    """The op, nn.gemm where a matrix is there transposed, or its loops on digits."""
    if any(len(x.tensor.extents) != 2 for x in operands):
        if is_in_order(operands, result):
            return in_order(build, op, operands, result)
        y = generic_ops.batched_product(build, operands, result)
        return generic_ops.narrowed(build, y, operands[0].element)
    return _product(build, op, operands, result, alpha=1.0, beta=1.0, transposed=(False, False))


def gemm(
    build: PhysicalBuilder, op: nn.GemmOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    """The op with flags for matrices that are there transposed, or its loops on digits."""
    return _product(
        build, op, operands, result, alpha=op.alpha, beta=op.beta, transposed=(op.trans_a, op.trans_b)
    )


def _product(
    build: PhysicalBuilder, op: nn.MatmulOp | nn.GemmOp, operands: Sequence[PhysicalValue], result: PhysicalTensor,
    *, alpha: float, beta: float, transposed: tuple[bool, bool],
) -> PhysicalValue:  # fmt: skip
    """A product of matrices, each of which may be there transposed: the flags of nn.gemm say so."""
    if not moves_nothing(row_major(result.extents), result) or not all(
        moves_nothing(x.tensor, row_major(x.tensor.extents))
        or (number < 2 and moves_nothing(x.tensor, _turned(x.tensor.extents)))
        for number, x in enumerate(operands)
    ):
        return _blocked_product(build, operands, result, alpha=alpha, beta=beta, transposed=transposed)
    matrices: list[PhysicalValue] = []
    flags: list[bool] = []
    for x, flag in zip(operands, transposed, strict=False):
        plain = row_major(x.tensor.extents)
        turned = not moves_nothing(x.tensor, plain)
        flags.append(flag != turned)
        matrices.append(build.reorder(x, _turned(plain.extents) if turned else plain))
    matrices += [build.row_major(x, number) for number, x in enumerate(operands[2:], 2)]
    tensor, element = row_major(result.extents), operands[0].element
    if isinstance(op, nn.MatmulOp) and not any(flags):
        return build.nn(op, matrices, tensor)
    return build.new(
        nn.GemmOp, matrices, tensor, element, alpha=alpha, beta=beta, trans_a=flags[0], trans_b=flags[1]
    )


def _turned(extents: Sequence[int]) -> PhysicalTensor:
    """A matrix that is there transposed."""
    rows, columns = extents
    return PhysicalTensor((rows, columns), (PhysicalDim(1, 1, columns), PhysicalDim(0, 1, rows)), (0, 0))


def _blocked_product(
    build: PhysicalBuilder, operands: Sequence[PhysicalValue], result: PhysicalTensor, *, alpha: float, beta: float,
    transposed: tuple[bool, bool],
) -> PhysicalValue:  # fmt: skip
    """A product of which a matrix is there in blocks, as loops over the digits."""
    element = operands[0].element
    if not isinstance(element, AnyFloat):
        raise LayoutError("a product of integers is known for matrices without blocks only")
    y = generic_ops.matrix_product(build, operands, result, transposed)
    if alpha != 1:
        factor = generic_ops.constant(build, y.element, (), [alpha])
        y = build.new(nn.MulOp, [y, factor], y.tensor, y.element)
    for c in operands[2:]:
        addend = generic_ops.widened(build, c, y.element)
        if beta != 1:
            factor = generic_ops.constant(build, y.element, (), [beta])
            addend = build.new(nn.MulOp, [addend, factor], addend.tensor, y.element)
        y = build.new(nn.AddOp, [y, build.broadcast(addend, y.tensor)], y.tensor, y.element)
    return generic_ops.narrowed(build, y, element)
