"""Programs as MLIR with the compiled reorders that they call."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import CallOp

import layout_ir as li
from layout_ir.api.mlir_export import with_reorder_library
from layout_ir.passes.convert_to_linalg import convert_to_linalg
from layout_ir.passes.convert_to_loops import convert_to_loops
from layout_ir.tools.layout_ir import main
from tests import networks
from tests.exits.linalg.agreement import Program, assert_agree
from tests.exits.linalg.mlir_tools import execute, mlir_opt, tool
from tests.exits.linalg.test_pack_ops import lower_pack
from tests.passes.programs import random_program

EXAMPLE = Path(__file__).parents[2] / "examples" / "channel_shuffle.mlir"


def test_the_functions_that_are_called_are_those_of_the_object(tmp_path: Path):
    module = li.parse(EXAMPLE)
    x = np.random.default_rng(0).standard_normal((1, 32, 14, 14)).astype(np.float32)
    want = li.run(module, [x], reorders="reference")
    li.optimize(module, "avx2")
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
    assert main(["optimize", str(EXAMPLE), "--target", "avx2", "-o", str(out), *options]) == 0
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
    assert main(["optimize", str(EXAMPLE), "--target", "avx2", *options]) == 1
    said = capsys.readouterr()
    assert message in said.err and "Traceback" not in said.err
    assert list(tmp_path.iterdir()) == []


# --- Whole networks and many programs, run by stock MLIR ---


@pytest.mark.slow
@pytest.mark.parametrize("name", networks.NAMES)
def test_a_network_with_fewer_channels_computes_what_onnx_runtime_computes(name: str, tmp_path: Path):
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    model = networks.randomized(name, 0, networks.shrunk(name, 32))
    image, shape = networks.input_shape(model)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {image: x})
    onnx.save(model, str(tmp_path / "network.onnx"))
    module = li.from_onnx(tmp_path / "network.onnx")
    li.optimize(module, "avx2")
    got = execute(li.to_mlir(module), [x], tmp_path)
    for each, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(each, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@pytest.mark.slow
@pytest.mark.parametrize("target", ["avx2", "channels-last", "onednn"])
def test_sixty_programs_compute_the_same_in_every_form(target: str, tmp_path: Path):
    programs: dict[str, Program] = {}
    for seed in range(20):
        module, shape = random_program(7000 + seed, 12)
        li.optimize(module, target)
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        programs[f"program_{seed}"] = module, [x]
    folders = {name: tmp_path / name for name in ("ops", "pack", "loops")}
    for folder in folders.values():
        folder.mkdir()
    assert_agree(programs, folders["ops"])
    assert_agree(
        programs, folders["pack"], convert=lambda module: convert_to_linalg(module, "pack"),
        before=lower_pack(folders["pack"]),
    )  # fmt: skip
    assert_agree(programs, folders["loops"], convert=convert_to_loops)
