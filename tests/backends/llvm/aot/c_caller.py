"""A C program that calls reorders compiled ahead of time, for this machine or under an emulator.

The program knows the headers and a file of buffers: for every reorder the source, the destination before, and the
destination as it must be, canaries included. It calls each function whole, then in parts in reverse order.
"""

from __future__ import annotations

import platform
import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.backends.llvm.aot.dynamic_object_file import DynamicUnit
from layout_ir.backends.llvm.aot.header import header
from layout_ir.backends.llvm.aot.object_file import FixedUnit, Unit
from layout_ir.backends.llvm.machine.host_facts import llvm
from layout_ir.backends.llvm.machine.known_cpus import known_cpus
from layout_ir.dialects.kernel.plan import Plan
from layout_ir.elements.element_types import bits_of
from tests.backends.llvm.cases import CANARY, POISON, Case, buffers, expected
from tests.fuzz import reorders as fuzz_reorders

_FLAGS = ("-O1", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")

_PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
{includes}
struct kernel {{
  const char *name;
  void (*whole)(const void *, void *, const int64_t *);
  void (*part)(const void *, void *, int64_t, int64_t, const int64_t *);
  int64_t (*src)(const int64_t *), (*dst)(const int64_t *);
}};
{adapters}
static const struct kernel kernels[] = {{
{entries}}};
static unsigned char *aligned(size_t n) {{
  unsigned char *p = malloc(n + 128);
  return p ? p + (64 - (uintptr_t)p % 64) : NULL;
}}
int main(int argc, char **argv) {{
  FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
  int wrong = 0;
  if (!f) return 2;
  int runs = 0;
  int64_t n[6 + 8];
  for (; fread(n, sizeof n, 1, f) == 1; runs++) {{
    const struct kernel *k = kernels + n[5];
    const int64_t *extents = n + 6;
    if (n[2] + k->src(extents) > n[0] || n[3] + k->dst(extents) > n[1]) return 4;
    unsigned char *src = aligned(n[0]), *before = aligned(n[1]), *after = aligned(n[1]), *dst = aligned(n[1]);
    if (!src || !before || !after || !dst) return 5;
    if (fread(src, 1, n[0], f) + fread(before, 1, n[1], f) + fread(after, 1, n[1], f) != (size_t)(n[0] + 2 * n[1]))
      return 6;
    for (int round = 0; round < 2; round++) {{
      memcpy(dst, before, n[1]);
      if (round == 0) k->whole(src + n[2], dst + n[3], extents);
      else for (int64_t p = n[4]; p-- > 0;) k->part(src + n[2], dst + n[3], p, n[4], extents);
      for (int64_t x = 0; x < n[1]; x++)
        if (dst[x] != after[x]) {{
          printf("%s %s run %d: byte %ld is %d, not %d\\n", k->name, round ? "part" : "whole", runs, (long)(x - n[3]),
                 dst[x], after[x]);
          wrong++;
          break;
        }}
    }}
  }}
  printf("%d runs, %d wrong\\n", runs, wrong);
  return wrong != 0;
}}
"""

_FIXED = """\
{numbers}static void w_{name}(const void *s, void *d, const int64_t *e) {{ (void)e; {name}(s, d{more}); }}
static void p_{name}(const void *s, void *d, int64_t p, int64_t n, const int64_t *e) {{
  (void)e;
  {name}_part(s, d, p, n{more});
}}
static int64_t s_{name}(const int64_t *e) {{ (void)e; return {upper}_SRC_BYTES; }}
static int64_t d_{name}(const int64_t *e) {{ (void)e; return {upper}_DST_BYTES; }}
"""
"""Functions of one type for kernels that know their extents."""


@dataclass(frozen=True)
class Toolchain:
    """How a program for some machine is made and run."""

    compiler: str
    emulator: tuple[str, ...]

    def link(self, folder: Path, program: str, objects: Sequence[Path], *flags: str) -> Path:
        source = folder / "program.c"
        source.write_text(program)
        binary = folder / "program"
        command = [self.compiler, *_FLAGS, *flags, str(source), *map(str, objects), "-o", str(binary)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return binary

    def run(self, binary: Path, *args: str) -> subprocess.CompletedProcess[str]:
        command = [*self.emulator, str(binary), *args]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def toolchain(target: str) -> Toolchain:
    """That of the machine named `target`; skips the test, with the reason, where there is none here."""
    architecture = known_cpus()[target].machine.architecture
    here = platform.machine()
    if architecture == here:
        features = llvm.get_host_cpu_features()
        missing = [x for x in known_cpus()[target].needs if not features.get(x)] if here == "x86_64" else []
        if missing:
            pytest.skip(f"this machine has no {', '.join(missing)}")
        compiler, emulator = shutil.which("cc"), ()
        if compiler is None:
            pytest.skip("there is no C compiler (cc)")
        return Toolchain(compiler, emulator)
    compiler, program = shutil.which(f"{architecture}-linux-gnu-gcc"), shutil.which(f"qemu-{architecture}")
    if compiler is None or program is None:
        absent = f"gcc-{architecture}-linux-gnu" if compiler is None else "qemu-user"
        pytest.skip(f"code for {target} cannot be run: Debian's {absent} is not installed")
    cpu = ("-cpu", "rv64,v=true,vlen=128") if target == "riscv64-v" else ()
    return Toolchain(compiler, (program, *cpu))


@dataclass(frozen=True)
class Run:
    """A call of unit `number`, between these bytes: where the buffers lie in them, and the bytes as they must be."""

    number: int
    src: NDArray[Any]
    before: NDArray[Any]
    after: NDArray[Any]
    src_at: int
    dst_at: int
    extents: tuple[int, ...]

    @classmethod
    def of(cls, rng: Random, number: int, case: Case, align: int) -> Run:
        """One that moves the elements of `case`, aligned to `align` bytes."""
        src, dst, src_at, dst_at = buffers(rng, case)
        src_at, dst_at = (x if x % align == 0 else CANARY for x in (src_at, dst_at))
        return cls(number, src, dst, expected(case, src, dst, src_at, dst_at), src_at, dst_at, case.src.shape)

    @classmethod
    def converting(cls, rng: Random, number: int, case: fuzz_reorders.Case, plan: Plan) -> Run:
        """One that converts the elements of `case`."""
        bits, src_bytes = bits_of(case.conversion.src), index(plan.src_bytes)
        src = fuzz_reorders.numbers(rng, case.conversion.src, -(-src_bytes // 8) * 64 // bits)[:src_bytes]
        dst = np.frombuffer(rng.randbytes(index(plan.dst_bytes)), np.uint8)
        wanted = fuzz_reorders.expected(case, src, dst)
        canary = np.full(CANARY, POISON, np.uint8)
        before, after = (np.concatenate([canary, x, canary]) for x in (dst, wanted))
        shape = case.src.shape
        return cls(number, np.concatenate([canary, src]), before, after, CANARY, CANARY, shape)

    def packed(self, parts: int) -> bytes:
        """As the program reads it."""
        extents = (*self.extents, *[0] * (8 - len(self.extents)))
        head = (len(self.src), len(self.before), self.src_at, self.dst_at, parts, self.number, *extents)
        return struct.pack("<14q", *head) + self.src.tobytes() + self.before.tobytes() + self.after.tobytes()


def moving(units: Sequence[Unit], pairs: Sequence[tuple[int, Case]], seed: int) -> list[Run]:
    """A run for each pair of the number of a unit and what it moves."""
    rng = Random(seed)
    return [Run.of(rng, number, case, units[number].alignment) for number, case in pairs]


def _numbers(unit: FixedUnit, values: Mapping[str, Any]) -> str:
    """C arrays of the runtime parameters of `unit`."""
    text = ""
    for argument in unit.arguments:
        numbers = [float(x).hex() for x in values[argument.name].reshape(-1)]
        assert len(numbers) == argument.count
        text += f"static const {argument.type} n_{unit.name}_{argument.name}[] = {{{', '.join(numbers)}}};\n"
    return text


def call_all(
    folder: Path,
    units: Sequence[Unit],
    runs: Sequence[Run],
    seed: int,
    values: Sequence[Mapping[str, Any]] = (),
) -> tuple[str, bytes, list[Path]]:
    """A program that calls units, its data, and the object files it is linked with.

    `values` are the runtime parameters, for each unit.
    """
    rng, data, objects = Random(seed), bytearray(), list[Path]()
    includes, adapters, entries = "", "", ""
    for number, unit in enumerate(units):
        name = unit.name
        objects.append(folder / f"{name}.o")
        objects[-1].write_bytes(unit.object_file())
        (folder / f"{name}.h").write_text(header(unit))
        includes += f'#include "{name}.h"\n'
        if isinstance(unit, DynamicUnit):
            entries += f'  {{"{name}", {name}, {name}_part, {name}_src_bytes, {name}_dst_bytes}},\n'
        else:
            assert isinstance(unit, FixedUnit)
            given = _numbers(unit, values[number]) if unit.arguments else ""
            more = "".join(f", n_{name}_{argument.name}" for argument in unit.arguments)
            adapters += _FIXED.format(name=name, upper=name.upper(), numbers=given, more=more)
            entries += f'  {{"{name}", w_{name}, p_{name}, s_{name}, d_{name}}},\n'
    for run in runs:
        data += run.packed(rng.choice((1, 2, 3, 7)))
    program = _PROGRAM.format(includes=includes, adapters=adapters, entries=entries)
    return program, bytes(data), objects


def check_runs(
    folder: Path,
    target: str,
    units: Sequence[Unit],
    runs: Sequence[Run],
    seed: int,
    values: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Links, runs and fails where a byte is wrong; skips where the code of `target` cannot run."""
    tools = toolchain(target)
    program, data, objects = call_all(folder, units, runs, seed, values)
    (folder / "data").write_bytes(data)
    run = tools.run(tools.link(folder, program, objects, "-static"), str(folder / "data"))
    for _ in range(3):
        if "qemu" not in run.stderr or "Assertion" not in run.stderr:
            break
        # Emulators have assertions of their own, which hold or not with the place of an instruction in its page.
        objects = objects[len(objects) // 4 :] + objects[: len(objects) // 4]
        run = tools.run(tools.link(folder, program, objects, "-static"), str(folder / "data"))
    assert (run.returncode, run.stdout) == (0, f"{len(runs)} runs, 0 wrong\n"), run.stdout + run.stderr
