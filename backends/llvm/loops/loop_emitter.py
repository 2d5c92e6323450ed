"""A graph over tensors as a function of LLVM IR: loops over the indices, the innermost of which takes lanes at a time.

The function is `void @NAME(ptr arguments, ptr unused, i64 part, i64 parts)`, one part of which a thread does. The
arguments are an address per tensor, the result's last, and two numbers behind them: what `loop_calls.OUTSIDE` says.

Without folds, lanes are neighbours in the loop in which the tensors are most often dense. With folds, the dims that
they go over are the innermost loops, and there are two ways:

    lanes along a row        a partial result per lane, which are folded with each other when the row is over
    lanes across rows        each lane has a row of its own: where what is dense in memory are other dims than the
                             folded ones (a softmax over the channels of nchw)

A pass over a row gives those folds that need nothing of later passes, the last one writes elements; a result of one
number per row is written behind the folds. Pads of the result are filled by loops of their own.

What elements are in memory is in `tensor_access`, loops and their lanes in `lane_loops`, partial results in
`fold_states`; here is what a program needs of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from layout_ir.backends.llvm.emission.iteration import all_iterations
from layout_ir.backends.llvm.emission.kernels.conversion_arithmetic import lane_type
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, spread
from layout_ir.backends.llvm.loops.expression import Symbolic, evaluated, folds_of, reachable
from layout_ir.backends.llvm.loops.float_functions import FloatFunctions
from layout_ir.backends.llvm.loops.fold_states import (
    ARGUMENT_FOLDS,
    State,
    across_lanes,
    flat,
    folded_in,
    identities,
    like,
    splats,
    typed,
)
from layout_ir.backends.llvm.loops.lane_loops import LaneLoops, first_lanes, power_of_two
from layout_ir.backends.llvm.loops.loop_calls import loop_function
from layout_ir.backends.llvm.loops.loop_nest import Loop, Nest, nests, ordered
from layout_ir.backends.llvm.loops.loop_program import LoopProgram
from layout_ir.backends.llvm.loops.tensor_access import Cursor, TensorAccess
from layout_ir.backends.llvm.loops.vector_numpy import Vector, VectorNumPy, as_stored, constant, of_stored
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.elements.element_types import bits_of
from layout_ir.errors import LayoutError

_FOLDED = 10.0
"""What folding the lanes of a row costs, in loads of vectors. Only its order of magnitude matters: it decides whether
lanes lie along rows or across them."""


def emit_loops(name: str, program: LoopProgram, machine: Machine) -> str:
    """The function of a program, with its tables. Raises LayoutError for what there is no code for."""
    emitter = _Emitter(program, machine)
    emitter.emit()
    return loop_function(name, emitter.b, machine)


class _Emitter:
    """The code of one program, nest by nest."""

    def __init__(self, program: LoopProgram, machine: Machine) -> None:
        self.program, self.machine = program, machine
        self.b = Builder()
        self.tensors = program.tensors
        self.result = len(program.tensors) - 1
        self.passes = folds_of(program.graph)
        self.kept = _kept(program.graph, self.passes, self.tensors[-1].dtype)
        widths = [bits_of(node.dtype_name) for node in reachable([program.graph])]
        widths += [bits_of(tensor.dtype) for tensor in program.tensors]
        self.natural = max(machine.vector * 8 // max(8, *widths), 1)
        """Lanes of a register."""
        self.memory = TensorAccess(self.b, machine, program.tensors)
        self.loops = LaneLoops(self.memory, self.natural)

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

    def _nest(self, nest: Nest, folded: list[Nest], pointers: tuple[str, ...]) -> None:
        """The loops of one nest over rows, or over elements where nothing is folded."""
        by = [self.result, *range(self.result)]
        loops = ordered(nest.loops, by)
        inner = [replace(each, loops=tuple(ordered(each.loops, [0, *by]))) for each in folded]
        start = self.memory.moved(pointers, nest.starts)
        across = self.loops.best(loops)
        if self.tensors[self.result].gathered is not None:
            self._updates(loops, start)
            return
        if not self.passes and not loops:
            self.loops.divided(loops, -1, 1, start, self._single)
            return
        if not self.passes:
            lanes = min(2 * self.natural, power_of_two(loops[across].count))
            self.loops.divided(loops, across, lanes, start, lambda cursor, size: self._element(cursor, size))
            return
        largest = max(inner, key=lambda each: each.iterations, default=None)
        along = self.loops.best(largest.loops) if largest and largest.loops else -1
        if self._prefers_rows(loops, across, largest, along):
            lanes = min(4 * self.natural, power_of_two(loops[across].count))
            self.loops.divided(
                loops, across, lanes, start, lambda cursor, size: self._across(cursor, size, inner)
            )
            return
        counts = [each.loops[self.loops.best(each.loops)].count for each in inner if each.loops]
        lanes = min(4 * self.natural, power_of_two(max(counts, default=1)))
        self.loops.divided(loops, -1, 1, start, lambda cursor, _: self._along(cursor, lanes, inner))

    def _updates(self, loops: list[Loop], start: tuple[str, ...]) -> None:
        """The loops of one nest whose result is gathered. Lanes have one index, as two of them may be the same."""
        chosen = self.tensors[self.result].gathered
        assert chosen is not None
        slices = [k for k, loop in enumerate(loops) if loop.step(chosen[0]) == 0]
        along = self.loops.best([loops[k] for k in slices])
        if along < 0:
            self.loops.divided(loops, -1, 1, start, self._single)
            return
        across = slices[along]
        lanes = min(2 * self.natural, power_of_two(loops[across].count))
        self.loops.divided(loops, across, lanes, start, lambda cursor, size: self._element(cursor, size))

    def _prefers_rows(self, loops: list[Loop], across: int, largest: Nest | None, along: int) -> bool:
        """Whether lanes lie across rows, not along them."""
        if across < 0:
            return False
        if largest is None or along < 0:
            return True
        folding = _FOLDED * sum(map(len, self.passes)) / max(largest.iterations, 1)
        return self.loops.cost(loops[across]) < self.loops.cost(largest.loops[along]) + folding

    def _fill(self, nest: Nest, bits: int, pointer: str) -> None:
        """Writes the same bits to all elements of a nest of the result alone."""
        result = self.tensors[self.result]
        memory = TensorAccess(self.b, self.machine, (result,))
        around = LaneLoops(memory, self.natural)
        loops = ordered(nest.loops, [0])

        def body(cursor: Cursor, size: int) -> None:
            lanes = FloatFunctions(self.b, self.machine, size)
            memory.stored(lanes, spread(self.b, lane_type(result.dtype), str(bits), lanes.size), cursor)

        across = around.best(loops)
        count = loops[across].count if loops else 1
        start = memory.moved((pointer,), nest.starts)
        around.divided(loops, across, min(self.natural, power_of_two(count)), start, body)

    # Computing --------------------------------------------------------------------------------------------------

    def _operand(self, lanes: FloatFunctions, cursor: Cursor) -> Callable[[Symbolic], Vector]:
        """The elements of an operand in the type that they are computed in."""

        def load(node: Symbolic) -> Vector:
            if node.number is not None:
                return constant(lanes, node.number, node.dtype_name)
            return of_stored(
                lanes, self.memory.loaded(lanes, node.operand, cursor), self.tensors[node.operand].dtype
            )

        return load

    def _reloaded(self, lanes: FloatFunctions, cursor: Cursor) -> dict[Symbolic, Vector]:
        """What the last fold left in the place of the result."""
        if self.kept is None:
            return {}
        stored = self.memory.loaded(lanes, self.result, cursor)
        return {self.kept: of_stored(lanes, stored, self.tensors[self.result].dtype)}

    def _element(self, cursor: Cursor, size: int) -> None:
        """The result at lanes of elements, where nothing is folded."""
        lanes = FloatFunctions(self.b, self.machine, size)
        value = evaluated(self.program.graph, {}, self._operand(lanes, cursor))
        self.memory.stored(lanes, as_stored(value, self.tensors[self.result].dtype), cursor)

    def _single(self, cursor: Cursor, size: int) -> None:
        """The result at one element that no loop has lanes for."""
        steps = (0,) * len(self.tensors)
        self._element(self.memory.resolved(replace(cursor, steps=steps)), size)

    def _across(self, cursor: Cursor, size: int, inner: list[Nest]) -> None:
        """The results of rows, one in each lane."""
        lanes = FloatFunctions(self.b, self.machine, size)
        rows: dict[Symbolic, Vector] = {}
        for folds in self.passes:
            states = identities(lanes, folds)
            seeds = self._seeds(lanes, folds, rows)
            for nest in inner:
                states = self._folded(folds, states, nest, cursor, lanes, seeds)
            rows.update((fold, state[-1]) for fold, state in zip(folds, states, strict=True))
        self._write(cursor, lanes, inner, rows)

    def _write(
        self, cursor: Cursor, lanes: FloatFunctions, inner: list[Nest], rows: dict[Symbolic, Vector]
    ) -> None:
        """The last pass of rows in lanes."""
        graph, dtype = self.program.graph, self.tensors[self.result].dtype
        if graph.is_row:
            value = evaluated(graph, dict(rows), _numbers(lanes))
            self.memory.stored(lanes, as_stored(value, dtype), cursor)
            return
        seeds = self._seeds(lanes, [graph], rows)

        def body(at: Cursor) -> None:
            value = evaluated(graph, seeds | self._reloaded(lanes, at), self._operand(lanes, at))
            self.memory.stored(lanes, as_stored(value, dtype), at)

        for nest in inner:
            moved = replace(cursor, pointers=self.memory.moved(cursor.pointers, nest.starts))
            self.loops.plain_loops(list(nest.loops), moved, body)

    def _seeds(
        self, lanes: FloatFunctions, wanted: Sequence[Symbolic], rows: dict[Symbolic, Vector]
    ) -> dict[Symbolic, Vector]:
        """The numbers per row that the code of elements asks for."""
        seeds: dict[Symbolic, Vector] = {}
        for node in _frontier(wanted):
            seeds[node] = evaluated(node, rows, _numbers(lanes))
        return seeds

    def _folded(
        self, folds: Sequence[Symbolic], states: list[State], nest: Nest, cursor: Cursor,
        lanes: FloatFunctions, seeds: dict[Symbolic, Vector],
    ) -> list[State]:  # fmt: skip
        """The states of folds behind a nest of folded dims, each lane having a row."""
        moved = replace(cursor, pointers=self.memory.moved(cursor.pointers, nest.starts))

        def body(at: Cursor, held: list[State]) -> list[State]:
            return self._taken_in(folds, held, at, lanes, seeds)

        return self._carried(list(nest.loops), moved, states, body)

    def _carried(
        self, loops: list[Loop], cursor: Cursor, states: list[State],
        body: Callable[[Cursor, list[State]], list[State]],
    ) -> list[State]:  # fmt: skip
        """Loops that hand states from one iteration to the next."""
        if not loops:
            return body(cursor, states)

        def iteration(index: Value, values: list[str]) -> list[str]:
            at = self.memory.stepped(cursor, loops[0], index)
            return flat(self._carried(loops[1:], at, like(states, values), body))

        return like(states, self.b.carried(0, loops[0].count, typed(states), iteration))

    def _taken_in(
        self, folds: Sequence[Symbolic], states: list[State], cursor: Cursor, lanes: FloatFunctions,
        seeds: dict[Symbolic, Vector], *, masks_elements: bool = False,
    ) -> list[State]:  # fmt: skip
        """The states of folds with the elements at `cursor`.

        With `masks_elements`, masked lanes are no elements of the row that all lanes have; else rows that are none.
        """
        known = dict(seeds)
        load = self._operand(lanes, cursor)
        result: list[State] = []
        for fold, state in zip(folds, states, strict=True):
            given = [evaluated(argument, known, load) for argument in fold.nodes]
            if self.kept is not None and fold.nodes[0] is self.kept:
                self.memory.stored(lanes, as_stored(given[0], self.tensors[self.result].dtype), cursor)
            new = folded_in(fold, state, given)
            if masks_elements and cursor.mask and lanes.size > 1:
                mask = Vector(lanes, cursor.mask, "i1")
                new = [VectorNumPy.where(mask, a, b) for a, b in zip(new, state, strict=True)]
            result.append(new)
        return result

    def _along(self, cursor: Cursor, size: int, inner: list[Nest]) -> None:
        """The result of one row, with lanes along it."""
        b = self.b
        lanes, single = FloatFunctions(b, self.machine, size), FloatFunctions(b, self.machine, 1)
        rows: dict[Symbolic, Vector] = {}
        dtype = self.tensors[self.result].dtype
        for folds in self.passes:
            states = identities(lanes, folds)
            seeds = splats(lanes, self._seeds(single, folds, rows))
            for nest in inner:
                states = self._folded_lanes(folds, states, nest, cursor, lanes, seeds)
            for fold, state in zip(folds, states, strict=True):
                rows[fold] = across_lanes(fold, state, single)[-1]
        graph = self.program.graph
        if graph.is_row:
            value = evaluated(graph, dict(rows), _numbers(single))
            self.memory.stored(single, as_stored(value, dtype), cursor)
            return
        found = self._seeds(single, [graph], rows)
        seeds = splats(lanes, found)
        for nest in inner:
            outer, vector = self._with_lanes(nest)
            moved = replace(cursor, pointers=self.memory.moved(cursor.pointers, nest.starts))

            def body(at: Cursor, width: int) -> None:
                here = FloatFunctions(b, self.machine, width)
                own = seeds if width == size else splats(here, found)
                value = evaluated(graph, own | self._reloaded(here, at), self._operand(here, at))
                self.memory.stored(here, as_stored(value, dtype), at)

            def loop(
                at: Cursor, vector: Loop | None = vector, body: Callable[[Cursor, int], None] = body
            ) -> None:
                if vector is None:
                    body(at, 1)
                else:
                    self.loops.vector_loop(vector, size, at, all_iterations, body)

            self.loops.plain_loops(outer, moved, loop)

    def _with_lanes(self, nest: Nest) -> tuple[list[Loop], Loop | None]:
        """The loops of a nest without the one that has the lanes, and that one."""
        if not nest.loops:
            return [], None
        best = self.loops.best(nest.loops)
        return [loop for k, loop in enumerate(nest.loops) if k != best], nest.loops[best]

    def _folded_lanes(
        self, folds: Sequence[Symbolic], states: list[State], nest: Nest, cursor: Cursor,
        lanes: FloatFunctions, seeds: dict[Symbolic, Vector],
    ) -> list[State]:  # fmt: skip
        """The states of folds behind a nest of folded dims, with lanes along the rows."""
        b, size = self.b, lanes.size
        outer, vector = self._with_lanes(nest)
        moved = replace(cursor, pointers=self.memory.moved(cursor.pointers, nest.starts))
        # One element alone is a loop of one iteration.
        vector = vector or Loop(1, (1,) * len(self.tensors))
        blocks, rest = divmod(vector.count, size)

        def body(at: Cursor, held: list[State]) -> list[State]:
            at = self.memory.resolved(replace(at, steps=vector.steps))
            if blocks:

                def block(index: Value, values: list[str]) -> list[str]:
                    here = self.memory.at_lane(at, b.mul(index, size))
                    return flat(self._taken_in(folds, like(held, values), here, lanes, seeds))

                held = like(held, b.carried(0, blocks, typed(held), block))
            if rest:
                last = replace(self.memory.at_lane(at, blocks * size), mask=first_lanes(size, rest))
                held = self._taken_in(folds, held, last, lanes, seeds, masks_elements=True)
            return held

        return self._carried(outer, moved, states, body)


def _numbers(lanes: FloatFunctions) -> Callable[[Symbolic], Vector]:
    """The constants among the operands of a number per row: it has no others."""

    def load(node: Symbolic) -> Vector:
        if node.number is None:
            raise LayoutError("a number of a row depends on single elements")
        return constant(lanes, node.number, node.dtype_name)

    return load


def _frontier(wanted: Sequence[Symbolic]) -> list[Symbolic]:
    """The numbers per row that the elements of `wanted` are computed from; of a fold, those of its argument."""
    computed = [each for node in wanted for each in (node.nodes if node.fold else [node])]
    return [node for node in reachable(computed, lambda node: not node.is_row) if node.is_row]


def _kept(graph: Symbolic, passes: Sequence[Sequence[Symbolic]], dtype: str) -> Symbolic | None:
    """What the last folds go over and elements are computed from again, if memory of `dtype` holds it exactly.

    It is stored in the place of the result meanwhile: the exponential of a softmax is computed once.
    """
    if graph.is_row or not passes:
        return None
    again = set(reachable([graph], lambda node: not node.fold))
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
