"""`layout-ir explain-model`: a table for people, an object for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layout_ir.tools.layout_ir import main
from tests.execution_graphs.test_onednn_log import NEW
from tests.execution_graphs.test_openvino_graph import TEXT


def run(capsys: pytest.CaptureFixture[str], content: str, folder: Path, *args: str) -> tuple[int, str, str]:
    path = folder / "file"
    path.write_text(content)
    status = main(["explain-model", str(path), *args])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_object_has_every_copy_and_adds_up(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    status, out, _ = run(capsys, TEXT, tmp_path, "--json")
    found = json.loads(out)
    assert status == 0
    assert [copy["kind"] for copy in found["copies"]] == ["Reorder", "Transpose"]
    for verdict, total in found["totals"].items():
        own = [copy for copy in found["copies"] if copy["verdict"] == verdict]
        assert total == {"copies": len(own), "bytes": sum(copy["bytes"] for copy in own)}
    assert found["copies"][0]["because"] == ["Convolution conv", ["Pooling pool"]]
    assert found["copies"][0]["from"]["format"].endswith("b:8], pad = zero")


def test_the_table_is_sorted_by_bytes_and_cut(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    log = "".join(
        NEW.replace("17x32x20", f"17x32x{20 + k}").replace("iw20", f"iw{20 + k}") for k in range(30)
    )
    status, out, _ = run(capsys, log, tmp_path)
    assert status == 0
    shown = [line for line in out.splitlines() if "  reorder 1x17x32x" in line]
    assert len(shown) == 20 and "49 " not in out.splitlines()[0]
    assert [int(line.rpartition("x")[2]) for line in shown] == list(range(49, 29, -1))
    assert "... and 10 more (--all lists them)" in out
    _, everything, _ = run(capsys, log, tmp_path, "--all")
    assert everything.count("  reorder 1x17x32x") == 30


@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_the_target_decides_what_a_transpose_of_a_product_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, target: str
):
    """ONNX Runtime's product reads an operand whose last two dims are exchanged, that of the standard does not."""
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    m (float[2,6,5] x, float[2,6,5] z) => (float[2,6,6] y) { a = Relu(x)
      r = Relu(z)
      b = Transpose<perm = [0, 2, 1]>(r)
      y = MatMul(a, b) }"""
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert main(["explain-model", str(path), "--json", "--target", target]) == 0
    (copy,) = json.loads(capsys.readouterr().out)["copies"]
    assert copy["verdict"] == {"onnx": "forced", "ort-cpu": "avoidable"}[target]


def test_names_with_control_characters_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    _, out, _ = run(capsys, TEXT.replace('"conv"', '"conv&#9;&#133;x"'), tmp_path)
    assert "\x85" not in out and "\t" not in out


@pytest.mark.parametrize(
    ("content", "args", "message"),
    [
        ("hello", [], "expected an ONNX model, TensorRT layer information"),
        (TEXT, ["--shape", "x=1x3"], "shapes of inputs are for ONNX models"),
        (TEXT, ["--shape", "x"], "expected NAME=EXTENTS"),
        (TEXT, ["--target", "onnx"], "--target says who is to run an ONNX model"),
        (TEXT[:300], [], "not well-formed XML, or truncated"),
    ],
)
def test_negative_one_error_and_status_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, args: list[str], message: str
):
    status, out, err = run(capsys, content, tmp_path, *args)
    assert (status, out) == (1, "")
    assert message in err and err.count("\n") == 1


def test_negative_a_missing_file(capsys: pytest.CaptureFixture[str]):
    assert main(["explain-model", "/nowhere/file"]) == 1
    assert capsys.readouterr().err == "/nowhere/file: error: No such file or directory\n"
