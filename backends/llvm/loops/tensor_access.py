"""Elements of tensors in the lanes of registers: where an iteration works, loads and stores.

A tensor moves by a step from one lane to the next: none, one element, several, or an entry of a table. Where all lanes
are neighbours that is one load; else each lane has an address of its own. What is chosen by indices (`LoopTensor`) has
these added to its addresses, and an index that is outside is noted behind the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from layout_ir.backends.llvm.emission.kernels.conversion_arithmetic import lane_type
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, spread
from layout_ir.backends.llvm.loops.float_functions import FloatFunctions
from layout_ir.backends.llvm.loops.loop_nest import Loop
from layout_ir.backends.llvm.loops.loop_program import LoopTensor
from layout_ir.backends.llvm.loops.masked_lanes import masked_load, masked_store
from layout_ir.backends.llvm.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where an iteration works: a pointer per tensor, and of a loop with lanes how it goes on from there."""

    pointers: tuple[str, ...]
    steps: tuple[int | tuple[int, ...], ...] = ()
    first: Value = 0
    """The number of the iteration that the first lane is, which those tensors need whose steps are a table."""
    mask: str = ""
    """The lanes that are iterations, where not all are."""


@dataclass(frozen=True, eq=False)
class TensorAccess:
    """Code that reads the tensors of a loop, and writes the last of them."""

    b: Builder
    machine: Machine
    tensors: Sequence[LoopTensor]

    @property
    def result(self) -> int:
        """The number of the tensor that is written."""
        return len(self.tensors) - 1

    def moved(self, pointers: Sequence[str], starts: Sequence[int]) -> tuple[str, ...]:
        """The pointers, each so many elements further."""
        b = self.b
        return tuple(
            b.at(pointer, start * tensor.bytes)
            for pointer, start, tensor in zip(pointers, starts, self.tensors, strict=True)
        )

    def stepped(self, cursor: Cursor, loop: Loop, index: Value) -> Cursor:
        """The cursor of iteration `index` of a loop without lanes."""
        b, pointers = self.b, list(cursor.pointers)
        for k, tensor in enumerate(self.tensors):
            step = loop.steps[k]
            if isinstance(step, tuple):
                offset: Value = b.entry(b.table([s * tensor.bytes for s in step]), index)
            else:
                offset = b.mul(index, step * tensor.bytes)
            pointers[k] = b.at(pointers[k], offset)
        return replace(cursor, pointers=tuple(pointers))

    def at_lane(self, cursor: Cursor, first: Value) -> Cursor:
        """The cursor whose first lane is iteration `first` of the loop with lanes."""
        b, pointers = self.b, list(cursor.pointers)
        for k, tensor in enumerate(self.tensors):
            step = cursor.steps[k]
            if isinstance(step, int):
                pointers[k] = b.at(pointers[k], b.mul(first, step * tensor.bytes))
        return replace(cursor, pointers=tuple(pointers), first=first)

    def resolved(self, cursor: Cursor) -> Cursor:
        """The cursor in which tensors that are gathered by one index for all lanes begin where it says."""
        b, pointers = self.b, list(cursor.pointers)
        for k, tensor in enumerate(self.tensors):
            if tensor.gathered is not None and cursor.steps[tensor.gathered[0]] == 0:
                lanes = FloatFunctions(b, self.machine, 1)
                offset = self._chosen(lanes, cursor, tensor)
                scalar = b.put(f"extractelement <1 x i64> {offset}, i64 0")
                pointers[k] = b.at(pointers[k], scalar)
        return replace(cursor, pointers=tuple(pointers))

    def _offsets(self, lanes: FloatFunctions, k: int, cursor: Cursor) -> str:
        """How many bytes behind the pointer of tensor k each lane is: a vector of i64."""
        b, tensor = self.b, self.tensors[k]
        step = cursor.steps[k] if cursor.steps else 0
        if isinstance(step, int):
            values = [lane * step * tensor.bytes for lane in range(lanes.size)]
            return f"<{', '.join(f'i64 {value}' for value in values)}>"
        # As many entries more as a masked vector may read.
        table = b.table([*(s * tensor.bytes for s in step), *[0] * lanes.size])
        return b.put(f"load {lanes.vector('i64')}, ptr {b.at(table, b.mul(cursor.first, 8))}, align 8")

    def _chosen(self, lanes: FloatFunctions, cursor: Cursor, tensor: LoopTensor) -> str:
        """The bytes by which the indices of a gathered tensor move each lane. An index that is outside is noted."""
        assert tensor.gathered is not None
        b, (number, offsets) = self.b, tensor.gathered
        of = self.tensors[number].dtype
        given = lanes.resized(self.loaded(lanes, number, cursor), lane_type(of), "i64", signed=True)
        extent = len(offsets)
        negative = lanes.compare("slt", given, 0, "i64")
        index = lanes.choose(negative, "i64", lanes.bits("add", given, extent, "i64"), given)
        bad = lanes.compare("uge", index, extent, "i64")
        flags, vector = lanes.vector("i1"), lanes.vector("i64")
        if cursor.mask:
            bad = b.put(f"and {flags} {bad}, {cursor.mask}")
        some = b.put(f"call i1 @llvm.vector.reduce.or.v{lanes.size}i1({flags} {bad})")
        found = lanes.choose(bad, "i64", given, lanes.splat("i64", -(1 << 63)))
        with b.either(some) as otherwise:
            status = b.at("%arguments", 8 * len(self.tensors))
            b.store("i64", "1", status)
            worst = b.put(f"call i64 @llvm.vector.reduce.smax.v{lanes.size}i64({vector} {found})")
            b.store("i64", worst, status, 8)
            otherwise()
        index = lanes.choose(bad, "i64", lanes.splat("i64", 0), index)
        steps = np.diff(offsets) if extent > 1 else np.zeros(1, np.int64)
        if (steps == steps[0]).all():
            return lanes.bits("mul", index, int(steps[0]) * tensor.bytes, "i64")
        table = b.table((offsets * tensor.bytes).tolist())
        return self._gather(lanes, "i64", table, lanes.bits("shl", index, 3, "i64"), 8, "")

    def _gather(
        self, lanes: FloatFunctions, element: str, base: str, offsets: str, align: int, mask: str
    ) -> str:
        b, vector = self.b, lanes.vector(element)
        at = b.put(f"getelementptr i8, ptr {base}, {lanes.vector('i64')} {offsets}")
        name = f"llvm.masked.gather.v{lanes.size}{element}.v{lanes.size}p0"
        flags = f"{lanes.vector('i1')} {mask or 'splat (i1 true)'}"
        return b.put(
            f"call {vector} @{name}({lanes.vector('ptr')} {at}, i32 {align}, {flags}, {vector} zeroinitializer)"
        )

    def loaded(self, lanes: FloatFunctions, k: int, cursor: Cursor) -> str:
        """Elements of tensor k as they are stored; 0 in masked lanes, or anything."""
        b, tensor, pointer = self.b, self.tensors[k], cursor.pointers[k]
        step = cursor.steps[k] if cursor.steps else 0
        if tensor.positions:
            base = b.put(f"ptrtoint ptr {pointer} to i64")
            whole = spread(b, "i64", base, lanes.size)
            return b.put(f"add {lanes.vector('i64')} {whole}, {self._offsets(lanes, k, cursor)}")
        element = lane_type(tensor.dtype)
        width = max(int(element[1:]) // 8, 1)
        align = 1 if self.machine.unaligned else width
        if tensor.gathered is not None and cursor.steps and cursor.steps[tensor.gathered[0]] != 0:
            offsets = self._chosen(lanes, cursor, tensor)
            offsets = b.put(f"add {lanes.vector('i64')} {offsets}, {self._offsets(lanes, k, cursor)}")
            return self._gather(lanes, element, pointer, offsets, align, cursor.mask)
        if step == 0 or (lanes.size == 1 and isinstance(step, int)):
            return spread(b, element, b.put(f"load {element}, ptr {pointer}, align {align}"), lanes.size)
        if step != 1:
            offsets = self._offsets(lanes, k, cursor)
            return self._gather(lanes, element, pointer, offsets, align, cursor.mask)
        vector = lanes.vector(element)
        if not cursor.mask:
            return b.put(f"load {vector}, ptr {pointer}, align {align}")
        return masked_load(b, element, pointer, lanes.size, cursor.mask, align)

    def stored(self, lanes: FloatFunctions, value: str, cursor: Cursor) -> None:
        """Writes elements of the result, as they are stored."""
        b, k = self.b, self.result
        tensor, pointer = self.tensors[k], cursor.pointers[k]
        step = cursor.steps[k] if cursor.steps else 0
        element = lane_type(tensor.dtype)
        vector = lanes.vector(element)
        align = 1 if self.machine.unaligned else max(int(element[1:]) // 8, 1)
        if lanes.size == 1 and isinstance(step, int):
            scalar = b.put(f"extractelement {vector} {value}, i64 0")
            b.do(f"store {element} {scalar}, ptr {pointer}, align {align}")
            return
        mask = f"{lanes.vector('i1')} {cursor.mask or 'splat (i1 true)'}"
        if step != 1:
            at = b.put(
                f"getelementptr i8, ptr {pointer}, {lanes.vector('i64')} {self._offsets(lanes, k, cursor)}"
            )
            name = f"llvm.masked.scatter.v{lanes.size}{element}.v{lanes.size}p0"
            b.do(f"call void @{name}({vector} {value}, {lanes.vector('ptr')} {at}, i32 {align}, {mask})")
        elif cursor.mask:
            masked_store(b, element, value, pointer, lanes.size, cursor.mask, align)
        else:
            b.do(f"store {vector} {value}, ptr {pointer}, align {align}")
