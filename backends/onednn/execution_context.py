"""What one call of a plan needs for itself: an arena, memory objects over it, and records that machine code walks."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import addressof, c_uint64, c_void_p, cast
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.loops.loop_calls import check_indices, index_note
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.onednn.library import ExecutionArgument, Handle
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor
from layout_ir.backends.onednn.plan_steps import (
    Address,
    Buffer,
    ByteCopy,
    ControlStep,
    ExecutionPlan,
    Kernel,
    KernelStep,
    Location,
    LoopStep,
    MemoryArgument,
    Owner,
    Place,
    PrimitiveStep,
    ReferenceStep,
    Step,
    StepTime,
)
from layout_ir.backends.onednn.result_memory import LARGE, new_results
from layout_ir.backends.onednn.step_driver import (
    ARGUMENT_A,
    ARGUMENT_B,
    ARGUMENT_C,
    CALL_WITH_STATUS,
    CALL_WITHOUT_STATUS,
    INDEX_OUT_OF_RANGE,
    RECORD_FIELDS,
    finds_elements,
    step_driver,
    team_functions,
)
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.elements.cache_line import LINE
from layout_ir.elements.numpy_types import Array, storage
from layout_ir.errors import LayoutError
from layout_ir.forking import loading

_GUARD = 4096
"""Bytes before and behind an arena that is checked, which nothing may write."""

_CANARY, _POISON = 0xA5, 0xFF
"""The bytes of the guards, and of a checked arena before each call: a float of all ones is a NaN."""


class ExecutionContext:
    """The memory and records of one call at a time: calls that overlap have a context each."""

    def __init__(
        self,
        plan: ExecutionPlan,
        threads: int,
        checked: bool,
        by_python: Sequence[ControlStep | ReferenceStep],
    ) -> None:
        """`by_python` are the steps that are calls of Python; all others become records."""
        self.plan = plan
        self._by_python = {id(step) for step in by_python}
        self.threads = threads
        self.library = plan.library
        self.checked = checked
        self.stream = self.library.new_stream()
        guard = _GUARD if checked else 0
        self.raw = np.empty(plan.arena.size + 2 * guard + LINE, np.uint8)
        start = guard + -(self.raw.ctypes.data + guard) % LINE
        self.arena = self.raw[start : start + plan.arena.size]
        self.addresses: dict[Buffer, int] = {}
        """The addresses of memory that is the same in all calls: of the arena, and of constants."""
        arena = self.arena.ctypes.data
        for buffer in plan.buffers:
            if buffer.owner is Owner.ARENA:
                self.addresses[buffer] = arena + plan.offsets[buffer]
            elif buffer.owner is Owner.CONSTANT:
                assert buffer.array is not None and buffer.array.flags.c_contiguous
                self.addresses[buffer] = buffer.array.ctypes.data
        self.lent = [buffer for buffer in plan.buffers if buffer.owner in (Owner.INPUT, Owner.RESULT)]
        self.lent_number = {buffer: number for number, buffer in enumerate(self.lent)}
        """The number of each buffer among those that are lent."""
        self._lent_arrays: list[Array] = []
        """The arrays of the caller, while a call lasts."""
        self._views: dict[Place, Array] = {}
        """Arrays over memory that is the same in all calls, which steps by Python take."""
        self._objects: dict[tuple[MemoryDescriptor, Buffer | None, int], Handle] = {}
        """Memory objects, of 0.8 KB each, by what lies in them and where: at an address, or so far behind the beginning
        of a buffer that the caller has."""
        self._memories: list[tuple[int, Buffer, int]] = []
        """Memory objects over memory that the caller has, and their offsets in it."""
        self._in_records: list[tuple[int, int, Buffer, int]] = []
        """The records that hold an address in such memory, the field, the buffer, and the offset."""
        self._in_arguments: list[tuple[int, Buffer, int]] = []
        """The addresses of such fields in the arguments of loops, the buffer, and the offset."""
        self.with_indices: list[tuple[str, NDArray[np.uint64]]] = []
        """Ops whose loops note indices outside of their dim, and where."""
        self._keep: list[Any] = []
        self._driver = step_driver()
        self._team = team_functions().ctypes.data if self.library.is_synchronous else 0
        self._records: list[list[int]] = []
        self._first: list[int] = []
        for step in plan.steps:
            self._first.append(len(self._records))
            self._prepare(step)
        self._first.append(len(self._records))
        self._await()
        self._link()
        self.calls = list(self._calls())
        self._own = [
            k
            for k, place in enumerate(plan.results)
            if place.buffer.number == k and place.buffer.owner is Owner.RESULT
        ]
        """Results that are written where the caller gets them; all others lie in the memory of something else."""
        self._elsewhere = [(k, place) for k, place in enumerate(plan.results) if k not in self._own]
        self.is_records = (
            not checked
            and not by_python
            and finds_elements()
            and all(place.is_dense for _, place in self._elsewhere)
        )
        """Whether a call is its records, and copies of results that lie elsewhere."""
        self._made = [(place.layout.shape, storage(place.dtype)) for place in plan.results]
        self._are_large = any(place.nbytes >= LARGE for place in plan.results)
        lent = [*plan.inputs, *(plan.results[k] for k in self._own)]
        self._places = [self.lent_number[place.buffer] for place in lent]

    # Preparing --------------------------------------------------------------------------------------------------

    def _link(self) -> None:
        """Makes the records of a call: in front those that say on how many threads and where memory objects have what
        is lent, then those of the steps. And what writes the addresses of lent memory into them."""
        front: list[list[int]] = []
        if self.library.threads_setter:
            front.append([CALL_WITHOUT_STATUS, self.library.threads_setter, self.threads, 0, 0, 0, 0])
        fields: list[tuple[int, Buffer, int]] = []
        set_handle = self._address_of("dnnl_memory_set_data_handle")
        for memory, buffer, offset in self._memories:
            fields.append((len(front) * RECORD_FIELDS + ARGUMENT_B, buffer, offset))
            front.append([CALL_WITH_STATUS, set_handle, memory, 0, 0, 0, 0])
        self._steps_at = len(front)
        self._first = [len(front) + first for first in self._first]
        for record, field, buffer, offset in self._in_records:
            fields.append(((len(front) + record) * RECORD_FIELDS + field, buffer, offset))
        self.records = np.array([*front, *self._records], np.int64).reshape(-1, RECORD_FIELDS)
        self._first_record = self.records.ctypes.data
        patches = [(self._first_record + 8 * field, buffer, offset) for field, buffer, offset in fields]
        patches += self._in_arguments
        self.patches = np.array(
            [(field, self.lent_number[buffer], offset) for field, buffer, offset in patches], np.int64
        ).reshape(-1, 3)
        """The address of each field that has to hold one in lent memory, which of the lent, and the offset in it."""
        self._lent_row: Any = (c_uint64 * len(self.lent))()
        self._bound = self.patches.ctypes.data, len(self.patches), addressof(self._lent_row)
        self._notes = np.array([index_note(arguments) for _, arguments in self.with_indices], np.int64)
        notes = self._notes.ctypes.data, len(self._notes)
        self._block = np.array([*self._bound, self._first_record, len(self.records), *notes], np.int64)
        self._block_at = self._block.ctypes.data

    def _prepare(self, step: Step) -> None:
        match step:
            case PrimitiveStep():
                self._primitive(step)
            case KernelStep():
                self._await()
                for kernel, source, target in step.moves:
                    self._kernel(kernel, source, target)
            case LoopStep():
                self._await()
                self._loop(step)
            case ControlStep() | ReferenceStep():
                self._await()
                if isinstance(step, ControlStep) and id(step) not in self._by_python:
                    self._nested(step)

    def _calls(self) -> Iterator[Callable[[], None]]:
        """What a call of the plan is: walks over the records, and between them steps that are calls of Python."""
        first = self._steps_at
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, ControlStep | ReferenceStep) and id(step) in self._by_python:
                end = self._first[number + 1]
                if end > first:
                    yield partial(self._walk, first, end)
                yield partial(self._called, step)
                first = end
        if len(self.records) > first:
            yield partial(self._walk, first, len(self.records))

    def _record(self, kind: int, function: int, *arguments: int) -> None:
        self._records.append([kind, function, *arguments, *[0] * (4 - len(arguments)), self._team])

    def _await(self) -> None:
        """Has the walk wait for what the library still executes, where its calls return before that."""
        if not self.library.is_synchronous:
            self._record(CALL_WITH_STATUS, self._address_of("dnnl_stream_wait"), _pointer(self.stream))

    def _address_of(self, name: str) -> int:
        address = cast(getattr(self.library.api, name), c_void_p).value
        assert address is not None
        return address

    def _primitive(self, step: PrimitiveStep) -> None:
        block = (ExecutionArgument * len(step.arguments))()
        for k, argument in enumerate(step.arguments):
            block[k].argument, block[k].memory = argument.number, self._memory(argument).value
        self._keep.append(block)
        execute = self._address_of("dnnl_primitive_execute")
        given = _pointer(step.primitive), _pointer(self.stream), len(block), addressof(block)
        self._record(CALL_WITH_STATUS, execute, *given)

    def _memory(self, argument: MemoryArgument) -> Handle:
        """The memory object of an argument, which others that lie alike in the same place have too."""
        address = self.addresses.get(argument.buffer)
        if address is None:
            key = argument.descriptor, argument.buffer, argument.offset
        else:
            key = argument.descriptor, None, address + argument.offset
        found = self._objects.get(key)
        if found is None:
            there = 0 if address is None else address + argument.offset
            found = self._objects[key] = self.library.new_memory(argument.descriptor.handle, there)
            if address is None:
                self._memories.append((_pointer(found), argument.buffer, argument.offset))
        return found

    def _kernel(self, kernel: Kernel | ByteCopy, source: Location, target: Location) -> None:
        """A compiled kernel: alone, on the threads of OpenMP where the library has them, else on our own."""
        if isinstance(kernel, ByteCopy):
            self._record(CALL_WITHOUT_STATUS, kernel.address, 0, 0, kernel.nbytes)
            fields = ARGUMENT_B, ARGUMENT_A
        else:
            fields = self._parallel(kernel.address, kernel.threads)
        for field, place in zip(fields, (source, target), strict=True):
            address = self.addresses.get(place.buffer)
            if address is None:
                self._in_records.append((len(self._records) - 1, field, place.buffer, place.start))
            else:
                self._records[-1][field] = address + place.start

    def _parallel(self, address: int, threads: int) -> tuple[int, int]:
        """Adds the record of a function with two arguments and its part; the fields of the record that hold the two."""
        if threads == 1:
            self._record(CALL_WITHOUT_STATUS, address, 0, 0, 0, 1)
        elif self.library.is_synchronous:
            self._record(threads, address)
        else:
            self._record(CALL_WITHOUT_STATUS, thread_pool.ensure(threads).address, address, 0, 0, threads)
            return ARGUMENT_B, ARGUMENT_C
        return ARGUMENT_A, ARGUMENT_B

    def _loop(self, step: LoopStep) -> None:
        arguments = step.kernel.arguments()
        row = arguments.ctypes.data
        for k, place in enumerate((*step.operands, step.result)):
            address = self.addresses.get(place.buffer)
            if address is None:
                self._in_arguments.append((row + 8 * k, place.buffer, place.start))
            else:
                arguments[k] = address + place.start
        self._keep.append(arguments)
        first, _ = self._parallel(step.kernel.address, step.kernel.threads)
        self._records[-1][first] = row
        if step.kernel.has_indices:
            title = f"node '{step.node}'" if step.node else step.text.ops[-1]
            self.with_indices.append((title, arguments))

    def _nested(self, step: ControlStep) -> None:
        """A node with subgraphs as a record."""
        addresses = [[self._address(place) for place in places] for places in (step.operands, step.results)]
        flow = step.flow.nested(*addresses)
        self._record(CALL_WITH_STATUS, flow.function, flow.address)
        self._in_arguments += [(field, address.buffer, address.start) for field, address in flow.patches]
        self.with_indices += flow.with_indices
        self._keep.append(flow)

    def _address(self, place: Place) -> Address:
        """Where a row-major value lies."""
        address = self.addresses.get(place.buffer)
        return Location(place.buffer, start=place.start) if address is None else address + place.start

    # Running ----------------------------------------------------------------------------------------------------

    def run_records(self, arrays: Sequence[Array], into: Sequence[Array | None] = ()) -> list[Array]:
        """The results of a call that is its records (`is_records`)."""
        results = self._targets(range(len(self._made)), into)
        given = [*arrays, *(results[number] for number in self._own)]
        lent = self._lent_row
        for number, array in zip(self._places, given, strict=True):
            lent[number] = id(array)
        reached = self._driver.run(self._block_at)
        if reached == INDEX_OUT_OF_RANGE:
            self.check_indices()
        if reached < len(self.records):
            raise self.failed(reached)
        if self._elsewhere:
            by_number = dict(zip(self._places, given, strict=True))
            self._lent_arrays = [by_number[number] for number in range(len(self.lent))]
            for number, place in self._elsewhere:
                results[number][...] = self._array(place)
            self._lent_arrays = []
        return results

    def run(
        self,
        inputs: Sequence[Array],
        times: list[StepTime] | None,
        into: Sequence[Array | None],
        lent: Mapping[int, int | Array],
    ) -> list[Array]:
        """The results of any call: of inputs whose bytes lie as those of the plan do."""
        if self.checked:
            self.raw[...] = _CANARY
            self.arena[...] = _POISON
        results = self._bind(inputs, into)
        if times is None:
            for call in self.calls:
                call()
        else:
            self._timed(times)
        self.check_indices()
        if self.checked:
            self._check()
        outputs: list[Array] = []
        for k, place in enumerate(self.plan.results):
            target, found = into[k] if k < len(into) else None, results.get(k)
            if found is None:
                given = lent.get(k)
                if given is None:
                    found = np.array(self._tensor(place).logical())
                else:
                    found = inputs[given].reshape(place.layout.shape) if isinstance(given, int) else given
                if target is not None:
                    target[...] = found
            outputs.append(found)
        self._lent_arrays = []
        return outputs

    def repeated(self, inputs: Sequence[Array]) -> Callable[[], None]:
        """The steps on `inputs`, as a call that may be made again and again."""
        results = self._bind(inputs)

        def call() -> None:
            self.library.use_threads(self.threads)
            for run in self.calls:
                run()

        call.__dict__["keeps"] = inputs, results
        return call

    def _timed(self, times: list[StepTime]) -> None:
        for number, step in enumerate(self.plan.steps):
            start = perf_counter_ns()
            self._walk(self._first[number], self._first[number + 1])
            if isinstance(step, ControlStep | ReferenceStep) and id(step) in self._by_python:
                self._called(step)
            elif not self.library.is_synchronous:
                self.library.api.dnnl_stream_wait(self.stream.value)
            spent = perf_counter_ns() - start
            text = step.text
            times.append(
                StepTime(text.ops, text.number, text.implementation, text.layouts, text.nbytes, spent)
            )

    def check_indices(self) -> None:
        """Raises LayoutError where a step met an index outside of its dim."""
        for op, arguments in self.with_indices:
            check_indices(arguments, op)

    def _walk(self, first: int, end: int) -> None:
        """Runs the records from `first` to before `end`. Raises LayoutError naming the op whose step failed."""
        reached = self._driver(self._first_record, first, end)
        if reached < end:
            raise self.failed(reached)

    def failed(self, record: int) -> LayoutError:
        """The error of a walk that ended at a record."""
        if record < self._steps_at:
            return LayoutError(f"{self.library} failed where it was given memory")
        step = self.plan.steps[min(bisect(self._first, record), len(self.plan.steps)) - 1]
        if isinstance(step, ControlStep):
            return LayoutError(
                f"a {step.flow.title} within a subgraph failed, or ran another number of times than the type of its "
                "result says"
            )
        return LayoutError(f"{self.library} failed on {step.text.ops[0]}")

    def _bind(self, inputs: Sequence[Array], into: Sequence[Array | None] = ()) -> dict[int, Array]:
        """Says where this call's inputs and results are, and on how many threads it runs; the arrays of the results,
        by number."""
        plan = self.plan
        results = dict(zip(self._own, self._targets(self._own, into), strict=True))
        lent: list[Any] = [None] * len(self.lent)
        for place, array in zip(plan.inputs, inputs, strict=True):
            lent[self.lent_number[place.buffer]] = array
        for number, array in results.items():
            if self.checked:
                array.reshape(-1).view(np.uint8)[...] = _POISON
            lent[self.lent_number[plan.results[number].buffer]] = array
        self._lent_arrays = lent
        if finds_elements():
            self._lent_row[:] = list(map(id, lent))
            self._driver.lend_objects(*self._bound)
        else:
            self._lent_row[:] = [array.ctypes.data for array in lent]
            self._driver.lend(*self._bound)
        self._walk(0, self._steps_at)
        return results

    def _targets(self, numbers: Sequence[int], into: Sequence[Array | None]) -> list[Array]:
        """The arrays of results of these numbers: those in `into`, and else new ones."""
        given = {k: into[k] for k in numbers if k < len(into)} if into else {}
        kinds = [self._made[k] for k in numbers if given.get(k) is None]
        new = new_results(kinds) if self._are_large else [np.empty(*kind) for kind in kinds]
        if not given:
            return new
        fresh = iter(new)
        return [next(fresh) if (array := given.get(k)) is None else array for k in numbers]

    def _bytes_of(self, buffer: Buffer) -> Array:
        if buffer.owner is Owner.ARENA:
            offset = self.plan.offsets[buffer]
            return self.arena[offset : offset + buffer.size]
        lent = buffer.array if buffer.owner is Owner.CONSTANT else self._lent_arrays[self.lent_number[buffer]]
        assert lent is not None
        return lent.reshape(-1).view(np.uint8)

    def _tensor(self, place: Place) -> Tensor:
        kind = storage(place.dtype)
        held = self._bytes_of(place.buffer)[place.start :]
        return Tensor(
            held[: held.nbytes // kind.itemsize * kind.itemsize].view(kind), place.layout, place.dtype
        )

    def _array(self, place: Place) -> Array:
        """The elements of a row-major tensor, in the memory of its buffer."""
        found = self._views.get(place)
        if found is not None:
            return found
        kind, layout = storage(place.dtype), place.layout
        number = self.lent_number.get(place.buffer)
        if number is not None and not place.start:
            given = self._lent_arrays[number]
            if given.shape == layout.shape and given.dtype == kind:
                return given
        held = self._bytes_of(place.buffer)[place.start : place.start + layout.nelems * kind.itemsize]
        found = held.view(kind).reshape(layout.shape)
        if number is None:
            self._views[place] = found
        return found

    def _called(self, step: ControlStep | ReferenceStep) -> None:
        """Runs a step that is a call of Python."""
        if isinstance(step, ControlStep):
            step.flow(*([self._array(place) for place in places] for places in (step.operands, step.results)))
            return
        operands = [self._tensor(place) for place in step.operands]
        given = _run_reference(step, operands, self.threads)
        for place, value in zip(step.results, given, strict=True):
            target = self._tensor(place).buffer
            target[: len(value.buffer)] = value.buffer

    def _check(self) -> None:
        """Raises LayoutError where something was written around the arena."""
        start = self.arena.ctypes.data - self.raw.ctypes.data
        around = np.concatenate([self.raw[:start], self.raw[start + self.arena.nbytes :]])
        if (around != _CANARY).any():
            raise LayoutError("something was written outside of the arena")


def _pointer(handle: Handle) -> int:
    """The address of an object of the library."""
    address = handle.value.value
    assert address is not None
    return address


def _run_reference(step: ReferenceStep, operands: list[Tensor], threads: int) -> Sequence[Tensor]:
    """The results of an op by the reference. Raises LocatedError, naming the op, where it fails."""
    with loading:  # what xDSL interprets programs by is a fifth of all that is imported
        from layout_ir.backends.onednn.node_kernels import node_kernels
        from layout_ir.backends.reference.interpreter import run_op
    return run_op(step.op, operands, node_kernels(threads))
