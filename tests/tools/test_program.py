"""Programs are read or refused with the place of the mistake."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from layout_ir.errors import LayoutError
from layout_ir.tools.program import ProgramError, check_output, load_program, parse_program, shipped_network

GOOD = "func.func @f(%x : tensor<2x3xf32>) {\n  func.return\n}\n"


def test_a_file_is_the_module_of_its_text(tmp_path: Path):
    path = tmp_path / "p.mlir"
    path.write_text(GOOD)
    assert load_program(str(path)).is_structurally_equivalent(parse_program(GOOD, "p.mlir"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GOOD.replace("return", "retrun"), 2),
        (GOOD.replace("  func.return", "  %0 = nn.softmax %x axis = 7 : tensor<2x3xf32>\n  func.return"), 2),
        ("\n\nfunc.func @f(", 3),
    ],
)
def test_negative_a_text_with_a_mistake_names_the_line(text: str, line: int):
    with pytest.raises(ProgramError) as caught:
        parse_program(text, "p.mlir")
    location = caught.value.diagnostics[0].location
    assert location is not None and location.line == line
    stream = StringIO()
    caught.value.render(stream)
    assert f"p.mlir:{line}:" in stream.getvalue() and "^" in stream.getvalue()


def test_ops_of_unknown_dialects_are_read_where_allowed_and_negative_refused_elsewhere():
    text = '"mine.op"() : () -> ()'
    assert [op.name for op in parse_program(text, "p", allow_unregistered=True).walk()][1:]
    with pytest.raises(ProgramError):
        parse_program(text, "p")


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
