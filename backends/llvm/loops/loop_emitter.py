"""A graph over tensors as a function of LLVM IR: loops over the indices, the innermost of which takes lanes at a time.

The function is `void @NAME(ptr arguments, ptr unused, i64 part, i64 parts)`, one part of which a thread does. The
arguments are an address per tensor, the result's last, and two numbers behind them: what `OUTSIDE` says.

Without folds, lanes are neighbours in the loop in which the tensors are most often dense. With folds, the dims that
they go over are the innermost loops, and there are two ways:

    lanes along a row        a partial result per lane, which are folded with each other when the row is over
    lanes across rows        each lane has a row of its own: where what is dense in memory are other dims than the
                             folded ones (a softmax over the channels of nchw)

A pass over a row gives those folds that need nothing of later passes, the last one writes elements; a result of one
number per row is written behind the folds. Of the last iterations in a loop that the lanes do not divide, some lanes
are masked. Pads of the result are filled by loops of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from layout_ir.backends.llvm.emission.iteration import Partition, all_iterations, partition
from layout_ir.backends.llvm.emission.kernels.conversion_arithmetic import lane_type
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, shuffle
from layout_ir.backends.llvm.loops.expression import Symbolic, combined, evaluated, folds_of, neutral
from layout_ir.backends.llvm.loops.float_functions import FloatFunctions
from layout_ir.backends.llvm.loops.loop_nest import DimOffsets, Loop, Nest, nests, ordered
from layout_ir.backends.llvm.loops.vector_numpy import (
    Vector,
    VectorNumPy,
    as_stored,
    constant,
    of_stored,
    register_element,
)
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.elements.element_types import bits_of
from layout_ir.errors import LayoutError

ARGUMENT_FOLDS = {"arg_maximum": "maximum", "arg_minimum": "minimum"}
"""Folds of pairs, an element and its index, that give the index of the first of the greatest or least elements."""

_PARTS = 16
"""Iterations of a loop from which on it is divided among threads, outer ones first: then no thread waits for long."""

_STRIDED, _FOLDED = 1.5, 10.0
"""What an element costs that is gathered lane by lane, and what folding the lanes of a row costs, in loads of vectors.
Only their order of magnitude matters: they decide which loop has the lanes."""


@dataclass(frozen=True, eq=False)
class LoopTensor:
    """A tensor of a kernel: of each dim of the index space the offsets of its indices (`loop_nest`), in elements.

    One that is chosen from is `gathered`: the number of the tensor of indices, and of the dim that they are of, the
    offset of each index, 0 of the first. A result that is gathered is written at the chosen elements, one index after
    the other. One of `positions` is no memory: its elements are their own offsets.
    """

    offsets: tuple[DimOffsets, ...]
    start: int
    dtype: str
    gathered: tuple[int, tuple[int, ...]] | None = None
    positions: bool = False

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return 1 if self.positions else max(bits_of(self.dtype) // 8, 1)


@dataclass(frozen=True, eq=False)
class LoopProgram:
    """What a kernel computes: `graph`, of which operand k is tensor k, on the index space of `tensors`.

    The last tensor is the result. Folds go over `axes`. `fills` are nests of the result alone, and the stored bits that
    all elements of each are to hold.
    """

    tensors: tuple[LoopTensor, ...]
    graph: Symbolic
    axes: frozenset[int] = frozenset()
    fills: tuple[tuple[Nest, int], ...] = ()


def emit_loops(name: str, program: LoopProgram, machine: Machine) -> str:
    """The function of a program, with its tables. Raises LayoutError for what there is no code for."""
    emitter = _Emitter(program, machine)
    emitter.emit()
    b = emitter.b
    tables = [line.replace("@table", f"@{name}.table") for line in b.globals]
    body = "\n".join(b.lines).replace("@table", f"@{name}.table")
    parameters = "ptr noalias %arguments, ptr %unused, i64 %part, i64 %parts"
    head = f"define void @{name}({parameters}) {machine.attributes}"
    return "\n".join([*tables, f"{head} {{\nentry:\n{body}\n  ret void\n}}"])


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Where an iteration works: a pointer per tensor, and of a loop with lanes how it goes on from there."""

    pointers: tuple[str, ...]
    steps: tuple[int | tuple[int, ...], ...] = ()
    first: Value = 0
    """The number of the iteration that the first lane is, which those tensors need whose steps are a table."""
    mask: str = ""
    """The lanes that are iterations, where not all are."""


Body = Callable[[_Cursor], None]


@dataclass
class _Emitter:
    program: LoopProgram
    machine: Machine
    b: Builder = field(init=False)

    def __post_init__(self) -> None:
        self.b = Builder()
        program = self.program
        self.tensors = program.tensors
        self.result = len(program.tensors) - 1
        self.passes = folds_of(program.graph)
        widths = [bits_of(node.dtype_name) for node in _nodes(program.graph)]
        widths += [bits_of(tensor.dtype) for tensor in program.tensors]
        self.kept = _kept(program.graph, self.passes, self.tensors[-1].dtype)
        self.natural = max(self.machine.vector * 8 // max(8, *widths), 1)
        """Lanes of a register."""

    # The whole --------------------------------------------------------------------------------------------------

    def emit(self) -> None:
        """All nests."""
        b, program = self.b, self.program
        pointers = tuple(
            "null" if tensor.positions else b.load("ptr", "%arguments", 8 * k)
            for k, tensor in enumerate(self.tensors)
        )
        for nest, value in program.fills:
            self._fill(nest, value, pointers[-1])
        rank = len(self.tensors[0].offsets)
        axes = program.axes if self.passes else frozenset[int]()
        offsets = [np.stack([tensor.offsets[d][0] for tensor in self.tensors]) for d in range(rank)]
        starts = [tensor.start for tensor in self.tensors]
        # Of a folded dim that is empty, the others still have results.
        one = [each[:, :1] if each.size else np.zeros((len(each), 1), np.int64) for each in offsets]
        kept = [one[d] if d in axes else each for d, each in enumerate(offsets)]
        inner = [each - one[d] for d, each in enumerate(offsets) if d in axes]
        folded = list(nests(inner, [0] * len(starts))) if inner else [Nest((0,) * len(starts), ())]
        for nest in nests(kept, starts):
            self._nest(nest, folded, pointers)

    def _moved(self, pointers: Sequence[str], starts: Sequence[int]) -> tuple[str, ...]:
        b = self.b
        return tuple(
            b.at(pointer, start * tensor.bytes)
            for pointer, start, tensor in zip(pointers, starts, self.tensors, strict=True)
        )

    def _nest(self, nest: Nest, folded: list[Nest], pointers: tuple[str, ...]) -> None:
        """The loops of one nest over rows, or over elements where nothing is folded."""
        by = [self.result, *range(self.result)]
        loops = ordered(nest.loops, by)
        inner = [replace(each, loops=tuple(ordered(each.loops, [0, *by]))) for each in folded]
        start = self._moved(pointers, nest.starts)
        across = self._best(loops, self.natural)
        if self.tensors[self.result].gathered is not None:
            self._updates(loops, start)
            return
        if not self.passes and not loops:
            self._rows(loops, -1, 1, start, self._single)
            return
        if not self.passes:
            lanes = min(2 * self.natural, _power(loops[across].count))
            self._rows(loops, across, lanes, start, lambda cursor, size: self._element(cursor, size))
            return
        largest = max(inner, key=lambda each: each.iterations, default=None)
        along = self._best(largest.loops, self.natural) if largest and largest.loops else -1
        if self._prefers_rows(loops, across, largest, along):
            lanes = min(4 * self.natural, _power(loops[across].count))
            self._rows(loops, across, lanes, start, lambda cursor, size: self._across(cursor, size, inner))
            return
        counts = [each.loops[self._best(each.loops, self.natural)].count for each in inner if each.loops]
        lanes = min(4 * self.natural, _power(max(counts, default=1)))
        self._rows(loops, -1, 1, start, lambda cursor, _: self._along(cursor, lanes, inner))

    def _updates(self, loops: list[Loop], start: tuple[str, ...]) -> None:
        """The loops of one nest whose result is gathered. Lanes have one index, as two of them may be the same."""
        chosen = self.tensors[self.result].gathered
        assert chosen is not None
        slices = [k for k, loop in enumerate(loops) if loop.step(chosen[0]) == 0]
        along = self._best([loops[k] for k in slices], self.natural)
        if along < 0:
            self._rows(loops, -1, 1, start, self._single)
            return
        across = slices[along]
        lanes = min(2 * self.natural, _power(loops[across].count))
        self._rows(loops, across, lanes, start, lambda cursor, size: self._element(cursor, size))

    def _cost(self, loop: Loop, lanes: int) -> float:
        """What an iteration costs on lanes along this loop, in loads of vectors."""
        lanes = min(lanes, _power(loop.count))
        used = loop.count / -(-loop.count // lanes)
        total = 0.0
        for k, tensor in enumerate(self.tensors):
            if tensor.positions:
                continue
            step = loop.step(k)
            if tensor.gathered is not None and loop.step(tensor.gathered[0]) != 0:
                step = None
            total += 1 / used if step in (0, 1) else _STRIDED
        return total

    def _best(self, loops: Sequence[Loop], lanes: int) -> int:
        """The loop on which lanes cost least; -1 where there is none."""
        return min(range(len(loops)), key=lambda k: (self._cost(loops[k], lanes), -k), default=-1)

    def _prefers_rows(self, loops: list[Loop], across: int, largest: Nest | None, along: int) -> bool:
        """Whether lanes lie across rows, not along them."""
        if across < 0:
            return False
        if largest is None or along < 0:
            return True
        folding = _FOLDED * sum(map(len, self.passes)) / max(largest.iterations, 1)
        return (
            self._cost(loops[across], self.natural) < self._cost(largest.loops[along], self.natural) + folding
        )

    # Loops ------------------------------------------------------------------------------------------------------

    def _rows(
        self, loops: list[Loop], lanes_of: int, lanes: int, start: tuple[str, ...],
        body: Callable[[_Cursor, int], None],
    ) -> None:  # fmt: skip
        """Loops, one of which is divided among threads, the one with lanes innermost, around `body`."""
        b = self.b
        outer = [loop for k, loop in enumerate(loops) if k != lanes_of]
        vector = loops[lanes_of] if lanes_of >= 0 else None
        counts = [loop.count for loop in outer] + ([vector.count // lanes] if vector is not None else [])
        divided = next((k for k, count in enumerate(counts) if count >= _PARTS), -1)
        if divided < 0 and counts:
            divided = max(range(len(counts)), key=lambda k: counts[k])
            divided = divided if counts[divided] > 1 else -1

        def nested(depth: int, cursor: _Cursor) -> None:
            if depth < len(outer):
                split = partition(b, parallel=True) if depth == divided else all_iterations
                with b.loop(*split(outer[depth].count)) as index:
                    nested(depth + 1, self._stepped(cursor, outer[depth], index))
                return
            if vector is None:
                body(cursor, 1)
                return
            split = partition(b, parallel=True) if divided == len(outer) else all_iterations
            self._vector_loop(vector, lanes, cursor, split, body, is_divided=divided == len(outer))

        if divided < 0:
            # One thread does it all.
            low, high = partition(b, parallel=True)(1)
            with b.loop(low, high):
                nested(0, _Cursor(start))
        else:
            nested(0, _Cursor(start))

    def _stepped(self, cursor: _Cursor, loop: Loop, index: Value) -> _Cursor:
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

    def _vector_loop(
        self, loop: Loop, lanes: int, cursor: _Cursor, split: Partition, body: Callable[[_Cursor, int], None],
        *, is_divided: bool = False,
    ) -> None:  # fmt: skip
        """A loop with lanes around `body`, which is told how many there are; the last of them are masked."""
        b = self.b
        blocks, rest = divmod(loop.count, lanes)
        cursor = self._resolved(replace(cursor, steps=loop.steps))
        if blocks:
            with b.loop(*split(blocks)) as index:
                body(self._at_lane(cursor, b.mul(index, lanes)), lanes)
        if not rest:
            return
        size = _power(rest)
        last = replace(self._at_lane(cursor, blocks * lanes), mask=_mask(size, rest))
        if is_divided:
            low, high = partition(b, parallel=True)(1)
            with b.loop(low, high):
                body(last, size)
        else:
            body(last, size)

    def _at_lane(self, cursor: _Cursor, first: Value) -> _Cursor:
        """The cursor whose first lane is iteration `first` of the loop with lanes."""
        b, pointers = self.b, list(cursor.pointers)
        for k, tensor in enumerate(self.tensors):
            step = cursor.steps[k]
            if isinstance(step, int):
                pointers[k] = b.at(pointers[k], b.mul(first, step * tensor.bytes))
        return replace(cursor, pointers=tuple(pointers), first=first)

    def _resolved(self, cursor: _Cursor) -> _Cursor:
        """The cursor in which tensors that are gathered by one index for all lanes begin where it says."""
        b, pointers = self.b, list(cursor.pointers)
        for k, tensor in enumerate(self.tensors):
            if tensor.gathered is not None and cursor.steps[tensor.gathered[0]] == 0:
                lanes = FloatFunctions(b, self.machine, 1)
                offset = self._chosen(lanes, cursor, tensor)
                scalar = b.put(f"extractelement <1 x i64> {offset}, i64 0")
                pointers[k] = b.at(pointers[k], scalar)
        return replace(cursor, pointers=tuple(pointers))

    # Memory -----------------------------------------------------------------------------------------------------

    def _offsets(self, lanes: FloatFunctions, k: int, cursor: _Cursor) -> str:
        """How many bytes behind the pointer of tensor k each lane is: a vector of i64."""
        b, tensor = self.b, self.tensors[k]
        step = cursor.steps[k] if cursor.steps else 0
        if isinstance(step, int):
            values = [lane * step * tensor.bytes for lane in range(lanes.size)]
            return f"<{', '.join(f'i64 {value}' for value in values)}>"
        # As many entries more as a masked vector may read.
        table = b.table([*(s * tensor.bytes for s in step), *[0] * lanes.size])
        return b.put(f"load {lanes.vector('i64')}, ptr {b.at(table, b.mul(cursor.first, 8))}, align 8")

    def _chosen(self, lanes: FloatFunctions, cursor: _Cursor, tensor: LoopTensor) -> str:
        """The bytes by which the indices of a gathered tensor move each lane. An index that is outside is noted."""
        assert tensor.gathered is not None
        b, (number, offsets) = self.b, tensor.gathered
        of = self.tensors[number].dtype
        given = lanes.resized(self._loaded(lanes, number, cursor), lane_type(of), "i64", signed=True)
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
        table = b.table([offset * tensor.bytes for offset in offsets])
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

    def _loaded(self, lanes: FloatFunctions, k: int, cursor: _Cursor) -> str:
        """Elements of tensor k as they are stored; 0 in masked lanes, or anything."""
        b, tensor, pointer = self.b, self.tensors[k], cursor.pointers[k]
        step = cursor.steps[k] if cursor.steps else 0
        if tensor.positions:
            base = b.put(f"ptrtoint ptr {pointer} to i64")
            whole = self._spread(lanes, "i64", base)
            return b.put(f"add {lanes.vector('i64')} {whole}, {self._offsets(lanes, k, cursor)}")
        element = lane_type(tensor.dtype)
        width = max(int(element[1:]) // 8, 1)
        align = 1 if self.machine.unaligned else width
        if tensor.gathered is not None and cursor.steps and cursor.steps[tensor.gathered[0]] != 0:
            offsets = self._chosen(lanes, cursor, tensor)
            offsets = b.put(f"add {lanes.vector('i64')} {offsets}, {self._offsets(lanes, k, cursor)}")
            return self._gather(lanes, element, pointer, offsets, align, cursor.mask)
        if step == 0 or (lanes.size == 1 and isinstance(step, int)):
            return self._spread(lanes, element, b.put(f"load {element}, ptr {pointer}, align {align}"))
        if step != 1:
            offsets = self._offsets(lanes, k, cursor)
            return self._gather(lanes, element, pointer, offsets, align, cursor.mask)
        vector = lanes.vector(element)
        if not cursor.mask:
            return b.put(f"load {vector}, ptr {pointer}, align {align}")
        name = f"llvm.masked.load.v{lanes.size}{element}.p0"
        mask = f"{lanes.vector('i1')} {cursor.mask}"
        return b.put(f"call {vector} @{name}(ptr {pointer}, i32 {align}, {mask}, {vector} zeroinitializer)")

    def _spread(self, lanes: FloatFunctions, element: str, scalar: str) -> str:
        """The vector with `scalar` in every lane."""
        vector = lanes.vector(element)
        one = self.b.put(f"insertelement {vector} poison, {element} {scalar}, i64 0")
        return (
            one if lanes.size == 1 else shuffle(self.b, element, one, "poison", lanes.size, [0] * lanes.size)
        )

    def _stored(self, lanes: FloatFunctions, value: str, cursor: _Cursor) -> None:
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
            name = f"llvm.masked.store.v{lanes.size}{element}.p0"
            b.do(f"call void @{name}({vector} {value}, ptr {pointer}, i32 {align}, {mask})")
        else:
            b.do(f"store {vector} {value}, ptr {pointer}, align {align}")

    def _fill(self, nest: Nest, bits: int, pointer: str) -> None:
        """Writes the same bits to all elements of a nest of the result alone."""
        loops = ordered(nest.loops, [0])
        tensors, self.tensors = self.tensors, self.tensors[-1:]
        result, self.result = self.result, 0
        element = lane_type(self.tensors[0].dtype)

        def body(cursor: _Cursor, size: int) -> None:
            lanes = FloatFunctions(self.b, self.machine, size)
            value = self._spread(lanes, element, str(bits))
            self._stored(lanes, value, cursor)

        across = self._best(loops, self.natural)
        count = loops[across].count if loops else 1
        start = self._moved((pointer,), nest.starts)
        self._rows(loops, across, min(self.natural, _power(count)), start, body)
        self.tensors, self.result = tensors, result

    # Computing --------------------------------------------------------------------------------------------------

    def _operand(self, lanes: FloatFunctions, cursor: _Cursor) -> Callable[[Symbolic], Vector]:
        """The elements of an operand in the type that they are computed in."""

        def load(node: Symbolic) -> Vector:
            if node.number is not None:
                return constant(lanes, node.number, node.dtype_name)
            return of_stored(
                lanes, self._loaded(lanes, node.operand, cursor), self.tensors[node.operand].dtype
            )

        return load

    def _reloaded(self, lanes: FloatFunctions, cursor: _Cursor) -> dict[Symbolic, Vector]:
        """What the last fold left in the place of the result."""
        if self.kept is None:
            return {}
        stored = self._loaded(lanes, self.result, cursor)
        return {self.kept: of_stored(lanes, stored, self.tensors[self.result].dtype)}

    def _element(self, cursor: _Cursor, size: int) -> None:
        """The result at lanes of elements, where nothing is folded."""
        lanes = FloatFunctions(self.b, self.machine, size)
        value = evaluated(self.program.graph, {}, self._operand(lanes, cursor))
        self._stored(lanes, as_stored(value, self.tensors[self.result].dtype), cursor)

    def _single(self, cursor: _Cursor, size: int) -> None:
        """The result at one element that no loop has lanes for."""
        steps = (0,) * len(self.tensors)
        self._element(self._resolved(replace(cursor, steps=steps)), size)

    def _across(self, cursor: _Cursor, size: int, inner: list[Nest]) -> None:
        """The results of rows, one in each lane."""
        lanes = FloatFunctions(self.b, self.machine, size)
        rows: dict[Symbolic, Vector] = {}
        for folds in self.passes:
            states = self._identities(lanes, folds)
            seeds = self._seeds(lanes, folds, rows)
            for nest in inner:
                states = self._folded(folds, states, nest, cursor, lanes, seeds)
            rows.update((fold, state[-1]) for fold, state in zip(folds, states, strict=True))
        self._write(cursor, lanes, inner, rows)

    def _write(
        self, cursor: _Cursor, lanes: FloatFunctions, inner: list[Nest], rows: dict[Symbolic, Vector]
    ) -> None:
        """The last pass of rows in lanes."""
        graph, dtype = self.program.graph, self.tensors[self.result].dtype
        if graph.is_row:
            value = evaluated(graph, dict(rows), _numbers(lanes))
            self._stored(lanes, as_stored(value, dtype), cursor)
            return
        seeds = self._seeds(lanes, [graph], rows)

        def body(at: _Cursor) -> None:
            value = evaluated(graph, seeds | self._reloaded(lanes, at), self._operand(lanes, at))
            self._stored(lanes, as_stored(value, dtype), at)

        for nest in inner:
            moved = replace(cursor, pointers=self._moved(cursor.pointers, nest.starts))
            self._plain_loops(list(nest.loops), moved, body)

    def _plain_loops(self, loops: list[Loop], cursor: _Cursor, body: Body) -> None:
        if not loops:
            body(cursor)
            return
        with self.b.loop(0, loops[0].count) as index:
            self._plain_loops(loops[1:], self._stepped(cursor, loops[0], index), body)

    def _seeds(
        self, lanes: FloatFunctions, wanted: Sequence[Symbolic], rows: dict[Symbolic, Vector]
    ) -> dict[Symbolic, Vector]:
        """The numbers per row that the code of elements asks for."""
        seeds: dict[Symbolic, Vector] = {}
        for node in _frontier(wanted):
            seeds[node] = evaluated(node, rows, _numbers(lanes))
        return seeds

    def _identities(self, lanes: FloatFunctions, folds: Sequence[Symbolic]) -> list[list[Vector]]:
        """What the folds begin with."""
        result: list[list[Vector]] = []
        for fold in folds:
            [x, *_] = fold.nodes
            if fold.fold in ARGUMENT_FOLDS:
                value = neutral(ARGUMENT_FOLDS[fold.fold], x.dtype_name)
                last = constant(lanes, (1 << 63) - 1, "i64")
                result.append([constant(lanes, value, x.dtype_name), last])
            else:
                result.append([constant(lanes, neutral(fold.fold, x.dtype_name), x.dtype_name)])
        return result

    def _folded(
        self, folds: Sequence[Symbolic], states: list[list[Vector]], nest: Nest, cursor: _Cursor,
        lanes: FloatFunctions, seeds: dict[Symbolic, Vector],
    ) -> list[list[Vector]]:  # fmt: skip
        """The states of folds behind a nest of folded dims, each lane having a row."""
        moved = replace(cursor, pointers=self._moved(cursor.pointers, nest.starts))

        def body(at: _Cursor, held: list[list[Vector]]) -> list[list[Vector]]:
            return self._taken_in(folds, held, at, lanes, seeds)

        return self._carried(list(nest.loops), moved, states, body)

    def _carried(
        self, loops: list[Loop], cursor: _Cursor, states: list[list[Vector]],
        body: Callable[[_Cursor, list[list[Vector]]], list[list[Vector]]],
    ) -> list[list[Vector]]:  # fmt: skip
        """Loops that hand states from one iteration to the next."""
        if not loops:
            return body(cursor, states)

        def iteration(index: Value, values: list[str]) -> list[str]:
            at = self._stepped(cursor, loops[0], index)
            return _flat(self._carried(loops[1:], at, _like(states, values), body))

        return _like(states, self.b.carried(0, loops[0].count, _typed(states), iteration))

    def _taken_in(
        self, folds: Sequence[Symbolic], states: list[list[Vector]], cursor: _Cursor, lanes: FloatFunctions,
        seeds: dict[Symbolic, Vector],
    ) -> list[list[Vector]]:  # fmt: skip
        """The states of folds with the elements at `cursor`."""
        known = dict(seeds)
        load = self._operand(lanes, cursor)
        result: list[list[Vector]] = []
        for fold, state in zip(folds, states, strict=True):
            given = [evaluated(argument, known, load) for argument in fold.nodes]
            if self.kept is not None and fold.nodes[0] is self.kept:
                self._stored(lanes, as_stored(given[0], self.tensors[self.result].dtype), cursor)
            new = _combined(fold, state, given)
            if cursor.mask and lanes.size > 1 and self._masks_elements:
                mask = Vector(lanes, cursor.mask, "i1")
                new = [VectorNumPy.where(mask, a, b) for a, b in zip(new, state, strict=True)]
            result.append(new)
        return result

    _masks_elements = False
    """Whether masked lanes are elements that are none: not, where they are rows that are none."""

    def _along(self, cursor: _Cursor, size: int, inner: list[Nest]) -> None:
        """The result of one row, with lanes along it."""
        b = self.b
        lanes, single = FloatFunctions(b, self.machine, size), FloatFunctions(b, self.machine, 1)
        rows: dict[Symbolic, Vector] = {}
        dtype = self.tensors[self.result].dtype
        for folds in self.passes:
            states = self._identities(lanes, folds)
            seeds = self._splats(lanes, self._seeds(single, folds, rows))
            for nest in inner:
                states = self._folded_lanes(folds, states, nest, cursor, lanes, seeds)
            for fold, state in zip(folds, states, strict=True):
                rows[fold] = self._folded_across(fold, state, single)[-1]
        graph = self.program.graph
        if graph.is_row:
            value = evaluated(graph, dict(rows), _numbers(single))
            self._stored(single, as_stored(value, dtype), cursor)
            return
        found = self._seeds(single, [graph], rows)
        seeds = self._splats(lanes, found)
        for nest in inner:
            outer, vector = self._with_lanes(nest)
            moved = replace(cursor, pointers=self._moved(cursor.pointers, nest.starts))

            def body(at: _Cursor, width: int) -> None:
                here = FloatFunctions(b, self.machine, width)
                own = seeds if width == size else self._splats(here, found)
                value = evaluated(graph, own | self._reloaded(here, at), self._operand(here, at))
                self._stored(here, as_stored(value, dtype), at)

            def loop(
                at: _Cursor, vector: Loop | None = vector, body: Callable[[_Cursor, int], None] = body
            ) -> None:
                if vector is None:
                    body(at, 1)
                else:
                    self._vector_loop(vector, size, at, all_iterations, body)

            self._plain_loops(outer, moved, loop)

    def _with_lanes(self, nest: Nest) -> tuple[list[Loop], Loop | None]:
        """The loops of a nest without the one that has the lanes, and that one."""
        if not nest.loops:
            return [], None
        best = self._best(nest.loops, self.natural)
        return [loop for k, loop in enumerate(nest.loops) if k != best], nest.loops[best]

    def _folded_lanes(
        self, folds: Sequence[Symbolic], states: list[list[Vector]], nest: Nest, cursor: _Cursor,
        lanes: FloatFunctions, seeds: dict[Symbolic, Vector],
    ) -> list[list[Vector]]:  # fmt: skip
        """The states of folds behind a nest of folded dims, with lanes along the rows."""
        b, size = self.b, lanes.size
        outer, vector = self._with_lanes(nest)
        moved = replace(cursor, pointers=self._moved(cursor.pointers, nest.starts))
        # One element alone is a loop of one iteration.
        vector = vector or Loop(1, (1,) * len(self.tensors))
        blocks, rest = divmod(vector.count, size)

        def body(at: _Cursor, held: list[list[Vector]]) -> list[list[Vector]]:
            at = self._resolved(replace(at, steps=vector.steps))
            if blocks:

                def block(index: Value, values: list[str]) -> list[str]:
                    here = self._at_lane(at, b.mul(index, size))
                    return _flat(self._taken_in(folds, _like(held, values), here, lanes, seeds))

                held = _like(held, b.carried(0, blocks, _typed(held), block))
            if rest:
                last = replace(self._at_lane(at, blocks * size), mask=_mask(size, rest))
                self._masks_elements = True
                held = self._taken_in(folds, held, last, lanes, seeds)
                self._masks_elements = False
            return held

        return self._carried(outer, moved, states, body)

    def _folded_across(self, fold: Symbolic, state: list[Vector], single: FloatFunctions) -> list[Vector]:
        """The fold of all lanes, as one lane."""
        b = self.b
        while state[0].lanes.size > 1:
            size = state[0].lanes.size
            half = FloatFunctions(b, self.machine, size // 2)
            halves: list[list[Vector]] = []
            for first in (0, size // 2):
                mask = list(range(first, first + size // 2))
                halves.append([
                    Vector(
                        half if size > 2 else single,
                        shuffle(b, register_element(v.dtype_name), v.value, "poison", size, mask),
                        v.dtype_name,
                    )
                    for v in state
                ])  # fmt: skip
            state = _combined(fold, *halves)
        return [Vector(single, v.value, v.dtype_name) for v in state]

    def _splats(self, lanes: FloatFunctions, rows: dict[Symbolic, Vector]) -> dict[Symbolic, Vector]:
        """Numbers of one lane in every lane."""
        result: dict[Symbolic, Vector] = {}
        for node, x in rows.items():
            value = x.value
            if lanes.size > 1:
                lines = "zeroinitializer"
                vector = f"<1 x {register_element(x.dtype_name)}>"
                value = self.b.put(
                    f"shufflevector {vector} {value}, {vector} poison, <{lanes.size} x i32> {lines}"
                )
            result[node] = Vector(lanes, value, x.dtype_name)
        return result


def _numbers(lanes: FloatFunctions) -> Callable[[Symbolic], Vector]:
    """The constants among the operands of a number per row: it has no others."""

    def load(node: Symbolic) -> Vector:
        if node.number is None:
            raise LayoutError("a number of a row depends on single elements")
        return constant(lanes, node.number, node.dtype_name)

    return load


def _nodes(graph: Symbolic, *, through_folds: bool = True) -> Iterator[Symbolic]:
    """The nodes of a graph; without `through_folds`, not what folds go over."""
    seen: set[Symbolic] = set()
    left = [graph]
    while left:
        node = left.pop()
        if node not in seen:
            seen.add(node)
            yield node
            if through_folds or not node.fold:
                left.extend(node.nodes)


def _frontier(wanted: Sequence[Symbolic]) -> list[Symbolic]:
    """The numbers per row that the elements of `wanted` are computed from; of a fold, those of its argument."""
    found: dict[Symbolic, None] = {}
    seen: set[Symbolic] = set()
    left: list[Symbolic] = []
    for node in wanted:
        left.extend(node.nodes if node.fold else [node])
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.is_row:
            found[node] = None
        else:
            left.extend(node.nodes)
    return list(found)


def _kept(graph: Symbolic, passes: Sequence[Sequence[Symbolic]], dtype: str) -> Symbolic | None:
    """What the last folds go over and elements are computed from again, if memory of `dtype` holds it exactly.

    It is stored in the place of the result meanwhile: the exponential of a softmax is computed once.
    """
    if graph.is_row or not passes:
        return None
    again = set(_nodes(graph, through_folds=False))
    for fold in passes[-1]:
        x = fold.nodes[0]
        if (
            fold.fold not in ARGUMENT_FOLDS
            and x in again
            and x.function is not None
            and x.dtype_name == dtype
        ):
            return x
    return None


def _combined(fold: Symbolic, state: list[Vector], given: list[Vector]) -> list[Vector]:
    """A fold of what it has with what is given: numbers, or pairs of a number and its index."""
    if fold.fold not in ARGUMENT_FOLDS:
        return [combined(fold.fold, state[0], given[0])]
    (x, at), (y, here) = state, given
    larger = y > x if fold.fold == "arg_maximum" else y < x
    ties = y == x
    if x.dtype.kind == "f":
        x_nan, y_nan = x != x, y != y
        larger = larger | (y_nan & (x == x))
        ties = ties | (x_nan & y_nan)
    takes = larger | (ties & (here < at))
    return [VectorNumPy.where(takes, y, x), VectorNumPy.where(takes, here, at)]


def _flat(states: list[list[Vector]]) -> list[str]:
    return [vector.value for state in states for vector in state]


def _typed(states: list[list[Vector]]) -> list[tuple[str, str]]:
    return [(vector.type, vector.value) for state in states for vector in state]


def _like(states: list[list[Vector]], values: Sequence[str]) -> list[list[Vector]]:
    """The vectors of these names, of the types that `states` have."""
    left = iter(values)
    return [[Vector(vector.lanes, next(left), vector.dtype_name) for vector in state] for state in states]


def _power(count: int) -> int:
    """The power of two from `count` on, 1 at least."""
    return 1 << max(count - 1, 0).bit_length()


def _mask(size: int, count: int) -> str:
    """The first `count` of `size` lanes; empty where that is all of them."""
    if size == count:
        return ""
    return f"<{', '.join(f'i1 {str(lane < count).lower()}' for lane in range(size))}>"


def pad_nests(
    offsets: Sequence[DimOffsets], lo: Sequence[int], shape: Sequence[int], start: int
) -> list[Nest]:
    """The nests over the positions of a padded box that are no element: dims before one inside of the tensor, that one
    in its pads, those behind anywhere."""
    result: list[Nest] = []
    insides = [slice(low, low + extent) for low, extent in zip(lo, shape, strict=True)]
    for dim, row in enumerate(offsets):
        ends = row[:, : lo[dim]], row[:, lo[dim] + shape[dim] :]
        for outside in ends:
            if outside.shape[1]:
                box = [r[:, inside] for r, inside in zip(offsets[:dim], insides, strict=False)]
                result += nests([*box, outside, *offsets[dim + 1 :]], [start])
    return result
