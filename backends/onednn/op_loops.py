"""Which compiled loop computes an op, or a few elementwise ones behind each other.

The graph of a loop is what the definition of the op leaves when it is run on symbols: `COMPUTE` of an elementwise op,
`compute` of a reduction, the functions of the reference for softmax and normalizations. Loops of ops that
only choose elements, or update some, are in `choice_loops`.

Elementwise ops that lie alike are computed on the whole padded box, as the reference does. All others compute the
elements, and where the type of the result says what its pads hold, that is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from layout_ir.backends.llvm.loops.byte_pooling import BytePooling
from layout_ir.backends.llvm.loops.channel_windows import ChannelWindows
from layout_ir.backends.llvm.loops.compiled_loop import compile_loop
from layout_ir.backends.llvm.loops.depthwise_convolution import DepthwiseConvolution
from layout_ir.backends.llvm.loops.expression import Symbolic, SymbolicNumPy, cast_to, folds_of, rounded_to
from layout_ir.backends.llvm.loops.integer_convolution import IntegerConvolution
from layout_ir.backends.llvm.loops.largest_elements import LargestElements
from layout_ir.backends.llvm.loops.loop_nest import check
from layout_ir.backends.llvm.loops.loop_program import LoopProgram
from layout_ir.backends.llvm.loops.lstm_steps import OPTIONAL, LstmSteps
from layout_ir.backends.llvm.loops.region_pooling import RegionPooling
from layout_ir.backends.llvm.loops.row_pooling import RowPooling, RowWindows, has_row_code
from layout_ir.backends.llvm.loops.vector_numpy import COMPUTED
from layout_ir.backends.onednn.choice_loops import (
    gather_loop,
    pad_loop,
    resize_loop,
    slice_loop,
    tile_loop,
    update_loop,
)
from layout_ir.backends.onednn.elementwise_nodes import elementwise_function, same_bits
from layout_ir.backends.onednn.loop_space import Found, LoopSpace, loop_tensor, offsets_of
from layout_ir.backends.onednn.plan_steps import LoopKernel
from layout_ir.backends.reference import array_ops
from layout_ir.backends.reference.semantics import layout_at_run_time, literal_array
from layout_ir.backends.reference.tensor import is_row_major, same_box
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.nn.depthwise_products import DEPTHWISE_INTEGER_CONV, DepthwiseIntegerConv
from layout_ir.dialects.nn.integer_lstm import INTEGER_LSTM, IntegerLstm
from layout_ir.dialects.nn.integer_products import PACKED_INTEGER_CONV, PackedIntegerConv, Requantization
from layout_ir.dialects.nn.regions import CHANNELS_LAST_REGIONS, Regions
from layout_ir.elements.numpy_types import Array, widen
from layout_ir.elements.scalar_type import computed_dtype
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.options.conv_kernels import activation


@dataclass(frozen=True, slots=True, eq=False)
class OpLoop:
    """The loop of an op or a chain of them, and the values whose buffers it takes, in order, the result left out."""

    kernel: LoopKernel
    operands: tuple[SSAValue, ...]
    is_in_place_safe: bool = False
    """Whether the result may be written over an operand that lies like it."""
    updated: SSAValue | None = None
    """What the result holds before, where the loop writes some of its elements only."""
    more_results: tuple[SSAValue, ...] = ()
    """The other results of the op, which the loop writes."""


def has_loop(op: Operation) -> bool:
    """Whether there are loops for ops like `op`."""
    return isinstance(op, nn.ElementwiseOp | nn.ReduceOp) or type(op) in _BUILDERS


def loop_of(ops: Sequence[Operation], threads: int) -> OpLoop | None:
    """The loop that computes what the last of `ops` gives, the others being elementwise and used by none but these.

    None where there is none for such an op, or for its layouts or element types, or where a reduction would compute the
    others more than once.
    """
    op = ops[-1]
    values = [value for each in ops for value in (*each.operands, *each.results)]
    if any(dtype_of(value.type) not in COMPUTED for value in values):
        return None
    try:
        for value in values:
            check(layout_at_run_time(value.type))
        if isinstance(op, nn.OpaqueOp) and op.title in _NODES:
            return _NODES[op.title](op, threads)
        if isinstance(op, nn.MaxPoolOp | nn.AvgPoolOp):
            return _row_pool(op, threads) or _byte_pool(op, threads)
        if isinstance(op, nn.ElementwiseOp):
            found = _elementwise(ops)
        elif isinstance(op, nn.ReduceOp):
            found = _reduction(op, ops[:-1])
        elif isinstance(op, nn.OpaqueOp):
            found = update_loop(op) if op.title == "ScatterND" else _node(op)
        else:
            build = _BUILDERS.get(type(op))
            found = None if build is None else build(op)
        return (
            None
            if found is None
            else OpLoop(
                compile_loop(found[0], threads=threads),
                found[1],
                isinstance(op, _IN_PLACE_SAFE),
                op.operands[0] if isinstance(op, nn.OpaqueOp) and op.title == "ScatterND" else None,
            )
        )
    except LayoutError:
        return None


_IN_PLACE_SAFE = (
    nn.ElementwiseOp, nn.BatchNormOp, nn.SoftmaxOp, nn.LogSoftmaxOp, nn.LayerNormOp, nn.RmsNormOp, nn.GroupNormOp
)  # fmt: skip
"""Ops whose result has the indices of its operand: of a row, all is read before an element is written."""


# Elementwise ----------------------------------------------------------------------------------------------------------


def _number(value: SSAValue) -> Symbolic | None:
    """The number that all elements of a constant are."""
    op = value.owner
    if not isinstance(op, nn.ConstantOp):
        return None
    array = literal_array(op)
    if array.size != 1:
        return None
    dtype = dtype_of(value.type)
    number = widen(array.reshape(-1), dtype)[0].item()
    return Symbolic(computed_dtype(dtype), number=number)


def _graph_of(value: SSAValue, space: LoopSpace, ops: Sequence[Operation]) -> Symbolic:
    """The graph of `value`: what the elementwise `ops` compute in their order, or an operand of the loop."""
    known: dict[SSAValue, Symbolic] = {}

    def operand(value: SSAValue) -> Symbolic:
        if value not in known:
            known[value] = _number(value) or space.add(value)
        return known[value]

    for op in ops:
        assert isinstance(op, nn.ElementwiseOp)
        arguments = [operand(each) for each in op.operands]
        to = dtype_of(op.result.type)
        if isinstance(op, nn.CastOp):
            known[op.result] = cast_to(arguments[0], to)
        else:
            known[op.result] = rounded_to(op.compute(space.np, *arguments), to)
    return operand(value)


def _elementwise(ops: Sequence[Operation]) -> Found:
    root = ops[-1].results[0]
    layout, dtype = layout_at_run_time(root.type), dtype_of(root.type)
    space = LoopSpace(layout.shape)
    graph = _graph_of(root, space, ops)
    lying = [layout_at_run_time(value.type) for value in space.operands]
    if layout.is_padded and all(same_box(layout, other) for other in lying):
        # One box for all: elements and pads.
        boxes = [[each.offsets(dim, padded=True) for dim in range(each.rank)] for each in (*lying, layout)]
        types = [*(dtype_of(value.type) for value in space.operands), dtype]
        tensors = [
            loop_tensor(offsets, each.offset, of)
            for offsets, each, of in zip(boxes, (*lying, layout), types, strict=True)
        ]
        return LoopProgram(tuple(tensors), graph), tuple(space.operands)
    return space.loop(ops[-1], graph)


def _node(op: nn.OpaqueOp) -> Found | None:
    """An opaque node each element of whose result comes from one of each operand."""
    compute, moved = elementwise_function(op), same_bits(op)
    if compute is None and moved is None:
        return None
    [result] = op.results
    space = LoopSpace(layout_at_run_time(result.type).shape)
    if compute is None:
        assert moved is not None
        x = space.add(op.operands[0])
        [tensor] = space.tensors
        bits = LoopProgram(
            (
                replace(tensor, dtype=moved),
                loop_tensor(offsets_of(layout_at_run_time(result.type)), 0, moved),
            ),
            replace(x, dtype_name=moved),
        )
        return bits, tuple(space.operands)
    given = [_number(value) or space.add(value) for value in op.operands]
    return space.loop(op, rounded_to(compute(space.np, *given), dtype_of(result.type)))


# Folds ----------------------------------------------------------------------------------------------------------------


def _reduced_offsets(op: Any, axes: Iterable[int], keepdims: bool) -> list[Array]:
    """The offsets of a result without, or with one index of, the dims `axes` of its operand."""
    shape, layout = layout_at_run_time(op.x.type).shape, layout_at_run_time(op.results[0].type)
    offsets, axes = offsets_of(layout), set(axes)
    kept = [d for d in range(len(shape)) if keepdims or d not in axes]
    found = [np.zeros(extent, np.int64) for extent in shape]
    for row, dim in zip(offsets, kept, strict=True):
        found[dim] = np.full(shape[dim], row[0], np.int64) if dim in axes else row
    return found


def _reduction(op: nn.ReduceOp, before: Sequence[Operation]) -> Found | None:
    """The fold of what the elementwise ops `before` compute; None where their elements would be needed twice."""
    space = _space_of(op, op.axes)
    graph = op.compute(space.np, _graph_of(op.x, space, before) if before else space.add(op.x))
    if before and len(folds_of(graph)) > 1:
        return None
    dtype = dtype_of(op.results[0].type)
    offsets = _reduced_offsets(op, op.axes, op.keepdims)
    return space.loop(op, rounded_to(graph, dtype), offsets, axes=op.axes)


def _space_of(op: Any, axes: Iterable[int]) -> LoopSpace:
    """The index space of the operand x, rows of which go over `axes`."""
    shape = layout_at_run_time(op.x.type).shape
    return LoopSpace(shape, np=SymbolicNumPy(prod(shape[axis] for axis in axes)))


def _matmul(op: nn.MatmulOp) -> Found | None:
    """Products of elements that the library does not multiply, summed over the inner dim, the last of the space."""
    a, b, result = (layout_at_run_time(value.type) for value in (op.a, op.b, op.result))
    inner = a.shape[-1]
    rows, columns = a.rank > 1, b.rank > 1
    batch = result.shape[: result.rank - rows - columns]
    space = LoopSpace((*result.shape, inner))
    none = [np.zeros(extent, np.int64) for extent in space.shape]
    sides: list[list[Array]] = []
    for layout, matrix, kept in ((a, rows, len(batch)), (b, columns, result.rank - 1)):
        offsets = offsets_of(layout)
        along = offsets.pop(-1 if layout is a or not matrix else -2)
        found = list(none)
        found[-1] = along
        if matrix:
            found[kept] = offsets.pop()
        for dim, row in enumerate(reversed(offsets), 1):
            place = len(batch) - dim
            found[place] = row if len(row) == batch[place] else np.full(batch[place], row[0], np.int64)
        sides.append(found)
    left, right = space.add(op.a, sides[0]), space.add(op.b, sides[1])
    graph = rounded_to(space.np.sum(left * right), dtype_of(op.result.type))
    return space.loop(op, graph, [*offsets_of(result), none[-1]], axes=(result.rank,))


def _softmax(op: nn.SoftmaxOp | nn.LogSoftmaxOp) -> Found:
    space = _space_of(op, (op.axis,))
    function = array_ops.softmax if isinstance(op, nn.SoftmaxOp) else array_ops.log_softmax
    return space.loop(op, function(space.np, space.add(op.x), op.axis), axes=(op.axis,))


def _axes_norm(op: nn.LayerNormOp | nn.RmsNormOp) -> Found:
    space = _space_of(op, op.axes)
    x, scale, *bias = [_number(value) or space.add(value) for value in op.operands]
    graph: Symbolic = array_ops.layer_norm(
        space.np,
        x,
        scale,
        bias[0] if bias else None,
        op.axes,
        op.epsilon,
        centered=isinstance(op, nn.LayerNormOp),
    )
    return space.loop(op, graph, axes=op.axes)


def _batch_norm(op: nn.BatchNormOp) -> Found:
    space = _space_of(op, ())
    parameters = (op.scale, op.bias, op.mean, op.var)
    x = space.add(op.x)
    scale, bias, mean, var = (space.add(value, _channel_offsets(value, space.shape)) for value in parameters)
    graph: Symbolic = array_ops.batch_norm(space.np, x, scale, bias, mean, var, op.epsilon)
    return space.loop(op, graph)


def _channel_offsets(value: SSAValue, shape: Sequence[int]) -> list[Array]:
    """The offsets of a vector of channels, dim 1 of a shape."""
    [row] = offsets_of(layout_at_run_time(value.type))
    return [row if dim == 1 else np.zeros(extent, np.int64) for dim, extent in enumerate(shape)]


def _group_norm(op: nn.GroupNormOp) -> Found:
    shape = layout_at_run_time(op.x.type).shape
    axes = tuple(range(2, len(shape) + 1))
    count = op.group_size * prod(shape[2:])
    space = LoopSpace((shape[0], op.groups, op.group_size, *shape[2:]), np=SymbolicNumPy(count))

    def apart(offsets: list[Array]) -> list[Array]:
        channels = offsets[1].reshape(op.groups, op.group_size)
        if not channels.size:
            raise LayoutError("a tensor without channels has no groups")
        first, inside = channels[:, 0], channels[0] - channels[0, 0]
        if (channels != first[:, None] + inside).any():
            raise LayoutError("the channels of a group do not lie alike in all groups")
        return [offsets[0], first, inside, *offsets[2:]]

    x, scale, bias = [
        space.add(
            value,
            apart(offsets_of(layout_at_run_time(value.type)) if k == 0 else _channel_offsets(value, shape)),
        )
        for k, value in enumerate(op.operands)
    ]
    graph = array_ops.group_norm(space.np, x, scale, bias, op.groups, op.epsilon)
    offsets = apart(offsets_of(layout_at_run_time(op.result.type)))
    return space.loop(op, graph, offsets, axes=axes)


def _arg_reduction(op: nn.ArgMaxOp | nn.ArgMinOp) -> Found:
    space = _space_of(op, (op.axis,))
    x, extent = space.add(op.x), space.shape[op.axis]
    index = np.arange(extent)[:: -1 if op.select_last else 1]
    offsets = [index if d == op.axis else np.zeros(e, np.int64) for d, e in enumerate(space.shape)]
    # Not a tensor of the program: its elements are where they would lie.
    space.tensors.append(loop_tensor(offsets, 0, "i64", positions=True))
    space.operands.append(op.x)
    position = Symbolic("i64", operand=1)
    fold = "arg_maximum" if isinstance(op, nn.ArgMaxOp) else "arg_minimum"
    graph = Symbolic("i64", (x, position), fold=fold)
    if op.select_last:
        graph = extent - 1 - graph
    return space.loop(op, graph, _reduced_offsets(op, (op.axis,), op.keepdims), axes=(op.axis,))


# Largest elements -----------------------------------------------------------------------------------------------------


def _top_k(op: nn.OpaqueOp, _threads: int) -> OpLoop | None:
    """The loop of a TopK node, both of whose results are given."""
    if len(op.results) != 2 or any(
        not is_row_major(layout_at_run_time(v.type)) for v in (op.operands[0], *op.results)
    ):
        return None
    x, (values, indices) = op.operands[0], op.results
    shape, result = layout_at_run_time(x.type).shape, layout_at_run_time(values.type).shape
    axis = op.node_attribute("axis", -1)
    types = [dtype_of(value.type) for value in (x, values, indices)]
    if (
        not isinstance(axis, int)
        or not -len(shape) <= axis < len(shape)
        or types != [types[0], types[0], "i64"]
    ):
        return None
    axis %= len(shape)
    k = result[axis] if len(result) == len(shape) else -1
    if layout_at_run_time(indices.type).shape != result or (*shape[:axis], k, *shape[axis + 1 :]) != result:
        return None
    kernel = LargestElements(shape, axis, k, types[0], largest=op.node_attribute("largest", 1) != 0)
    return OpLoop(kernel, (x, indices), more_results=(indices,))


# Regions --------------------------------------------------------------------------------------------------------------


def _regions(op: nn.OpaqueOp, threads: int) -> OpLoop | None:
    """The loop of a RoiAlign on channels last, `region_decomposition`."""
    x, regions, batches = (layout_at_run_time(value.type) for value in op.operands)
    [result] = op.results
    types = [dtype_of(value.type) for value in (*op.operands, result)]
    if types != [types[0], types[0], "i64", types[0]]:
        return None
    made = Regions.of_node(op.node_attribute, op.versions[""])
    if layout_at_run_time(result.type).shape != (*batches.shape, x.shape[-1], *made.extents):
        return None
    if x.rank != 4 or regions.shape != (*batches.shape, 4) or batches.rank != 1:
        return None
    kernel = RegionPooling(x.shape, batches.shape[0], types[0], made, threads=threads)
    return OpLoop(kernel, tuple(op.operands))


# Integers -------------------------------------------------------------------------------------------------------------


def _integer_conv(op: nn.OpaqueOp, threads: int) -> OpLoop | None:
    """The loop of a convolution of integers, `integer_products`."""
    if len(op.operands) < 2 or len(op.results) != 1:
        return None
    x, weights, *columns = (layout_at_run_time(value.type) for value in op.operands)
    [result] = (layout_at_run_time(value.type) for value in op.results)
    conv = PackedIntegerConv.of_node(op.node_attribute)
    types = [dtype_of(value.type) for value in (*op.operands, *op.results)]
    wanted = _types_behind(conv.requantization)
    if types[0] != "i16" or types[1] not in ("i8", "i16") or types[2:] != wanted:
        return None
    if x.rank != 2 + len(conv.kernel) or not all(map(is_row_major, (x, weights, *columns, result))):
        return None
    if x.shape[-1] % conv.group:
        return None
    shapes = [weights.shape, *(each.shape for each in columns), result.shape]
    made_of = [
        conv.packed_shape(x.shape[-1] // conv.group),
        *((conv.columns,) for _ in columns),
        conv.result_shape(x.shape),
    ]
    if shapes != made_of:
        return None
    return OpLoop(IntegerConvolution(conv, x.shape, types[1], threads=threads), tuple(op.operands))


def _depthwise_integer_conv(op: nn.OpaqueOp, threads: int) -> OpLoop | None:
    """The loop of a depthwise convolution of integers, `depthwise_products`."""
    if len(op.operands) < 3 or len(op.results) != 1:
        return None
    x, zero_point, weights, *columns = (layout_at_run_time(value.type) for value in op.operands)
    [result] = (layout_at_run_time(value.type) for value in op.results)
    conv = DepthwiseIntegerConv.of_node(op.node_attribute)
    types = [dtype_of(value.type) for value in (*op.operands, *op.results)]
    dtype = types[0]
    if dtype not in ("i8", "ui8") or types[1:] != [dtype, "i16", *_types_behind(conv.requantization)]:
        return None
    tensors = (x, zero_point, weights, *columns, result)
    if x.rank != 2 + len(conv.kernel) or not all(map(is_row_major, tensors)):
        return None
    channels = x.shape[-1]
    shapes = [(), conv.packed_shape(channels), *((channels,) for _ in columns), conv.result_shape(x.shape)]
    if [each.shape for each in tensors[1:]] != shapes:
        return None
    return OpLoop(DepthwiseConvolution(conv, x.shape, dtype, threads=threads), tuple(op.operands))


def _integer_lstm(op: nn.OpaqueOp, threads: int) -> OpLoop | None:
    """The loop of an LSTM on integers, `integer_lstm`."""
    names = [name for name, there in zip(OPTIONAL, op.given_inputs[4:], strict=False) if there]
    if not all(op.given_inputs[:4]) or len(op.operands) != 4 + len(names) or len(op.results) != 4:
        return None
    values = [*op.operands, *op.results]
    layouts = [layout_at_run_time(value.type) for value in values]
    if not all(map(is_row_major, layouts)) or layouts[0].rank != 3:
        return None
    lstm = IntegerLstm.of_node(op.node_attribute)
    (steps, batch, _), hidden, directions = layouts[0].shape, lstm.hidden, lstm.directions
    panels, *packed = lstm.packed_shape
    state, weight = (directions, batch, hidden), dtype_of(op.operands[2].type)
    given = {
        "peepholes": ("f32", (directions, 3 * hidden)),
        "lengths": ("i32", (batch,)),
        "states": ("f32", state),
        "cells": ("f32", state),
    }
    wanted = [
        ("i32", (steps, batch, directions * lstm.columns)),
        ("f32", ()),
        (weight, (directions * panels, *packed)),
        ("f32", (directions, lstm.rows, lstm.columns)),
        *(given[name] for name in names),
        ("f32", (steps, directions, batch, hidden)),
        ("f32", state),
        ("f32", state),
        ("i32", (directions, lstm.scratch(batch))),
    ]
    found = [(dtype_of(value.type), each.shape) for value, each in zip(values, layouts, strict=True)]
    if found != wanted or weight not in (("i8",) if lstm.in_quads else ("i8", "i16")):
        return None
    kernel = LstmSteps(lstm, steps, batch, tuple(names), weight, threads=threads)
    others = tuple(op.results[1:])
    return OpLoop(kernel, (*op.operands, *others), more_results=others)


def _types_behind(made: Requantization | None) -> list[str]:
    """The element types of what is behind the weights of a convolution of integers: scales, addends and the result."""
    return ["i32"] if made is None else ["f32", "f32", made.dtype]


def has_product_loop(op: Operation) -> bool:
    """Whether an op is a product of matrices for which a loop is faster than kernels of the library: one or two rows
    by the transpose of a matrix, or a matrix by one or two columns, all dense along the dim that is summed over, and
    none of them constant.

    A token's query by the keys of N before it is such a product per head. The library packs the larger matrix, which is
    read once or twice. On a Zen 4, one thread, in us by a loop and by the primitive with AVX-512, and so with AVX2: 12
    heads of 64, N = 1000 53 and 119; 32 heads of 128 425 and 1783, 757 and 2472; two rows of those 932 and 3085, 1092
    and 3801. Three rows take up to twice as long by a loop where the rows of a matrix are far apart.
    """
    if not isinstance(op, nn.MatmulOp) or dtype_of(op.result.type) != "f32":
        return False
    if any(isinstance(value.owner, nn.ConstantOp) for value in (op.a, op.b)):
        return False
    a, b = (layout_at_run_time(value.type) for value in (op.a, op.b))
    rows, columns = a.shape[-2] if a.rank > 1 else 1, b.shape[-1] if b.rank > 1 else 1
    summed = a.offsets(a.rank - 1), b.offsets(max(b.rank - 2, 0))
    return min(rows, columns) <= 2 and all((np.diff(offsets) == 1).all() for offsets in summed)


def has_row_pool(op: Operation) -> bool:
    """Whether an op is a pool of a row-major tensor of floats for which there is a loop."""
    if not isinstance(op, nn.MaxPoolOp | nn.AvgPoolOp):
        return False
    windows = _row_windows(op)
    return windows is not None and has_row_code(windows, dtype_of(op.x.type))


def _row_windows(op: nn.MaxPoolOp | nn.AvgPoolOp) -> RowWindows | None:
    """The windows of a pool; None where a tensor is not row-major."""
    x, y = (layout_at_run_time(value.type) for value in (op.x, op.result))
    if any(layout.is_padded or layout.offset or not is_row_major(layout) for layout in (x, y)):
        return None
    counts = tuple(map(tuple, op.window_counts())) if isinstance(op, nn.AvgPoolOp) else None
    source, before = (prod(x.shape[:2]), *x.shape[2:]), op.pads[: len(op.kernel)]
    return RowWindows(source, op.kernel, op.strides, op.dilations, before, y.shape[2:], counts)


def _row_pool(op: nn.MaxPoolOp | nn.AvgPoolOp, threads: int) -> OpLoop | None:
    """The loop of a pool over floats that are row-major."""
    windows, dtype = _row_windows(op), dtype_of(op.x.type)
    if windows is None or not has_row_code(windows, dtype):
        return None
    return OpLoop(RowPooling(windows, dtype, threads=threads), (op.x,))


def _byte_pool(op: nn.MaxPoolOp | nn.AvgPoolOp, threads: int) -> OpLoop | None:
    """The loop of a pool over integers of 8 bits whose channels are last."""
    x, y = (layout_at_run_time(value.type) for value in (op.x, op.result))
    dtype, rank = dtype_of(op.x.type), len(op.kernel)
    last = activation(rank, "nSc")
    if dtype not in ("i8", "ui8") or x.is_padded or y.is_padded:
        return None
    if not all(last.bind(layout.shape).same_map(layout) for layout in (x, y)):
        return None
    source, results = (x.shape[0], *x.shape[2:], x.shape[1]), y.shape[2:]
    windows = ChannelWindows(source, op.kernel, op.strides, op.dilations, op.pads[:rank], results)
    return OpLoop(BytePooling(windows, dtype, threads=threads), (op.x,))


_NODES: dict[str, Callable[[nn.OpaqueOp, int], OpLoop | None]] = {
    "TopK": _top_k,
    CHANNELS_LAST_REGIONS: _regions,
    PACKED_INTEGER_CONV: _integer_conv,
    DEPTHWISE_INTEGER_CONV: _depthwise_integer_conv,
    INTEGER_LSTM: _integer_lstm,
}
"""Nodes that have code of their own, on so many threads."""


_BUILDERS: dict[type[Operation], Callable[[Any], Found | None]] = {
    nn.MatmulOp: _matmul,
    nn.SoftmaxOp: _softmax,
    nn.LogSoftmaxOp: _softmax,
    nn.LayerNormOp: _axes_norm,
    nn.RmsNormOp: _axes_norm,
    nn.BatchNormOp: _batch_norm,
    nn.GroupNormOp: _group_norm,
    nn.ArgMaxOp: _arg_reduction,
    nn.ArgMinOp: _arg_reduction,
    nn.SliceOp: slice_loop,
    nn.TileOp: tile_loop,
    nn.ResizeOp: resize_loop,
    nn.PadOp: pad_loop,
    nn.GatherOp: gather_loop,
}
