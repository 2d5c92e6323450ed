"""What stands for an op of `nn` on physical dims: one function per class of ops.

Those of windows and matrices are in `ordered_rewrites`.

Each takes a builder, the op, its operands as physical values, and the physical tensor that the result is to be. It
returns a value with the elements of the result in physical dims of its own; the caller brings it to those of the
result, which is nothing where the formats are one. What cannot be written on the dims at hand raises LayoutError: a
transposition that selection did not choose is never added in silence.

Pads are computed along with the elements where an op goes over whole dims. What they then hold is not known, except
where the op is elementwise, for which the verifier has checked what the type of the result promises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import AnyFloat, Float32Type, Float64Type, TensorType
from xdsl.ir import Operation

from layout_ir.algebra.physical import PhysicalDim, PhysicalTensor, row_major
from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from layout_ir.passes.physical import generic_ops
from layout_ir.passes.physical.ordered_rewrites import (
    conv,
    conv_transpose,
    gemm,
    global_pool,
    in_order,
    is_in_order,
    matmul,
    pool,
)
from layout_ir.passes.physical.physical_builder import (
    PhysicalBuilder,
    PhysicalValue,
    unknown_pads,
)

OpRewrite = Callable[[PhysicalBuilder, Any, Sequence[PhysicalValue], PhysicalTensor], PhysicalValue]


# Elementwise ------------------------------------------------------------------------------------------------------


def _elementwise(
    build: PhysicalBuilder, op: nn.ElementwiseOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    return build.nn(op, [build.broadcast(operand, result) for operand in operands], result)


def _expand(
    build: PhysicalBuilder, op: nn.ExpandOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    return build.nn(op, [build.broadcast(operands[0], result)], result, shape=result.shape)


# Along dims -------------------------------------------------------------------------------------------------------


def _reduce(
    build: PhysicalBuilder, op: nn.ReduceOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    (x,) = operands
    reduced = set(op.axes)
    axes = tuple(k for k, place in enumerate(x.tensor.dims) if place.dim in reduced)
    renamed = {
        dim: dim - sum(axis < dim for axis in reduced) * (not op.keepdims)
        for dim in range(len(x.tensor.extents))
    }
    dims = tuple(
        PhysicalDim(renamed[place.dim], 1, 1)
        if place.dim in reduced
        else replace(place, dim=renamed[place.dim])
        for place in x.tensor.dims
        if op.keepdims or place.dim not in reduced
    )
    kept = [dim for dim in renamed if op.keepdims or dim not in reduced]
    lo = tuple(0 if dim in reduced else x.tensor.lo[dim] for dim in kept)
    tensor = PhysicalTensor(result.extents, dims, lo)
    if not isinstance(op, nn.ReduceMeanOp) or not any(x.tensor.is_padded(dim) for dim in reduced):
        return build.nn(op, operands, tensor, axes=axes)
    # Pads are zeros, which add nothing to the sum; but they would count.
    if not isinstance(x.element, AnyFloat):
        raise LayoutError("a mean of integers cannot leave out the pads of its operand")
    total = build.new(nn.ReduceSumOp, operands, tensor, x.element, axes=axes, keepdims=op.keepdims)
    number = math.prod(x.tensor.extents[dim] for dim in reduced)
    return build.new(
        nn.DivOp, [total, generic_ops.constant(build, x.element, (), [number])], tensor, x.element
    )


def _softmax(
    build: PhysicalBuilder,
    op: nn.SoftmaxOp | nn.LogSoftmaxOp,
    operands: Sequence[PhysicalValue],
    result: PhysicalTensor,
) -> PhysicalValue:
    """Writes a softmax along a dim in whole blocks as what it is made of: reductions over all digits of the dim,
    elementwise ops."""
    (x,) = operands
    tensor, places = unknown_pads(x.tensor), x.tensor.places(op.axis)
    if len(places) == 1 or x.tensor.is_padded(op.axis):
        return build.nn(op, operands, tensor, axis=build.place(tensor, op.axis))
    full = TensorType(x.element, x.tensor.shape)
    kept = TensorType(x.element, [1 if k in places else n for k, n in enumerate(x.tensor.shape)])
    reduced: dict[str, Any] = {"axes": places, "keepdims": True, "result_type": kept}
    largest = build.insert(nn.ReduceMaxOp(x.value, **reduced))
    shifted = build.insert(nn.SubOp(x.value, largest, result_type=full))
    powers = build.insert(nn.ExpOp(shifted, result_type=full))
    total = build.insert(nn.ReduceSumOp(powers, **reduced))
    if isinstance(op, nn.LogSoftmaxOp):
        logarithm = build.insert(nn.LogOp(total, result_type=kept))
        return PhysicalValue(build.insert(nn.SubOp(shifted, logarithm, result_type=full)), tensor)
    return PhysicalValue(build.insert(nn.DivOp(powers, total, result_type=full)), tensor)


def _per_channel(
    build: PhysicalBuilder,
    op: nn.LrnOp | nn.BatchNormOp,
    operands: Sequence[PhysicalValue],
    result: PhysicalTensor,
) -> PhysicalValue:
    """An op that looks along dim 1 and at no other: the dims before and behind it are merged into one each."""
    x, *vectors = operands
    vectors = [build.row_major(vector, number) for number, vector in enumerate(vectors, 1)]
    x = build.trimmed(x, 1)
    at, shape = build.place(x.tensor, 1), x.tensor.shape
    if at == 1:
        return build.nn(op, [x, *vectors], unknown_pads(x.tensor))
    merged = row_major((math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])))
    flat = build.nn(op, [build.reshaped(x, merged), *vectors], merged)
    return build.reshaped(flat, unknown_pads(x.tensor))


def _lrn(
    build: PhysicalBuilder, op: nn.LrnOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    """The op where channels lie in one physical dim, else its definition, the sums as a product with a band matrix."""
    (x,) = operands
    if len(x.tensor.places(1)) == 1:
        return _per_channel(build, op, operands, result)
    if not isinstance(x.element, Float32Type | Float64Type):
        raise LayoutError("squares of halves are known for channels without blocks only")
    square = build.new(nn.MulOp, [x, x], unknown_pads(x.tensor), x.element)
    total = generic_ops.windows_of_channels(build, square, op.size)
    for cls, number in ((nn.MulOp, op.alpha / op.size), (nn.AddOp, op.bias), (nn.PowOp, op.beta)):
        factor = generic_ops.constant(build, x.element, (), [number])
        total = build.new(cls, [total, factor], total.tensor, x.element)
    return build.new(
        nn.DivOp, [x, build.reorder(total, unknown_pads(x.tensor))], unknown_pads(x.tensor), x.element
    )


def _axes_norm(
    build: PhysicalBuilder,
    op: nn.LayerNormOp | nn.RmsNormOp,
    operands: Sequence[PhysicalValue],
    result: PhysicalTensor,
) -> PhysicalValue:
    """The op on any dims: all digits of those that it normalizes over, and factors broadcast over the digits of x."""
    x, *parameters = operands
    for axis in op.axes:
        x = build.trimmed(x, axis) if x.tensor.is_padded(axis) else x
    tensor = unknown_pads(x.tensor)
    axes = tuple(k for k, place in enumerate(tensor.dims) if place.dim in op.axes)
    return build.nn(op, [x, *(build.broadcast(p, tensor) for p in parameters)], tensor, axes=axes)


def _group_norm(
    build: PhysicalBuilder, op: nn.GroupNormOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    """In N, C, space the op itself, else a normalization over those digits of the channels that are within a group."""
    if is_in_order(operands, result):
        return in_order(build, op, operands, result)
    x, *vectors = operands
    size = op.group_size
    for dim in range(1 if size > 1 else 2, len(x.tensor.extents)):
        x = build.trimmed(x, dim) if x.tensor.is_padded(dim) else x
    apart = replace(x.tensor, dims=tuple(d for place in x.tensor.dims for d in _cut(place, 1, size)))
    x, natural = build.reshaped(x, apart), unknown_pads(x.tensor)
    spatial = (1,) * (len(natural.extents) - 2)
    factors: list[PhysicalValue] = []
    for number, vector in enumerate(vectors, 1):
        plain = build.row_major(vector, number)
        shaped = build.reshaped(plain, row_major((*plain.tensor.extents, *spatial)))
        factors.append(build.broadcast(shaped, apart))
    axes = tuple(
        k
        for k, place in enumerate(apart.dims)
        if place.dim > 1 or (place.dim == 1 and place.unit * place.count <= size)
    )
    made = build.new(
        nn.LayerNormOp, [x, *factors], unknown_pads(apart), x.element, axes=axes, epsilon=op.epsilon
    )
    return build.reshaped(made, natural)


def _cut(place: PhysicalDim, dim: int, unit: int) -> list[PhysicalDim]:
    """`place`, in two where it is of `dim` and `unit` falls inside of it. Raises LayoutError where that is no cut."""
    inside = place.dim == dim and place.unit < unit < place.unit * place.count
    if not inside:
        return [place]
    if unit % place.unit or (place.unit * place.count) % unit:
        raise LayoutError(f"parts of {unit} in dim {dim} cut through its blocks")
    count = unit // place.unit
    return [PhysicalDim(dim, unit, place.count // count), PhysicalDim(dim, place.unit, count)]


# Other indices ----------------------------------------------------------------------------------------------------


def _concat(
    build: PhysicalBuilder, op: nn.ConcatOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    return concatenated(build, op.axis, operands, result)


def concatenated(
    build: PhysicalBuilder, axis: int, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    """The operands one behind the other in logical dim `axis`, on the physical dims of `result`.

    Raises LayoutError where a part begins inside a block.
    """
    at = result.places(axis)[0]
    unit = result.dims[at].unit
    starts = [sum(x.tensor.extents[axis] for x in operands[:k]) for k in range(len(operands))]
    if any(start % unit for start in starts) or result.lo[axis]:
        raise LayoutError(f"a part begins inside a block of {unit} of dim {axis}")
    parts: list[PhysicalValue] = []
    for x in operands:
        extents = x.tensor.extents
        tensor = unknown_pads(replace(result, extents=extents)).with_dim(axis, -(-extents[axis] // unit), 0)
        parts.append(build.reorder(x, tensor))
    count = sum(part.tensor.dims[at].count for part in parts)
    tensor = unknown_pads(result).with_dim(axis, count, 0)
    return build.new(nn.ConcatOp, parts, tensor, parts[0].element, axis=at)


def _gather(
    build: PhysicalBuilder, op: nn.GatherOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    x = build.single(operands[0], op.axis)
    indices = build.row_major(operands[1], 1)
    at, extents = build.place(x.tensor, op.axis), indices.tensor.extents
    dims: list[PhysicalDim] = []
    lo = list(x.tensor.lo)
    lo[op.axis : op.axis + 1] = [0] * len(extents)
    for place in x.tensor.dims:
        if place.dim == op.axis:
            dims += [PhysicalDim(op.axis + k, 1, extent) for k, extent in enumerate(extents)]
        else:
            dims.append(replace(place, dim=place.dim + (len(extents) - 1) * (place.dim > op.axis)))
    # Pads of the other dims move along with the elements.
    tensor = PhysicalTensor(result.extents, tuple(dims), tuple(lo), x.tensor.pad)
    return build.nn(op, [x, indices], tensor, axis=at)


def _arg_reduce(
    build: PhysicalBuilder,
    op: nn.ArgMaxOp | nn.ArgMinOp,
    operands: Sequence[PhysicalValue],
    result: PhysicalTensor,
) -> PhysicalValue:
    x = build.single(operands[0], op.axis)
    at = build.place(x.tensor, op.axis)
    kept = [place for place in x.tensor.dims if op.keepdims or place.dim != op.axis]
    dims = tuple(
        replace(
            place,
            dim=place.dim - (not op.keepdims and place.dim > op.axis),
            count=1 if place.dim == op.axis else place.count,
        )
        for place in kept
    )
    lo = tuple(low for dim, low in enumerate(x.tensor.lo) if op.keepdims or dim != op.axis)
    return build.nn(op, [x], PhysicalTensor(result.extents, dims, lo), axis=at)


def _slice(
    build: PhysicalBuilder, op: nn.SliceOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    (x,) = operands
    starts, sizes, steps = [0] * len(x.tensor.dims), list(x.tensor.shape), [1] * len(x.tensor.dims)
    tensor = x.tensor
    for dim, extent in enumerate(x.tensor.extents):
        start, size, step = op.starts[dim], op.sizes[dim], op.steps[dim]
        if (start, size, step) == (0, extent, 1):
            continue
        at = x.tensor.places(dim)[0]
        unit = x.tensor.dims[at].unit
        first = start + x.tensor.lo[dim]
        if len(x.tensor.places(dim)) == 1:
            starts[at], sizes[at], steps[at] = first, size, step
        elif step == 1 and first % unit == 0 and (size % unit == 0 or start + size == extent):
            starts[at], sizes[at] = first // unit, -(-size // unit)
        else:
            raise LayoutError(f"it cuts dim {dim} inside a block of {unit}")
        tensor = tensor.with_dim(dim, sizes[at], 0)
    tensor = unknown_pads(replace(tensor, extents=result.extents))
    return build.nn(op, operands, tensor, starts=starts, sizes=sizes, steps=steps)


def _pad(
    build: PhysicalBuilder, op: nn.PadOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    (x,) = operands
    rank = len(x.tensor.extents)
    changed = [dim for dim in range(rank) if op.pads[dim] or op.pads[rank + dim]]
    for dim in changed:
        x = build.trimmed(x, dim)
    tensor, count = x.tensor, len(x.tensor.dims)
    pads = [0] * (2 * count)
    for dim in changed:
        at = build.place(x.tensor, dim)
        pads[at], pads[count + at] = op.pads[dim], op.pads[rank + dim]
        tensor = tensor.with_dim(dim, result.extents[dim], 0)
    return build.nn(op, [x], unknown_pads(replace(tensor, extents=result.extents)), pads=pads)


def _tile(
    build: PhysicalBuilder, op: nn.TileOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    (x,) = operands
    many = [dim for dim, count in enumerate(op.repeats) if count != 1]
    for dim in many:
        x = build.trimmed(x, dim)
    tensor, repeats = x.tensor, [1] * len(x.tensor.dims)
    for dim in many:
        repeats[build.place(x.tensor, dim)] = op.repeats[dim]
        tensor = tensor.with_dim(dim, result.extents[dim], 0)
    # Pads of the other dims are repeated along with the elements.
    return build.nn(op, [x], replace(tensor, extents=result.extents), repeats=repeats)


def _cum_sum(
    build: PhysicalBuilder, op: nn.CumSumOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    x = build.trimmed(operands[0], op.axis)
    return build.nn(op, [x], unknown_pads(x.tensor), axis=build.place(x.tensor, op.axis))


def _resize(
    build: PhysicalBuilder, op: nn.ResizeOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    (x,) = operands
    rank = len(x.tensor.extents)
    changed = [
        dim for dim in range(rank)
        if result.extents[dim] != x.tensor.extents[dim] or (op.scales and op.scales[dim] != 1)
    ]  # fmt: skip
    for dim in changed:
        x = build.trimmed(x, dim)
    tensor, sizes, scales = x.tensor, list(x.tensor.shape), [1.0] * len(x.tensor.dims)
    for dim in changed:
        at = build.place(x.tensor, dim)
        sizes[at] = result.extents[dim]
        scales[at] = op.scales[dim] if op.scales else 1.0
        tensor = tensor.with_dim(dim, sizes[at], 0)
    chosen = {"scales": scales} if op.scales else {"sizes": sizes}
    return build.nn(op, [x], unknown_pads(replace(tensor, extents=result.extents)), **chosen)


REWRITES: dict[type[Operation], OpRewrite] = {
    **{op: _elementwise for op in nn.NN.operations if issubclass(op, nn.ElementwiseOp)},
    nn.ExpandOp: _expand,
    **{op: _reduce for op in nn.NN.operations if issubclass(op, nn.ReduceOp)},
    nn.SoftmaxOp: _softmax,
    nn.LogSoftmaxOp: _softmax,
    nn.LayerNormOp: _axes_norm,
    nn.RmsNormOp: _axes_norm,
    nn.GroupNormOp: _group_norm,
    nn.LrnOp: _lrn,
    nn.BatchNormOp: _per_channel,
    nn.GatherOp: _gather,
    nn.ArgMaxOp: _arg_reduce,
    nn.ArgMinOp: _arg_reduce,
    nn.ConcatOp: _concat,
    nn.SliceOp: _slice,
    nn.PadOp: _pad,
    nn.TileOp: _tile,
    nn.CumSumOp: _cum_sum,
    nn.ResizeOp: _resize,
    nn.ConvOp: conv,
    nn.ConvTransposeOp: conv_transpose,
    nn.MaxPoolOp: pool,
    nn.AvgPoolOp: pool,
    nn.GlobalAvgPoolOp: global_pool,
    nn.GlobalMaxPoolOp: global_pool,
    nn.MatmulOp: matmul,
    nn.GemmOp: gemm,
}
"""Every op of `nn` but the constant."""
