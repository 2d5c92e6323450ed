"""Which compiled loop computes an op, or a few elementwise ones behind each other.

The graph of a loop is what the definition of the op leaves when it is run on symbols: `COMPUTE` of an elementwise op,
`compute` of a reduction, the functions of the reference for softmax and normalizations. Ops that only choose elements
(slice, pad, tile, gather, resize to the nearest) are the identity on operands that lie as the choice says: of every dim
an operand is known by where each index of the result finds its element. A loop that updates some elements runs over the
updates, and the result holds the data before.

Elementwise ops that lie alike are computed on the whole padded box, as the reference does. All others compute the
elements, and where the type of the result says what its pads hold, that is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.loops.compiled_loop import compile_loop
from layout_ir.backends.llvm.loops.expression import Symbolic, SymbolicNumPy, cast_to, rounded_to
from layout_ir.backends.llvm.loops.largest_elements import LargestElements
from layout_ir.backends.llvm.loops.loop_nest import DimOffsets, Nest, check
from layout_ir.backends.llvm.loops.loop_program import LoopProgram, LoopTensor, pad_nests
from layout_ir.backends.llvm.loops.region_pooling import RegionPooling
from layout_ir.backends.llvm.loops.vector_numpy import COMPUTED
from layout_ir.backends.onednn.elementwise_nodes import elementwise_function, same_bits
from layout_ir.backends.onednn.plan_steps import LoopKernel
from layout_ir.backends.reference import array_ops
from layout_ir.backends.reference.semantics import layout_at_run_time, literal_array
from layout_ir.backends.reference.tensor import is_row_major, policy_element, same_box
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.nn.regions import CHANNELS_LAST_REGIONS, Regions
from layout_ir.dialects.nn.source_positions import (
    nearest_positions,
    pad_sources,
    resize_positions,
    resize_scales,
)
from layout_ir.elements.numpy_types import Array, stored_number, widen
from layout_ir.elements.scalar_type import computed_dtype
from layout_ir.errors import LayoutError


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
    """Those operands that it writes: the other results of the op."""


def has_loop(op: Operation) -> bool:
    """Whether there are loops for ops like `op`."""
    return isinstance(op, nn.ElementwiseOp) or type(op) in _BUILDERS


def loop_of(ops: Sequence[Operation], threads: int) -> OpLoop | None:
    """The loop that computes what the last of `ops` gives, the others being elementwise and used by none but these.

    None where there is none for such an op, or for its layouts or element types.
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
        if isinstance(op, nn.ElementwiseOp):
            found = _elementwise(ops)
        elif isinstance(op, nn.OpaqueOp):
            found = _update(op) if op.title == "ScatterND" else _node(op)
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


# Tensors --------------------------------------------------------------------------------------------------------------


def _offsets(layout: Layout) -> list[Array]:
    """Per dim, the offset of each index."""
    return [layout.offsets(dim) for dim in range(layout.rank)]


def _tensor(offsets: Iterable[Array], start: int, dtype: str, **options: Any) -> LoopTensor:
    return LoopTensor(
        tuple(np.asarray(row, np.int64).reshape(1, -1) for row in offsets), start, dtype, **options
    )


def _broadcast_offsets(layout: Layout, shape: Sequence[int]) -> list[Array]:
    """The offsets of a layout broadcast to a shape."""
    first = len(shape) - layout.rank
    offsets = [np.zeros(extent, np.int64) for extent in shape]
    for dim, row in enumerate(_offsets(layout)):
        if layout.shape[dim] == shape[first + dim]:
            offsets[first + dim] = row
        else:  # its one index, of the padded box the first that is an element
            offsets[first + dim] = np.full(shape[first + dim], row[0], np.int64)
    return offsets


def _fills(layout: Layout, dtype: str) -> tuple[tuple[Nest, int], ...]:
    """The pads of a result, and what its type says that they hold."""
    if not layout.is_padded or layout.pad == "undef":
        return ()
    offsets: list[DimOffsets] = [
        layout.offsets(dim, padded=True).reshape(1, -1) for dim in range(layout.rank)
    ]
    bits = _bits(policy_element(layout, dtype))
    return tuple((nest, bits) for nest in pad_nests(offsets, layout.lo, layout.shape, layout.offset))


def _bits(element: Any) -> int:
    """The bits of a stored element, as a signed integer."""
    array = np.asarray(element)
    return int(array.view(f"i{array.dtype.itemsize}") if array.dtype != np.bool_ else int(array))


_Found = tuple[LoopProgram, tuple[SSAValue, ...]]


@dataclass
class _Space:
    """The tensors of a loop, as they are found."""

    shape: tuple[int, ...]
    tensors: list[LoopTensor] = field(default_factory=list[LoopTensor])
    operands: list[SSAValue] = field(default_factory=list[SSAValue])
    np: Any = field(default_factory=SymbolicNumPy)

    def add(
        self, value: SSAValue, offsets: Iterable[Array] | None = None, start: int = 0, **options: Any
    ) -> Symbolic:
        """An operand, which lies as `offsets` say (None: as its layout, broadcast), `start` elements further."""
        layout, dtype = layout_at_run_time(value.type), dtype_of(value.type)
        found = _broadcast_offsets(layout, self.shape) if offsets is None else offsets
        self.tensors.append(_tensor(found, layout.offset + start, dtype, **options))
        self.operands.append(value)
        return Symbolic(computed_dtype(dtype), operand=len(self.tensors) - 1, shape=layout.shape)

    def loop(
        self, op: Operation, graph: Symbolic, offsets: Iterable[Array] | None = None, *,
        axes: Iterable[int] = (), fills: Sequence[tuple[Nest, int]] = (),
    ) -> _Found:  # fmt: skip
        """The loop that writes `graph` to the result of `op`, which lies as `offsets` say (None: as its layout)."""
        value = op.results[0]
        layout, dtype = layout_at_run_time(value.type), dtype_of(value.type)
        if layout.is_injective() is not True:
            raise LayoutError(f"{layout} may have two elements at one address")
        result = _tensor(_offsets(layout) if offsets is None else offsets, layout.offset, dtype)
        found = (*_fills(layout, dtype), *fills)
        program = LoopProgram((*self.tensors, result), graph, frozenset(axes), found)
        return program, tuple(self.operands)


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


def _elementwise(ops: Sequence[Operation]) -> _Found:
    root = ops[-1].results[0]
    layout, dtype = layout_at_run_time(root.type), dtype_of(root.type)
    space = _Space(layout.shape)
    known: dict[SSAValue, Symbolic] = {}

    def operand(value: SSAValue) -> Symbolic:
        if value not in known:
            known[value] = _number(value) or space.add(value)
        return known[value]

    for op in ops:
        assert isinstance(op, nn.ElementwiseOp)
        arguments = [operand(value) for value in op.operands]
        to = dtype_of(op.result.type)
        if isinstance(op, nn.CastOp):
            known[op.result] = cast_to(arguments[0], to)
        else:
            known[op.result] = rounded_to(op.compute(space.np, *arguments), to)
    lying = [layout_at_run_time(value.type) for value in space.operands]
    if layout.is_padded and all(same_box(layout, other) for other in lying):
        # One box for all: elements and pads.
        boxes = [[each.offsets(dim, padded=True) for dim in range(each.rank)] for each in (*lying, layout)]
        types = [*(dtype_of(value.type) for value in space.operands), dtype]
        tensors = [
            _tensor(offsets, each.offset, of)
            for offsets, each, of in zip(boxes, (*lying, layout), types, strict=True)
        ]
        return LoopProgram(tuple(tensors), known[root]), tuple(space.operands)
    return space.loop(ops[-1], known[root])


def _node(op: nn.OpaqueOp) -> _Found | None:
    """An opaque node each element of whose result comes from one of each operand."""
    compute, moved = elementwise_function(op), same_bits(op)
    if compute is None and moved is None:
        return None
    [result] = op.results
    space = _Space(layout_at_run_time(result.type).shape)
    if compute is None:
        assert moved is not None
        x = space.add(op.operands[0])
        [tensor] = space.tensors
        bits = LoopProgram(
            (replace(tensor, dtype=moved), _tensor(_offsets(layout_at_run_time(result.type)), 0, moved)),
            replace(x, dtype_name=moved),
        )
        return bits, tuple(space.operands)
    given = [_number(value) or space.add(value) for value in op.operands]
    return space.loop(op, rounded_to(compute(space.np, *given), dtype_of(result.type)))


# Folds ----------------------------------------------------------------------------------------------------------------


def _reduced_offsets(op: Any, axes: Iterable[int], keepdims: bool) -> list[Array]:
    """The offsets of a result without, or with one index of, the dims `axes` of its operand."""
    shape, layout = layout_at_run_time(op.x.type).shape, layout_at_run_time(op.results[0].type)
    offsets, axes = _offsets(layout), set(axes)
    kept = [d for d in range(len(shape)) if keepdims or d not in axes]
    found = [np.zeros(extent, np.int64) for extent in shape]
    for row, dim in zip(offsets, kept, strict=True):
        found[dim] = np.full(shape[dim], row[0], np.int64) if dim in axes else row
    return found


def _reduction(op: nn.ReduceOp) -> _Found:
    space = _space_of(op, op.axes)
    graph = op.compute(space.np, space.add(op.x))
    dtype = dtype_of(op.results[0].type)
    offsets = _reduced_offsets(op, op.axes, op.keepdims)
    return space.loop(op, rounded_to(graph, dtype), offsets, axes=op.axes)


def _space_of(op: Any, axes: Iterable[int]) -> _Space:
    """The index space of the operand x, rows of which go over `axes`."""
    shape = layout_at_run_time(op.x.type).shape
    return _Space(shape, np=SymbolicNumPy(prod(shape[axis] for axis in axes)))


def _matmul(op: nn.MatmulOp) -> _Found | None:
    """Products of elements that the library does not multiply, summed over the inner dim, the last of the space."""
    a, b, result = (layout_at_run_time(value.type) for value in (op.a, op.b, op.result))
    inner = a.shape[-1]
    rows, columns = a.rank > 1, b.rank > 1
    batch = result.shape[: result.rank - rows - columns]
    space = _Space((*result.shape, inner))
    none = [np.zeros(extent, np.int64) for extent in space.shape]
    sides: list[list[Array]] = []
    for layout, matrix, kept in ((a, rows, len(batch)), (b, columns, result.rank - 1)):
        offsets = _offsets(layout)
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
    return space.loop(op, graph, [*_offsets(result), none[-1]], axes=(result.rank,))


def _softmax(op: nn.SoftmaxOp | nn.LogSoftmaxOp) -> _Found:
    space = _space_of(op, (op.axis,))
    function = array_ops.softmax if isinstance(op, nn.SoftmaxOp) else array_ops.log_softmax
    return space.loop(op, function(space.np, space.add(op.x), op.axis), axes=(op.axis,))


def _axes_norm(op: nn.LayerNormOp | nn.RmsNormOp) -> _Found:
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


def _batch_norm(op: nn.BatchNormOp) -> _Found:
    space = _space_of(op, ())
    parameters = (op.scale, op.bias, op.mean, op.var)
    x = space.add(op.x)
    scale, bias, mean, var = (space.add(value, _channel_offsets(value, space.shape)) for value in parameters)
    graph: Symbolic = array_ops.batch_norm(space.np, x, scale, bias, mean, var, op.epsilon)
    return space.loop(op, graph)


def _channel_offsets(value: SSAValue, shape: Sequence[int]) -> list[Array]:
    """The offsets of a vector of channels, dim 1 of a shape."""
    [row] = _offsets(layout_at_run_time(value.type))
    return [row if dim == 1 else np.zeros(extent, np.int64) for dim, extent in enumerate(shape)]


def _group_norm(op: nn.GroupNormOp) -> _Found:
    shape = layout_at_run_time(op.x.type).shape
    axes = tuple(range(2, len(shape) + 1))
    count = op.group_size * prod(shape[2:])
    space = _Space((shape[0], op.groups, op.group_size, *shape[2:]), np=SymbolicNumPy(count))

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
            apart(_offsets(layout_at_run_time(value.type)) if k == 0 else _channel_offsets(value, shape)),
        )
        for k, value in enumerate(op.operands)
    ]
    graph = array_ops.group_norm(space.np, x, scale, bias, op.groups, op.epsilon)
    offsets = apart(_offsets(layout_at_run_time(op.result.type)))
    return space.loop(op, graph, offsets, axes=axes)


def _arg_reduction(op: nn.ArgMaxOp | nn.ArgMinOp) -> _Found:
    space = _space_of(op, (op.axis,))
    x, extent = space.add(op.x), space.shape[op.axis]
    index = np.arange(extent)[:: -1 if op.select_last else 1]
    offsets = [index if d == op.axis else np.zeros(e, np.int64) for d, e in enumerate(space.shape)]
    # Not a tensor of the program: its elements are where they would lie.
    space.tensors.append(_tensor(offsets, 0, "i64", positions=True))
    space.operands.append(op.x)
    position = Symbolic("i64", operand=1)
    fold = "arg_maximum" if isinstance(op, nn.ArgMaxOp) else "arg_minimum"
    graph = Symbolic("i64", (x, position), fold=fold)
    if op.select_last:
        graph = extent - 1 - graph
    return space.loop(op, graph, _reduced_offsets(op, (op.axis,), op.keepdims), axes=(op.axis,))


# Chosen elements ------------------------------------------------------------------------------------------------------


def _chosen(op: Any, indices: Sequence[Array]) -> _Found:
    """The elements of x at these indices of each dim."""
    layout = layout_at_run_time(op.x.type)
    space = _Space(tuple(map(len, indices)))
    offsets = [
        row[index] if len(index) else index for row, index in zip(_offsets(layout), indices, strict=True)
    ]
    return space.loop(op, space.add(op.x, offsets))


def _slice(op: nn.SliceOp) -> _Found:
    given = zip(op.starts, op.sizes, op.steps, strict=True)
    return _chosen(op, [start + step * np.arange(size) for start, size, step in given])


def _tile(op: nn.TileOp) -> _Found:
    shape = layout_at_run_time(op.x.type).shape
    given = zip(shape, op.repeats, strict=True)
    return _chosen(op, [np.arange(extent * count) % max(extent, 1) for extent, count in given])


def _resize(op: nn.ResizeOp) -> _Found | None:
    if op.mode != "nearest":
        return None
    shape, sizes = layout_at_run_time(op.x.type).shape, op.infer()
    scales = resize_scales(shape, op.sizes, op.scales)
    if not prod(shape) or not prod(sizes):
        return None
    indices: list[Array] = []
    for extent, size, scale in zip(shape, sizes, scales, strict=True):
        position = resize_positions(size, extent, scale, op.coordinates)
        indices.append(
            np.arange(size)
            if size == extent and scale == 1
            else nearest_positions(position, extent, op.nearest_mode)
        )
    return _chosen(op, indices)


def _pad(op: nn.PadOp) -> _Found:
    shape = layout_at_run_time(op.x.type).shape
    ends = list(zip(op.pads[: len(shape)], shape, op.pads[len(shape) :], strict=True))
    if op.mode != "constant":
        return _chosen(op, [pad_sources(begin, extent, end, op.mode) for begin, extent, end in ends])
    layout, dtype = layout_at_run_time(op.result.type), dtype_of(op.result.type)
    # What is left of x, which may lose elements at either end, and where that lies in the result.
    lows = [max(begin, 0) for begin, _, _ in ends]
    sources = [np.arange(max(-begin, 0), extent + min(end, 0)) for begin, extent, end in ends]
    inside = [row[low : low + len(of)] for row, low, of in zip(_offsets(layout), lows, sources, strict=True)]
    offsets = [
        row[of] if len(of) else of
        for row, of in zip(_offsets(layout_at_run_time(op.x.type)), sources, strict=True)
    ]
    space = _Space(tuple(map(len, sources)))
    border = pad_nests(
        [row.reshape(1, -1) for row in _offsets(layout)], lows, [len(of) for of in sources], layout.offset
    )
    bits = _bits(stored_number(op.value, dtype))
    return space.loop(op, space.add(op.x, offsets), inside, fills=[(nest, bits) for nest in border])


def _gather(op: nn.GatherOp) -> _Found:
    x, indices = layout_at_run_time(op.x.type), layout_at_run_time(op.indices.type)
    axis, extent = op.axis, x.shape[op.axis]
    offsets = _offsets(x)
    constant = op.indices.owner
    if isinstance(constant, nn.ConstantOp) and indices.rank <= 1 and indices.nelems:
        chosen = np.broadcast_to(literal_array(constant), indices.shape).astype(np.int64)
        if ((chosen >= -extent) & (chosen < extent)).all():
            places = offsets[axis][chosen % extent]
            space = _Space((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
            around = [*offsets[:axis], *([places] if indices.rank else []), *offsets[axis + 1 :]]
            return space.loop(op, space.add(op.x, around, 0 if indices.rank else int(places)))
    if not extent:
        raise LayoutError("no index is one of a dim without elements")
    space = _Space((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    none = [np.zeros(e, np.int64) for e in space.shape]
    first, last = axis, axis + indices.rank
    begin = int(offsets[axis][0])
    choices = offsets[axis] - begin
    around = [*offsets[:axis], *none[first:last], *offsets[axis + 1 :]]
    graph = space.add(op.x, around, begin, gathered=(1, choices))
    space.add(op.indices, [*none[:first], *_offsets(indices), *none[last:]])
    return space.loop(op, graph)


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


_NODES: dict[str, Callable[[nn.OpaqueOp, int], OpLoop | None]] = {
    "TopK": _top_k,
    CHANNELS_LAST_REGIONS: _regions,
}
"""Nodes that have code of their own, on so many threads."""


# Updated elements -----------------------------------------------------------------------------------------------------


def _update(op: nn.OpaqueOp) -> _Found | None:
    """The updates of a ScatterND whose vectors of indices have one element, (n, 1)."""
    if len(op.operands) != 3:
        return None
    data, indices, updates = op.operands
    y, places, shape = (layout_at_run_time(value.type) for value in (op.results[0], indices, updates))
    rest = shape.shape[1:]
    if places.shape != (*shape.shape[:1], 1) or y.shape[1:] != rest or not y.nelems or not shape.nelems:
        return None
    if layout_at_run_time(data.type).shape != y.shape or dtype_of(indices.type) != "i64":
        return None
    dtype = dtype_of(op.results[0].type)
    space = _Space(shape.shape)
    update = space.add(updates)
    space.add(indices, [_offsets(places)[0], *(np.zeros(extent, np.int64) for extent in rest)])
    first, *inside = _offsets(y)
    choices = first - first[0]
    result = _tensor(
        [np.zeros(shape.shape[0], np.int64), *inside], y.offset + int(first[0]), dtype, gathered=(1, choices)
    )
    combine = _REDUCTIONS.get(op.node_attribute("reduction", "none"))
    if combine is None:
        raise LayoutError("no loop has the reduction")
    if combine is not _newer:
        space.tensors.append(result)
        space.operands.append(op.results[0])
    before = Symbolic(computed_dtype(dtype), operand=2, shape=y.shape)
    graph = rounded_to(combine(space.np, before, update), dtype)
    return LoopProgram((*space.tensors, result), graph), tuple(space.operands)


def _newer(_np: Any, _before: Symbolic, update: Symbolic) -> Symbolic:
    return update


_REDUCTIONS: dict[str, Callable[[Any, Symbolic, Symbolic], Symbolic]] = {
    "none": _newer,
    "add": lambda np, before, update: np.add(before, update),
    "mul": lambda np, before, update: np.multiply(before, update),
    "max": lambda np, before, update: np.maximum(before, update),
    "min": lambda np, before, update: np.minimum(before, update),
}
"""What an element and its update become."""


_BUILDERS: dict[type[Operation], Callable[[Any], _Found | None]] = {
    **{op: _reduction for op in nn.NN.operations if issubclass(op, nn.ReduceOp)},
    nn.MatmulOp: _matmul,
    nn.SoftmaxOp: _softmax,
    nn.LogSoftmaxOp: _softmax,
    nn.LayerNormOp: _axes_norm,
    nn.RmsNormOp: _axes_norm,
    nn.BatchNormOp: _batch_norm,
    nn.GroupNormOp: _group_norm,
    nn.ArgMaxOp: _arg_reduction,
    nn.ArgMinOp: _arg_reduction,
    nn.SliceOp: _slice,
    nn.TileOp: _tile,
    nn.ResizeOp: _resize,
    nn.PadOp: _pad,
    nn.GatherOp: _gather,
}
