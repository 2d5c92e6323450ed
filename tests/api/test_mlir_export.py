"""Programs as MLIR with the compiled reorders that they call."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import CallOp

import layout_ir as li
from layout_ir.api.mlir_export import with_reorder_library
from layout_ir.tools.layout_ir import main
from tests.exits.linalg.mlir_tools import execute, mlir_opt, tool

EXAMPLE = Path(__file__).parents[2] / "examples" / "channel_shuffle.mlir"


def test_the_functions_that_are_called_are_those_of_the_object(tmp_path: Path):
    module = li.parse(EXAMPLE)
    x = np.random.default_rng(0).standard_normal((1, 32, 14, 14)).astype(np.float32)
    want = li.run(module, [x], reorders="reference")
    li.optimize(module, "blocked8")
    converted, library = with_reorder_library(module)
    assert library is not None
    called = {op.callee.string_value() for op in converted.walk() if isinstance(op, CallOp)}
    assert called and called <= set(library.symbols)
    library.write(str(tmp_path / "reorders.o"))
    tool("mlir-opt")
    shared = tmp_path / "reorders.so"
    command = ["cc", "-shared", "-o", shared, tmp_path / "reorders.o"]
    linked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert linked.returncode == 0, linked.stderr
    got = execute(converted, [x], tmp_path, libraries=[shared])
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-5)


def test_negative_a_program_without_reorders_calls_nothing():
    module = li.parse(
        "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> { func.return %x : tensor<2x3xf32> }"
    )
    converted, library = with_reorder_library(module)
    assert library is None and not [op for op in converted.walk() if isinstance(op, CallOp)]


@pytest.mark.parametrize(
    ("options", "has"),
    [
        ([], "layout.reorder"),
        (["--emit", "linalg"], "linalg.transpose"),
        (["--emit", "linalg", "--reorders", "pack"], "linalg.pack"),
        (["--emit", "linalg", "--reorders", "call"], "func.call @reorder_"),
        (["--emit", "loops"], "scf.for"),
    ],
)
def test_the_command_line_writes_each_form(
    options: list[str], has: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "program.mlir"
    assert main(["optimize", str(EXAMPLE), "--target", "blocked8", "-o", str(out), *options]) == 0
    capsys.readouterr()
    text = out.read_text()
    assert has in text
    assert (tmp_path / "program.o").exists() == ("call" in options)
    if options:
        mlir_opt(text, "--canonicalize")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--emit", "linalg"], "name a file with -o"),
        (["--emit", "linalg", "-o", "m.onnx"], "m.onnx is to be an ONNX model"),
        (["--reorders", "pack", "-o", "m.mlir"], "--reorders pack is for --emit linalg"),
        (["--emit", "linalg", "--reorders", "call", "-o", "-"], "name a file with -o"),
    ],
)
def test_negative_options_that_do_not_fit_are_one_error_and_no_file(
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    assert main(["optimize", str(EXAMPLE), "--target", "blocked8", *options]) == 1
    said = capsys.readouterr()
    assert message in said.err and "Traceback" not in said.err
    assert list(tmp_path.iterdir()) == []
