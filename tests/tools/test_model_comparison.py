"""`layout-ir run --with onnxruntime`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layout_ir.tools.layout_ir import main
from tests.benchmarks.small_models import model, picture, save

Capture = pytest.CaptureFixture[str]

onnx: Any = pytest.importorskip("onnx")


def _run(path: Path | str, *arguments: str) -> int:
    return main(["run", str(path), "--with", "onnxruntime", "--repeat-seconds", "0", *arguments])


def _object(capsys: Capture) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return save(picture(), tmp_path / "picture.onnx")


def test_a_model_is_compared_with_what_is_made_of_it(network: Path, capsys: Capture):
    assert _run(network, "--threads", "1") == 0
    text = capsys.readouterr().out
    assert f"after   {network} optimized for ort-cpu" in text
    assert "1 thread, optimization level all" in text
    assert "y (float32 2x5x7x20): " in text
    assert text.endswith("results agree\n")


def test_an_object_says_the_same(network: Path, capsys: Capture):
    assert _run(network, "--json", "--target", "onnx", "--optimization-level", "disable") == 0
    found = _object(capsys)
    assert found["before"]["transposes"] == 4
    assert found["before"]["left"] == {"nodes": 6, "transposes": 4, "reorder_inputs": 0, "reorder_outputs": 0}
    assert found["after"]["transposes"] == found["after"]["left"]["transposes"] == 2
    assert found["target"] == "onnx"
    assert found["agree"] is True
    (output,) = found["outputs"]
    assert (output["name"], output["equal"], output["reason"]) == ("y", True, None)
    assert output["difference"] <= output["limit"] == 1e-4
    ratios = np.divide(found["after"]["samples_ms"], found["before"]["samples_ms"])
    assert found["ratio"]["median"] == pytest.approx(np.median(ratios))
    assert (found["ratio"]["low"], found["ratio"]["high"]) == pytest.approx((ratios.min(), ratios.max()))
    assert found["environment"]["onnxruntime"] == pytest.importorskip("onnxruntime").__version__


def test_another_file_takes_the_place_of_the_optimized_model(network: Path, tmp_path: Path, capsys: Capture):
    other = save(picture(transposes=False), tmp_path / "other.onnx")
    assert _run(network, "--against", str(other), "--json") == 0
    found = _object(capsys)
    assert (found["against"], found["target"]) == (str(other), None)
    assert found["after"]["title"] == str(other)
    assert (found["after"]["nodes"], found["after"]["transposes"]) == (5, 2)


def _scaled(factor: float, tmp_path: Path) -> str:
    made = picture()
    (weight,) = made.graph.initializer
    weight.CopyFrom(
        onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * np.float32(factor), weight.name)
    )
    return str(save(made, tmp_path / "scaled.onnx"))


@pytest.mark.parametrize(
    ("factor", "reason"), [(1.001, "differ by 1.0e-03"), (float("nan"), "became nan at [0")]
)
def test_negative_outputs_that_differ_are_told_with_status_1(
    network: Path, tmp_path: Path, capsys: Capture, factor: float, reason: str
):
    assert _run(network, "--against", _scaled(factor, tmp_path)) == 1
    text = capsys.readouterr().out
    assert "y (float32 2x5x7x20): DIFFERS: " in text
    assert reason in text
    assert text.endswith("results DIFFER in 1 of 1 outputs\n")
    assert _run(network, "--against", _scaled(factor, tmp_path), "--json") == 1
    found = _object(capsys)
    assert found["agree"] is False
    assert reason in found["outputs"][0]["reason"]


def test_inputs_come_from_a_file_and_the_same_seed_makes_the_same(tmp_path: Path, capsys: Capture):
    """The second model answers otherwise only for numbers below zero."""
    one = save(model("n (float[3] x) => (float[3] y) { y = Abs (x) }"), tmp_path / "one.onnx")
    two = save(model("n (float[3] x) => (float[3] y) { y = Identity (x) }"), tmp_path / "two.onnx")
    for name, sign, status in (("positive", 1, 0), ("negative", -1, 1)):
        np.savez(tmp_path / name, x=sign * np.ones(3, np.float32))
        assert _run(one, "--against", str(two), "--inputs", str(tmp_path / f"{name}.npz")) == status
    capsys.readouterr()
    reasons: list[str] = []
    for seed in ("1", "1", "2"):
        assert _run(one, "--against", str(two), "--seed", seed, "--json") == 1
        reasons.append(_object(capsys)["outputs"][0]["reason"])
    assert reasons[0] == reasons[1] != reasons[2]


def test_dynamic_shapes_are_those_that_are_given(tmp_path: Path, capsys: Capture):
    text = """n (float[batch, 4, h, 3] x) => (float[batch, 4, h, 3] y) {
        a = Transpose <perm = [0, 3, 1, 2]> (x) b = Relu (a) y = Transpose <perm = [0, 2, 3, 1]> (b) }"""
    path = save(model(text), tmp_path / "m.onnx")
    assert _run(path, "--shape", "x=2x4x5x3", "--json") == 0
    found = _object(capsys)
    assert found["outputs"][0]["type"] == "float32 2x4x5x3"
    assert (found["before"]["transposes"], found["after"]["transposes"]) == (2, 0)


def test_weights_in_other_files_are_found(tmp_path: Path, capsys: Capture):
    path = tmp_path / "m.onnx"
    onnx.save_model(picture(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert _run(path, "--json") == 0
    assert _object(capsys)["after"]["transposes"] == 2


def test_elements_that_numpy_has_not_are_compared(tmp_path: Path, capsys: Capture):
    text = """<ir_version: 10, opset_import: ["" : 21]> n (bfloat16[4, 3] x) => (bfloat16[4, 3] y) {
        a = Transpose (x) y = Transpose (a) }"""
    path = save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert _run(path) == 0
    assert "y (bfloat16 4x3): equal" in capsys.readouterr().out


STRINGS = "n (string[2] x) => (string[2] y) { y = Identity (x) }"
OTHER_NAMES = "n (float[2, 5, 7, 3] x) => (float[2, 5, 7, 3] z) { z = Identity (x) }"
OTHER_INPUT = "n (float[2, 5, 7, 3] x, float[1] k) => (float[2, 5, 7, 3] y) { y = Add (x, k) }"
OTHER_SHAPE = "n (float[2, 3, 5, 7] x) => (float[2, 3, 5, 7] y) { y = Identity (x) }"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (OTHER_NAMES, "output 'y' of {first} is no output of {other}, which has z"),
        (OTHER_INPUT, "input 'k' of {other} is no input of {first}, which has x"),
        (OTHER_SHAPE, "fails on {other}: "),
    ],
)
def test_negative_models_with_another_boundary_cannot_be_compared(
    network: Path, tmp_path: Path, capsys: Capture, text: str, reason: str
):
    other = save(model(text), tmp_path / "other.onnx")
    assert _run(network, "--against", str(other)) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("error: ") == captured.err.count("\n") == 1
    assert reason.format(first=network, other=other) in captured.err


def test_negative_strings_are_no_random_input(tmp_path: Path, capsys: Capture):
    assert _run(save(model(STRINGS), tmp_path / "m.onnx")) == 1
    assert "input 'x' has element type string; only numbers are supported" in capsys.readouterr().err


def test_negative_random_inputs_that_a_model_is_not_made_for_are_told(tmp_path: Path, capsys: Capture):
    """Its table has 32 rows, and a sequence is typically longer."""
    path = save(
        model("n (float[1, tokens] x) => (float[1, 32] y) { y = Add (x, w) }", w=(1, 32)), tmp_path / "m.onnx"
    )
    assert _run(path) == 1
    error = capsys.readouterr().err
    assert f"fails on {path}: " in error
    assert (
        "the random inputs were x 1x128: --shape gives other extents, --inputs FILE.npz other values" in error
    )
    assert _run(path, "--shape", "x=1x32") == 0


def test_negative_a_node_that_onnx_runtime_does_not_have_is_told_of_its_model(
    tmp_path: Path, capsys: Capture
):
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        n (float[2] x) => (float[2] y) { y = own.Strange (x) }"""
    path = save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert _run(path) == 1
    error = capsys.readouterr().err
    assert f"does not take {path}: " in error
    assert "own:Strange" in error


@pytest.mark.parametrize("content", [b"", b"text", b"\x08\x08"])
def test_negative_a_file_that_is_no_model_is_named(
    network: Path, tmp_path: Path, capsys: Capture, content: bytes
):
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    for arguments in ((str(path),), (str(network), "--against", str(path))):
        assert _run(*arguments) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"error: '{path}' ")
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ["--target", "blocked8"],
            "the target blocked8 gives no ONNX model for ONNX Runtime: expected onnx or ort-cpu",
        ),
        (["--target", "onnx", "--against", "b.onnx"], "--against names a finished one: give one"),
        (["--against", "b.mlir"], "b.mlir: ONNX Runtime runs ONNX models"),
        (["--against", "missing.onnx"], "cannot read 'missing.onnx'"),
        (["--threads", "0"], "--threads is 0: this process may use 1 to "),
        (["--threads", "100000"], "--threads is 100000: this process may use 1 to "),
        (["--repeat-seconds", "nan"], "--repeat-seconds is nan"),
        (["--repeat-seconds", "-1"], "--repeat-seconds is -1.0"),
        (["--costs", "c.json"], "--costs is for programs"),
        (["--inputs", "i.npz", "--shape", "x=2"], "--shape is for random inputs"),
        (["--shape", "q=2x3"], "'q', which is no input of the model"),
        (["--seed", "-1"], "--seed -1 is below 0"),
    ],
)
def test_negative_options_that_contradict_each_other_are_refused(
    network: Path, capsys: Capture, arguments: list[str], reason: str
):
    assert _run(network, *arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert reason in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [["--against", "b.onnx"], ["--threads", "1"], ["--optimization-level", "all"], ["--repeat-seconds", "1"]],
)
def test_negative_what_is_for_a_runtime_needs_one(network: Path, capsys: Capture, arguments: list[str]):
    assert main(["run", str(network), *arguments]) == 1
    assert f"{arguments[0]} is for models in a runtime: add --with onnxruntime" in capsys.readouterr().err


def test_negative_without_onnx_runtime_the_error_says_how_to_install_it(
    network: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert _run(network) == 1
    assert "pip install onnxruntime" in capsys.readouterr().err
