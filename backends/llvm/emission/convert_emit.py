"""From a plan that converts to LLVM IR.

Like `emit`, with a third place beside source and destination, the channel, and with half-byte addresses on sides
whose elements have 4 bits. Numbers of channels that are compiled in are constants beside the code. A plan whose
parameters all are compiled in becomes `void @NAME(ptr src, ptr dst, i64 part, i64 parts)`, as any other. Where a call
brings parameters along, their addresses are further arguments (in the order of `PARAMETERS`). Or, with `block`, @NAME
takes in place of `src` a block that holds the addresses of source, destination and all of `PARAMETERS`, and `dst` is
not used: so whoever shares the work among threads need not know.
"""

from __future__ import annotations

from layout_ir.backends.llvm.emission.builder import Builder, Value
from layout_ir.backends.llvm.emission.kernels.convert import Converter
from layout_ir.backends.llvm.emission.kernels.linear import Range, emit_fill, share
from layout_ir.backends.llvm.emission.kernels.numbers import Numbers
from layout_ir.backends.llvm.emission.kernels.open_convert import emit_dynamic_conversion
from layout_ir.backends.llvm.emission.kernels.open_run import emit_dynamic_run
from layout_ir.backends.llvm.emission.size_registers import SizeRegisters
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.conversion import Widths, starts_even
from layout_ir.dialects.kernel.plan import (
    Copy,
    Fill,
    Interleave,
    Level,
    Loop,
    Plan,
    Step,
    TableLoop,
    Tile,
    VariableBoundLoops,
)
from layout_ir.elements.quantization import PARAMETERS, Conversion
from layout_ir.symbolic.guarding import under
from layout_ir.symbolic.shape_env import ShapeEnv
from layout_ir.symbolic.symint import SymInt


def emit_conversion(
    name: str,
    plan: Plan,
    machine: Machine,
    *,
    linkage: str = "",
    shape_env: ShapeEnv | None = None,
    block: bool = True,
) -> list[str]:
    """The functions of `plan`, and its tables in front of them. `shape_env`: see `emit.emit_function`."""
    assert plan.conversion is not None
    sizes = SizeRegisters(shape_env) if shape_env is not None else None
    b = Builder(1 if machine.unaligned else plan.width, fences=machine.architecture == "x86_64", sizes=sizes)
    with under("size-oblivious"):
        for step in plan.steps:
            _emit_step(b, machine, plan.conversion, step)
    if any(step.kernel.streaming for step in plan.steps):
        b.do(machine.store_fence)
    globals_ = [line.replace("@table", f"@{name}.table") for line in b.globals]
    body = "\n".join([*(sizes.lines if sizes is not None else ()), *b.lines]).replace(
        "@table", f"@{name}.table"
    )
    arguments = ["ptr noalias %src", "ptr noalias %dst", "i64 %part", "i64 %parts"]
    brought = plan.conversion.at_run_time
    if shape_env is not None:
        assert not brought
        arguments.append("ptr noalias %extents")
    parameters = ", ".join(arguments + [f"ptr %{parameter}" for parameter in brought])
    if not brought or not block:
        return [*globals_, _function(machine, linkage, name, parameters, body)]
    inner = _function(machine, "internal", f"{name}.with", parameters, body)
    return [*globals_, inner, _unpacking(machine, linkage, name, brought)]


def _function(machine: Machine, linkage: str, name: str, parameters: str, body: str) -> str:
    head = " ".join(filter(None, ("define", linkage, f"void @{name}({parameters})", machine.attributes)))
    return f"{head} {{\nentry:\n{body}\n  ret void\n}}"


def _unpacking(machine: Machine, linkage: str, name: str, brought: tuple[str, ...]) -> str:
    b = Builder()
    src, dst = (b.load("ptr", "%block", 8 * k) for k in range(2))
    found = [b.load("ptr", "%block", 8 * (2 + PARAMETERS.index(parameter))) for parameter in brought]
    pointers = "".join(f", ptr {value}" for value in found)
    b.do(f"call void @{name}.with(ptr {src}, ptr {dst}, i64 %part, i64 %parts{pointers})")
    return _function(
        machine, linkage, name, "ptr %block, ptr %unused, i64 %part, i64 %parts", "\n".join(b.lines)
    )


def _emit_step(b: Builder, machine: Machine, conversion: Conversion, step: Step) -> None:
    widths = Widths.of(conversion)
    src, dst = b.at(_base(b, "%src", widths.src_packed), step.src), _base(b, "%dst", widths.dst_packed)
    dst = b.at(dst, step.dst)
    if not step.kernel.streaming:
        _Emitter(b, machine, conversion, step, streaming=False).items(0, src, dst, step.channel)
        return
    # Stores that bypass the caches need an aligned destination, which only the call knows.
    low = b.put(f"and i64 {b.put(f'ptrtoint ptr {dst} to i64')}, 63")
    with b.either(b.put(f"icmp eq i64 {low}, 0")) as otherwise:
        _Emitter(b, machine, conversion, step, streaming=True).items(0, src, dst, step.channel)
        otherwise()
        _Emitter(b, machine, conversion, step, streaming=False).items(0, src, dst, step.channel)


def _base(b: Builder, pointer: str, packed: bool) -> str:
    """Where a buffer begins; in half bytes, where two elements share a byte."""
    if not packed:
        return pointer
    doubled = b.put(f"shl i64 {b.put(f'ptrtoint ptr {pointer} to i64')}, 1")
    return b.put(f"inttoptr i64 {doubled} to ptr")


class _Emitter:
    """One step."""

    def __init__(
        self, b: Builder, machine: Machine, conversion: Conversion, step: Step, *, streaming: bool
    ) -> None:
        self.b = b
        self.machine = machine
        self.step = step
        self.streaming = streaming
        self.widths = Widths.of(conversion)
        self.converter = Converter(b, machine, conversion, {name: f"%{name}" for name in PARAMETERS})

    def share(self, depth: int) -> Range:
        """The rounds of the loop at `depth` that this thread runs."""
        return share(self.b, shared=depth == self.step.parallel)

    def items(self, depth: int, src: str, dst: str, channel: Value) -> None:
        """The loops from `depth` on, and the kernel."""
        b, loops = self.b, self.step.loops
        if depth == len(loops):
            self.kernel(depth, src, dst, channel)
            return
        item = loops[depth]
        if isinstance(item, VariableBoundLoops):
            self.ragged(depth, item.levels, item.start, item.stop, src, dst, channel)
            return
        table = b.table([*item.src, *item.dst]) if isinstance(item, TableLoop) else ""
        with b.loop(*self.share(depth)(item.count)) as i:
            self.items(depth + 1, *self.moved(item, table, i, src, dst, channel))

    def moved(
        self, item: Loop | TableLoop, table: str, i: Value, src: str, dst: str, channel: Value
    ) -> tuple[str, str, Value]:
        b = self.b
        channel = b.add(channel, b.mul(i, item.channel))
        if isinstance(item, Loop):
            return b.at(src, b.mul(i, item.src)), b.at(dst, b.mul(i, item.dst)), channel
        s, d = b.entry(table, i), b.entry(table, b.add(i, item.count))
        return b.at(src, s), b.at(dst, d), channel

    def ragged(
        self,
        depth: int,
        levels: tuple[Level, ...],
        start: Value,
        stop: Value,
        src: str,
        dst: str,
        channel: Value,
    ) -> None:
        """The rounds of `levels` that reach positions [start, stop), coarse to fine."""
        b = self.b
        if not levels:
            self.items(depth + 1, src, dst, channel)
            return
        *lower, top = levels
        item = top.loop
        table = b.table([*item.src, *item.dst]) if isinstance(item, TableLoop) else ""
        with b.loop(b.div(start, top.unit), b.ceil(stop, top.unit)) as i:
            begin = b.mul(i, top.unit)
            inner_start = 0 if start == 0 else b.max(b.sub(start, begin), 0)
            inner_stop = b.min(b.sub(stop, begin), top.unit)
            places = self.moved(item, table, i, src, dst, channel)
            self.ragged(depth, tuple(lower), inner_start, inner_stop, *places)

    def kernel(self, depth: int, src: str, dst: str, channel: Value) -> None:
        kernel, share, streaming = self.step.kernel, self.share(depth), self.streaming
        if isinstance(kernel, Copy):
            even = starts_even(self.step, (*self.step.loops, kernel.inner), self.widths)
            if isinstance(kernel.run, SymInt):
                emit_dynamic_conversion(
                    self.converter, kernel, src, dst, channel, share, streaming=streaming, even=even
                )
                return
            self.converter.run(kernel, src, dst, channel, share, streaming=streaming, even=even)
        elif isinstance(kernel, Tile):
            self.converter.tile(kernel, src, dst, channel, share, streaming=streaming)
        elif isinstance(kernel, Interleave):
            self.converter.weave(kernel, src, dst, channel, share, streaming=streaming)
        else:
            assert isinstance(kernel, Fill)
            if self.widths.dst_packed:
                self.fill_halves(kernel, dst, share)
            elif isinstance(kernel.run, SymInt):
                emit_dynamic_run(self.b, kernel, src, dst, self.machine.vector, share, streaming)
            else:
                emit_fill(self.b, kernel, dst, self.machine.vector, share)

    def fill_halves(self, kernel: Fill, dst: str, share: Range) -> None:
        """Pads of 4 bits, one by one: there are few."""
        b, side = self.b, self.converter.dst
        value = Numbers(b, self.machine, 1).splat("i8", kernel.value)
        with b.loop(*share(kernel.inner.count)) as i, b.loop(0, kernel.run) as k:
            side.store(f"{value}", b.at(dst, b.add(b.mul(i, kernel.inner.dst), k)), 1)
