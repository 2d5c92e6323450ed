"""`layout-ir compile-reorder`: files that are whole, a summary for programs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layout_ir.backends.llvm.ahead import compile_ahead, elf_symbols
from layout_ir.backends.llvm.header import header
from layout_ir.backends.llvm.machines import TARGETS, machine_named
from layout_ir.format import Format
from layout_ir.tools.layout_ir import main

ARGS = ["nchw", "nChw8c", "--shape", "2x17x5x4", "--target", "aarch64"]


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    status = main(["compile-reorder", *args])
    out, err = capsys.readouterr()
    return status, out, err


def _unit(name: str):
    layouts = [Format.of(x).bind((2, 17, 5, 4)) for x in ("nchw", "nChw8c")]
    return compile_ahead(layouts[0], layouts[1], "f32", machine_named("aarch64"), name)


def test_the_files_are_those_of_the_unit(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, text = tmp_path / "k.o", tmp_path / "k.h"
    status, out, err = run(capsys, *ARGS, "--name", "k", "-o", str(code), "--header", str(text), "--json")
    assert (status, err) == (0, "")
    unit = _unit("k")
    assert code.read_bytes() == unit.object_file()
    assert text.read_text() == header(unit, TARGETS["aarch64"].needs)
    assert json.loads(out) == {
        "name": "k", "symbols": ["k", "k_part"],
        "from": "(n, c, h, w) : [n, c, h, w]", "to": "(n, c, h, w) : [n, c, h, w, c:8], pad = zero",
        "shape": [2, 17, 5, 4], "dtype": "f32",
        "target": "aarch64", "triple": "aarch64-unknown-linux-gnu", "cpu": "generic", "features": ["neon"],
        "vector_bytes": 16, "source_bytes": 2720, "destination_bytes": 3840, "alignment": 1, "stack_bytes": 0,
        "in_place": False, "streaming": False,
        "emit": "obj", "output": str(code), "output_bytes": len(unit.object_file()), "header": str(text),
    }  # fmt: skip
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k.h", "k.o"]


@pytest.mark.parametrize("suffix, start", [(".o", b"\x7fELF"), (".s", b"\t.file"), (".ll", b"target triple")])
def test_the_suffix_says_what_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str, start: bytes
):
    path = tmp_path / f"k{suffix}"
    assert run(capsys, *ARGS, "-o", str(path)) == (0, "", "")
    assert path.read_bytes().startswith(start)
    assert path.stat().st_mode & 0o111 == 0


def test_this_machine_is_the_default_and_features_change_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    path = str(tmp_path / "k.o")
    base = ["ab", "ba", "--shape", "64x64", "--json", "-o", path]
    assert json.loads(run(capsys, *base)[1])["cpu"] == machine_named("host").cpu
    wide = json.loads(
        run(capsys, *base, "--target", "x86-64-v3", "--features", "+avx512bw,+avx512vl,-fma")[1]
    )
    assert wide["vector_bytes"] == 64
    assert {"avx512bw", "avx512vl"} <= set(wide["features"])
    assert "fma" not in wide["features"]
    assert [name for name, defined in elf_symbols(Path(path).read_bytes()) if not defined] == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([*ARGS], "say where the object goes"),
        ([*ARGS, "--emit", "obj"], "say where the object goes: -o kernel.o"),
        ([*ARGS, "-o", "k.xyz"], "'k.xyz' does not say what to write"),
        ([*ARGS, "-o", "k.o", "--name", "a b"], "'a b' is no name in C"),
        ([*ARGS, "-o", "k.o", "--dtype", "f33"], "unknown element type 'f33'"),
        ([*ARGS, "-o", "k.o", "--features", "neon"], "expected +feature or -feature, found 'neon'"),
        ([*ARGS, "-o", "k.o", "--header", "k.o"], "the code and the header cannot both be 'k.o'"),
        ([*ARGS, "--emit", "asm", "--json"], "--json prints to standard output"),
        (["nchw", "-o", "k.o"], "say what to compile: SRC DST"),
        (["nchw", "nhwc", "-o", "k.o"], "'nchw' says no extents: give 4 of them"),
        (["nchw", "nhwc", "-o", "k.o", "--shape", "2x3"], "rank mismatch"),
        (["nchw", "nhwc", "-o", "k.o", "--shape", "2x3x4x5", "--target", "vax"], "unknown cpu 'vax'"),
    ],
)
def test_negative_nothing_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], message: str
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *args)
    assert (status, out) == (1, "")
    assert message in err
    assert not list(tmp_path.iterdir())


def test_negative_a_file_that_is_there_survives_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "k.o"
    path.write_text("mine")
    assert run(capsys, *ARGS, "--name", "while", "-o", str(path))[0] == 1
    assert path.read_text() == "mine"
    status, _, err = run(capsys, *ARGS, "-o", str(tmp_path / "no" / "k.o"))
    assert status == 1
    assert "No such file or directory" in err
