"""Diagnostics as text."""

from __future__ import annotations

from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.test import Test
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, ParseError, VerifyException

from layout_ir.diagnostics import Diagnostic, Location, Severity
from layout_ir.frontends.mlir.locations import LocatedParser
from layout_ir.rendering import Renderer, from_parse_error, from_spec_error, one_line


def render(diagnostic: Diagnostic, text: str | None = None) -> str:
    stream = StringIO()
    Renderer(stream, {} if text is None else {"f.mlir": text})(diagnostic)
    return stream.getvalue()


def error(line: int = 1, col: int = 1, file: str = "f.mlir") -> Diagnostic:
    return Diagnostic(Severity.ERROR, "no", Location(file, line, col))


def test_the_caret_stands_below_the_place():
    assert render(error(2, 3), "one\ntwo\nthree") == "f.mlir:2:3: error: no\ntwo\n  ^\n"


def test_tabs_before_the_place_stay_tabs():
    assert render(error(1, 4), "a\t\tb") == "f.mlir:1:4: error: no\na\t\tb\n \t\t^\n"


def test_the_end_of_a_line_and_carriage_returns_are_no_trouble():
    assert render(error(1, 4), "one\r\ntwo\r\n") == "f.mlir:1:4: error: no\none\n   ^\n"
    assert render(error(1, 99), "one") == "f.mlir:1:99: error: no\none\n   ^\n"


def test_of_a_long_line_the_surroundings_of_the_place_are_shown():
    line = "".join(f"{number:07}" for number in range(200_000))
    text = render(error(1, 500_001), line)
    _, shown, caret = text.splitlines()
    assert len(shown) == 240
    assert line.index(shown) == 500_000 - 120
    assert caret == " " * 120 + "^"


@pytest.mark.parametrize("place", [(0, 0), (9, 1)])
def test_negative_a_line_that_is_not_there_is_not_shown(place: tuple[int, int]):
    assert render(error(*place), "one").count("\n") == 1


def test_negative_other_files_are_named_but_not_shown():
    assert render(error(3, 4, "g.mlir"), "one") == "g.mlir:3:4: error: no\n"


def test_a_whole_file_or_no_place_at_all_has_no_line():
    assert render(Diagnostic(Severity.REMARK, "yes", Location("f.onnx"))) == "f.onnx: remark: yes\n"
    assert render(Diagnostic(Severity.WARNING, "yes")) == "warning: yes\n"


def test_notes_follow():
    notes = (
        Diagnostic(Severity.NOTE, "first", Location("f.mlir", 2, 1)),
        Diagnostic(Severity.NOTE, "second"),
    )
    text = render(Diagnostic(Severity.ERROR, "no", Location("f.mlir", 1, 1), notes), "one\ntwo")
    assert text == "f.mlir:1:1: error: no\none\n^\nf.mlir:2:1: note: first\ntwo\n^\nnote: second\n"


def test_a_parse_error_with_several_places_has_notes():
    ctx = Context()
    ctx.load_dialect(Builtin)
    ctx.load_dialect(Test)
    text = (
        '"test.op"() ({\n^a:\n  "test.termop"() : () -> ()\n^a:\n  "test.termop"() : () -> ()\n}) : () -> ()'
    )
    with pytest.raises(ParseError) as caught:
        LocatedParser(ctx, text, "f.mlir", 10).parse_program()
    diagnostic = from_parse_error(caught.value)
    assert diagnostic.message == "re-declaration of block 'a'"
    assert diagnostic.location == Location("f.mlir", 14, 1)
    assert [note.location for note in diagnostic.notes] == [Location("f.mlir", 12, 1)]
    assert diagnostic.notes[0].message == "originally declared here:"


@pytest.mark.parametrize(("text", "col"), [("a{", 3), ("a{b=", 5), ("a b", 2), ("a,%", 3), ("{", 1)])
def test_a_pipeline_error_keeps_its_column(text: str, col: int):
    with pytest.raises(ArgSpecParseError) as caught:
        list(parse_pipeline(text))
    diagnostic = from_spec_error(caught.value, "-p")
    assert diagnostic.location == Location("-p", 1, col)
    assert diagnostic.message
    assert "\n" not in diagnostic.message


def test_a_message_is_one_line():
    assert one_line(VerifyException("operand 0 does not verify:\nf32 expected\n  but got f64")) == (
        "operand 0 does not verify: f32 expected; but got f64"
    )
