"""`layout-ir optimize`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layout_ir.tools.commands.optimize import time_text
from layout_ir.tools.layout_ir import main

UNKNOWN = """\
func.func @main(%x: tensor<1x8x5x4xf32>) -> tensor<1x8x5x4xf32> {
  %a = nn.relu %x : tensor<1x8x5x4xf32>
  %b = "theirs.norm"(%a) {eps = 1.0e-5 : f32} : (tensor<1x8x5x4xf32>) -> tensor<1x8x5x4xf32>
  func.return %b : tensor<1x8x5x4xf32>
}
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "p.mlir"
    path.write_text(UNKNOWN)
    return str(path)


def test_ops_of_dialects_that_nobody_registered_are_taken_on_request(
    program: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    out = str(tmp_path / "out.mlir")
    assert main(["optimize", program, "--allow-unregistered-dialect", "--json", "-o", out]) == 0
    assert json.loads(capsys.readouterr().out)["ops"] == 2
    assert "theirs.norm" in Path(out).read_text()


def test_negative_without_the_request_they_are_an_error_with_a_place(
    program: str, capsys: pytest.CaptureFixture[str]
):
    for command in ("optimize", "run"):
        assert main([command, program]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"{program}:3:8: error: unknown operation 'theirs.norm'")


def test_negative_what_has_no_semantics_cannot_be_run(program: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", program, "--allow-unregistered-dialect"]) == 1
    assert "theirs.norm has no reference semantics" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["out.onnx", "out.ONNX"])
def test_negative_a_model_cannot_be_written_as_onnx(
    program: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
):
    out = tmp_path / name
    assert main(["optimize", program, "--allow-unregistered-dialect", "-o", str(out)]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and str(out) in printed.err and ".mlir" in printed.err
    assert not out.exists()


def test_negative_an_unknown_target_is_refused_where_nothing_is_to_be_chosen(
    program: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    out = tmp_path / "out.mlir"
    for args in (["optimize", "-o", str(out)], ["run"]):
        assert main([*args, program, "--allow-unregistered-dialect", "--target", "nope"]) == 1
        assert "unknown target 'nope': targets are host, " in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0.00 ms"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1000, "1.00 us"),
        (123_456, "123.46 us"),
        (1_000_000, "1.00 ms"),
        (12_345_678_900, "12345.68 ms"),
    ],
)
def test_times_are_shown_in_a_unit_that_fits(ns: int, text: str):
    assert time_text(ns) == text
