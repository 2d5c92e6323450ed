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


@pytest.fixture(name="dynamic")
def _dynamic(tmp_path: Path) -> str:
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> '
        "g (float[batch, 3, h, w] x) => (float[batch, 3, h, w] y) { y = Sin(x) }"
    )
    path = tmp_path / "dynamic.onnx"
    path.write_bytes(made.SerializeToString())
    return str(path)


@pytest.mark.parametrize("command", ["optimize", "run"])
def test_the_hint_about_dynamic_dims_is_what_the_command_line_takes(
    command: str, dynamic: str, capsys: pytest.CaptureFixture[str]
):
    assert main([command, dynamic, "--target", "avx2"]) == 1
    error = capsys.readouterr().err
    hint = error.partition("give the shape: ")[2].split(" (")[0].split()
    assert hint == ["--shape", "x=1x3x224x224"]
    assert main([command, dynamic, "--target", "avx2", *hint]) == 0


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            ["1x3x8x8"],
            "--shape 1x3x8x8: expected NAME=EXTENTS, such as x0=1x3x224x224, or x0=() for a scalar",
        ),
        (["x=1x3x8x"], "--shape x=1x3x8x: expected NAME=EXTENTS"),
        (["x=1x3x8x8", "x=1x3x9x9"], "--shape x=1x3x9x9: input 'x' is given a shape twice"),
        (["z=1x3x8x8"], "shapes names 'z', which is no input of the model"),
        (["x=3"], "rank mismatch"),
    ],
)
def test_negative_shapes_of_inputs(
    shapes: list[str], message: str, dynamic: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["optimize", dynamic, *(text for shape in shapes for text in ("--shape", shape))]) == 1
    assert message in capsys.readouterr().err


def test_negative_a_program_says_its_shapes_itself(program: str, capsys: pytest.CaptureFixture[str]):
    assert main(["optimize", program, "--shape", "x=1"]) == 1
    assert "--shape x=1 is for inputs of ONNX models" in capsys.readouterr().err
