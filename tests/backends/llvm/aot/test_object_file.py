"""Objects with a C interface: linked into C programs and called, here and under emulators."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.aot.header import header
from layout_ir.backends.llvm.aot.object_file import FixedUnit, compile_ahead, elf_symbols
from layout_ir.backends.llvm.machine.known_cpus import known_cpus, machine_named
from layout_ir.backends.llvm.runtime.jit import object_file
from layout_ir.elements.element_types import element_type
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError
from tests.backends.llvm.aot.c_caller import Run, call_all, check_runs, moving, toolchain
from tests.backends.llvm.cases import Case, random_case
from tests.fuzz import reorders as fuzz_reorders
from tests.seeds import seeds

_CASES = (
    [(f, t, (2, 17, 9, 13), dtype) for dtype in ("i8", "f16", "f32", "f64") for f, t in (
        ("nchw", "nhwc"), ("nhwc", "nchw"), ("nchw", "nChw8c"), ("nChw16c", "nchw"), ("nChw8c", "nChw16c"))]
    + [(f, t, (2, 3, 20, 21), dtype) for dtype in ("i8", "f32") for f, t in (("nchw", "nhwc"), ("nhwc", "nchw"))]
    + [("ab", "ba", shape, dtype) for shape in ((64, 64), (33, 70), (1, 40), (5, 3)) for dtype in ("i8", "i64")]
    + [
        ("oihw", "OIhw8i8o", (17, 9, 3, 3), "f32"),
        ("(n, c) : [n, c, c:12]", "(n, c) : [n, c, c:8]", (3, 50), "f32"),
        ("(n, c) : [n, c, c:12], pad = undef", "(n, c) : [c, n, c:9, n:5], pad = 7", (13, 50), "i8"),
        ("nhwc", "(n, h, w, c) : [n, h, w, c | h:8, w:8, c:32], pad = zp", (1, 9, 20, 50), "ui8"),
        ("(n, c) : [n*100, c*3], offset = 5", "(n, c) : [c*64, n], offset = 3", (7, 30), "f16"),
        ("(n, c, h) : [n, c, h], lo = [0, 0, 1]", "(n, c, h) : [n, h, c:8], lo = [0, 3, 0]", (2, 5, 6), "f32"),
    ]
)  # fmt: skip
"""Source, destination, shape, element type: every kernel."""

_LARGE = [("nchw", "nhwc", (2, 64, 30, 30), "f32"), ("nhwc", "nchw", (2, 60, 37, 20), "f32")]
"""Where the caches are small and memory is slow, these are streamed, the second one through a buffer."""


def _case(source: str, destination: str, shape: tuple[int, ...], dtype: str) -> Case:
    return Case(Format.of(source).bind(shape), Format.of(destination).bind(shape), dtype)


def _unit(target: str = "x86-64-v3", name: str = "reorder") -> FixedUnit:
    case = _case("nchw", "nChw8c", (2, 17, 5, 4), "f32")
    return compile_ahead(case.src, case.dst, case.dtype, machine_named(target), name)


@pytest.mark.parametrize("part", seeds(1, 3))
@pytest.mark.parametrize("target", known_cpus())
def test_c_programs_get_what_the_layouts_say(target: str, part: int, tmp_path: Path):
    rng = Random(list(known_cpus()).index(target) + 100 * part)
    machine = machine_named(target)
    small = replace(machine, l2=64 << 10, l3=128 << 10)
    small = replace(small, measured=replace(small.profile, memory_ns=100.0))
    cases = [_case(*x) for x in (*_LARGE, *_CASES)] + [random_case(rng) for _ in range(25)]
    units = [
        compile_ahead(case.src, case.dst, case.dtype, machine if k >= len(_LARGE) else small, f"reorder{k}")
        for k, case in enumerate(cases)
    ]
    for unit in units[: len(_LARGE)]:
        assert all(step.kernel.streaming == machine.streams for step in unit.plan.steps)
    check_runs(tmp_path, target, units, moving(units, list(enumerate(cases)), 1), seed=1)


def _comparable(conversion: Conversion) -> bool:
    """Whether every result has one spelling in bits, as NaN has not."""
    src, dst = (element_type(dtype).is_float for dtype in (conversion.src, conversion.dst))
    return not dst or not (src or conversion.beta is not None)


@pytest.mark.parametrize("part", seeds(1, 2))
@pytest.mark.parametrize("target", known_cpus())
def test_c_programs_get_what_the_numbers_say(target: str, part: int, tmp_path: Path):
    """All kinds of numbers between all kinds of types: compiled in, and by the address behind the other arguments."""
    seed, machine = list(known_cpus()).index(target) + 100 * part, machine_named(target)
    cases = [case for case in fuzz_reorders.cases(seed, 0, 120) if _comparable(case.conversion)][:40]
    kinds = {
        type(x) if not isinstance(x, str) else x for c in cases for x in c.conversion.parameters.values()
    }
    assert kinds == {float, tuple, "tensor", "channel"}
    units = [
        compile_ahead(case.src, case.dst, "f32", machine, f"reorder{k}", case.conversion)
        for k, case in enumerate(cases)
    ]
    rng = Random(seed)
    runs = [Run.converting(rng, k, case, units[k].plan) for k, case in enumerate(cases)]
    check_runs(tmp_path, target, units, runs, 1, [case.values for case in cases])


_QUANTIZE = """\
#include <stdio.h>
#include "quantize.h"
int main(void) {
  const float x[6] = {1.0f, -2.0f, 0.25f, 4.0f, 100.0f, -0.5f};
  const float scale[3] = {0.5f, 0.25f, 2.0f};
  const float zero_point[3] = {0, 1, -1};
  int8_t y[6];
  quantize(x, y, scale, zero_point);
  for (int k = 0; k < 6; k++) printf("%d ", y[k]);
  return 0;
}
"""


def test_a_program_brings_the_numbers_of_channels_along(tmp_path: Path):
    """2x3 in rows to columns: x / scale + zero point by hand."""
    tools = toolchain("x86-64-v2")
    src, dst = (Format.of(name).bind((2, 3)) for name in ("ab", "ba"))
    conversion = Conversion("f32", "i8", dst_scale="channel", dst_zero="channel", dim=1, channels=3)
    unit = compile_ahead(src, dst, "f32", machine_named("x86-64-v2"), "quantize", conversion)
    (tmp_path / "quantize.o").write_bytes(unit.object_file())
    (tmp_path / "quantize.h").write_text(header(unit))
    run = tools.run(tools.link(tmp_path, _QUANTIZE, [tmp_path / "quantize.o"]))
    assert (run.returncode, run.stdout) == (0, "2 8 -7 127 -1 -1 ")


def test_negative_pads_of_a_zero_point_that_nobody_knows():
    case = _case("nhwc", "(n, h, w, c) : [n, h, w, c, c:8], pad = zp", (1, 2, 2, 3), "f32")
    conversion = Conversion("f32", "ui8", dst_zero="tensor")
    with pytest.raises(LayoutError, match="which each call brings along: give a number when compiling"):
        compile_ahead(case.src, case.dst, "f32", machine_named("haswell"), "k", conversion)


def test_negative_a_program_sees_a_wrong_byte(tmp_path: Path):
    tools = toolchain("x86-64-v2")
    case = _case("nchw", "nhwc", (2, 3, 4, 5), "f32")
    unit = compile_ahead(case.src, case.dst, case.dtype, machine_named("x86-64-v2"))
    program, data, objects = call_all(tmp_path, [unit], moving([unit], [(0, case)], 1), seed=1)
    (tmp_path / "data").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    run = tools.run(tools.link(tmp_path, program, objects), str(tmp_path / "data"))
    assert run.returncode == 1
    assert run.stdout.count("byte") == 2


@pytest.mark.parametrize("target", known_cpus())
def test_objects_need_nothing_and_lie_anywhere(target: str, tmp_path: Path):
    """No symbol is undefined, and a shared library without relocations in its code can be made of it."""
    unit = _unit(target)
    data = unit.object_file()
    assert sorted(elf_symbols(data)) == [("reorder", True), ("reorder_part", True)]
    architecture = known_cpus()[target].machine.architecture
    linker = shutil.which("ld") if architecture == "x86_64" else shutil.which(f"{architecture}-linux-gnu-ld")
    if linker is None:
        pytest.skip(f"there is no linker for {architecture}")
    (tmp_path / "kernel.o").write_bytes(data)
    command = [
        linker,
        "-shared",
        "-z",
        "text",
        "--no-undefined",
        "-o",
        tmp_path / "k.so",
        tmp_path / "kernel.o",
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_negative_symbols_from_elsewhere_are_seen():
    unit = _unit()
    text = (
        "declare ptr @memcpy(ptr, ptr, i64)\n"
        "define void @f(ptr %a) {\n  call ptr @memcpy(ptr %a, ptr %a, i64 9)\n  ret void\n}\n"
    )
    assert sorted(elf_symbols(object_file(text, unit.machine))) == [("f", True), ("memcpy", False)]
    assert not list(elf_symbols(b"\xcf\xfa\xed\xfe" + bytes(100)))


@pytest.mark.parametrize("target", known_cpus())
def test_only_x86_gets_what_only_x86_has(target: str):
    case = _case("nchw", "nhwc", (32, 64, 56, 56), "f32")
    unit = compile_ahead(case.src, case.dst, "f32", machine_named(target))
    x86 = unit.machine.architecture == "x86_64"
    assert ("llvm.x86" in unit.ir(), "!nontemporal" in unit.ir()) == (x86, x86)


def test_a_staging_buffer_is_counted_and_told():
    case = _case("nhwc", "nchw", (384, 256, 14, 14), "f32")
    unit = compile_ahead(case.src, case.dst, "f32", machine_named("x86-64-v4"))
    assert unit.stack_bytes > 8 << 10
    assert f"[{unit.stack_bytes} x i8]" in unit.ir()
    assert f"a call takes {unit.stack_bytes} bytes of stack" in header(unit)
    assert _unit().stack_bytes == 0
    assert "stack" not in header(_unit())


@pytest.mark.parametrize(
    "name", ["1k", "a-b", "", "for", "class", "__a", "_A", "main", "int64_t", "INT64_C", "größe"]
)
def test_negative_names_that_c_does_not_accept(name: str):
    with pytest.raises(LayoutError, match=r"no name in C|taken by C"):
        _unit(name=name)
