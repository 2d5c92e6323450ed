"""Programs are read or refused with the place of the mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

import layout_ir as li
from layout_ir.api.program_text import ProgramError
from layout_ir.errors import LayoutError
from layout_ir.tools.program import check_output, load_program, shipped_network

GOOD = "func.func @f(%x : tensor<2x3xf32>) {\n  func.return\n}\n"


def test_a_file_is_the_module_of_its_text(tmp_path: Path):
    path = tmp_path / "p.mlir"
    path.write_text(GOOD)
    assert load_program(str(path)).is_structurally_equivalent(li.parse(GOOD))


def test_negative_bytes_that_are_no_text_name_their_line(tmp_path: Path):
    path = tmp_path / "p.mlir"
    path.write_bytes(b"one\ntwo \xff\n")
    with pytest.raises(ProgramError, match="0xff in line 2"):
        load_program(str(path))


@pytest.mark.parametrize("name", ["p.mlir", "p.onnx"])
def test_negative_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path: Path, name: str):
    with pytest.raises(FileNotFoundError):
        load_program(str(tmp_path / name))


def test_a_network_that_ships_with_onnx_is_a_file_and_negative_others_are_named():
    pytest.importorskip("onnx")
    assert Path(shipped_network("onnx:resnet50")).is_file()
    with pytest.raises(ProgramError, match=r"nothing.*resnet50"):
        shipped_network("onnx:nothing")


def test_programs_are_written_as_text_and_negative_not_as_models():
    for path in (None, "p.mlir", "-", "onnx"):
        check_output(path)
    for path in ("p.onnx", "P.ONNX"):
        with pytest.raises(LayoutError):
            check_output(path)
