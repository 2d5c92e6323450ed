"""`layout-ir compile-reorders`: the files are those of the program's reorders, and nothing is half written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import layout_ir as li
from layout_ir.tools.layout_ir import main

PROGRAM = """\
func.func @main(%x: tensor<2x17x5x4xf32>) {
  %a = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  %b = layout.reorder %a : tensor<2x17x5x4xf32, #layout.tag<nChw8c>> -> tensor<2x17x5x4xf32, #layout.tag<nhwc>>
  func.return
}
"""


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    status = main(["compile-reorders", *map(str, args)])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "net.mlir"
    path.write_text(PROGRAM)
    return path


def test_the_files_are_those_of_the_library(capsys: pytest.CaptureFixture[str], program: Path):
    code, header = program.parent / "r.o", program.parent / "r.h"
    status, out, err = run(capsys, program, "--target", "aarch64", "-o", code, "--header", header, "--json")
    assert (status, err) == (0, "")
    library = li.compile_object(li.parse(program), target="aarch64", name="reorders_r")
    assert (code.read_bytes(), header.read_text()) == (library.object, library.header)
    report = json.loads(out)
    assert [(entry["name"], entry["source_bytes"], entry["uses"]) for entry in report["reorders"]] == [
        ("reorder_nchw_to_nChw8c_2x17x5x4_f32", 2720, [f"{program}:2:8 in @main"]),
        ("reorder_nChw8c_to_nhwc_2x17x5x4_f32", 3840, [f"{program}:3:8 in @main"]),
    ]
    assert report["output_bytes"] == len(library.object) and report["features"] == ["neon"]


@pytest.mark.parametrize(("emit", "expected"), [("ir", "define void @net_"), ("asm", "net_nchw_to_nChw8c")])
def test_it_prints_what_is_asked_for(
    capsys: pytest.CaptureFixture[str], program: Path, emit: str, expected: str
):
    status, out, _ = run(capsys, program, "--target", "aarch64", "--prefix", "net", "--emit", emit)
    assert status == 0 and expected in out


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        (PROGRAM.replace("nChw8c", "nChw8x"), (), "net.mlir:2:"),
        (PROGRAM.replace("#layout.tag<nChw8c>", "#layout.any"), (), "net.mlir:2:8: error: this reorder cannot"),
        ("func.func private @f()", (), "no layout.reorder to compile"),
        (PROGRAM, ("--prefix", "4"), "'4' is no name in C"),
        (PROGRAM, ("--target", "z80"), "unknown cpu 'z80'"),
        ('"mine.op"() : () -> ()', (), "there is no dialect 'mine'"),
    ],
)  # fmt: skip
def test_negative_what_cannot_be_compiled_is_said_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], program: Path, text: str, args: tuple[str, ...], message: str
):
    program.write_text(text)
    status, out, err = run(capsys, program, "-o", program.parent / "r.o", *args)
    assert (status, out) == (1, "") and message in err
    assert list(program.parent.iterdir()) == [program]


def test_negative_a_command_without_an_output_says_so(capsys: pytest.CaptureFixture[str], program: Path):
    status, _, err = run(capsys, program)
    assert status == 1 and "say where the object goes" in err
