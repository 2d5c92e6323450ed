"""One object for the reorders of a program: each distinct one once, under a name that says what it moves."""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.llvm.aot.object_file import compile_ahead, elf_symbols
from layout_ir.backends.llvm.aot.reorder_library import ReorderLibrary
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.diagnostics import PassError
from layout_ir.errors import LayoutError

PROGRAM = """\
func.func @main(%x: tensor<2x17x5x4xf32>, %w: tensor<17x3x2x2xf32>) {
  %a = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  %b = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  %c = layout.reorder %a : tensor<2x17x5x4xf32, #layout.tag<nChw8c>> -> tensor<2x17x5x4xf32, #layout.tag<nhwc>>
  %d = layout.reorder %w : tensor<17x3x2x2xf32> -> tensor<17x3x2x2xf32, #layout.tag<Oihw4o>>
  %e = layout.reorder %x scale = [1.0, 0.05] zero_point = [0, 3] : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xi8, #layout.tag<nhwc>>
  func.return
}
func.func @other(%x: tensor<2x17x5x4xf32>) {
  %a = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  func.return
}
"""  # noqa: E501
MACHINE = machine_named("x86-64-v2")


def library(text: str = PROGRAM) -> ReorderLibrary:
    return ReorderLibrary.of_program(li.parse(text), MACHINE)


def names(text: str) -> list[str]:
    return [unit.name for unit in library(text).units]


def test_the_same_reorder_is_one_symbol_however_often_it_occurs():
    found = library()
    assert [re.sub(r"_[0-9a-f]{8}$", "_QUANTIZED", unit.name) for unit in found.units] == [
        "reorder_nchw_to_nChw8c_2x17x5x4_f32",
        "reorder_nChw8c_to_nhwc_2x17x5x4_f32",
        "reorder_oihw_to_Oihw4o_17x3x2x2_f32",
        "reorder_nchw_to_nhwc_2x17x5x4_f32_to_i8_QUANTIZED",
    ]
    assert found.places("reorder_nchw_to_nChw8c_2x17x5x4_f32") == [
        "<text>:2:8 in @main",
        "<text>:3:8 in @main",
        "<text>:10:8 in @other",
    ]
    defined = {name for name, is_defined in elf_symbols(found.object) if is_defined}
    assert defined == set(found.symbols)


def test_the_header_says_which_op_uses_which_reorder_and_what_the_single_ones_say():
    header = library().header
    for place in ("<text>:2:8 in @main", "<text>:10:8 in @other", "<text>:6:8 in @main"):
        assert header.count(place) == 1
    for unit in library().units:
        assert f"void {unit.name}(const void *src, void *dst);" in header
    assert header.count('extern "C"') == 1 and "destination  (n, h, w, c)" not in header


def one(source: str, destination: str, options: str = "") -> str:
    """A program of one reorder."""
    reorder = f"%a = layout.reorder %x {options} : {source} -> {destination}"
    return f"func.func @f(%x: {source}) {{\n  {reorder}\n  func.return\n}}\n"


DIFFERENT = [
    one("tensor<2x9x5xf32>", "tensor<2x9x5xf32, #layout.format<(a, b, c) : [a, b, c, b:8], pad = 1.5>>"),
    one("tensor<2x9x5xf32>", "tensor<2x9x5xf32, #layout.format<(a, b, c) : [a, b, c, b:8], pad = -1.5>>"),
    one("tensor<2x9x5xf32>", "tensor<2x9x5xf32, #layout.format<(a, b, c) : [a, b, c, b:8], pad = undef>>"),
    one("tensor<2x9x5xf32>", "tensor<2x9x5xf32, #layout.format<(a, b, c) : [b, a, c]>>"),
    one("tensor<2x9x5xf16>", "tensor<2x9x5xf16, #layout.format<(a, b, c) : [b, a, c]>>"),
    one("tensor<2x9x6xf32>", "tensor<2x9x6xf32, #layout.format<(a, b, c) : [b, a, c]>>"),
    one("tensor<2x9x5xf32>", "tensor<2x9x5xf32, #layout.format<(a, b, c) : [b, a, c], offset = 64>>"),
    one("tensor<2x9x5xf32>", "tensor<2x9x5xf32, #layout.format<(a, b, c) : [b, a, c], offset = 32>>"),
    one(
        "tensor<2x9x5xf32>", "tensor<2x9x5xi8, #layout.format<(a, b, c) : [b, a, c]>>", "scale = [1.0, 0.05]"
    ),
    one("tensor<2x9x5xf32>", "tensor<2x9x5xi8, #layout.format<(a, b, c) : [b, a, c]>>", "scale = [1.0, 0.1]"),
]


def test_every_reorder_has_a_name_of_its_own():
    found = [name for text in DIFFERENT for name in names(text)]
    assert len(found) == len(DIFFERENT) == len(set(found))


@pytest.mark.parametrize("text", DIFFERENT)
def test_a_reorder_has_the_same_name_in_every_program(text: str):
    assert names(PROGRAM + text)[-1] == names(text)[0]


def test_dynamic_extents_are_arguments():
    (unit,) = library(one("tensor<?x3x?x?xf32>", "tensor<?x3x?x?xf32, #layout.tag<nhwc>>")).units
    assert unit.name == "reorder_nchw_to_nhwc_nx3xnxn_f32"
    assert f"{unit.name}_src_bytes" in unit.symbols


def test_the_object_moves_what_the_program_says(tmp_path: Path):
    if shutil.which("cc") is None or platform.machine() != "x86_64":
        pytest.skip("no C compiler (cc) for x86-64")
    found = library()
    found.write(str(tmp_path / "r.o"), str(tmp_path / "r.h"))
    (tmp_path / "r.c").write_text('#include "r.h"\n')  # the header by itself is C
    shared = tmp_path / "r.so"
    command = ["cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "r.c", "r.o"]
    subprocess.run([*command, "-o", shared], check=True, cwd=tmp_path)
    loaded = ctypes.CDLL(str(shared))
    x = np.random.default_rng(0).standard_normal((2, 17, 5, 4)).astype(np.float32)
    blocked = np.full((2, 3, 5, 4, 8), np.nan, np.float32)
    back = np.full((2, 5, 4, 17), np.nan, np.float32)
    loaded.reorder_nchw_to_nChw8c_2x17x5x4_f32(x.ctypes, blocked.ctypes)
    loaded.reorder_nChw8c_to_nhwc_2x17x5x4_f32(blocked.ctypes, back.ctypes)
    padded = np.pad(x, [(0, 0), (0, 7), (0, 0), (0, 0)]).reshape(2, 3, 8, 5, 4)
    assert np.array_equal(blocked, padded.transpose(0, 1, 3, 4, 2))
    assert np.array_equal(back, x.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (one("tensor<2x3xf32>", "tensor<2x3xf32, #layout.any>"), "no layout yet: run layout-optimize first"),
        (one("tensor<8x8xf32, #layout.format<(a, b) : [a, b], swizzle = (2, 1, 2)>>", "tensor<8x8xf32>"), "swizzle"),
    ],
)  # fmt: skip
def test_negative_a_reorder_that_no_code_moves_is_named_with_its_place(text: str, message: str):
    with pytest.raises(PassError, match=message) as caught:
        library(text)
    assert caught.value.location is not None and caught.value.location.line == 2


def test_negative_a_program_without_reorders_has_no_object():
    with pytest.raises(LayoutError, match=r"no layout\.reorder to compile"):
        library("func.func private @f()")


def test_negative_names_that_macros_cannot_tell_apart_are_refused():
    layout = li.Format.from_tag("ab").bind((2, 3))
    units = tuple(compile_ahead(layout, layout, "f32", MACHINE, name) for name in ("move", "Move"))
    with pytest.raises(LayoutError, match="'move' and 'Move' are one name in macros"):
        ReorderLibrary("r", units)
    with pytest.raises(LayoutError, match="there is no reorder"):
        ReorderLibrary("r", ())
    with pytest.raises(LayoutError, match="'a b' is no name in C"):
        ReorderLibrary("a b", units[:1])
