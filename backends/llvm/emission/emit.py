"""From a plan to LLVM IR.

The function of a plan is `void @NAME(ptr src, ptr dst, i64 part, i64 parts)`: it does its part of the work, so that one
kernel serves any number of threads. Every step divides the iterations of the loop that its plan calls parallel.

With symbolic sizes, a last argument holds the extents. Parameters of a conversion that are compiled in are constants
beside the code. Where a call brings some along, their addresses are further arguments (in the order of `PARAMETERS`);
or, with `block`, @NAME takes in place of `src` a block that holds the addresses of source, destination and all of
`PARAMETERS`, and `dst` is not used: so whoever divides the work among threads need not know of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from inspect import getfile
from pathlib import Path

from layout_ir.backends.llvm.emission.iteration import Partition, Pointers, PrefetchCursor, partition
from layout_ir.backends.llvm.emission.kernels.converter import Converter, move_of
from layout_ir.backends.llvm.emission.kernels.flush import emit_flush, emit_flush_of_rows
from layout_ir.backends.llvm.emission.kernels.interleave import emit_interleave
from layout_ir.backends.llvm.emission.kernels.runs import (
    emit_conversion,
    emit_copy,
    emit_elements,
    emit_fill,
    emit_packed_fill,
    emit_padded,
)
from layout_ir.backends.llvm.emission.kernels.tile import emit_tile
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value
from layout_ir.backends.llvm.emission.size_registers import SizeRegisters
from layout_ir.backends.llvm.machine.machine import LINE, PAGE, Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.staging import stack_bytes
from layout_ir.backends.llvm.planning.tiles import begins_at_bytes
from layout_ir.dialects.kernel.plan import (
    Copy,
    Elements,
    Fill,
    Interleave,
    Level,
    Loop,
    PaddedCopy,
    Plan,
    Staged,
    Step,
    TableLoop,
    Tile,
    VariableBoundLoops,
    iterations,
    read_volume,
)
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.elements.quantization import PARAMETERS
from layout_ir.symbolic.guarding import under
from layout_ir.symbolic.shape_env import ShapeEnv
from layout_ir.symbolic.symint import Size
from layout_ir.version import __version__


@cache
def version() -> str:
    """The version of the code that makes LLVM IR: with a plan, it says what `emit_module` gives."""
    folder = Path(__file__).parents[1]
    sources = [*sorted(folder.rglob("*.py")), Path(getfile(Plan))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest() + __version__


def emit_module(plans: dict[str, Plan], machine: Machine) -> str:
    """A module with one function per plan, by name."""
    functions = [emit_function(name, plan, machine) for name, plan in plans.items()]
    return module_text(functions, machine)


def module_text(functions: Sequence[str], machine: Machine) -> str:
    """The functions as a module."""
    return "\n".join((f'target triple = "{machine.triple}"', *functions, "!0 = !{i32 1}")) + "\n"


def emit_function(
    name: str,
    plan: Plan,
    machine: Machine,
    linkage: str = "",
    shape_env: ShapeEnv | None = None,
    *,
    block: bool = True,
) -> str:
    """The function of `plan`, with its tables. With `shape_env`, a last argument holds the extents.

    `block`: whether runtime parameters come as a block of their addresses. Raises PlanError where a plan of known sizes
    would touch what it may not, whoever made it.
    """
    if shape_env is None:
        check_plan(plan)
    runtime_parameters = () if plan.conversion is None else plan.conversion.at_run_time
    sizes = None if shape_env is None else SizeRegisters(shape_env)
    b = Builder(1 if machine.unaligned else plan.width, fences=machine.architecture == "x86_64", sizes=sizes)
    if staging := stack_bytes(plan, machine):
        b.lines.append(f"  %stage = alloca [{staging} x i8], align {PAGE}")
    with under("size-oblivious"):
        for step in plan.steps:
            _emit_step(b, machine, plan, step)
    if any(step.kernel.streaming for step in plan.steps):
        b.do(machine.store_fence)
    tables = [line.replace("@table", f"@{name}.table") for line in b.globals]
    body = "\n".join([*([] if sizes is None else sizes.lines), *b.lines]).replace("@table", f"@{name}.table")
    arguments = ["ptr noalias %src", "ptr noalias %dst", "i64 %part", "i64 %parts"]
    if shape_env is not None:
        assert not runtime_parameters
        arguments.append("ptr noalias %extents")
    parameters = ", ".join(arguments + [f"ptr %{parameter}" for parameter in runtime_parameters])
    if not runtime_parameters or not block:
        return "\n".join([*tables, _function(machine, linkage, name, parameters, body)])
    inner = _function(machine, "internal", f"{name}.with", parameters, body)
    return "\n".join([*tables, inner, _unpacking(machine, linkage, name, runtime_parameters)])


def _function(machine: Machine, linkage: str, name: str, parameters: str, body: str) -> str:
    head = " ".join(filter(None, ("define", linkage, f"void @{name}({parameters})", machine.attributes)))
    return f"{head} {{\nentry:\n{body}\n  ret void\n}}"


def _unpacking(machine: Machine, linkage: str, name: str, runtime_parameters: tuple[str, ...]) -> str:
    """The function that takes a block of addresses and calls the one that takes them one by one."""
    b = Builder()
    src, dst = (b.load("ptr", "%block", 8 * k) for k in range(2))
    found = [
        b.load("ptr", "%block", 8 * (2 + PARAMETERS.index(parameter))) for parameter in runtime_parameters
    ]
    pointers = "".join(f", ptr {value}" for value in found)
    b.do(f"call void @{name}.with(ptr {src}, ptr {dst}, i64 %part, i64 %parts{pointers})")
    return _function(
        machine, linkage, name, "ptr %block, ptr %unused, i64 %part, i64 %parts", "\n".join(b.lines)
    )


def _emit_step(b: Builder, machine: Machine, plan: Plan, step: Step) -> None:
    converter = move_of(b, machine, plan.width)
    if plan.conversion is not None:
        converter = Converter(b, machine, ElementPair.of(plan.conversion))
    src = b.at(_base(b, "%src", packed=converter.pair.src_packed), step.src)
    dst = b.at(_base(b, "%dst", packed=converter.pair.dst_packed), step.dst)
    pointers = Pointers(src, dst, step.channel)
    if not step.kernel.streaming or isinstance(step.kernel, Staged):
        _Emitter(converter, step, streaming=False).emit(pointers)
        return
    # Stores that bypass the caches need an aligned destination, which only the call knows.
    offset = b.put(f"and i64 {b.put(f'ptrtoint ptr {dst} to i64')}, 63")
    with b.either(b.put(f"icmp eq i64 {offset}, 0")) as otherwise:
        _Emitter(converter, step, streaming=True).emit(pointers)
        otherwise()
        _Emitter(converter, step, streaming=False).emit(pointers)


def _base(b: Builder, pointer: str, *, packed: bool) -> str:
    """Where a buffer begins; twice its address, where two elements share a byte."""
    if not packed:
        return pointer
    doubled = b.put(f"shl i64 {b.put(f'ptrtoint ptr {pointer} to i64')}, 1")
    return b.put(f"inttoptr i64 {doubled} to ptr")


class _Emitter:
    """Emits one step."""

    def __init__(self, converter: Converter, step: Step, *, streaming: bool) -> None:
        self.b = converter.b
        self.machine = converter.machine
        self.converter = converter
        self.step = step
        self.streaming = streaming

    def emit(self, pointers: Pointers) -> None:
        """The loops of the step around its kernel, from `pointers` on."""
        self._loops(0, pointers)

    def _loops(self, depth: int, pointers: Pointers) -> None:
        """The loops from `depth` on, and the kernel."""
        b, step = self.b, self.step
        if depth == len(step.loops):
            self._kernel(pointers, partition(b, parallel=depth == step.parallel))
            return
        loop = step.loops[depth]
        if isinstance(loop, VariableBoundLoops):
            self._variable_bound_loops(depth, loop.levels, loop.start, loop.stop, pointers)
            return
        table = self._table(loop)
        with b.loop(*partition(b, parallel=depth == step.parallel)(loop.count)) as i:
            here = self._iteration(loop, table, i, pointers)
            if depth == step.prefetch:
                assert isinstance(loop, Loop)
                here = replace(here, cursor=PrefetchCursor(b.at(here.src, loop.src)))
            elif here.cursor is not None:
                here = here.ahead(b, b.mul(i, self.volume(depth + 1)))
            self._loops(depth + 1, here)

    def volume(self, depth: int) -> Size:
        """Bytes of the source that one iteration of the loops from `depth` on reads."""
        return iterations(self.step.loops[depth:]) * read_volume(self.step.kernel)

    def _table(self, loop: Loop | TableLoop) -> str:
        return self.b.table([*loop.src, *loop.dst]) if isinstance(loop, TableLoop) else ""

    def _iteration(self, loop: Loop | TableLoop, table: str, i: Value, pointers: Pointers) -> Pointers:
        """Where iteration `i` works."""
        b = self.b
        if isinstance(loop, Loop):
            return pointers.advanced(b, i, loop.src, loop.dst, loop.channel)
        pointers = pointers.advanced(b, i, 0, 0, loop.channel)
        return pointers.moved(b, b.entry(table, i), b.entry(table, b.add(i, loop.count)))

    def _variable_bound_loops(
        self, depth: int, levels: tuple[Level, ...], start: Value, stop: Value, pointers: Pointers
    ) -> None:
        """The iterations of `levels` that reach positions [start, stop), coarse to fine."""
        b = self.b
        if not levels:
            self._loops(depth + 1, pointers)
            return
        *lower, top = levels
        table = self._table(top.loop)
        with b.loop(b.div(start, top.unit), b.ceil(stop, top.unit)) as i:
            here = self._iteration(top.loop, table, i, pointers)
            begin = b.mul(i, top.unit)
            inner_start = 0 if start == 0 else b.max(b.sub(start, begin), 0)
            inner_stop = b.min(b.sub(stop, begin), top.unit)
            self._variable_bound_loops(depth, tuple(lower), inner_start, inner_stop, here)

    def _kernel(self, pointers: Pointers, partition: Partition) -> None:
        b, vector, streaming = self.b, self.machine.vector, self.streaming
        kernel, converter = self.step.kernel, self.converter
        converts = converter.conversion is not None
        match kernel:
            case Copy() if converts:
                aligned = begins_at_bytes(self.step, (*self.step.loops, kernel.inner), converter.pair)
                emit_conversion(converter, kernel, pointers, partition, streaming=streaming, aligned=aligned)
            case Copy():
                emit_copy(b, kernel, pointers, vector, partition, streaming=streaming)
            case Elements():
                emit_elements(b, kernel, pointers, partition)
            case Fill() if converter.pair.dst_packed:
                emit_packed_fill(converter, kernel, pointers, partition)
            case Fill():
                emit_fill(b, kernel, pointers, vector, partition)
            case PaddedCopy():
                emit_padded(b, kernel, pointers, partition, streaming=streaming)
            case Tile():
                emit_tile(self._mover(kernel.width), kernel, pointers, partition, streaming=streaming)
            case Interleave():
                emit_interleave(self._mover(kernel.width), kernel, pointers, partition, streaming=streaming)
            case Staged():
                staged = (
                    self._two_passes
                    if kernel.then
                    else self._rows_staged
                    if kernel.row_stride
                    else self._staged
                )
                staged(kernel, pointers, partition)

    def _mover(self, width: int) -> Converter:
        """What moves elements of `width` bytes: where they are not converted, several of the plan's may be one."""
        moves = self.converter.conversion is None
        return move_of(self.b, self.machine, width) if moves else self.converter

    # Staging -------------------------------------------------------------------------------------------------------

    def _staged(self, kernel: Staged, pointers: Pointers, partition: Partition) -> None:
        """The steps, into the part of the buffer that lies in its line as the destination does; then out of it."""
        b = self.b
        with b.loop(*partition(1)):
            phase = self._phase(pointers)
            buffer = b.at("%stage", phase)
            here = pointers
            for step in kernel.steps:
                emitter = _Emitter(self.converter, step, streaming=False)
                emitter.emit(replace(here, src=b.at(pointers.src, step.src), dst=b.at(buffer, step.dst)))
                here = here.ahead(b, emitter.volume(0))
            emit_flush(b, buffer, pointers.dst, phase, kernel.size, pointers.cursor)

    def _two_passes(self, kernel: Staged, pointers: Pointers, partition: Partition) -> None:
        """The steps, into the buffer; then those that move its elements to the destination."""
        b, converter = self.b, self.converter
        mover = move_of(b, self.machine, converter.pair.dst)
        with b.loop(*partition(1)):
            filled = replace(pointers, dst="%stage", cursor=None)
            emptied = Pointers("%stage", pointers.dst)
            for steps, by, at in ((kernel.steps, converter, filled), (kernel.then, mover, emptied)):
                for step in steps:
                    _Emitter(by, step, streaming=False).emit(at.moved(b, step.src, step.dst, step.channel))

    def _rows_staged(self, kernel: Staged, pointers: Pointers, partition: Partition) -> None:
        """Part after part of several rows: into the buffer, whole lines out of it."""
        b = self.b
        with b.loop(*partition(1)), b.loop(0, kernel.iterations) as i:
            here = pointers.advanced(b, i, kernel.src_stride, kernel.size)
            buffer = b.at("%stage", self._phase(here))
            at = here.ahead(b, b.mul(i, kernel.rows * kernel.size))
            cursor = at.cursor
            for step in kernel.steps:
                emitter = _Emitter(self.converter, step, streaming=False)
                emitter.emit(replace(at, src=b.at(here.src, step.src), dst=b.at(buffer, step.dst)))
                at = at.ahead(b, emitter.volume(0))
            masks = self.machine.vector == LINE
            emit_flush_of_rows(b, kernel, buffer, here.dst, i, cursor, masks=masks)

    def _phase(self, pointers: Pointers) -> str:
        """How many bytes behind the beginning of its line the destination lies."""
        return self.b.put(f"and i64 {self.b.put(f'ptrtoint ptr {pointers.dst} to i64')}, 63")
