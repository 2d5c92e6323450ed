"""Reductions, normalizations, softmax, running sums and arg-reductions as `linalg.generic`s with reduction loops.

The formulas are those of the definitions (`backends/reference`), computed in f32 where elements are halves; sums are
added up one by one, in the order of the loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import IndexType, i64
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr

from layout_ir.dialects import nn
from layout_ir.elements.element_types import element_type
from layout_ir.elements.scalar_type import computed_dtype
from layout_ir.exits.linalg.linalg_builder import Compute, LinalgBuilder, TensorValue, tensor_of
from layout_ir.exits.linalg.scalar_body import Number, Scalar, converted


def _neutral(fold: str, dtype: str) -> Number:
    """The number from which a fold of elements of `dtype` starts."""
    if fold in ("add", "multiply"):
        return int(fold == "multiply")
    known = element_type(dtype)
    if known.is_float:
        return -math.inf if fold == "maximum" else math.inf
    low, high = map(int, known.range)
    return low if fold == "maximum" else high


def _mean_of(total: TensorValue, build: LinalgBuilder, count: int) -> TensorValue:
    number = float(count)
    return build.elementwise(lambda np, x: x / number, total)


def write_reduction(build: LinalgBuilder, op: nn.ReduceOp, operands: list[TensorValue]) -> TensorValue:
    """One fold over the dims, with what is done to each element before and to the total after."""
    (x,) = operands
    count = math.prod(x.shape[axis] for axis in op.axes)
    wide = computed_dtype(x.dtype)
    if isinstance(op, nn.ReduceLogSumExpOp):
        made = _log_sum_exp(build, x, op.axes)
    else:
        made = build.folded(x, op.axes, op.FOLD, _neutral(op.FOLD, x.dtype), each=_EACH.get(type(op)))
        after = _AFTER.get(type(op))
        if after is not None:
            made = build.elementwise(after, made)
        if isinstance(op, nn.ReduceMeanOp) and element_type(wide).is_float:
            made = (
                _mean_of(made, build, count) if count else build.elementwise(lambda np, v: v * math.nan, made)
            )
        elif isinstance(op, nn.ReduceMeanOp) and count:
            made = build.elementwise(
                lambda np, v: converted(converted(v, "f64") / float(count), wide), made, stores=True
            )
    made = build.narrowed(made, x.dtype)
    return build.reshaped(made, op.infer())


_EACH: dict[type[nn.ReduceOp], Compute] = {
    nn.ReduceL1Op: lambda np, x: np.abs(x),
    nn.ReduceSumSquareOp: lambda np, x: x * x,
    nn.ReduceL2Op: lambda np, x: x * x,
}
_AFTER: dict[type[nn.ReduceOp], Compute] = {
    nn.ReduceL2Op: lambda np, x: np.sqrt(x),
    nn.ReduceLogSumOp: lambda np, x: np.log(x),
}


def _log_sum_exp(build: LinalgBuilder, x: TensorValue, axes: Sequence[int]) -> TensorValue:
    largest = build.folded(x, axes, "maximum", -math.inf)
    # An infinite one is its own sum: the difference to itself would be NaN.
    shift = build.elementwise(lambda np, v: np.where(np.abs(v) < math.inf, v, 0.0), largest)
    total = build.folded(x, axes, "add", 0.0, each=lambda np, v, s: np.exp(v - s), with_each=[shift])
    return build.elementwise(lambda np, t, s: np.log(t) + s, total, shift)


def write_global_pool(
    build: LinalgBuilder, op: nn.GlobalAvgPoolOp | nn.GlobalMaxPoolOp, operands: list[TensorValue]
) -> TensorValue:
    """A fold over the spatial dims."""
    (x,) = operands
    spatial = range(2, len(x.shape))
    if isinstance(op, nn.GlobalMaxPoolOp):
        return build.narrowed(build.folded(x, spatial, "maximum", -math.inf), x.dtype)
    total = build.folded(x, spatial, "add", 0.0)
    return build.narrowed(_mean_of(total, build, math.prod(x.shape[2:])), x.dtype)


def write_softmax(
    build: LinalgBuilder, op: nn.SoftmaxOp | nn.LogSoftmaxOp, operands: list[TensorValue]
) -> TensorValue:
    """The largest element is subtracted first so that nothing overflows."""
    (x,) = operands
    largest = build.folded(x, (op.axis,), "maximum", -math.inf)
    total = build.folded(
        x, (op.axis,), "add", 0.0, each=lambda np, v, top: np.exp(v - top), with_each=[largest]
    )
    if isinstance(op, nn.LogSoftmaxOp):
        return build.elementwise(lambda np, v, top, t: v - top - np.log(t), x, largest, total, dtype=x.dtype)
    return build.elementwise(lambda np, v, top, t: np.exp(v - top) / t, x, largest, total, dtype=x.dtype)


# Normalizations ---------------------------------------------------------------------------------------------------


def write_batch_norm(build: LinalgBuilder, op: nn.BatchNormOp, operands: list[TensorValue]) -> TensorValue:
    """One product and one sum per element, of vectors computed first."""
    x, scale, bias, mean, var = operands
    wide, epsilon = computed_dtype(x.dtype), op.epsilon
    factor = build.elementwise(lambda np, s, v: s / np.sqrt(v + epsilon), scale, var, dtype=wide)
    shift = build.elementwise(lambda np, b, m, f: b - m * f, bias, mean, factor, dtype=wide)
    shape = (x.shape[1], *(1,) * (len(x.shape) - 2))
    factors = [build.reshaped(vector, shape) for vector in (factor, shift)]
    return build.elementwise(lambda np, v, f, s: v * f + s, x, *factors, dtype=x.dtype)


def _normalized(
    build: LinalgBuilder, x: TensorValue, factors: Sequence[TensorValue], axes: Sequence[int], epsilon: float, *,
    centered: bool,
) -> TensorValue:  # fmt: skip
    """x over its deviation along `axes`, from the mean if `centered`, times the first factor, plus the second."""
    count = math.prod(x.shape[axis] for axis in axes)
    given: list[TensorValue] = []
    if centered:
        given = [_mean_of(build.folded(x, axes, "add", 0.0), build, count)]

    def distance(v: Scalar, rest: tuple[Scalar, ...]) -> Scalar:
        return v - rest[0] if centered else v

    def square(np: Any, v: Scalar, *rest: Scalar) -> Scalar:
        d = distance(v, rest)
        return d * d

    power = _mean_of(build.folded(x, axes, "add", 0.0, each=square, with_each=given), build, count)

    def compute(np: Any, v: Scalar, p: Scalar, *rest: Scalar) -> Scalar:
        result = distance(v, rest) / np.sqrt(p + epsilon)
        scale, *bias = rest[len(given) :]
        result = result * scale
        return result + bias[0] if bias else result

    return build.elementwise(compute, x, power, *given, *factors, dtype=x.dtype)


def write_axes_norm(
    build: LinalgBuilder, op: nn.LayerNormOp | nn.RmsNormOp, operands: list[TensorValue]
) -> TensorValue:
    """Layer and RMS normalization over any dims."""
    x, *factors = operands
    return _normalized(build, x, factors, op.axes, op.epsilon, centered=isinstance(op, nn.LayerNormOp))


def write_group_norm(build: LinalgBuilder, op: nn.GroupNormOp, operands: list[TensorValue]) -> TensorValue:
    """A normalization over the channels of a group, which become a dim of their own, and space."""
    x, *factors = operands
    size = op.group_size
    apart = build.reshaped(x, (x.shape[0], op.groups, size, math.prod(x.shape[2:])))
    shaped = [build.reshaped(factor, (op.groups, size, 1)) for factor in factors]
    return build.reshaped(_normalized(build, apart, shaped, (2, 3), op.epsilon, centered=True), x.shape)


def write_lrn(build: LinalgBuilder, op: nn.LrnOp, operands: list[TensorValue]) -> TensorValue:
    """Squares, their sums over a window of channels, and the quotient."""
    (x,) = operands
    wide, channels, size = computed_dtype(x.dtype), x.shape[1], op.size
    flat = build.reshaped(x, (x.shape[0], channels, math.prod(x.shape[2:])))
    squares = build.elementwise(lambda np, v: v * v, flat, dtype=wide)
    grown = build.padded(squares, (0, (size - 1) // 2, 0), (0, size // 2, 0), 0)
    total = build.contracted([grown], "n c+k s -> n c s", "add", shape=flat.shape, extents={"k": size})
    alpha, beta, bias = op.alpha / size, op.beta, op.bias
    made = build.elementwise(
        lambda np, v, t: v / np.power(t * alpha + bias, beta), flat, total, dtype=x.dtype
    )
    return build.reshaped(made, x.shape)


# In order ---------------------------------------------------------------------------------------------------------


def write_cum_sum(build: LinalgBuilder, op: nn.CumSumOp, operands: list[TensorValue]) -> TensorValue:
    """A loop over the dim: the sum so far, and the tensor of sums so far."""
    (x,) = operands
    extent, wide = x.shape[op.axis], computed_dtype(x.dtype)
    shape = [1 if d == op.axis else e for d, e in enumerate(x.shape)]
    sums = build.filled(x.shape, wide, 0)
    total = build.filled(shape, wide, 0)
    block = Block(arg_types=[IndexType(), total.value.type, sums.value.type])
    end = scf.YieldOp()
    block.add_op(end)
    first, stop, one = (build.index(n) for n in (0, extent, 1))
    loop = scf.ForOp(first, stop, one, [total.value, sums.value], Region(block))
    build.insert(loop)
    inner = LinalgBuilder(end)
    step, *carried = block.args
    before, so_far = TensorValue(carried[0], wide), TensorValue(carried[1], wide)
    at: SSAValue = step
    if op.reverse:
        at = inner.insert(arith.SubiOp(inner.index(extent - 1), step))
    offsets: list[SSAValue | int] = [at if d == op.axis else 0 for d in range(len(shape))]
    ones = [1] * len(shape)
    piece = inner.insert(tensor.ExtractSliceOp(x.value, offsets, shape, ones, tensor_of(shape, x.dtype)))
    after = inner.elementwise(lambda np, t, v: t + v, before, TensorValue(piece, x.dtype), dtype=wide)
    stored = before if op.exclusive else after
    end.operands = [after.value, inner.placed(stored, so_far, offsets).value]
    return build.narrowed(TensorValue(loop.results[1], wide), x.dtype)


def write_arg_reduction(
    build: LinalgBuilder, op: nn.ArgMaxOp | nn.ArgMinOp, operands: list[TensorValue]
) -> TensorValue:
    """A reduction of two results: the best element so far, and where it was, -1 before the first."""
    (x,) = operands
    wide, axis, is_max = computed_dtype(x.dtype), op.axis, isinstance(op, nn.ArgMaxOp)
    shape = [1 if d == axis else extent for d, extent in enumerate(x.shape)]
    dims = [AffineExpr.dimension(d) for d in range(len(shape))]
    kept = [AffineExpr.constant(0) if d == axis else dims[d] for d in range(len(shape))]

    def body(scalars: Any, stored: SSAValue, value: SSAValue, place: SSAValue) -> list[SSAValue]:
        here = IndexOp(axis)
        number = arith.IndexCastOp(here.result, i64)
        scalars.block.add_ops([here, number])
        v, best = scalars.widened(stored, x.dtype), Scalar(scalars, value, wide)
        at = Scalar(scalars, place, "i64")
        if op.select_last:
            better = v >= best if is_max else v <= best
        else:
            better = v > best if is_max else v < best
        take = (at < 0) | better
        if element_type(wide).is_float:
            # NaN is the best of all.
            is_nan = v != v
            take = take | (is_nan if op.select_last else is_nan & (best == best))
        choose = [
            arith.SelectOp(take.value, new, old) for new, old in ((v.value, value), (number.result, place))
        ]
        scalars.block.add_ops(choose)
        return [each.results[0] for each in choose]

    letters = "".join("r" if d == axis else "p" for d in range(len(shape)))
    inits = [build.filled(shape, wide, 0), build.filled(shape, "i64", -1)]
    _, where = build.generic([(x, dims)], [(init, kept) for init in inits], letters, body)
    return build.reshaped(where, op.infer())
