"""`layout-ir run`."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layout_ir.tools.layout_ir import main
from layout_ir.tools.layout_opt import main as layout_opt

PROGRAM = """\
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = nn.relu %x : tensor<2x3xf32>
  func.return %a : tensor<2x3xf32>
}
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "p.mlir"
    path.write_text(PROGRAM)
    return str(path)


def _npy(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def _npz(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


GOOD = _npz({"x.npy": _npy(np.ones((2, 3), np.float32))})
HUGE = b"\x93NUMPY\x01\x00v\x00" + (
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000000,), }".ljust(117) + b"\n"
)


def test_inputs_come_from_a_file(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "inputs.npz"
    path.write_bytes(GOOD)
    assert main(["run", program, "--inputs", str(path)]) == 0
    assert "results agree" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"hello", "it is no archive"),
        (_npy(np.ones(3)), "it is a single array (.npy)"),
        (GOOD[:40], "it is damaged"),
        (GOOD[:-30], "it is damaged"),
        (GOOD.replace(b"NUMPY", b"MUMPY"), "'x' cannot be read"),
        (_npz({"x.npy": b""}), "'x'"),
        (
            _npz({"x.npy": _npy(np.array([{}]), allow_pickle=True)}),
            "'x' holds Python objects, which are not read",
        ),
        (_npz({"x.npy": HUGE}), "'x'"),
        (_npz({"x": b"text"}), "'x' is no array"),
    ],
    ids=range(10),
)
def test_negative_what_is_no_archive_of_arrays_is_said_in_one_line(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, reason: str
):
    path = tmp_path / "inputs.npz"
    path.write_bytes(data)
    assert main(["run", program, "--inputs", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {path}: ")
    assert reason in err
    assert err.count("\n") == 1
    assert "allow_pickle" not in err
    assert "did not foresee" not in err


def test_negative_a_seed_is_a_whole_number_from_0_on(program: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", program, "--seed", "-1"]) == 1
    assert "--seed -1" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a file without an end")
def test_negative_a_file_of_numbers_has_an_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    huge = tmp_path / "huge.npy"
    huge.write_bytes(HUGE)
    for name in ("/dev/zero", str(huge)):
        args = ["explain-reorder", "ab", "ba", "--shape", "2x3", "--dtype", "f32", "--to-dtype", "i8"]
        assert main([*args, "--scale", f"@{name}", "--dim", "1"]) == 1
        err = capsys.readouterr().err
        assert err.startswith(f"error: {name}: ")
        assert err.count("\n") == 1
        assert len(err) < 400


# Programs that cannot be run -----------------------------------------------------------------------------------------


def _refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> str:
    """What `run` says of a program, behind the name of the file."""
    path = tmp_path / "q.mlir"
    path.write_text(text)
    assert main(["run", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{path}:")
    assert err.count("\n") == 1
    return err.removeprefix(f"{path}:")


DYNAMIC = """\
func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %a = arith.addf %x, %x : tensor<?x3xf32>
  func.return %a : tensor<?x3xf32>
}
"""


def test_negative_a_dynamic_dim_needs_its_extent(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    said = _refused(tmp_path, capsys, DYNAMIC)
    assert said.startswith(
        "1:1: error: argument 0 of @main is tensor<?x3xf32>: running needs the extent of dim 0"
    )


def test_negative_a_dynamic_dim_is_found_in_functions_that_are_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    said = _refused(
        tmp_path,
        capsys,
        """\
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = func.call @other(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %a : tensor<2x3xf32>
}
func.func @other(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = tensor.cast %x : tensor<2x3xf32> to tensor<?x3xf32>
  %b = tensor.cast %a : tensor<?x3xf32> to tensor<2x3xf32>
  func.return %b : tensor<2x3xf32>
}
""",
    )
    place, error = said.split(": error: ")
    assert place == "6:8"
    assert all(part in error for part in ("tensor.cast", "@other", "tensor<?x3xf32>", "dim 0"))


def test_negative_a_declaration_cannot_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    said = _refused(tmp_path, capsys, "func.func private @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32>\n")
    assert said.startswith("1:1: error: ") and "@main" in said


def test_negative_a_call_without_an_end_names_the_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    said = _refused(
        tmp_path,
        capsys,
        """\
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = func.call @main(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %a : tensor<2x3xf32>
}
""",
    )
    assert said.startswith("2:8: error: func.call: functions call each other too deeply")


@pytest.mark.parametrize("step", [0, -1])
def test_negative_a_loop_counts_up(tmp_path: Path, capsys: pytest.CaptureFixture[str], step: int):
    said = _refused(
        tmp_path,
        capsys,
        f"""\
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %c0 = arith.constant 4 : index
  %c4 = arith.constant 0 : index
  %cs = arith.constant {step} : index
  %r = scf.for %i = %c0 to %c4 step %cs iter_args(%a = %x) -> (tensor<2x3xf32>) {{
    scf.yield %a : tensor<2x3xf32>
  }}
  func.return %r : tensor<2x3xf32>
}}
""",
    )
    assert said.startswith("5:8: error: scf.for: ") and f"step is {step}" in said


def test_negative_what_does_not_fit_into_memory_is_no_defect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "q.mlir"
    path.write_text(PROGRAM.replace("2x3x", f"{1 << 50}x"))
    assert main(["run", str(path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(
        f"error: argument tensor<{1 << 50}xf32> of @main: this needs more memory than there is "
    )
    assert "did not foresee" not in err


def test_validation_says_which_function_it_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "q.mlir"
    path.write_text(DYNAMIC)
    assert layout_opt([str(path), "-p", "layout-fold-reorders", "--validate=execute"]) == 0
    err = capsys.readouterr().err
    assert err.startswith(
        f"{path}:1:1: warning: @main is not executed: argument 0 of @main is tensor<?x3xf32>: "
    )
