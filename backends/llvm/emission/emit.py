"""From a plan to LLVM IR.

The function is `void @NAME(ptr src, ptr dst, i64 part, i64 parts)`: it does its share of the work, so that one
kernel serves any number of threads. Every step shares out the loop that its plan names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from inspect import getfile
from pathlib import Path

from layout_ir.backends.llvm.emission.builder import Builder, Value
from layout_ir.backends.llvm.emission.convert_emit import emit_conversion
from layout_ir.backends.llvm.emission.kernels.linear import (
    Pace,
    Range,
    emit_copy,
    emit_elements,
    emit_fill,
    emit_flush,
    emit_padded,
    emit_strips,
    share,
)
from layout_ir.backends.llvm.emission.kernels.open_run import emit_dynamic_run
from layout_ir.backends.llvm.emission.kernels.tile import emit_tile
from layout_ir.backends.llvm.emission.kernels.weave import emit_weave
from layout_ir.backends.llvm.emission.size_registers import SizeRegisters
from layout_ir.backends.llvm.machine.machine import LINE, Machine
from layout_ir.backends.llvm.planning.nontemporal import staging_size
from layout_ir.dialects.kernel.plan import (
    AnyLoop,
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
from layout_ir.symbolic.guarding import under
from layout_ir.symbolic.shape_env import ShapeEnv
from layout_ir.symbolic.symint import Size, SymInt
from layout_ir.version import __version__


@cache
def version() -> str:
    """Of the code that makes LLVM IR: a plan and this say what `emit_module` gives."""
    folder = Path(__file__).parents[1]
    sources = [*sorted(folder.rglob("*.py")), Path(getfile(Plan))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest() + __version__


def emit_module(plans: dict[str, Plan], machine: Machine, *, linkage: str = "") -> str:
    """A module with one function per plan, by name."""
    functions = [emit_function(name, plan, machine, linkage) for name, plan in plans.items()]
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
    """The function of `plan`, with its tables. With a `shape_env` a last argument has the extents.

    `block`: whether parameters that a call brings along come in a block, see `convert_emit`.
    """
    if plan.conversion is not None:
        return "\n".join(
            emit_conversion(name, plan, machine, linkage=linkage, shape_env=shape_env, block=block)
        )
    fences = machine.architecture == "x86_64"
    sizes = SizeRegisters(shape_env) if shape_env is not None else None
    b = Builder(1 if machine.unaligned else plan.width, fences=fences, sizes=sizes)
    if stage := stack_bytes(plan, machine):
        b.lines.append(f"  %stage = alloca [{stage} x i8], align 64")
    with under("size-oblivious"):
        for step in plan.steps:
            _emit_step(b, machine, step)
    if any(step.kernel.streaming for step in plan.steps):
        b.do(machine.store_fence)
    tables = [line.replace("@table", f"@{name}.table") for line in b.globals]
    body = "\n".join([*(sizes.lines if sizes is not None else ()), *b.lines]).replace(
        "@table", f"@{name}.table"
    )
    arguments = "ptr noalias %src, ptr noalias %dst, i64 %part, i64 %parts"
    if shape_env is not None:
        arguments += ", ptr noalias %extents"
    words = filter(None, ("define", linkage, f"void @{name}({arguments})", machine.attributes))
    return "\n".join((*tables, f"{' '.join(words)} {{\nentry:\n{body}\n  ret void\n}}"))


def stack_bytes(plan: Plan, machine: Machine) -> int:
    """Bytes of the buffer on the stack that the function of `plan` has, 0 for none."""
    sizes = [
        stage_bound(step.kernel.extent, machine) for step in plan.steps if isinstance(step.kernel, Staged)
    ]
    return max(sizes) + 128 if sizes else 0


def stage_bound(size: Size, machine: Machine) -> int:
    """Bytes of a buffer for `size`; for a symbolic one, a bound that its hint keeps."""
    if not isinstance(size, SymInt):
        return size
    return max(staging_size(machine), 1 << (size.hint - 1).bit_length())


def _emit_step(b: Builder, machine: Machine, step: Step) -> None:
    src, dst = b.at("%src", step.src), b.at("%dst", step.dst)
    if not step.kernel.streaming or isinstance(step.kernel, Staged):
        _Emitter(b, machine, step, streaming=False).items(0, src, dst)
        return
    # Stores that bypass the caches need an aligned destination, which only the call knows.
    address = b.put(f"ptrtoint ptr {dst} to i64")
    low = b.put(f"and i64 {address}, {63}")
    aligned = b.put(f"icmp eq i64 {low}, 0")
    with b.either(aligned) as otherwise:
        _Emitter(b, machine, step, streaming=True).items(0, src, dst)
        otherwise()
        _Emitter(b, machine, step, streaming=False).items(0, src, dst)


class _Emitter:
    """One step."""

    def __init__(self, b: Builder, machine: Machine, step: Step, *, streaming: bool) -> None:
        self.b = b
        self.machine = machine
        self.step = step
        self.streaming = streaming
        self.pace: Pace | None = None

    def share(self, depth: int) -> Range:
        """The rounds of the loop at `depth` that this thread runs."""
        return share(self.b, shared=depth == self.step.parallel)

    def items(self, depth: int, src: str, dst: str) -> None:
        """The loops from `depth` on, and the kernel."""
        b, loops = self.b, self.step.loops
        if depth == len(loops):
            self.kernel(depth, src, dst)
            return
        item: AnyLoop = loops[depth]
        if isinstance(item, VariableBoundLoops):
            self.ragged(depth, item.levels, item.start, item.stop, src, dst)
            return
        table = b.table([*item.src, *item.dst]) if isinstance(item, TableLoop) else ""
        with b.loop(*self.share(depth)(item.count)) as i:
            s, d = self.moved(item, table, i, src, dst)
            before = self.pace
            if depth == self.step.prefetch:
                assert isinstance(item, Loop)
                self.pace = Pace(b.at(s, item.src))
            elif before is not None:
                self.pace = before.behind(b, b.mul(i, self.volume(depth + 1)))
            self.items(depth + 1, s, d)
            self.pace = before

    def volume(self, depth: int) -> Size:
        """Bytes of the source that one round of the loops from `depth` on reads."""
        return iterations(self.step.loops[depth:]) * read_volume(self.step.kernel)

    def moved(self, item: Loop | TableLoop, table: str, i: Value, src: str, dst: str) -> tuple[str, str]:
        b = self.b
        if isinstance(item, Loop):
            return b.at(src, b.mul(i, item.src)), b.at(dst, b.mul(i, item.dst))
        s, d = b.entry(table, i), b.entry(table, b.add(i, item.count))
        return b.at(src, s), b.at(dst, d)

    def ragged(
        self, depth: int, levels: tuple[Level, ...], start: Value, stop: Value, src: str, dst: str
    ) -> None:
        """The rounds of `levels` that reach positions [start, stop), coarse to fine."""
        b = self.b
        if not levels:
            self.items(depth + 1, src, dst)
            return
        *lower, top = levels
        item = top.loop
        table = b.table([*item.src, *item.dst]) if isinstance(item, TableLoop) else ""
        with b.loop(b.div(start, top.unit), b.ceil(stop, top.unit)) as i:
            s, d = self.moved(item, table, i, src, dst)
            begin = b.mul(i, top.unit)
            inner_start = 0 if start == 0 else b.max(b.sub(start, begin), 0)
            inner_stop = b.min(b.sub(stop, begin), top.unit)
            self.ragged(depth, tuple(lower), inner_start, inner_stop, s, d)

    def kernel(self, depth: int, src: str, dst: str) -> None:
        kernel, share = self.step.kernel, self.share(depth)
        if isinstance(kernel, Copy | Fill) and isinstance(kernel.run, SymInt):
            emit_dynamic_run(self.b, kernel, src, dst, self.machine.vector, share, self.streaming)
        elif isinstance(kernel, Copy):
            emit_copy(self.b, kernel, src, dst, self.machine.vector, share, self.streaming, self.pace)
        elif isinstance(kernel, Elements):
            emit_elements(self.b, kernel, src, dst, share, self.pace)
        elif isinstance(kernel, Fill):
            emit_fill(self.b, kernel, dst, self.machine.vector, share)
        elif isinstance(kernel, PaddedCopy):
            emit_padded(self.b, kernel, src, dst, share, self.streaming, self.pace)
        elif isinstance(kernel, Tile):
            emit_tile(self.b, kernel, src, dst, self.machine.vector, share, self.streaming, self.pace)
        elif isinstance(kernel, Interleave):
            emit_weave(self.b, kernel, src, dst, share, self.streaming, self.pace)
        else:
            assert isinstance(kernel, Staged)
            (self.strips if kernel.row_stride else self.staged)(kernel, src, dst, share)

    def staged(self, kernel: Staged, src: str, dst: str, share: Range) -> None:
        """The steps, into the part of the buffer that lies in its line as the destination does; then out of it."""
        b = self.b
        with b.loop(*share(1)):
            phase = b.put(f"and i64 {b.put(f'ptrtoint ptr {dst} to i64')}, 63")
            buffer = b.at("%stage", phase)
            pace = self.pace
            for step in kernel.steps:
                emitter = _Emitter(b, self.machine, step, streaming=False)
                emitter.pace = pace
                emitter.items(0, b.at(src, step.src), b.at(buffer, step.dst))
                if pace is not None:
                    pace = pace.behind(b, emitter.volume(0))
            emit_flush(b, buffer, dst, phase, kernel.size)

    def strips(self, kernel: Staged, src: str, dst: str, share: Range) -> None:
        """Round after round of several runs: into the buffer, whole lines out of it."""
        b = self.b
        with b.loop(*share(1)), b.loop(0, kernel.iterations) as i:
            s, d = b.at(src, b.mul(i, kernel.src_stride)), b.at(dst, b.mul(i, kernel.size))
            buffer = b.at("%stage", b.put(f"and i64 {b.put(f'ptrtoint ptr {d} to i64')}, 63"))
            for step in kernel.steps:
                emitter = _Emitter(b, self.machine, step, streaming=False)
                emitter.items(0, b.at(s, step.src), b.at(buffer, step.dst))
            emit_strips(b, kernel, buffer, d, i, masks=self.machine.vector == LINE)
