"""Every op knows where its name stands."""

from __future__ import annotations

import re
import tracemalloc
from typing import cast

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    Builtin,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import Func
from xdsl.dialects.test import Test
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from layout_ir.api.program_text import parse_program, to_text
from layout_ir.diagnostics import Location, location_of
from layout_ir.elements.numpy_types import Array
from layout_ir.frontends.mlir.locations import LocatedParser
from tests.oracles.mlir_text import generic_form, mlir_opt


def context(allow_unregistered: bool = False) -> Context:
    ctx = Context(allow_unregistered=allow_unregistered)
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
        (
            "%0 = arith.constant dense<[1.0e60, 1.0]> : tensor<2xf32>\n",
            1,
            6,
            "cannot be parsed (OverflowError",
        ),
        ('"test.op"(%a) : (i32) -> ()\n\n', 1, 11, "%a is used but not defined"),
        ('"test.op"() {a = 1.1 : f128} : () -> ()', 1, 18, "numbers of f128 are not read"),
        ("%0 = arith.constant 1.0 : f80\n", 1, 21, "numbers of f80 are not read"),
        (
            '%b = "test.op"() : () -> i32\n"test.op"(%b, %a, %c) : (i32, i32, i32) -> ()',
            2,
            15,
            "%a is used but not defined",
        ),
        ('"test.op"() {a = "no end} : () -> ()' + " " * 60, 1, 18, "closing string literal"),
    ],
)
def test_a_parse_error_has_a_place_and_says_what_is_missing(text: str, line: int, col: int, message: str):
    with pytest.raises(ParseError) as caught:
        parse(text, 10)
    place = caught.value.span.get_location()
    assert message in caught.value.msg
    assert (place.line, place.col) == (line + 10, col)


_PRETTY = "func.func @f(%x : tensor<2xf32>) {\n  %y = stablehlo.add %x, %x : tensor<2xf32>\n  func.return\n}"


def test_an_op_of_stablehlo_in_custom_form_says_how_its_program_comes_in():
    way = "make linalg of it: iree-opt --iree-stablehlo-input-transformation-pipeline"
    with pytest.raises(ParseError) as caught:
        parse(_PRETTY, 10)
    assert "there is no dialect 'stablehlo'" in caught.value.msg and caught.value.msg.endswith(way)
    with pytest.raises(ParseError) as caught:
        LocatedParser(context(allow_unregistered=True), _PRETTY, "file.mlir").parse_program()
    assert "'stablehlo.add' is read in its generic form alone" in caught.value.msg
    assert "--mlir-print-op-generic" in caught.value.msg and caught.value.msg.endswith(way)


def test_negative_a_dialect_of_which_nothing_is_known_has_no_way_in():
    with pytest.raises(ParseError) as caught:
        LocatedParser(context(allow_unregistered=True), "%y = mine.add %x", "file.mlir").parse_program()
    assert caught.value.msg.endswith("print with --mlir-print-op-generic")


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


# Bit patterns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("literal", "type", "data"),
    [
        ("0xFF800000", "2xf32", "000080ff" * 2),
        ("[0x7F800000, 1.0]", "2xf32", "0000807f0000803f"),
        ("[[0x7C00], [0xFC00]]", "2x1xf16", "007c00fc"),
        ("0x7FC0", "1xbf16", "c07f"),
        ("0xFFF0000000000000", "1xf64", "000000000000f0ff"),
        ("0x1", "1xf32", "01000000"),
        ("0xFF800000", "512x512xf32", "000080ff"),
    ],
)  # fmt: skip
def test_a_float_in_hexadecimal_is_its_bits(literal: str, type: str, data: str):
    (found,) = literals(f'"test.op"() {{a = dense<{literal}> : tensor<{type}>}} : () -> ()')
    assert found.data.data.hex() == data


@pytest.mark.parametrize(("literal", "value"), [("0x10", 16), ("-0x10", -16), ("0xFF", -1)])
def test_negative_an_integer_in_hexadecimal_is_a_number(literal: str, value: int):
    (found,) = literals(f'"test.op"() {{a = dense<{literal}> : tensor<2xi8>}} : () -> ()')
    assert list(found.iter_values()) == [value, value]


@pytest.mark.parametrize(
    ("literal", "type"),
    [("0x1FF800000", "f32"), ("-0x7F800000", "f32"), ("0x1FC00", "f16"), ("(0x0, 0x1)", "complex<f32>")],
)
def test_negative_what_are_no_bits_of_a_float_is_refused(literal: str, type: str):
    with pytest.raises(ParseError, match=r"in hexadecimal is its bits|in decimal only"):
        parse(f'"test.op"() {{a = dense<{literal}> : tensor<2x{type}>}} : () -> ()')


# Splats --------------------------------------------------------------------------------------------------------------


def literals(text: str) -> list[DenseIntOrFPElementsAttr]:
    return [
        attribute
        for op in parse(text).walk()
        for attribute in op.attributes.values()
        if isinstance(attribute, DenseIntOrFPElementsAttr)
    ]


@pytest.mark.parametrize(
    ("literal", "element"),
    [
        ("1.5", "f32"),
        ("-3", "i8"),
        ("true", "i1"),
        ("0x7FC00000", "f32"),
        ('"0x0000C0FF"', "f32"),
        ('"0x0201"', "bf16"),
        ("(1.0, 2.0)", "complex<f32>"),
    ],
)
@pytest.mark.parametrize("kind", ["tensor", "vector"])
def test_a_large_splat_is_one_element_of_its_type(literal: str, element: str, kind: str):
    type = f"{kind}<64x1024x1024x{element}>"
    (small,) = literals(f'"test.op"() {{a = dense<{literal}> : {kind}<1x{element}>}} : () -> ()')
    (large,) = literals(f'"test.op"() {{a = dense< {literal}> : {type}}} : () -> ()')
    assert large.data == small.data
    assert str(large.get_type()) == type
    assert "dense<" in str(large) and str(large).endswith(type)


def test_a_large_splat_takes_no_memory():
    tracemalloc.start()
    for text in ("dense<1.0>", 'dense<"0x0000803F">'):
        (found,) = literals(f'"test.op"() {{a = {text} : tensor<1024x1024x1024xf32>}} : () -> ()')
        assert found.data.data == np.float32(1).tobytes()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 24


def test_a_literal_inside_the_type_of_another_is_read_for_itself():
    inner = "dense<2> : tensor<512x512xi32>"
    for outer, elements in (("dense<1.0>", 1), ("dense<[1.0, 2.0]>", 2)):
        shape = "1024x1024" if elements == 1 else "2"
        text = f'"test.op"() {{a = {outer} : tensor<{shape}xf32, {inner}>}} : () -> ()'
        (found,) = literals(text)
        assert str(found.get_type()) == f"tensor<{shape}xf32, {inner}>"


@pytest.mark.parametrize(
    "text",
    [
        "dense<1.0> : tensor<2x3xf32>",
        "dense<[1.0, 2.0]> : tensor<2xf32>",
        'dense<"0x0000803F00000040"> : tensor<2xf32>',
        "dense<> : tensor<0xf32>",
        "dense<7> : tensor<i32>",
    ],
)
def test_negative_other_literals_are_as_xdsl_makes_them(text: str):
    program = f'"test.op"() {{a = {text}}} : () -> ()'
    assert parse(program).is_structurally_equivalent(Parser(context(), program).parse_module())


# Floats in hexadecimal -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (
            "dense<[0x7F800000, 0xff800000, 0x3F800000, 1.0]> : tensor<4xf32>",
            np.array([np.inf, -np.inf, 1, 1], np.float32),
        ),
        ("dense<[[0x7FC00000], [0x80000000]]> : tensor<2x1xf32>", np.array([np.nan, -0.0], np.float32)),
        ("dense<0x3C00> : tensor<3xf16>", np.array([1, 1, 1], np.float16)),
        ("dense<[0x7FF0000000000000]> : tensor<1xf64>", np.array([np.inf], np.float64)),
        ("dense<[0x3F80, 0x7F80]> : tensor<2xbf16>", np.array([0x3F80, 0x7F80], np.uint16)),
        ("dense<[0x10, -0x10]> : tensor<2xi32>", np.array([16, -16], np.int32)),
        # Booleans are eight to a byte, but for a byte that stands for all.
        ('dense<"0x05"> : tensor<2x3xi1>', np.array([255, 0, 255, 0, 0, 0], np.uint8)),
        ('dense<"0x0503"> : tensor<10xi1>', np.array([255, 0, 255, 0, 0, 0, 0, 0, 255, 255], np.uint8)),
        ('dense<"0xFF"> : tensor<3xi1>', np.array([255] * 3, np.uint8)),
        ('dense<"0x00"> : tensor<8xi1>', np.zeros(8, np.uint8)),
        (
            'dense<"0x%s"> : tensor<88xi1>' % ("49" * 11),
            np.tile([255, 0, 0, 255, 0, 0, 255, 0], 11).astype(np.uint8),
        ),
        ('dense<"0x0102"> : tensor<2xi4>', np.array([1, 2], np.uint8)),
    ],
)
def test_elements_in_hexadecimal_are_their_bits_as_in_mlir(text: str, data: Array):
    (found,) = literals(f'"test.op"() {{a = {text}}} : () -> ()')
    assert found.data.data == data.tobytes()
    if mlir_opt() is not None:
        # MLIR reads the text as it reads what is printed of what was read.
        generic = [generic_form(f"module attributes {{test.a = {each}}} {{}}") for each in (text, str(found))]
        assert generic[0] == generic[1]


@pytest.mark.parametrize(
    "text", ["dense<1.0> : tensor<512x512xi32>", "dense<1.0> : tensor<?x512xf32>", "dense<1.0> : i32"]
)
def test_negative_a_splat_of_the_wrong_type_is_refused(text: str):
    with pytest.raises(ParseError):
        parse(f'"test.op"() {{a = {text}}} : () -> ()')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('dense<"0x0503"> : tensor<200xi1>', "the literal has 2 bytes, its type 200 elements of 1 bytes"),
        ('dense<"0x000000"> : tensor<2xf32>', "the literal has 3 bytes, its type 2 elements of 4 bytes"),
        ('dense<"0x0Z"> : tensor<1xi8>', "the literal is no row of bytes"),
    ],
)
def test_negative_bytes_that_do_not_fit_are_refused_where_they_stand(text: str, message: str):
    with pytest.raises(ParseError, match=message) as raised:
        parse(f'"test.op"() {{a = {text}}} : () -> ()')
    assert raised.value.span.text == text[6 : text.index(">")]


RESOURCE = """
func.func @f() -> tensor<2xf32> {{
  %0 = arith.constant dense_resource<blob> : tensor<2xf32>
  func.return %0 : tensor<2xf32>
}}
{{-#
  dialect_resources: {{
    builtin: {{
      blob: "0x04000000{bytes}"
    }}
  }},
  external_resources: {{
    mlir_reproducer: {{
      verify_each: true,
      pipeline: "builtin.module()",
      "a name": 3
    }}
  }}
#-}}
"""


def test_each_program_keeps_its_resources_and_those_of_other_tools_are_skipped():
    for data in ("0000803F00000040", "0000404000008040"):
        text = to_text(parse_program(RESOURCE.format(bytes=data), "program.mlir"))
        assert f"0x04000000{data}" in text and "mlir_reproducer" not in text
