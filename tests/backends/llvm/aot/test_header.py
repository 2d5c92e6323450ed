"""What a header tells the callers of a kernel, and that it is C and C++."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.aot.dynamic_object_file import DynamicUnit, compile_dynamic_ahead
from layout_ir.backends.llvm.aot.header import header
from layout_ir.backends.llvm.aot.object_file import FixedUnit, compile_ahead, elf_symbols
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.elements.quantization import Conversion


def _layouts(source: str, destination: str, shape: tuple[int, ...]) -> tuple[Layout, Layout]:
    return Format.of(source).bind(shape), Format.of(destination).bind(shape)


def _unit(target: str = "x86-64-v3", name: str = "reorder") -> FixedUnit:
    layouts = _layouts("nchw", "nChw8c", (2, 17, 5, 4))
    return compile_ahead(*layouts, "f32", machine_named(target), name)


def _dynamic() -> DynamicUnit:
    formats, shape = (Format.of("nchw"), Format.of("nChw8c")), (None,) * 4
    return compile_dynamic_ahead(*formats, shape, Conversion("f32", "f32"), machine_named("haswell"), "k2")


def test_the_header_describes_every_number():
    conversion = Conversion(
        "i4", "f64", src_zero="tensor", src_scale="channel", beta="tensor", dim=1, channels=17
    )
    src, dst = _layouts("nchw", "nChw8c", (2, 17, 5, 4))
    unit = compile_ahead(src, dst, "f32", machine_named("riscv64"), "widen", conversion)
    text = header(unit)
    for line in (
        "shape        2x17x5x4, elements i4 become f64",
        "src_zero     1 double:",
        "src_scale    17 doubles, one for each index of dim 1:",
        "beta         1 double:",
        "in f64, each step rounded:",
        "Two elements of 4 bits share a byte, the even one in the low half.",
        "Numbers lie as C has them.",
        "void widen(const void *src, void *dst, const double *src_zero, const double *src_scale, const double *beta);",
        "int64_t parts, const double *src_zero, const double *src_scale, const double *beta);",
    ):
        assert line in text
    assert "dst_zero" not in text
    assert "one after" not in text


def test_parts_that_write_halves_of_bytes_do_not_run_at_once():
    src, dst = _layouts("nchw", "nhwc", (2, 3, 5, 5))
    halves = Conversion("f32", "i4", dst_scale=0.25, dst_zero=-2.0)
    text = header(compile_ahead(src, dst, "f32", machine_named("haswell"), "k", halves))
    assert "but one after\n * the other: two may write halves of one byte" in text
    assert "in any order or at once" in header(_unit())
    assert "divide by the destination's scale, 0.25" in text


def test_pads_of_the_zero_point_are_a_number():
    src, dst = _layouts("nhwc", "(n, h, w, c) : [n, h, w, c, c:8], pad = zp", (1, 2, 2, 3))
    conversion = Conversion("f32", "ui8", dst_zero=7.0)
    unit = compile_ahead(src, dst, "f32", machine_named("haswell"), "k", conversion)
    assert "those of the destination become 7." in header(unit)


def test_the_header_says_what_a_caller_must_know():
    text = header(_unit(name="to_blocks"), ("avx2", "fma"))
    for line in (
        "source       (n, c, h, w) : [n, c, h, w]",
        "destination  (n, c, h, w) : [n, c, h, w, c:8], pad = zero",
        "shape        2x17x5x4, elements f32 of 4 bytes",
        "needs        avx2 fma",
        "Alignment: none is needed",
        "Aliasing: the two buffers do not overlap.",
        f"#define TO_BLOCKS_SRC_BYTES INT64_C({2 * 17 * 20 * 4})",
        f"#define TO_BLOCKS_DST_BYTES INT64_C({2 * 24 * 20 * 4})",
        "void to_blocks(const void *src, void *dst);",
        "void to_blocks_part(const void *src, void *dst, int64_t part, int64_t parts);",
        'extern "C" {',
    ):
        assert line in text
    same = Format.of("nc").bind((3, 4))
    assert "src and dst may be the same address" in header(
        compile_ahead(same, same, "f32", machine_named("haswell"))
    )
    assert "multiples of 4 bytes" in header(_unit("riscv64"))


@pytest.mark.parametrize("compiler", ["c++", "cc"])
def test_the_header_is_c_and_cpp_and_may_come_twice(compiler: str, tmp_path: Path):
    program = shutil.which(compiler)
    if program is None:
        pytest.skip(f"there is no {compiler}")
    (tmp_path / "k.h").write_text(header(_unit()))
    text = '#include "k.h"\n#include "k.h"\nint f(const void *a, void *b);\n'
    text += "int f(const void *a, void *b) { reorder(a, b); return REORDER_SRC_BYTES > 0; }\n"
    source = tmp_path / ("k.cpp" if compiler == "c++" else "k.c")
    source.write_text(text)
    command = [
        program,
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Werror",
        "-c",
        str(source),
        "-o",
        str(tmp_path / "k.o"),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    symbols = dict(elf_symbols((tmp_path / "k.o").read_bytes()))
    assert symbols["reorder"] is False  # not mangled


def test_the_header_declares_the_extents():
    text = header(_dynamic())
    for line in (
        "shape        ?x?x?x?, elements f32 of 4 bytes",
        "extents      4 numbers, one per dim; those that the shape gives are not read",
        "void k2(const void *src, void *dst, const int64_t *extents);",
        "void k2_part(const void *src, void *dst, int64_t part, int64_t parts, const int64_t *extents);",
        "int64_t k2_src_bytes(const int64_t *extents);",
        "int64_t k2_dst_bytes(const int64_t *extents);",
    ):
        assert line in text
    assert "_SRC_BYTES" not in text
