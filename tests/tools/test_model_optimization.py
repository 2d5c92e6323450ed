"""`layout-ir optimize` on an ONNX model that stays one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from layout_ir.tools.layout_ir import main

pytest.importorskip("onnx")

import onnx
import onnx.numpy_helper
from onnx import helper


def wrapped_model() -> onnx.ModelProto:
    """Two convolutions in NHWC style, a softmax over channels between them: only the ends need a Transpose."""
    weights = [
        onnx.numpy_helper.from_array(
            np.random.default_rng(k).standard_normal(shape).astype(np.float32), f"w{k}"
        )
        for k, shape in enumerate([(6, 3, 3, 2), (4, 6, 1, 1)])
    ]
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], "in", perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["a", "w0"], ["b"], "first"),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 2, 3, 1]),
        helper.make_node("Softmax", ["c"], ["d"], "soft", axis=-1),
        helper.make_node("Transpose", ["d"], ["e"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["e", "w1"], ["f"], "second"),
        helper.make_node("Transpose", ["f"], ["y"], "out", perm=[0, 2, 3, 1]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "wrapped", [value("x", 1, [2, 7, 9, 3])], [value("y", 1, [2, 5, 8, 4])], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """The file of that model."""
    path = tmp_path / "model.onnx"
    path.write_bytes(wrapped_model().SerializeToString())
    return str(path)


def report(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """What `optimize --json` prints."""
    assert main(["optimize", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_model_goes_out_without_the_transposes_that_nobody_needs(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "better.onnx"
    found = report([model, "-o", str(out)], capsys)
    assert found["before"] == {"transposes": 4, "bytes": 2 * 4 * (2 * 7 * 9 * 3 + 2 * 5 * 8 * (6 + 6 + 4))}
    assert found["after"] == {"transposes": 2, "bytes": 2 * 4 * (2 * 7 * 9 * 3 + 2 * 5 * 8 * 4)}
    assert found["proven"] is True and found["cost"] == found["bound"]
    better = onnx.ModelProto.FromString(out.read_bytes())
    onnx.checker.check_model(better, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    names = {node.name: node for node in better.graph.node}
    assert {"in", "first", "soft", "second", "out"} <= set(names) and len(better.graph.node) == 5
    assert names["soft"].attribute[0].i == 1
    ort = pytest.importorskip("onnxruntime")
    x = {"x": np.random.default_rng(7).standard_normal((2, 7, 9, 3)).astype(np.float32)}
    results = [ort.InferenceSession(path).run(None, x)[0] for path in (model, str(out))]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)


def test_what_comes_out_comes_out_again_as_it_is(model: str, tmp_path: Path):
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    assert main(["optimize", model, "-o", str(first)]) == 0
    assert main(["optimize", str(first), "-o", str(second)]) == 0
    assert first.read_bytes() == second.read_bytes()


def test_callers_are_asked_for_other_orders_only_where_they_may_be(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "better.onnx"
    found = report([model, "--inputs", "free", "--outputs", "free", "-o", str(out)], capsys)
    assert found["after"] == {"transposes": 0, "bytes": 0}
    assert found["asked_of_callers"] == [
        {"name": "x", "order": [0, 3, 1, 2], "bytes": 2 * 4 * 2 * 7 * 9 * 3},
        {"name": "y", "order": [0, 3, 1, 2], "bytes": 2 * 4 * 2 * 5 * 8 * 4},
    ]
    (value,) = onnx.ModelProto.FromString(out.read_bytes()).graph.input
    assert [dim.dim_value for dim in value.type.tensor_type.shape.dim] == [2, 3, 7, 9]


def test_the_report_says_why_a_transpose_is_left(model: str, capsys: pytest.CaptureFixture[str]):
    assert main(["optimize", model, "--target", "ort-cpu", "--report"]) == 0
    printed = capsys.readouterr().out
    assert "between input 'x' and Conv 'first'" in printed and "--inputs free" in printed
    assert "between Conv 'second' and output 'y'" in printed and "--outputs free" in printed


def test_the_proof_is_checked_against_what_came_out(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out, proof = str(tmp_path / "better.onnx"), str(tmp_path / "proof.json")
    assert main(["optimize", model, "-o", out, "--certificate", proof]) == 0
    assert main(["verify-certificate", proof, "--program", out]) == 0
    capsys.readouterr()
    assert main(["verify-certificate", proof, "--program", model]) == 1
    assert "the problem of the program has" in capsys.readouterr().err


def test_negative_options_of_programs_are_refused(model: str, capsys: pytest.CaptureFixture[str]):
    for options in (["--costs", "calibrated"], ["--solver", "greedy"], ["--elide-constants", "4"]):
        assert main(["optimize", model, "--target", "onnx", *options]) == 1
        assert options[0] in capsys.readouterr().err


def test_negative_a_truncated_model_is_one_error_and_no_file(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    cut, out = tmp_path / "cut.onnx", tmp_path / "better.onnx"
    cut.write_bytes(Path(model).read_bytes()[:200])
    assert main(["optimize", str(cut), "-o", str(out)]) == 1
    assert "truncated" in capsys.readouterr().err and not out.exists()


def test_a_search_that_is_ended_gives_an_unproven_model(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "out.onnx"
    assert report([model, "--time-limit", "inf", "-o", str(out)], capsys)["proven"] is True
    assert main(["optimize", model, "--time-limit", "0", "-o", str(out)]) == 0
    assert "not proven" in capsys.readouterr().out
    onnx.checker.check_model(str(out), full_check=True)  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize("limit", ["-1", "nan"])
def test_negative_a_time_limit_is_a_number_of_seconds(
    model: str, limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "out.onnx"
    assert main(["optimize", model, f"--time-limit={limit}", "-o", str(out)]) == 1
    assert "no number of seconds" in capsys.readouterr().err
    assert not out.exists()
