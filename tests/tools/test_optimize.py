"""`layout-ir optimize`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

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


def test_a_program_goes_out_as_an_onnx_model(tmp_path: Path):
    onnx = pytest.importorskip("onnx")
    program, out = tmp_path / "p.mlir", tmp_path / "out.ONNX"
    program.write_text(
        """
        func.func @main(%x: tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32> {
          %y = nn.relu %x : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
          return %y : tensor<2x3x4x5xf32>
        }
        """
    )
    assert main(["optimize", str(program), "-o", str(out)]) == 0
    model = onnx.load(str(out))
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Relu"]


def test_negative_an_op_without_a_form_in_onnx_leaves_no_file(
    program: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    out = tmp_path / "out.onnx"
    assert main(["optimize", program, "--allow-unregistered-dialect", "-o", str(out)]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and f"{program}:3:8: error: theirs.norm has no form in ONNX" in printed.err
    assert not out.exists()


def test_negative_threads_without_measured_prices_are_refused(
    program: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["optimize", program, "--threads", "4"]) == 1
    assert "--threads 4 says on how many threads prices are measured" in capsys.readouterr().err


@pytest.mark.parametrize("count", ["-1", "few"])
def test_negative_constants_are_elided_above_a_number(
    program: str, count: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as caught:
        main(["optimize", program, f"--elide-constants={count}"])
    assert caught.value.code == 2 and "is no whole number from 0 on" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--inputs=free", "--outputs=free", "--time-limit=3"])
def test_negative_what_is_for_models_is_refused_for_programs(
    program: str, option: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["optimize", program, option]) == 1
    assert "--target onnx" in capsys.readouterr().err


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
    assert main([command, dynamic, "--target", "blocked8"]) == 1
    error = capsys.readouterr().err
    hint = error.partition("give the shape: ")[2].split(" (")[0].split()
    assert hint == ["--shape", "x=1x3x224x224"]
    assert main([command, dynamic, "--target", "blocked8", *hint]) == 0


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            ["1x3x8x8"],
            "--shape 1x3x8x8: expected NAME=EXTENTS, such as x0=1x3x224x224, or x0=() for a scalar",
        ),
        (["x=1x3x8x"], "--shape x=1x3x8x: expected NAME=EXTENTS"),
        (["x=1x\N{FULLWIDTH DIGIT THREE}"], "expected NAME=EXTENTS"),
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


# Pages -----------------------------------------------------------------------------------------------------------

MOVED = """\
func.func @main(%x: tensor<1x8x5x4xf32>) -> tensor<1x8x5x4xf32, #layout.tag<nhwc>> {
  %a = nn.relu %x : tensor<1x8x5x4xf32> loc("act")
  %b = layout.reorder %a : tensor<1x8x5x4xf32> -> tensor<1x8x5x4xf32, #layout.tag<nhwc>>
  func.return %b : tensor<1x8x5x4xf32, #layout.tag<nhwc>>
}
"""


@pytest.fixture
def moved(tmp_path: Path) -> str:
    path = tmp_path / "moved.mlir"
    path.write_text(MOVED)
    return str(path)


def test_a_page_and_a_picture_of_the_network(moved: str, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    pytest.importorskip("fast_sugiyama", reason="needs the extra 'draw'")
    page, picture = tmp_path / "report.html", tmp_path / "graph.svg"
    assert main(["optimize", moved, "--target", "blocked8", "--html", str(page), "--svg", str(picture)]) == 0
    report = capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "nchw -> nhwc" in report and "nchw → nhwc" in text
    assert "What remains: 1 copy, 1.3 kB" in text
    assert "nn.relu act makes the one and the result of @main needs the other" in text
    assert "nothing was left to choose" in report and "nothing was left to choose" in text
    assert ElementTree.fromstring(picture.read_text(encoding="utf-8")).tag.endswith("svg")


def test_a_page_on_standard_output_stands_there_alone(moved: str, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("fast_sugiyama", reason="needs the extra 'draw'")
    assert main(["optimize", moved, "--html", "-"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("<!DOCTYPE html>") and printed.out.rstrip().endswith("</html>")
    assert "what remains" in printed.err


def test_negative_two_results_in_one_file(moved: str, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    pytest.importorskip("fast_sugiyama", reason="needs the extra 'draw'")
    out = str(tmp_path / "out")
    assert main(["optimize", moved, "-o", out, "--html", out]) == 1
    assert "two results would be written both to" in capsys.readouterr().err
    assert not Path(out).exists()


def test_negative_without_the_extra_nothing_begins(
    moved: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "fast_sugiyama", None)
    out = tmp_path / "report.html"
    for option in ("--html", "--svg"):
        assert main(["optimize", moved, "-o", str(tmp_path / "out.mlir"), option, str(out)]) == 1
        assert "pip install 'layout-ir[draw]'" in capsys.readouterr().err
    assert not out.exists() and not (tmp_path / "out.mlir").exists()
