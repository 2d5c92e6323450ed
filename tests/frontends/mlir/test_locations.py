"""Every op knows where its name stands."""

from __future__ import annotations

import re
from typing import cast

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import ArrayAttr, Builtin, FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.dialects.func import Func
from xdsl.dialects.test import Test
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from layout_ir.diagnostics import Location, location_of
from layout_ir.frontends.mlir.locations import LocatedParser


def context() -> Context:
    ctx = Context()
    for dialect in (Arith, Builtin, Func, Test):
        ctx.load_dialect(dialect)
    return ctx


def parse(text: str, line_offset: int = 0) -> ModuleOp:
    return LocatedParser(context(), text, "file.mlir", line_offset).parse_program()


TEXT = """\
// a comment
func.func @f(%a: f32) -> f32 {
  %b = arith.addf %a, %a : f32 %c
    = arith.mulf %b, %b : f32
\t%d, %e = "test.op"(%c) ({
      %f = arith.subf %b, %c : f32
      "test.termop"(%f) : (f32) -> ()
  }) : (f32) -> (f32, f32)
  func.return %d : f32
}
func.func private @g()
"""

OP_NAME = re.compile(r"\b(?:func\.func|func\.return|arith\.\w+)|\"test\.\w+\"")


@pytest.mark.parametrize("line_offset", [0, 41])
def test_an_op_is_where_its_name_is(line_offset: int):
    # The oracle does not parse: it finds the names in the text.
    expected: list[Location] = []
    for number, line in enumerate(TEXT.split("\n"), 1):
        found = OP_NAME.finditer(line)
        expected += [Location("file.mlir", number + line_offset, match.start() + 1) for match in found]
    module = parse(TEXT, line_offset)
    assert (
        sorted(place for op in module.walk() if op is not module and (place := location_of(op))) == expected
    )


def test_the_implicit_module_is_where_the_text_begins():
    assert location_of(parse(TEXT)) == Location("file.mlir", 1, 1)


def test_a_written_location_is_kept():
    module = parse(
        '"test.op"() : () -> () loc("model.py":7:3)\n%a = arith.constant 1 : i32 loc("model.py":8:1)\n'
    )
    assert [op.location for op in module.ops] == [
        FileLineColLoc(StringAttr("model.py"), IntAttr(7), IntAttr(3)),
        FileLineColLoc(StringAttr("model.py"), IntAttr(8), IntAttr(1)),
    ]


def test_what_is_parsed_is_what_xdsl_parses():
    assert parse(TEXT).is_structurally_equivalent(Parser(context(), TEXT).parse_module())


@pytest.mark.parametrize(
    ("text", "line", "col", "message"),
    [
        ("", 1, 1, "expected an operation, found the end of the file"),
        ("\n\n// only this\n", 4, 1, "expected an operation, found the end of the file"),
        ("}", 1, 1, "expected an operation"),
        ("\n arith.ad %a", 2, 2, "unknown operation 'arith.ad': did you mean"),
        ("arith", 1, 1, "unknown operation 'arith'"),
        ('%0 = "tset.op"() : () -> ()', 1, 6, "unknown operation 'tset.op': there is no dialect 'tset'"),
        ('"test.op"() {a = 300 : i8} : () -> ()', 1, 26, "300"),
        ('"test.op"() {a = "no end} : () -> ()' + " " * 60, 1, 18, "closing string literal"),
    ],
)
def test_a_parse_error_has_a_place_and_says_what_is_missing(text: str, line: int, col: int, message: str):
    with pytest.raises(ParseError) as caught:
        parse(text, 10)
    place = caught.value.span.get_location()
    assert message in caught.value.msg
    assert (place.line, place.col) == (line + 10, col)


STRINGS = [
    '""',
    '"a"',
    r'"\n\t\\\""',
    r'"\C3\A4"',
    '"ä"',
    r'"\00\ff"',
    '"a\\"',
    '"\n"',
    r'"\x"',
    '"' + r"\\" * 40 + '"',
]


@pytest.mark.parametrize("string", STRINGS)
def test_strings_are_read_as_xdsl_reads_them(string: str):
    text = f'"test.op"() {{a = {string}}} : () -> ()'
    try:
        expected = Parser(context(), text).parse_module()
    except ParseError:
        with pytest.raises(ParseError):
            parse(text)
    else:
        assert parse(text).is_structurally_equivalent(expected)


def _doubling(count: int, use: str) -> str:
    """Aliases each of which is a list of the one before, twice."""
    aliases = ["#a0 = 1 : i32", *(f"#a{k} = [#a{k - 1}, #a{k - 1}]" for k in range(1, count + 1))]
    return "\n".join([*aliases, f'"test.op"() {{x = {use}}} : () -> ()'])


@pytest.mark.parametrize(
    "text", [_doubling(40, "#a40"), _doubling(15, f"[{', '.join(['#a15'] * 100)}]")], ids=["deep", "wide"]
)
def test_negative_aliases_that_stand_for_too_much_are_refused(text: str):
    with pytest.raises(ParseError, match="stand for more than 1000000 attributes in all"):
        parse(text)


def test_aliases_of_sane_size_may_be_used_often():
    text = _doubling(3, f"[{', '.join(['#a3'] * 20_000)}]")
    module = parse(text)
    assert len(cast("ArrayAttr[Attribute]", next(iter(module.ops)).attributes["x"])) == 20_000
