"""How fast a kernel could be if memory were free: what the ports of the core take for its instructions.

The machine code of a kernel is run once with a counter in every basic block (the assembly is rewritten, so that what is
counted is the code itself), llvm-mca says which port each instruction of a block occupies for how long, and the busiest
port over the whole run is the bound, or the width of dispatch if that is less. So are the stores alone, as fast as the
first cache takes them: that is measured, because LLVM's models of some cores count ports but not how wide the way into
the cache is (Zen 4: 64 bytes per cycle by the model, 32 in truth). The rate follows from the clock, which is measured,
too. Calls out of the kernel have no bound; nor has code for other than x86-64.

It needs llvm-mca and a C compiler that assembles (Debian: llvm, gcc). For streaming stores, which wait for memory and
not for ports, the bound says nothing.
"""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from layout_ir.backends.llvm.emission.emit import emit_module
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.runtime.compiled_plan import load
from layout_ir.backends.llvm.runtime.jit import assembly
from layout_ir.backends.llvm.runtime.timing import least_times, touched_bytes
from layout_ir.dialects.kernel.plan import Fill, Loop, Plan, Step
from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark.cores import clock
from layout_ir.tools.benchmark.peers import Side

_COUNT = """\
\tleaq\t-128(%rsp), %rsp
\tpushfq
\tincq\tblock_counts+{offset}(%rip)
\tpopfq
\tleaq\t128(%rsp), %rsp
"""
"""Adds one to a counter. Neither flags nor the red zone below the stack change: both may be in use."""

_LEAST_SHARE = 1e-3
"""Of all instructions executed, below which a block is left out."""


@dataclass(frozen=True)
class PortBound:
    """What one run of a kernel asks of the core."""

    cycles: float
    """In which the busiest part of the core is done."""
    busiest: str
    """LLVM's name of that part."""
    loads: int
    """Vector instructions that read memory, all executions counted; the same for the next two."""
    shuffles: int
    """Vector instructions that neither only load nor store: moves between lanes, blends, conversions."""
    stores: int

    def gbps(self, nbytes: int) -> float:
        """GB/s at which a run moves `nbytes` at the measured clock."""
        return nbytes * clock() / self.cycles / 1e9

    def text(self, nbytes: int) -> str:
        """The bound, and the mix of instructions per 64 bytes of a side: of the mean, where they differ.

        `nbytes` counts both sides.
        """
        lines = nbytes / 2 / 64
        return (
            f"ports allow {self.gbps(nbytes):.1f} GB/s at {clock() / 1e9:.2f} GHz, {self.busiest} busiest: "
            f"{nbytes / self.cycles:.1f} bytes per cycle; per 64 bytes {self.loads / lines:.2f} loads, "
            f"{self.shuffles / lines:.2f} shuffles, {self.stores / lines:.2f} stores"
        )


def _tool(*names: str) -> str:
    for name in names:
        if (path := shutil.which(name)) is not None:
            return path
    raise LayoutError(f"there is no {names[-1]}: bounds by ports need it")


def _mca() -> str:
    return _tool(*(f"llvm-mca-{number}" for number in range(30, 15, -1)), "llvm-mca")


def port_bound(plan: Plan, machine: Machine, src: Side, dst: Side) -> PortBound:
    """The bound of a kernel of `plan`, run once on these buffers by one thread.

    Raises LayoutError where the tools are missing, for calls out of the kernel, and off x86-64.
    """
    if machine.architecture != "x86_64":
        raise LayoutError(f"bounds by ports are known for x86_64, not for {machine.architecture}")
    text = assembly(emit_module({"reorder": plan}, machine), machine)
    head, blocks, tail = _blocks(text)
    counts = _counts(head, blocks, tail, src, dst)
    executed = sum(count * len(block) for count, block in zip(counts, blocks, strict=True))
    hot = [
        (count, block)
        for count, block in zip(counts, blocks, strict=True)
        if count * len(block) > _LEAST_SHARE * executed
    ]
    for _, block in hot:
        if calls := [line for line in block if line.split()[0].startswith("call")]:
            raise LayoutError(f"the kernel calls {calls[0].split()[-1]}, whose code is not looked at")
    return _bound(hot, machine, dst.data.nbytes / _bytes_stored_per_cycle(machine))


def _blocks(text: str) -> tuple[list[str], list[list[str]], list[str]]:
    """The lines before the function, its basic blocks with their labels, and the lines behind it."""
    lines = text.splitlines()
    first = lines.index("reorder:")
    last = next(k for k in range(first, len(lines)) if lines[k].startswith(".Lfunc_end"))
    blocks: list[list[str]] = [[]]
    for line in lines[first:last]:
        begins = not line.startswith("\t") or (blocks[-1] and _jumps(blocks[-1][-1]))
        if begins and any(map(_executes, blocks[-1])):
            blocks.append([])
        blocks[-1].append(line)
    return lines[:first], blocks, lines[last:]


def _executes(line: str) -> bool:
    return line.startswith("\t") and not line.startswith(("\t.", "\t#"))


def _jumps(line: str) -> bool:
    return _executes(line) and line.split()[0].startswith(("j", "ret"))


def _counts(
    head: Sequence[str], blocks: list[list[str]], tail: Sequence[str], src: Side, dst: Side
) -> list[int]:
    """How often each block runs; afterwards the blocks hold nothing but instructions."""
    lines = list(head)
    for number, block in enumerate(blocks):
        labels = list(takewhile(lambda line: not _executes(line), block))
        lines += [*labels, _COUNT.format(offset=8 * number), *block[len(labels) :]]
        block[:] = filter(_executes, block)
    lines += [
        *tail, "\t.bss", "\t.globl\tblock_counts", "\t.p2align\t6",
        "block_counts:", f"\t.zero\t{8 * len(blocks)}", "",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "kernel.s", Path(folder) / "kernel.so"
        source.write_text("\n".join(lines))
        # The symbol is our own: without -Bsymbolic it could be reached by the table of globals only.
        command = [_tool("cc", "gcc", "clang"), "-shared", "-Wl,-Bsymbolic", str(source), "-o", str(library)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise LayoutError(f"the counted code does not assemble: {made.stderr[:200]}")
        loaded: Any = ctypes.CDLL(str(library))
        run = loaded.reorder
        run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
        run(src.data.ctypes.data, dst.data.ctypes.data, 0, 1)
        return list((ctypes.c_int64 * len(blocks)).in_dll(loaded, "block_counts"))


@cache
def _bytes_stored_per_cycle(machine: Machine) -> float:
    """How many bytes the first cache takes per cycle: half of it filled a thousand times."""
    times, size = 1000, machine.l1 // 2
    fill = load(Plan(1, size, size, (Step((Loop(times, 0, 0),), 0, 0, Fill(1, 7, size)),)), machine)
    src, dst = touched_bytes(size), touched_bytes(size)
    [seconds] = least_times([partial(fill, src, dst)], 30, 0.0002)
    return times * size / seconds / clock()


def _bound(hot: Sequence[tuple[int, list[str]]], machine: Machine, stores: float) -> PortBound:
    """The bound of blocks with their counts, where the stores alone take so many cycles."""
    regions = [
        line
        for number, (_, block) in enumerate(hot)
        for line in (f"# LLVM-MCA-BEGIN {number}", *block, "# LLVM-MCA-END")
    ]
    command = [_mca(), f"-mtriple={machine.triple}", f"-mcpu={machine.cpu}", "-iterations=100", "--json"]
    run = subprocess.run(
        command, input="\n".join(regions) + "\n", capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise LayoutError(f"llvm-mca: {run.stderr[:200]}")
    answer = json.loads(run.stdout)
    # The units of a resource end in a character of that number.
    names = [
        re.sub(r"\.([\0-\37])$", lambda unit: f".{ord(unit[1])}", name)
        for name in answer["TargetInfo"]["Resources"]
    ]
    busy: defaultdict[str, float] = defaultdict(float, {"stores into L1": stores})
    mix: Counter[str] = Counter()
    for (count, block), region in zip(hot, answer["CodeRegions"], strict=True):
        summary = region["SummaryView"]
        busy["dispatch"] += count * summary["TotaluOps"] / summary["Iterations"] / summary["DispatchWidth"]
        for entry in region["ResourcePressureView"]["ResourcePressureInfo"]:
            if entry["InstructionIndex"] == len(block):  # the sum over the region
                busy[names[entry["ResourceIndex"]]] += count * entry["ResourceUsage"]
        for line, entry in zip(block, region["InstructionInfoView"]["InstructionList"], strict=True):
            for kind in _kinds(line, loads=entry["mayLoad"], stores=entry["mayStore"]):
                mix[kind] += count
    busiest, cycles = max(busy.items(), key=lambda entry: entry[1])
    return PortBound(cycles, busiest, mix["load"], mix["shuffle"], mix["store"])


_PLAIN = re.compile(r"v?(mov|lddqu|broadcast)")


def _kinds(line: str, *, loads: bool, stores: bool) -> list[str]:
    """What a vector instruction does: load, shuffle, store; a shuffle may do both of the others."""
    if not re.search(r"%[xyz]mm", line):
        return []
    kinds = ["load"] * loads + ["store"] * stores
    return kinds if kinds and _PLAIN.match(line.split()[0]) else [*kinds, "shuffle"]
