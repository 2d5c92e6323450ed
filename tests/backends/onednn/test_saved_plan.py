"""Executables in files: the same results, nothing imported, and errors that say what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn import saved_plan
from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from tests.backends.onednn.small_programs import Program, needs_library, numbers
from tests.processes import run_python

pytestmark = needs_library

SHAPE = (1, 16, 6, 5)


def small_executable(threads: int = 1) -> li.Executable:
    """A convolution with a post-op, a loop, a reorder and a concat."""
    program = Program(SHAPE)
    w = program.constant(numbers((16, 16, 1, 1), 1))
    x = program.argument(0, "nChw8c")
    a = program.add(nn.ReluOp, program.add(nn.ConvOp, x, w, format="nChw8c"), format="nChw8c")
    b = program.add(nn.SinOp, a, format="nChw8c")
    module = program.module(program.add(nn.ConcatOp, a, b, format="nChw8c", axis=1))
    return li.compile(module, threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_loaded_computes_the_same(tmp_path: Path, threads: int):
    executable = small_executable(threads)
    path = str(tmp_path / "network.exe")
    executable.save(path)
    loaded = li.load_executable(path)
    for seed in range(2):
        x = numbers(SHAPE, seed)
        assert all((a == b).all() for a, b in zip(executable([x]), loaded([x]), strict=True))
    assert loaded.input_names == executable.input_names
    assert loaded.output_names == executable.output_names
    assert loaded.describe() == executable.describe()
    ours, theirs = executable.profile([numbers(SHAPE)]), loaded.profile([numbers(SHAPE)])
    assert [(s.ops, s.layouts, s.nbytes) for s in ours] == [(s.ops, s.layouts, s.nbytes) for s in theirs]


def test_what_is_loaded_is_saved_again_as_the_same_file(tmp_path: Path):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    small_executable().save(first)
    li.load_executable(Path(first)).save(Path(second))
    same = Path(first).read_bytes() == Path(second).read_bytes()
    assert same


def test_loading_imports_no_compiler(tmp_path: Path):
    path = str(tmp_path / "network.exe")
    small_executable().save(path)
    code = (
        "import sys, numpy, layout_ir as li\n"
        f"li.load_executable({path!r})([numpy.ones({SHAPE}, numpy.float32)])\n"
        "from layout_ir.backends.llvm.runtime.object_linker import CAN_LINK\n"
        "assert not {'xdsl.ir', 'onnx', *(['llvmlite'] if CAN_LINK else [])} & set(sys.modules)"
    )
    run_python("-c", code)


def test_negative_inputs_of_another_shape_are_refused_by_name(tmp_path: Path):
    path = str(tmp_path / "network.exe")
    executable = small_executable()
    executable.save(path)
    with pytest.raises(LayoutError, match="is tensor<1x16x6x5xf32>, the array given is 3 of float32"):
        li.load_executable(path)([np.ones(3, np.float32)])


@pytest.mark.parametrize("at", [0, 30, -1])
def test_negative_a_damaged_file_is_refused(tmp_path: Path, at: int):
    path = tmp_path / "network.exe"
    small_executable().save(str(path))
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(LayoutError, match=r"is no executable|is damaged"):
        li.load_executable(str(path))


@pytest.mark.parametrize("length", [0, 10, 60, -5])
def test_negative_a_file_that_is_cut_short_is_refused(tmp_path: Path, length: int):
    path = tmp_path / "network.exe"
    small_executable().save(str(path))
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(LayoutError, match=r"is no executable|is damaged"):
        li.load_executable(str(path))


def test_negative_a_file_for_another_cpu_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = str(tmp_path / "network.exe")
    here = saved_plan.environment
    monkeypatch.setattr(saved_plan, "environment", lambda library: {**here(library), "CPU": "another one"})  # type: ignore[arg-type]
    small_executable().save(path)
    monkeypatch.undo()
    with pytest.raises(LayoutError, match="was saved for another CPU: another one, not"):
        li.load_executable(path)


def test_negative_ops_by_the_reference_cannot_be_saved(tmp_path: Path):
    program = """
    func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
      %y = nn.erf %x : tensor<3xf64>
      func.return %y : tensor<3xf64>
    }
    """
    executable = li.compile(li.parse(program))
    assert executable.fallbacks
    with pytest.raises(LayoutError, match="run by the reference cannot be saved"):
        executable.save(str(tmp_path / "network.exe"))
    assert not (tmp_path / "network.exe").exists()
