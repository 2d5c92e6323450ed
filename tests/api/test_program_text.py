"""Programs are read from texts and files, and written so that they are read back; mistakes name their places."""

from __future__ import annotations

import copy
import io
import pickle
import traceback
from io import StringIO
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc

import layout_ir as li
from layout_ir.api.program_text import ProgramError, parse_program
from tests.test_import_time import loaded_after, packages

GOOD = "func.func @f(%x : tensor<2x3xf32>) {\n  func.return\n}\n"
MOVE = """\
func.func @main(%x: tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>> {
  %y = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  func.return %y : tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
}
"""


@pytest.mark.parametrize("kind", [str, Path])
def test_a_program_is_read_from_its_text_and_from_its_file(tmp_path: Path, kind: type):
    path = tmp_path / "p.mlir"
    path.write_text(MOVE)
    assert li.parse(kind(path)).is_structurally_equivalent(li.parse(MOVE))


def test_every_op_has_its_place(tmp_path: Path):
    path = tmp_path / "p.mlir"
    path.write_text(MOVE)
    for source, name in ((path, str(path)), (MOVE, "<text>")):
        (reorder,) = (op for op in li.parse(source).walk() if isinstance(op, li.ir.ReorderOp))
        place = reorder.location
        assert isinstance(place, FileLineColLoc)
        assert (place.filename.data, place.line.data, place.column.data) == (name, 2, 8)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GOOD.replace("return", "retrun"), 2),
        (GOOD.replace("  func.return", "  %0 = nn.softmax %x axis = 7 : tensor<2x3xf32>\n  func.return"), 2),
        ("\n\nfunc.func @f(", 3),
        ("", 1),
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


def test_negative_an_error_says_its_place_first_and_shows_all_of_them_in_a_traceback():
    wrong = "  %0 = nn.softmax %x axis = 7 : tensor<2x3xf32>\n"
    with pytest.raises(
        li.LayoutError, match=r"^<text>:2:8: 'nn.softmax' op .*\(and 1 more error\)"
    ) as caught:
        li.parse(GOOD.replace("  func", f"{wrong}{wrong.replace('0', '1')}  func"))
    shown = "".join(traceback.format_exception(caught.value))
    assert "<text>:2:8: error: " in shown and "<text>:3:8: error: " in shown and "^" in shown


def test_an_error_survives_being_copied_and_sent_to_another_process():
    with pytest.raises(li.ProgramError) as caught:
        li.parse("func.fun @f() {}")
    for other in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert (str(other), other.diagnostics) == (str(caught.value), caught.value.diagnostics)
        assert other.__notes__ == caught.value.__notes__


def test_ops_of_unknown_dialects_are_read_where_allowed_and_negative_refused_elsewhere():
    text = '"mine.op"() : () -> ()'
    assert [op.name for op in li.parse(text, allow_unregistered=True).walk()][1:]
    with pytest.raises(ProgramError, match="there is no dialect 'mine'"):
        li.parse(text)


def test_negative_what_names_no_program_is_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        li.parse(tmp_path / "p.mlir")
    with pytest.raises(FileNotFoundError):
        li.parse("there_is_no_such.mlir")
    with pytest.raises(li.LayoutError, match=r"net\.onnx is an ONNX model by its name.*from_onnx"):
        li.parse("net.onnx")
    with pytest.raises(li.LayoutError, match="from a text or a path, not from int"):
        li.parse(5)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("generic", [False, True])
def test_what_is_written_is_read_back(generic: bool):
    module = li.parse(MOVE)
    text = li.to_text(module, generic=generic)
    assert li.parse(text).is_structurally_equivalent(module)
    assert text.endswith("\n") and ('"layout.reorder"(' in text) == generic


def test_print_writes_the_text(capsys: pytest.CaptureFixture[str]):
    module = li.parse(MOVE)
    li.print(module)
    assert capsys.readouterr().out == li.to_text(module)
    li.print(module, generic=True, file=(stream := io.StringIO()))
    assert stream.getvalue() == li.to_text(module, generic=True)


def test_negative_only_modules_are_written():
    with pytest.raises(li.LayoutError, match="a program is a ModuleOp of xDSL, not of type str"):
        li.print("module {}")  # pyright: ignore[reportArgumentType]


def test_a_star_import_leaves_the_builtin_print_alone():
    names: dict[str, object] = {}
    exec("from layout_ir import *", names)
    assert "print" not in names and names["parse"] is li.parse


def test_a_context_knows_our_dialects_and_those_of_xdsl():
    ctx = li.context()
    assert isinstance(ctx, Context) and not ctx.allow_unregistered
    assert ctx.get_optional_op("layout.reorder") is li.ir.ReorderOp
    assert ctx.get_optional_op("arith.addf") and not ctx.get_optional_op("mine.op")
    assert li.context(allow_unregistered=True).get_optional_op("mine.op")


def test_programs_are_read_and_printed_without_anything_heavy():
    code = f"import layout_ir as li\nli.to_text(li.parse({MOVE!r}))"
    assert not packages(loaded_after(code)) & {"llvmlite", "numpy", "onnx", "onnxruntime", "torch"}
