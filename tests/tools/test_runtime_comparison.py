"""`layout-ir run --with onednn,...`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layout_ir.backends.onednn import library as module
from layout_ir.tools.layout_ir import main
from tests.api.test_compiling import open_model
from tests.backends.onednn.small_programs import needs_library

PROGRAM = """\
func.func @main(%x: tensor<2x16x6x5xf32>) -> tensor<2x16x6x5xf32> {
  %a = nn.relu %x : tensor<2x16x6x5xf32>
  %b = nn.cum_sum %a axis = 1 : tensor<2x16x6x5xf32>
  func.return %b : tensor<2x16x6x5xf32>
}
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "p.mlir"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "m.onnx"
    path.write_bytes(open_model().SerializeToString())
    return str(path)


def run(*arguments: str) -> int:
    return main(["run", *arguments, "--repeat-seconds", "0", "--threads", "1"])


@needs_library
def test_a_program_runs_beside_the_reference(program: str, capsys: pytest.CaptureFixture[str]):
    assert run(program, "--with", "onednn,reference") == 0
    out = capsys.readouterr().out
    assert "onednn agrees with reference" in out
    assert "reference    1 nn.cum_sum" in out
    assert "nn.relu" in out and "share" in out


@needs_library
def test_a_model_runs_in_all_three(model: str, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("onnxruntime")
    names = ["onednn", "onnxruntime", "reference"]
    assert run(model, "--shape", "x=2x3x8x8", "--with", ",".join(names), "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["agree"] and found["compared_with"] == "reference" and list(found["runtimes"]) == names
    assert found["runtimes"]["reference"]["ratio"]["median"] == 1
    assert all(found["runtimes"][name]["median_ns"] > 0 for name in names)
    assert [output["name"] for output in found["runtimes"]["onnxruntime"]["outputs"]] == ["y"]
    assert "outputs_beside_unoptimized" not in found["runtimes"]["onednn"]
    assert found["fallbacks"] == {}
    assert {"nn.conv", "nn.relu"} <= {op for step in found["profile"] for op in step["ops"]}


@pytest.fixture
def numbers_that_are_not_zero(tmp_path: Path) -> str:
    """A model whose output has as many rows as its input has positive numbers."""
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("NonZero", ["r"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", floats, [3, 5])], [onnx.ValueInfoProto(name="y")]
    )
    path = tmp_path / "parts.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.write_bytes(made.SerializeToString())
    return str(path)


@needs_library
def test_a_model_that_is_compiled_in_parts_runs_beside_onnx_runtime(
    numbers_that_are_not_zero: str, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("onnxruntime")
    assert run(numbers_that_are_not_zero, "--with", "onednn,onnxruntime", "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["agree"] and found["profile"] == [] and found["fallbacks"] == {"NonZero": 1}


@needs_library
def test_negative_the_reference_runs_no_model_in_parts(
    numbers_that_are_not_zero: str, capsys: pytest.CaptureFixture[str]
):
    assert run(numbers_that_are_not_zero, "--with", "onednn,reference") == 1
    assert "NonZero" in capsys.readouterr().err


@needs_library
def test_inputs_come_from_a_file(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "inputs.npz"
    np.savez(path, x=np.ones((2, 16, 6, 5), np.float32))
    assert run(program, "--with", "onednn", "--inputs", str(path)) == 0
    np.savez(path, x=np.ones((2, 16), np.float32))
    assert run(program, "--with", "onednn", "--inputs", str(path)) == 1
    assert "the array given is 2x16" in capsys.readouterr().err


@needs_library
def test_negative_outputs_that_differ_are_named(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from layout_ir.api.executable import Executable

    right = Executable.__call__

    def wrong(executable: Executable, inputs: Any) -> list[Any]:
        return [1.5 * y for y in right(executable, inputs)]

    monkeypatch.setattr(Executable, "__call__", wrong)
    assert run(model, "--with", "onednn,reference") == 1
    out = capsys.readouterr().out
    assert "onednn DIFFERS in 1 of 1 outputs with reference" in out and "  y: they differ by" in out


@needs_library
def test_differences_from_onnx_runtime_are_those_of_its_optimizations_or_ours(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("onnxruntime")
    from layout_ir.backends.onnxruntime.runtime_session import RuntimeSession

    right = RuntimeSession.outputs_of
    wrong: set[RuntimeSession] = set()

    def optimized(session: RuntimeSession, feeds: Any) -> dict[str, Any]:
        wrong.update([] if wrong else [session])
        factor = 1.5 if session in wrong else 1
        return {name: factor * y for name, y in right(session, feeds).items()}

    monkeypatch.setattr(RuntimeSession, "outputs_of", optimized)
    given = (model, "--shape", "x=2x3x8x8", "--with", "onednn,onnxruntime")
    assert run(*given) == 1
    out = capsys.readouterr().out
    assert "onednn DIFFERS in 1 of 1 outputs with onnxruntime:" in out
    assert "onednn agrees with onnxruntime without its optimizations" in out
    assert "onnxruntime DIFFERS in 1 of 1 outputs with onnxruntime without its optimizations" in out
    wrong.clear()
    assert run(*given, "--json") == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["runtimes"]
    assert [found[name]["outputs_beside_unoptimized"][0]["equal"] for name in found] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--with", "tvm"], "unknown runtime 'tvm': runtimes are onednn, onnxruntime, reference"),
        (["--with", "reference,reference"], "runtime 'reference' is named twice"),
        (["--with", "reference", "--against", "x.onnx"], "give --with onnxruntime alone"),
        (["--with", "reference", "--optimization-level", "all"], "give --with onnxruntime alone"),
        (["--with", "reference", "--target", "blocked8"], "add onednn to --with"),
        (["--with", "reference", "--repeat-seconds", "nan"], "--repeat-seconds is nan"),
        (["--with", "reference", "--repeat-seconds", "-1"], "--repeat-seconds is -1"),
        (["--with", "reference", "--threads", "0"], "--threads is 0: this process may use 1 to"),
        (["--with", "reference", "--inputs", "i.npz", "--shape", "x=1"], "--shape is for random inputs"),
        (["--with", "onnxruntime,reference"], "ONNX Runtime runs ONNX models"),
        (["--with", "reference", "--shape", "x=1x2"], "--shape x=1x2 is for inputs of ONNX models"),
    ],
)
def test_negative_options_that_do_not_go_together(
    program: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    try:
        status = main(["run", program, *arguments])
    except SystemExit as end:
        status = end.code
    assert status
    assert message in capsys.readouterr().err


def test_negative_without_the_library_the_error_says_what_to_install(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    found: Any = module._found  # pyright: ignore[reportPrivateUsage]
    found.cache_clear()
    monkeypatch.setattr(module, "installed", lambda: iter(()))
    try:
        assert main(["run", program, "--with", "onednn"]) == 1
    finally:
        found.cache_clear()
    assert "pip install 'layout-ir[run]'" in capsys.readouterr().err
