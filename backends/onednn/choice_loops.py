"""Loops of ops that only choose elements, and of those that update some.

A loop of chosen elements is the identity on an operand that lies as the choice says: of every dim it is known where
each index of the result finds its element. One that interpolates has such an operand per neighbour. A loop that updates
some elements runs over the updates, and the result holds the data before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from layout_ir.backends.llvm.loops.expression import Symbolic, cast_to, rounded_to
from layout_ir.backends.llvm.loops.loop_program import LoopProgram, pad_nests
from layout_ir.backends.onednn.loop_space import Found, LoopSpace, bits_of_element, loop_tensor, offsets_of
from layout_ir.backends.reference.semantics import layout_at_run_time, literal_array
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.nn.source_positions import (
    linear_neighbours,
    nearest_positions,
    pad_sources,
    resize_positions,
    resize_scales,
    resized_dims,
)
from layout_ir.elements.numpy_types import Array, stored_number
from layout_ir.elements.scalar_type import computed_dtype
from layout_ir.errors import LayoutError


def _chosen(op: Any, indices: Sequence[Array]) -> Found:
    """The elements of x at these indices of each dim."""
    layout = layout_at_run_time(op.x.type)
    space = LoopSpace(tuple(map(len, indices)))
    offsets = [
        row[index] if len(index) else index for row, index in zip(offsets_of(layout), indices, strict=True)
    ]
    return space.loop(op, space.add(op.x, offsets))


def slice_loop(op: nn.SliceOp) -> Found:
    """The elements of a slice."""
    given = zip(op.starts, op.sizes, op.steps, strict=True)
    return _chosen(op, [start + step * np.arange(size) for start, size, step in given])


def tile_loop(op: nn.TileOp) -> Found:
    """The elements again and again."""
    shape = layout_at_run_time(op.x.type).shape
    given = zip(shape, op.repeats, strict=True)
    return _chosen(op, [np.arange(extent * count) % max(extent, 1) for extent, count in given])


def resize_loop(op: nn.ResizeOp) -> Found | None:
    """The nearest elements, or of f32 those around each position, interpolated; None where there are none, for
    interpolation of other types, and in more than `MOST_INTERPOLATED` dims."""
    shape, sizes = layout_at_run_time(op.x.type).shape, op.infer()
    scales = resize_scales(shape, op.sizes, op.scales)
    if not prod(shape) or not prod(sizes):
        return None
    indices = [np.arange(size) for size in sizes]
    positions = {
        dim: resize_positions(sizes[dim], shape[dim], scales[dim], op.coordinates)
        for dim in resized_dims(shape, sizes, scales)
    }
    if op.mode == "nearest":
        for dim, position in positions.items():
            indices[dim] = nearest_positions(position, shape[dim], op.nearest_mode)
        return _chosen(op, indices)
    if dtype_of(op.x.type) != "f32" or len(positions) > MOST_INTERPOLATED:
        return None
    return _interpolated(op, indices, positions)


MOST_INTERPOLATED = 2
"""Dims in which a loop interpolates: in two, it reads four elements per result."""

_WEIGHT_BITS = 24
"""Weights are multiples of 2^-24, as f32 has them between 0.5 and 1."""


def _interpolated(op: nn.ResizeOp, indices: Sequence[Array], positions: Mapping[int, Array]) -> Found:
    """The elements of x at `indices`, interpolated linearly between neighbours in dims that have `positions`.

    A weight is where an index lies between two elements, and therefore no memory: the loop has it in a table.
    """
    space = LoopSpace(tuple(map(len, indices)))
    rows = offsets_of(layout_at_run_time(op.x.type))
    neighbours: dict[int, tuple[Array, Array]] = {}
    weights: dict[int, Symbolic] = {}
    for dim, position in positions.items():
        first, second, weight = linear_neighbours(position)
        neighbours[dim] = first, second
        part = np.round(weight * 2.0**_WEIGHT_BITS).astype(np.int64)
        offsets = [part if d == dim else np.zeros(extent, np.int64) for d, extent in enumerate(space.shape)]
        space.tensors.append(loop_tensor(offsets, 0, "i64", positions=True))
        space.operands.append(op.x)
        number = Symbolic("i64", operand=len(space.tensors) - 1)
        weights[dim] = cast_to(number, "f32") * 2.0**-_WEIGHT_BITS

    def between(dims: Sequence[int], chosen: dict[int, Array]) -> Symbolic:
        if not dims:
            found = [chosen.get(dim, index) for dim, index in enumerate(indices)]
            return space.add(op.x, [row[index] for row, index in zip(rows, found, strict=True)])
        dim, *others = dims
        one, two = (between(others, {**chosen, dim: index}) for index in neighbours[dim])
        return one + (two - one) * weights[dim]

    return space.loop(op, between(list(positions), {}))


def pad_loop(op: nn.PadOp) -> Found:
    """The elements, and what stands around them: a number, or elements again."""
    shape = layout_at_run_time(op.x.type).shape
    ends = list(zip(op.pads[: len(shape)], shape, op.pads[len(shape) :], strict=True))
    if op.mode != "constant":
        return _chosen(op, [pad_sources(begin, extent, end, op.mode) for begin, extent, end in ends])
    layout, dtype = layout_at_run_time(op.result.type), dtype_of(op.result.type)
    # What is left of x, which may lose elements at either end, and where that lies in the result.
    lows = [max(begin, 0) for begin, _, _ in ends]
    sources = [np.arange(max(-begin, 0), extent + min(end, 0)) for begin, extent, end in ends]
    inside = [
        row[low : low + len(of)] for row, low, of in zip(offsets_of(layout), lows, sources, strict=True)
    ]
    offsets = [
        row[of] if len(of) else of
        for row, of in zip(offsets_of(layout_at_run_time(op.x.type)), sources, strict=True)
    ]
    space = LoopSpace(tuple(map(len, sources)))
    border = pad_nests(
        [row.reshape(1, -1) for row in offsets_of(layout)], lows, [len(of) for of in sources], layout.offset
    )
    bits = bits_of_element(stored_number(op.value, dtype))
    return space.loop(op, space.add(op.x, offsets), inside, fills=[(nest, bits) for nest in border])


def gather_loop(op: nn.GatherOp) -> Found:
    """The elements at indices, constants or read while the loop runs. Raises LayoutError where there are none."""
    x, indices = layout_at_run_time(op.x.type), layout_at_run_time(op.indices.type)
    axis, extent = op.axis, x.shape[op.axis]
    offsets = offsets_of(x)
    constant = op.indices.owner
    if isinstance(constant, nn.ConstantOp) and indices.rank <= 1 and indices.nelems:
        chosen = np.broadcast_to(literal_array(constant), indices.shape).astype(np.int64)
        if ((chosen >= -extent) & (chosen < extent)).all():
            places = offsets[axis][chosen % extent]
            space = LoopSpace((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
            around = [*offsets[:axis], *([places] if indices.rank else []), *offsets[axis + 1 :]]
            return space.loop(op, space.add(op.x, around, 0 if indices.rank else int(places)))
    if not extent:
        raise LayoutError("no index is one of a dim without elements")
    space = LoopSpace((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    none = [np.zeros(e, np.int64) for e in space.shape]
    first, last = axis, axis + indices.rank
    begin = int(offsets[axis][0])
    choices = offsets[axis] - begin
    around = [*offsets[:axis], *none[first:last], *offsets[axis + 1 :]]
    graph = space.add(op.x, around, begin, gathered=(1, choices))
    space.add(op.indices, [*none[:first], *offsets_of(indices), *none[last:]])
    return space.loop(op, graph)


def update_loop(op: nn.OpaqueOp) -> Found | None:
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
    space = LoopSpace(shape.shape)
    update = space.add(updates)
    space.add(indices, [offsets_of(places)[0], *(np.zeros(extent, np.int64) for extent in rest)])
    first, *inside = offsets_of(y)
    choices = first - first[0]
    result = loop_tensor(
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
