"""`layout-ir compile-reorder`: files that are whole, a summary for programs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.aot.header import header
from layout_ir.backends.llvm.aot.object_file import compile_ahead, elf_symbols
from layout_ir.backends.llvm.machine.known_cpus import known_cpus, machine_named
from layout_ir.elements.quantization import conversion_between
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
    assert text.read_text() == header(unit, known_cpus()["aarch64"].needs)
    assert json.loads(out) == {
        "name": "k", "symbols": ["k", "k_part"],
        "from": "(n, c, h, w) : [n, c, h, w]", "to": "(n, c, h, w) : [n, c, h, w, c:8], pad = zero",
        "shape": [2, 17, 5, 4], "dtype": "f32", "to_dtype": "f32", "arguments": [],
        "target": "aarch64", "triple": "aarch64-unknown-linux-gnu", "cpu": "generic", "features": ["neon"],
        "vector_bytes": 16, "source_bytes": 2720, "destination_bytes": 3840, "alignment": 1, "stack_bytes": 0,
        "in_place": False, "streaming": False,
        "emit": "obj", "output": str(code), "output_bytes": len(unit.object_file()), "header": str(text),
    }  # fmt: skip
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k.h", "k.o"]


SCALES = tuple(2.0 ** (k % 5 - 4) for k in range(17))


def _quantizing(**numbers: Any) -> bytes:
    layouts = [Format.of(x).bind((2, 17, 5, 4)) for x in ("nchw", "nChw8c")]
    conversion, _ = conversion_between("f32", "i8", **numbers, dim=1, channels=17)
    unit = compile_ahead(layouts[0], layouts[1], "f32", machine_named("aarch64"), "k", conversion)
    return unit.object_file()


@pytest.mark.parametrize("form", ["list", "sides", "npy", "text"])
def test_numbers_of_channels_come_as_a_list_or_from_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str
):
    path, listed = tmp_path / "k.o", ",".join(map(str, SCALES))
    np.save(tmp_path / "scales.npy", np.array(SCALES, np.float32))
    (tmp_path / "scales.txt").write_text(listed.replace(",", "\n", 3).replace(",", ", ", 3))
    scale = {
        "list": listed,
        "sides": f":{listed}",
        "npy": f"@{tmp_path}/scales.npy",
        "text": f"@{tmp_path}/scales.txt",
    }
    args = [*ARGS, "--name", "k", "--to-dtype", "i8", "--scale", scale[form], "--dim", "1"]
    assert run(capsys, *args, "--zero-point=-3", "-o", str(path)) == (0, "", "")
    assert path.read_bytes() == _quantizing(scale=(None, SCALES), zero_point=-3)


def test_numbers_may_be_left_to_the_call(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path, text = tmp_path / "k.o", tmp_path / "k.h"
    args = [
        *ARGS,
        "--name",
        "k",
        "--to-dtype",
        "i8",
        "--dim",
        "1",
        "-o",
        str(path),
        "--header",
        str(text),
        "--json",
    ]
    status, out, _ = run(capsys, *args, "--scale", "channel", "--zero-point", "tensor", "--beta", "tensor")
    assert status == 0
    found = json.loads(out)
    assert (found["dtype"], found["to_dtype"], found["symbols"]) == ("f32", "i8", ["k", "k_part"])
    assert found["arguments"] == [
        {"name": "dst_scale", "type": "float", "count": 17},
        {"name": "beta", "type": "float", "count": 1},
        {"name": "dst_zero", "type": "float", "count": 1},
    ]
    one, several = np.ones(()), np.ones(17)
    assert path.read_bytes() == _quantizing(scale=several, zero_point=one, beta=one)
    declared = "void k(const void *src, void *dst, const float *dst_scale, const float *beta, const float *dst_zero);"
    assert declared in text.read_text()


CONVERTING = [*ARGS, "-o", "k.o", "--to-dtype", "i8"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            [*CONVERTING, "--scale", "1,2"],
            "--scale 1,2 is one number per channel: say along which dim, such as --dim 1",
        ),
        ([*CONVERTING, "--scale", "1,2", "--dim", "1"], "scale has 2 numbers, expected one or 17"),
        (
            [*CONVERTING, "--scale", "channel"],
            "--scale channel is one number per channel: say along which dim",
        ),
        (
            [*CONVERTING, "--scale", "1,x", "--dim", "1"],
            "'x' in --scale 1,x is no number: expected one, a list, @FILE",
        ),
        ([*CONVERTING, "--scale", "@none.npy", "--dim", "1"], "none.npy: error: No such file or directory"),
        ([*CONVERTING, "--scale", "@k.npy", "--dim", "1"], "k.npy: not a file of numbers"),
        (
            [*CONVERTING, "--scale", "@k.txt", "--dim", "1"],
            "k.txt: expected a list of numbers, found an array of 0",
        ),
        ([*CONVERTING, "--scale", "0"], "scale 0.0 of i8 is not a positive number"),
        ([*CONVERTING, "--scale", "nan"], "scale nan of i8 is not a positive number"),
        ([*CONVERTING, "--scale", "1:2:3"], "--scale 1:2:3 has 3 sides, expected SOURCE:DESTINATION"),
        ([*CONVERTING, "--zero-point", "128"], "zero point 128.0 of i8: expected integers from -128 to 127"),
        ([*CONVERTING, "--zero-point", "3:0"], "zero point 3.0 of f32"),
        (
            [*CONVERTING, "--dim", "1"],
            "--dim 1 says where channels are, but neither --scale nor --zero-point has a",
        ),
        ([*CONVERTING, "--scale", "channel", "--dim", "4"], "--dim 4 is no dim of a tensor of rank 4"),
        ([*CONVERTING, "--beta", "1,2"], "beta has 2 numbers, expected one"),
        ([*CONVERTING, "--beta", "channel", "--dim", "1"], "--beta is one number for all channels"),
        (
            [*CONVERTING, "--dtype", "ui8", "--scale", "2"],
            "--scale 2 may be meant for either side of ui8 to i8: say",
        ),
        (
            ["nchw", "nChw8c", "--shape", "?x?x?x?", "-o", "k.o", "--to-dtype", "i8", "--scale", "tensor"],
            "?x?x?x?",
        ),
        (
            ["ab", "ba", "--shape", "?x3", "-o", "k.o", "--to-dtype", "i8", "--scale", "1,2", "--dim", "0"],
            "--dim 0 ",
        ),
    ],
)
def test_negative_numbers_that_do_not_fit(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], message: str
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.npy").write_text("no array")
    (tmp_path / "k.txt").write_text("\n")
    status, out, err = run(capsys, *args)
    assert (status, out) == (1, "")
    assert message in err
    assert not (tmp_path / "k.o").exists()


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
        run(capsys, *base, "--target", "x86-64-v3", "--features", "+avx512bw,+avx512vl,-movbe")[1]
    )
    assert wide["vector_bytes"] == 64
    assert {"avx512bw", "avx512vl"} <= set(wide["features"])
    assert "movbe" not in wide["features"]
    # FMA is part of AVX-512, which goes with it.
    narrow = json.loads(
        run(capsys, *base, "--target", "x86-64-v3", "--features", "+avx512bw,+avx512vl,-fma")[1]
    )
    assert narrow["vector_bytes"] == 32
    assert {"fma", "avx512f", "avx512bw", "avx512vl"}.isdisjoint(narrow["features"])
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
        ([*ARGS, "-o", "k.o", "--header", "k.o"], "both to 'k.o'"),
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
