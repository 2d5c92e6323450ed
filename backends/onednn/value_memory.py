"""Where the values of a function lie: each in a buffer of its own, in a part of another's, or as a constant.

A constant is stored when it is first asked for, and once where equal ones are, as layers that are unrolled in time have
the weights of one in each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from layout_ir.algebra.layout import Layout
from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn.library import Refused
from layout_ir.backends.onednn.lifetime_plan import Lifetime, plan_arena
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor
from layout_ir.backends.onednn.op_primitives.primitive_operands import FLOATS
from layout_ir.backends.onednn.placement import Part
from layout_ir.backends.onednn.plan_steps import Buffer, ExecutionPlan, Owner, Place, buffers_of
from layout_ir.backends.onednn.primitives import ReorderPrimitive
from layout_ir.backends.reference.semantics import SEMANTICS, layout_at_run_time
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, dtype_of
from layout_ir.elements.aligned_arrays import aligned_bytes
from layout_ir.elements.numpy_types import Array, storage
from layout_ir.errors import LayoutError

_LOOKED_AT = 64
"""Bytes of a constant by which others are found that may be equal."""

_MOVED = 1 << 20
"""Bytes of a constant that are put in order at once, about: enough for what NumPy takes per call not to tell."""


class ValueMemory:
    """The places of values, whose buffers are those of `plan`; values of `parts` lie in those of others."""

    def __init__(self, plan: ExecutionPlan, parts: Mapping[SSAValue, Part]) -> None:
        self.parts = parts
        self._plan = plan
        self._places: dict[SSAValue, Place] = {}
        self._wholes: set[Buffer] = set()
        """Buffers that hold parts, over which nothing is written."""
        self._constants: dict[tuple[int, bytes], list[Buffer]] = {}
        """The buffers of constants, by size and some of the bytes."""

    # Places -----------------------------------------------------------------------------------------------------

    def place(self, value: SSAValue) -> Place:
        """Where a value lies, which has been given a place, or is a constant or a reorder of one."""
        if value not in self._places:
            op = value.owner
            if isinstance(op, ReorderOp):
                assert isinstance(op.input.owner, nn.ConstantOp)
                tensor = SEMANTICS[ReorderOp](op, SEMANTICS[nn.ConstantOp](op.input.owner))
            else:
                assert isinstance(op, nn.ConstantOp)
                tensor = SEMANTICS[nn.ConstantOp](op)
            self._places[value] = Place(self._constant(_stored(tensor.buffer)), tensor.layout, tensor.dtype)
        return self._places[value]

    def known(self, value: SSAValue) -> Place | None:
        """Where a value lies; None where it has no place yet."""
        return self._places.get(value)

    def put(self, value: SSAValue, place: Place) -> None:
        """Gives a value a place that others have as well."""
        self._places[value] = place

    def new(self, value: SSAValue, owner: Owner = Owner.ARENA, number: int = 0) -> Place:
        """Gives a value memory: a buffer of its own, or its part of another value's. Raises LayoutError for a layout
        that begins below its buffer."""
        layout, dtype = layout_at_run_time(value.type), dtype_of(value.type)
        part = self.parts.get(value)
        if part is not None and owner is Owner.ARENA:
            return self.new_part(value, part)
        if layout.first_address < 0:
            raise LayoutError(f"{layout} uses addresses below its buffer")
        size = max(layout.extent, 1) * storage(dtype).itemsize
        place = self._places[value] = Place(self.buffer(size, owner, number), layout, dtype)
        return place

    def new_part(self, value: SSAValue, part: Part) -> Place:
        """Gives a value its part of another's memory, which is made with its first part."""
        whole = self._places.get(part.whole) or self.new(part.whole)
        self._wholes.add(whole.buffer)
        layout, dtype = layout_at_run_time(value.type), dtype_of(value.type)
        start = whole.start + part.offset * storage(dtype).itemsize
        place = self._places[value] = Place(whole.buffer, layout, dtype, start=start)
        return place

    def take_back(self, value: SSAValue) -> None:
        """Takes back what `new` gave last."""
        place = self._places.pop(value)
        if place.buffer not in self._wholes:
            self._plan.buffers.remove(place.buffer)

    def is_own(self, place: Place) -> bool:
        """Whether the buffer is in the arena and holds one value alone, so that another may be written over it."""
        return place.buffer.owner is Owner.ARENA and place.buffer not in self._wholes

    # Buffers ----------------------------------------------------------------------------------------------------

    def buffer(
        self, size: int, owner: Owner = Owner.ARENA, number: int = 0, array: Array | None = None
    ) -> Buffer:
        """A new buffer of so many bytes."""
        buffer = Buffer(size, owner, number, array, index=len(self._plan.buffers))
        self._plan.buffers.append(buffer)
        return buffer

    def packed(
        self, constant: Array, wanted: MemoryDescriptor, order: tuple[int, Array] | None = None
    ) -> Buffer:
        """A buffer with a constant as `wanted` has it; with `order`, a dim and indices, its elements in that order."""
        library, dtype = self._plan.library, descriptors.dtype_of_array(constant)
        if order is not None:
            strides = _plain_strides(wanted, constant.shape, dtype)
            if strides is not None:
                return self._constant(_stored_in_order(constant, *order, strides, wanted.nbytes))
            stored = _packed_in_order(constant, *order, wanted, dtype)
            if stored is not None:
                return self._constant(stored)
            constant = _taken(constant, *order)
        plain = descriptors.row_major(library, constant.shape, dtype)
        if library.api.dnnl_memory_desc_equal(plain.handle, wanted.handle):
            return self._constant(_stored(constant))
        source, reorder = constant, _reorder_as_it_lies(constant, wanted, dtype)
        if reorder is None:
            source, reorder = np.ascontiguousarray(constant), ReorderPrimitive(plain, wanted)
        packed = aligned_bytes(wanted.nbytes)
        packed[...] = 0
        reorder(source.ctypes.data, packed.ctypes.data)
        return self._constant(packed)

    def _constant(self, stored: Array) -> Buffer:
        """The buffer of a constant: that of an equal one where there is one."""
        some = stored[:: max(stored.nbytes // _LOOKED_AT, 1)].tobytes()
        alike = self._constants.setdefault((stored.nbytes, some), [])
        for known in alike:
            assert known.array is not None
            if np.array_equal(known.array, stored):
                return known
        alike.append(self.buffer(stored.nbytes, Owner.CONSTANT, array=stored))
        return alike[-1]

    # The end ----------------------------------------------------------------------------------------------------

    def finish(self, op: ReturnOp) -> None:
        """Gives the plan, whose steps are all there, its results, and each buffer of the arena its lifetime and offset.

        A result that is row-major and a buffer of the arena of its own is written where the caller gets it.
        """
        plan = self._plan
        for number, value in enumerate(op.operands):
            place = self.place(value)
            buffer = place.buffer
            if buffer.owner is Owner.ARENA and place.is_dense and place.nbytes == buffer.size:
                buffer.owner, buffer.number = Owner.RESULT, number
            plan.results.append(place)
        born: set[Buffer] = set()
        for number, step in enumerate(plan.steps):
            for buffer in buffers_of(step):
                if buffer not in born:
                    born.add(buffer)
                    buffer.first = number
                buffer.last = max(buffer.last, number)
        for place in plan.results:
            place.buffer.last = len(plan.steps)
        own = [buffer for buffer in plan.buffers if buffer.owner is Owner.ARENA]
        plan.arena = plan_arena([Lifetime(b.size, b.first, b.last) for b in own])
        plan.offsets = dict(zip(own, plan.arena.offsets, strict=True))


def with_layout(place: Place, layout: Layout) -> Place:
    """The same buffer under another layout."""
    return replace(place, layout=layout)


def _packed_in_order(
    array: Array, dim: int, order: Array, wanted: MemoryDescriptor, dtype: str
) -> Array | None:
    """The bytes of `array` as `wanted` has it, its elements in `order` along a dim, which are moved some at a time.

    None where the library packs no parts: of integers it keeps sums beside them.
    """
    try:
        lies = wanted.blocking()
    except Refused:
        return None
    if dtype not in FLOATS:
        return None
    block = prod(size for size, d in zip(lies.inner_blks, lies.inner_idxs, strict=True) if d == dim)
    step = -(-max(1, _MOVED * len(order) // max(array.nbytes, 1)) // block) * block
    stored = aligned_bytes(wanted.nbytes)
    stored[...] = 0
    for start in range(0, len(order), step):
        part = _taken(array, dim, order[start : start + step])
        try:
            target = descriptors.part_of(wanted, part.shape, [start * (d == dim) for d in range(part.ndim)])
        except Refused:
            return None
        reorder = _reorder_as_it_lies(part, target, dtype)
        if reorder is None:
            return None
        reorder(part.ctypes.data, stored.ctypes.data)
    return stored


def _taken(array: Array, dim: int, order: Array) -> Array:
    """The elements of `array` in `order` along a dim; they lie in the order of dims of `array`, whose rows are copied
    as rows."""
    dims = sorted(range(array.ndim), key=lambda d: -abs(array.strides[d]))
    taken = np.take(array.transpose(dims), order, axis=dims.index(dim))
    return taken.transpose(np.argsort(dims))


def _reorder_as_it_lies(array: Array, wanted: MemoryDescriptor, dtype: str) -> ReorderPrimitive | None:
    """What packs an array, which may lie transposed or between others, without a copy in row-major order first.

    None where elements are broadcast or lie backwards, or the library reads them in row-major order alone.
    """
    item = array.itemsize
    dims = list(zip(array.shape, array.strides, strict=True))
    if any(extent > 1 and (stride <= 0 or stride % item) for extent, stride in dims):
        return None
    strides = [max(stride // item, 1) for _, stride in dims]
    strides = descriptors.conventional_strides(array.shape, strides)
    try:
        return ReorderPrimitive(descriptors.strided(wanted.library, array.shape, strides, dtype), wanted)
    except Refused:
        return None


def _plain_strides(
    descriptor: MemoryDescriptor, shape: tuple[int, ...], dtype: str
) -> tuple[int, ...] | None:
    """How far elements of `dtype` are apart in a tensor of `shape`; None for one in blocks, or of other elements."""
    library = descriptor.library
    try:
        strides = descriptor.blocking().strides
        plain = descriptors.strided(library, shape, strides, dtype)
    except Refused:
        return None
    return strides if library.api.dnnl_memory_desc_equal(plain.handle, descriptor.handle) else None


def _stored_in_order(array: Array, dim: int, order: Array, strides: tuple[int, ...], nbytes: int) -> Array:
    """`nbytes` bytes with the elements of `array` so many `strides` apart, in `order` along a dim.

    They are moved some at a time: all in order would be another copy of weights that take half of the memory.
    """
    stored = aligned_bytes(nbytes)
    stored[...] = 0
    item = array.itemsize
    seen = np.ndarray(array.shape, array.dtype, stored, strides=[stride * item for stride in strides])
    source, target = array.swapaxes(0, dim), seen.swapaxes(0, dim)
    step = max(1, _MOVED * len(order) // max(array.nbytes, 1))
    for start in range(0, len(order), step):
        target[start : start + step] = source[order[start : start + step]]
    return stored


def _stored(array: Array) -> Array:
    """The bytes of an array, row-major, on a cache line."""
    copy = aligned_bytes(max(array.nbytes, 1))
    copy[: array.nbytes].view(array.dtype).reshape(array.shape)[...] = array
    return copy
