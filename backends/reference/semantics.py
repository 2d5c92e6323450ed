"""The reference semantics of `layout` and `nn`: one table from op to a function in NumPy.

A value is a `Tensor`. An entry of the table is a function of the op and its operand tensors that returns the result:

* elementwise ops apply their function to the whole padded box, so the result's pads hold its values of their pads;
* all others compute the elements and leave 0 in the pads; dims that they reduce over they read with the pads.

Pads of a result whose policy is undef are poisoned, so that a program that reads them has wrong results. A value of
type `any` is dense and row-major: any layout is right for a program in which nothing is chosen yet.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation

from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import pad_after
from layout_ir.backends.reference import array_ops, window_ops
from layout_ir.backends.reference.conversions import converted
from layout_ir.backends.reference.operands import aligned, contracted, elements, grouped, reduced
from layout_ir.backends.reference.tensor import Tensor, interior, policy_element, same_box
from layout_ir.dialects import layout, nn
from layout_ir.dialects.layout import dtype_of, is_any, layout_of, strip_type
from layout_ir.dialects.nn.constant import element_size
from layout_ir.dialects.nn.source_positions import resize_scales
from layout_ir.elements.numpy_types import Array, convert, narrow, storage, stored_number, widen
from layout_ir.errors import LayoutError

Semantics = Callable[..., Tensor]
"""(op, *operands) -> result."""


def layout_at_run_time(type: Attribute) -> Layout:
    """The layout in which the interpreter keeps a tensor of this type. Raises LayoutError for an opaque one."""
    return layout_of(strip_type(type) if is_any(type) else type)


def _computed_result(op: Operation, values: Array) -> Tensor:
    """The result of `op` from its elements in the type they were computed in; pads hold 0."""
    return stored_result(op, narrow(values, dtype_of(op.results[0].type)))


def stored_result(op: Operation, stored: Array) -> Tensor:
    """The result of `op` from its stored elements; pads hold 0."""
    type = op.results[0].type
    dtype = dtype_of(type)
    return Tensor.store(stored, layout_at_run_time(type), dtype, stored_number(0, dtype))


# Elementwise ------------------------------------------------------------------------------------------------------


def _elementwise(op: nn.ElementwiseOp, *operands: Tensor) -> Tensor:
    type = op.result.type
    dtype, layout = dtype_of(type), layout_at_run_time(type)
    policy_holds = layout.pad != "undef" or not layout.is_padded
    plain = layout.is_dense() and layout.swizzle is None
    if policy_holds and plain and all(same_box(operand.layout, layout) for operand in operands):
        # One dense box for all: it does not matter where its positions are.
        result = Tensor.blank(layout, dtype)
        values = op.compute(np, *(widen(operand.physical(), operand.dtype) for operand in operands))
        result.physical()[...] = narrow(values, dtype)
        return result
    values = op.compute(np, *(widen(aligned(operand, layout), operand.dtype) for operand in operands))
    box = np.broadcast_to(narrow(values, dtype), layout.padded_shape)
    return Tensor.store_box(box, layout, dtype)


def _cast(op: nn.CastOp, operand: Tensor) -> Tensor:
    target = dtype_of(op.result.type)
    layout = layout_at_run_time(op.result.type)
    box = convert(aligned(operand, layout), operand.dtype, target, rounding="truncate")
    return Tensor.store_box(box, layout, target)


# Matrices and windows ---------------------------------------------------------------------------------------------


def _conv(op: nn.ConvOp, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    data, weights = contracted(x, 1, w, 1) if op.group == 1 else grouped(x, w, op.group)
    sliding = window_ops.Window(w.shape[2:], op.strides, op.pads, op.dilations)
    return _computed_result(
        op, window_ops.conv(data, weights, None if b is None else elements(b), sliding, op.group)
    )


def _conv_transpose(op: nn.ConvTransposeOp, *operands: Tensor) -> Tensor:
    """A convolution over x with zeros between and around its elements, with the kernel backwards."""
    x, w, *bias = map(elements, operands)
    rank = x.ndim - 2
    apart = np.zeros(
        (*x.shape[:2], *((e - 1) * s + 1 for e, s in zip(x.shape[2:], op.strides, strict=True))), x.dtype
    )
    apart[(slice(None), slice(None), *(slice(None, None, s) for s in op.strides))] = x
    borders = [(0, 0), (0, 0), *op.borders()]
    grown = array_ops.pad(
        apart, [side for ends in zip(*borders, strict=True) for side in ends], "constant", 0
    )
    grouped_weights = w.reshape(op.group, -1, *w.shape[1:]).swapaxes(1, 2)
    weights = np.flip(grouped_weights.reshape(-1, *grouped_weights.shape[2:]), tuple(range(2, rank + 2)))
    sliding = window_ops.Window(w.shape[2:], (1,) * rank, (0,) * (2 * rank), op.dilations)
    return _computed_result(op, window_ops.conv(grown, weights, bias[0] if bias else None, sliding, op.group))


def _matmul(op: nn.MatmulOp, a: Tensor, b: Tensor) -> Tensor:
    left, right = contracted(a, len(a.shape) - 1, b, max(len(b.shape) - 2, 0))
    return _computed_result(op, array_ops.matmul(left, right))


def _gemm(op: nn.GemmOp, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    left, right = contracted(a, 0 if op.trans_a else 1, b, 1 if op.trans_b else 0)
    addend = None if c is None else elements(c)
    values = array_ops.gemm(
        left, right, addend, alpha=op.alpha, beta=op.beta, trans_a=op.trans_a, trans_b=op.trans_b
    )
    return _computed_result(op, values)


def _max_pool(op: nn.MaxPoolOp, x: Tensor) -> Tensor:
    sliding = window_ops.Window(op.kernel, op.strides, op.pads, op.dilations)
    return _computed_result(op, window_ops.max_pool(elements(x), sliding, op.infer()[2:]))


def _avg_pool(op: nn.AvgPoolOp, x: Tensor) -> Tensor:
    sliding = window_ops.Window(op.kernel, op.strides, op.pads, op.dilations)
    counts = op.infer()[2:]
    return _computed_result(
        op, window_ops.avg_pool(elements(x), sliding, counts, count_include_pad=op.count_include_pad)
    )


def _global_avg_pool(op: nn.GlobalAvgPoolOp, x: Tensor) -> Tensor:
    data, spatial = elements(x), tuple(range(2, len(x.shape)))
    total = np.sum(data, axis=spatial, keepdims=True)
    return _computed_result(op, total / data.dtype.type(prod(x.shape[2:])))


def _global_max_pool(op: nn.GlobalMaxPoolOp, x: Tensor) -> Tensor:
    spatial = tuple(range(2, len(x.shape)))
    return _computed_result(op, np.max(elements(x), axis=spatial, keepdims=True, initial=-np.inf))


# Reductions and normalizations ------------------------------------------------------------------------------------


def _reduce(op: nn.ReduceOp, x: Tensor) -> Tensor:
    return _computed_result(op, op.compute(np, reduced(x, op.axes)))


def _along(dim: Callable[[Any], int], function: Callable[[Any, Array], Array]) -> Semantics:
    """Semantics of an op that keeps the shape and reads the pads of one dim; `function` gets the op and that box."""

    def run(op: nn.NNOp, x: Tensor) -> Tensor:
        axis = dim(op)
        inside = interior(x.layout)[axis]
        values = function(op, reduced(x, {axis}))
        return _computed_result(op, values[(slice(None),) * axis + (inside,)])

    return run


def _batch_norm(op: nn.BatchNormOp, *operands: Tensor) -> Tensor:
    x, scale, bias, mean, var = map(elements, operands)
    return _computed_result(op, array_ops.batch_norm(np, x, scale, bias, mean, var, op.epsilon))


def _axes_norm(op: nn.LayerNormOp | nn.RmsNormOp, *operands: Tensor) -> Tensor:
    x, scale, *bias = map(elements, operands)
    centered = isinstance(op, nn.LayerNormOp)
    values = array_ops.layer_norm(
        np, x, scale, bias[0] if bias else None, op.axes, op.epsilon, centered=centered
    )
    return _computed_result(op, values)


def _group_norm(op: nn.GroupNormOp, *operands: Tensor) -> Tensor:
    x, scale, bias = map(elements, operands)
    return _computed_result(op, array_ops.group_norm(np, x, scale, bias, op.groups, op.epsilon))


# Shapes -----------------------------------------------------------------------------------------------------------


def _gather(op: nn.GatherOp, x: Tensor, indices: Tensor) -> Tensor:
    numbers, extent = indices.logical(), x.shape[op.axis]
    wrong = numbers[(numbers < -extent) | (numbers >= extent)]
    if wrong.size:
        raise LayoutError(
            f"index {wrong.flat[0]} of nn.gather is not in {-extent}..{extent - 1}, dim {op.axis}"
        )
    return stored_result(op, np.take(x.logical(), numbers, axis=op.axis))


def _arg_reduce(op: nn.ArgMaxOp | nn.ArgMinOp, x: Tensor) -> Tensor:
    data = elements(x)
    function = np.argmax if isinstance(op, nn.ArgMaxOp) else np.argmin
    values = function(np.flip(data, op.axis) if op.select_last else data, axis=op.axis, keepdims=op.keepdims)
    return stored_result(op, (x.shape[op.axis] - 1 - values if op.select_last else values).astype(np.int64))


def _concat(op: nn.ConcatOp, *operands: Tensor) -> Tensor:
    return stored_result(op, np.concatenate([operand.logical() for operand in operands], axis=op.axis))


def _pad(op: nn.PadOp, x: Tensor) -> Tensor:
    return stored_result(op, array_ops.pad(x.logical(), op.pads, op.mode, stored_number(op.value, x.dtype)))


def _tile(op: nn.TileOp, x: Tensor) -> Tensor:
    return stored_result(op, np.tile(x.logical(), op.repeats))


def _cum_sum(op: nn.CumSumOp, x: Tensor) -> Tensor:
    values = array_ops.cum_sum(elements(x), op.axis, exclusive=op.exclusive, reverse=op.reverse)
    return _computed_result(op, values)


def _slice(op: nn.SliceOp, x: Tensor) -> Tensor:
    return stored_result(op, array_ops.slice_elements(x.logical(), op.starts, op.sizes, op.steps))


def _resize(op: nn.ResizeOp, x: Tensor) -> Tensor:
    scales = resize_scales(x.shape, op.sizes, op.scales)
    values = array_ops.resize(elements(x), op.infer(), scales, op.mode, op.coordinates, op.nearest_mode)
    return _computed_result(op, values)


def _constant(op: nn.ConstantOp) -> Tensor:
    type = op.result.type
    dtype, target = dtype_of(type), layout_at_run_time(type)
    stored = literal_array(op)
    if stored.size == 1 and not target.is_padded and target.is_dense() and target.extent == target.span > 1:
        # One element for all needs no more memory in any order.
        return Tensor(np.broadcast_to(stored.reshape(-1), (target.extent,)), target, dtype)
    return Tensor.store(np.broadcast_to(stored, target.shape), target, dtype)


def literal_array(op: nn.ConstantOp) -> Array:
    """Stored elements of a constant in its logical shape, or a scalar where all are one element; read-only.

    Raises LayoutError if the values were left out when the program was printed.
    """
    dtype = dtype_of(op.result.type)
    data = op.literal.data.data
    kind = storage(dtype)
    stored = np.frombuffer(data, kind.newbyteorder("<")).astype(kind, copy=False)
    whole = len(data) == element_size(op.infer_element()) * prod(op.infer())
    return stored.reshape(op.infer()) if whole else stored.reshape(())


# Layouts ----------------------------------------------------------------------------------------------------------


def _reorder(op: layout.ReorderOp, x: Tensor) -> Tensor:
    type, conversion = op.result.type, op.conversion
    target, dtype = layout_at_run_time(type), dtype_of(type)
    pads, policy = None, pad_after(target.pad, conversion)
    if policy != target.pad:
        pads = np.asarray(policy).astype(storage(dtype))
    return Tensor.store(converted(x.logical(), conversion), target, dtype, pads)


def _stored_anew(type: Attribute, x: Tensor) -> Tensor:
    """The elements of `x` in the layout of `type`, for ops one side of which is still `any`."""
    return Tensor.store(x.logical(), layout_at_run_time(type), x.dtype)


def _fill_pads(op: layout.FillPadsOp, x: Tensor) -> Tensor:
    target = layout_at_run_time(op.result.type)
    if is_any(op.result.type) or is_any(op.input.type):
        return _stored_anew(op.result.type, x)
    result = Tensor(x.buffer.copy(), target, x.dtype)
    box = np.full(target.padded_shape, policy_element(target, x.dtype), x.buffer.dtype)
    box[interior(target)] = x.logical()
    result.write_box(box)
    return result


def _layout_cast(op: layout.CastOp, x: Tensor) -> Tensor:
    if op.is_open:
        return _stored_anew(op.result.type, x)
    return Tensor(x.buffer, layout_of(op.result.type), x.dtype)


def _view(function: Callable[[Any, Array], Array]) -> Semantics:
    """Semantics of a view: the result shares the buffer; without layouts, `function` of the op and the elements."""

    def run(op: layout.ViewOp, x: Tensor) -> Tensor:
        if op.is_open or op.is_bare:
            elements = function(op, x.logical())
            return Tensor.store(elements, layout_at_run_time(op.result.type), x.dtype)
        return Tensor(x.buffer, layout_of(op.result.type), x.dtype)

    return run


def _box(op: layout.SliceOp, x: Array) -> Array:
    starts, sizes = op.ints("starts"), op.ints("sizes")
    return x[tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))]


def _channels(op: nn.NNOp) -> int:
    return 1


def _axis(op: nn.SoftmaxOp | nn.LogSoftmaxOp) -> int:
    return op.axis


SEMANTICS: dict[type[Operation], Semantics] = {
    **{op: _elementwise for op in nn.NN.operations if issubclass(op, nn.ElementwiseOp)},
    **{op: _reduce for op in nn.NN.operations if issubclass(op, nn.ReduceOp)},
    nn.CastOp: _cast,
    nn.ConvOp: _conv,
    nn.ConvTransposeOp: _conv_transpose,
    nn.MatmulOp: _matmul,
    nn.GemmOp: _gemm,
    nn.MaxPoolOp: _max_pool,
    nn.AvgPoolOp: _avg_pool,
    nn.GlobalAvgPoolOp: _global_avg_pool,
    nn.GlobalMaxPoolOp: _global_max_pool,
    nn.BatchNormOp: _batch_norm,
    nn.LayerNormOp: _axes_norm,
    nn.RmsNormOp: _axes_norm,
    nn.GroupNormOp: _group_norm,
    nn.LrnOp: _along(_channels, lambda op, x: array_ops.lrn(x, op.size, op.alpha, op.beta, op.bias)),
    nn.SoftmaxOp: _along(_axis, lambda op, x: array_ops.softmax(np, x, op.axis)),
    nn.LogSoftmaxOp: _along(_axis, lambda op, x: array_ops.log_softmax(np, x, op.axis)),
    nn.GatherOp: _gather,
    nn.ArgMaxOp: _arg_reduce,
    nn.ArgMinOp: _arg_reduce,
    nn.ConcatOp: _concat,
    nn.PadOp: _pad,
    nn.SliceOp: _slice,
    nn.TileOp: _tile,
    nn.CumSumOp: _cum_sum,
    nn.ResizeOp: _resize,
    nn.ConstantOp: _constant,
    layout.ReorderOp: _reorder,
    layout.FillPadsOp: _fill_pads,
    layout.CastOp: _layout_cast,
    layout.PermuteOp: _view(lambda op, x: x.transpose(op.ints("perm"))),
    layout.ReshapeOp: _view(lambda op, x: x.reshape(op.result_type.get_shape())),
    layout.SliceOp: _view(_box),
}
