"""Programs as text: short names for formats, constants bit for bit."""

from __future__ import annotations

import math
import struct
from io import StringIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import (
    ArrayAttr,
    Builtin,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.dialects.func import Func
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer

from layout_ir.algebra.format import Format
from layout_ir.dialects.layout import FormatAttr, LayoutDialect
from layout_ir.dialects.layout.dense_elements import HEX_ABOVE
from layout_ir.printing import alias_name, fingerprint, print_module
from tests.oracles import mlir
from tests.programs import parse

NCHW = Format.from_tag("nchw")
BLOCKED = Format.from_tag("nChw8c")


def holding(*attributes: Attribute) -> ModuleOp:
    """A program that mentions the attributes, in this order."""
    return ModuleOp([test.TestOp(attributes={"a": ArrayAttr(attributes)})])


def tensor(format: Format | None = None, shape: tuple[int, ...] = (2, 16, 5, 4)) -> TensorType[Any]:
    return TensorType(f32, shape) if format is None else TensorType(f32, shape, FormatAttr(format))


def aliases(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line.startswith("#")]
    return {line.partition(" = ")[0]: line.partition(" = ")[2] for line in lines}


# Aliases ---------------------------------------------------------------------------------------------------------


def test_formats_are_named_by_their_tags_in_the_order_of_first_use():
    text = print_module(holding(tensor(BLOCKED), FormatAttr(NCHW), tensor(BLOCKED)))
    assert text == (
        "#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>\n"
        "#nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>\n"
        "builtin.module {\n"
        '  "test.op"() {a = [tensor<2x16x5x4xf32, #nChw8c>, #nchw, tensor<2x16x5x4xf32, #nChw8c>]} : () -> ()\n'
        "}\n"
    )


def test_negative_a_program_without_formats_has_no_aliases():
    assert print_module(holding(tensor())).startswith("builtin.module {")


def test_the_generic_form_uses_the_same_names():
    text = print_module(holding(tensor(BLOCKED)), generic=True)
    assert text.startswith("#nChw8c = ")
    assert text.count("layout.format") == 1


def test_equal_formats_of_other_dims_keep_their_names():
    weights = Format.from_tag("oihw")
    assert weights == NCHW
    text = print_module(holding(tensor(NCHW), tensor(weights)))
    assert list(aliases(text)) == ["#nchw", "#oihw"]
    assert "[tensor<2x16x5x4xf32, #nchw>, tensor<2x16x5x4xf32, #oihw>]" in text


@pytest.mark.parametrize(
    ("text", "alias"),
    [
        ("(n, c, h, w) : [n, c, h, w]", "nchw"),
        ("(n, c, h, w) : [n, h, w, c]", "nhwc"),
        ("(o, i, h, w) : [o, i, h, w, i:8, o:8], pad = zero", "OIhw8i8o"),
        ("(n, c, h, w) : [n, c, h, w, c:8]", "nChw8c_undef"),
        ("(n, c, h, w) : [n, c, h, w, c:8], pad = zp", "nChw8c_zp"),
        ("(n, c, h, w) : [n, c, h, w, c:8], pad = 31", "nChw8c_pad31"),
        ("(n, c, h, w) : [n, c, h, w, c:8], pad = -0.5", "nChw8c_padm0_5"),
        ("(n, c, h, w) : [n, c, h, w], pad = zero", "nchw_zero"),
        ("(n, c, h, w) : [n, c, h*8, w]", "fmt"),
        ("(n, c, h, w) : [n, c, h, w], offset = 3", "fmt"),
        ("(n, c, h, w) : [n, h, w, c | h:8, w:8, c:32], pad = 31", "fmt"),
    ],
)
def test_an_alias_is_the_tag_where_it_means_the_same(text: str, alias: str):
    assert alias_name(Format.parse(text)) == alias


def test_formats_without_a_tag_are_numbered():
    first, second = Format.parse("(n, c) : [n*64, c]"), Format.parse("(n, c) : [n*96, c]")
    text = print_module(holding(FormatAttr(first), FormatAttr(NCHW), FormatAttr(second)))
    assert list(aliases(text)) == ["#fmt0", "#nchw", "#fmt1"]


def test_equal_names_get_a_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("layout_ir.printing.alias_name", lambda format: "same")  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    formats = [Format.from_tag(tag) for tag in ("nchw", "nhwc", "nChw8c")]
    text = print_module(holding(*map(FormatAttr, formats), FormatAttr(NCHW)))
    assert list(aliases(text)) == ["#same", "#same_1", "#same_2"]
    assert "a = [#same, #same_1, #same_2, #same]" in text


names = st.sampled_from(
    ["nchw", "nhwc", "nChw8c", "nChw16c", "oihw", "OIhw8i8o", "OIhw4i16o4i", "abcd", "acdb", "aBcd8b"]
)
pads = st.sampled_from(["undef", "zero", "zp", "31", "-1", "0.5", "1e+30"])


@given(st.lists(st.tuples(names, pads), max_size=8), st.booleans())
def test_what_is_printed_reads_back_as_the_same_program(chosen: list[tuple[str, str]], generic: bool):
    formats: list[Format] = []
    for tag, pad in chosen:
        bare = str(Format.from_tag(tag)).partition(", pad")[0]
        formats.append(Format.parse(f"{bare}, pad = {pad}"))
    module = holding(*(tensor(format) for format in formats), *map(FormatAttr, formats))
    text = print_module(module, generic=generic)
    again = parse(text)
    assert again.is_structurally_equivalent(module)
    assert print_module(again, generic=generic) == text
    assert len(aliases(text)) == len({(format, format.names) for format in formats})


# Constants -------------------------------------------------------------------------------------------------------

ui8 = IntegerType(8, Signedness.UNSIGNED)
ELEMENTS = {f32: 4, f64: 8, f16: 2, bf16: 2, i8: 1, ui8: 1, i32: 4, i64: 8}


def constant(
    element: Any, data: bytes, shape: tuple[int, ...] | None = None
) -> DenseIntOrFPElementsAttr[Any]:
    shape = (len(data) // ELEMENTS.get(element, 1),) if shape is None else shape
    return DenseIntOrFPElementsAttr(TensorType(element, shape), BytesAttr(data))


def read_back(attribute: Attribute) -> bytes:
    (op,) = parse(print_module(holding(attribute))).ops
    (again,) = op.attributes["a"].data  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert isinstance(again, DenseIntOrFPElementsAttr)
    return again.data.data


@given(st.sampled_from(list(ELEMENTS)), st.binary(min_size=8, max_size=8 * HEX_ABOVE + 80), st.booleans())
def test_any_bits_of_any_type_read_back(element: Any, data: bytes, splat: bool):
    size = ELEMENTS[element]
    data = data[:size] * (len(data) // size) if splat else data[: len(data) // size * size]
    assert read_back(constant(element, data)) == data


@given(st.sampled_from([f32, f64]), st.lists(st.floats(width=32), min_size=1, max_size=HEX_ABOVE))
def test_any_numbers_read_back(element: Any, values: list[float]):
    data = struct.pack(f"<{len(values)}{'f' if element == f32 else 'd'}", *values)
    assert read_back(constant(element, data)) == data


SPECIAL = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 123456789.0, 12345678901234567.0, 1e300, 0.1, 1 / 3]


@pytest.mark.parametrize("value", SPECIAL, ids=str)
@pytest.mark.parametrize("count", [1, 2, 200])
def test_unusual_numbers_read_back_alone_and_beside_others(value: float, count: int):
    same = struct.pack(f"<{count}d", *[value] * count)
    mixed = struct.pack(f"<{count + 1}d", *[value] * count, 1.5)
    zeros = struct.pack(f"<{count + 1}d", *[value] * count, 0.0)
    for data in (same, mixed, zeros):
        assert read_back(constant(f64, data)) == data


def test_negative_xdsl_itself_loses_some_of_them():
    # The reason for our own printing. When this fails, it can go.
    def stock(*values: float) -> bytes:
        stream = StringIO()
        Printer(stream=stream).print_op(holding(constant(f64, struct.pack(f"<{len(values)}d", *values))))
        (op,) = parse(stream.getvalue()).ops
        return op.attributes["a"].data[0].data.data  # pyright: ignore

    for values in ((math.inf, 1.0), (0.0, -0.0), (12345678901234567.0, 1.0)):
        assert stock(*values) != struct.pack("<2d", *values)


def test_short_constants_are_lists_and_long_ones_hexadecimal():
    shape = (2, HEX_ABOVE // 2)
    short = constant(i8, bytes(range(HEX_ABOVE)), shape)
    assert "dense<[[0, 1, 2, " in print_module(holding(short))
    long = constant(i8, bytes(k % 128 for k in range(HEX_ABOVE + 1)))
    assert 'dense<"0x000102' in print_module(holding(long))


def test_long_constants_of_one_value_are_splats():
    text = print_module(holding(constant(f32, struct.pack("<f", 0.5) * 1000)))
    assert "dense<5.000000e-01> : tensor<1000xf32>" in text


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 1 << 18, (1 << 18) + 1, 3 << 18])
@pytest.mark.parametrize("other", [0, 1, 50, -1])
def test_one_element_that_differs_makes_a_list(count: int, other: int):
    data = bytearray(struct.pack("<f", 0.5) * count)
    assert "dense<5.000000e-01>" in print_module(holding(constant(f32, bytes(data))))
    if other < count > 1:
        data[4 * other : 4 * other + 4 or None] = struct.pack("<f", 0.25)
        assert "dense<5.000000e-01>" not in print_module(holding(constant(f32, bytes(data))))


@pytest.mark.parametrize("element", [i1, i8, f32])
def test_constants_without_elements_read_back(element: Any):
    assert read_back(constant(element, b"", (0, 4))) == b""


def test_truth_values_read_back():
    assert "dense<[true, false]>" in print_module(holding(constant(i1, b"\1\0")))
    # Truth is any bit pattern but zero: xDSL's own parser makes it 0xff.
    # MLIR takes many of them in hexadecimal for bits, eight to a byte: they are a list however many there are.
    assert "dense<[true, false, true, " in print_module(holding(constant(i1, b"\1\0\1" * HEX_ABOVE)))
    many = np.random.default_rng(0).integers(0, 2, 240).astype(np.uint8).tobytes()
    assert read_back(constant(i1, many, (2, 3, 40))) == many.replace(b"\1", b"\xff")
    for data in (b"\1\0", b"\xff\0", b"\1\0" * 200):
        assert [bool(byte) for byte in read_back(constant(i1, data))] == [bool(byte) for byte in data]


def test_a_constant_with_a_format_uses_its_alias():
    value = DenseIntOrFPElementsAttr(tensor(NCHW, (1, 1, 1, 2)), BytesAttr(struct.pack("<2f", 1, 2)))
    assert "dense<[[[[1.000000e+00, 2.000000e+00]]]]> : tensor<1x1x1x2xf32, #nchw>" in print_module(
        holding(value)
    )


def test_elided_constants_are_announced_and_still_parse():
    module = holding(
        constant(i8, bytes(range(5))),
        constant(i8, bytes(range(4))),
        constant(i8, b"\1" * 9),
        constant(i8, bytes(range(6))),
    )
    text = print_module(module, elide_above=4)
    first = text.splitlines()[0]
    assert first.startswith("// 2 ") and "elided" in first
    assert text.count("dense_resource<__elided__>") == 2
    assert "dense<1> : tensor<9xi8>" in text
    # What is gone stays gone, and is said again, however many programs were read before.
    for _ in range(2):
        again = parse(text)
        assert print_module(again) == text


def test_negative_nothing_is_elided_unasked_or_below_the_limit():
    module = holding(constant(i8, bytes(range(5))))
    assert "elided" not in print_module(module)
    assert "elided" not in print_module(module, elide_above=5)


def test_printing_a_long_constant_does_not_unpack_it(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise AssertionError("25 million numbers are not made into Python objects")

    module = holding(constant(f32, b"\0\1\2\3" * 1000 + b"\0\0\0\0"), constant(f32, b"\0\0\0\0" * 1000))
    monkeypatch.setattr(type(f32), "unpack", refuse)
    with pytest.raises(AssertionError):
        print_module(module)
    monkeypatch.undo()
    values = print_module(module)
    assert values.count("dense") == 2


OPTIONS = """\
func.func @main(%x: tensor<1x8x5x4xf32, #layout.tag<nchw>>) -> tensor<1x8x5x4xf32, #layout.tag<nchw>> {
  %a = "theirs.op"(%x) {layout.options = [
      #layout.option<ins = [#layout.tag<nchw>], outs = [#layout.tag<nchw>], cost = 5>,
      #layout.option<ins = [#layout.tag<nChw8c>], outs = [#layout.tag<nChw8c>], cost = 4>]}
    : (tensor<1x8x5x4xf32, #layout.tag<nchw>>) -> tensor<1x8x5x4xf32, #layout.tag<nchw>>
  func.return %a : tensor<1x8x5x4xf32, #layout.tag<nchw>>
}
"""


def _parse_options(text: str) -> ModuleOp:
    ctx = Context(allow_unregistered=True)
    for dialect in (Builtin, Func, LayoutDialect):
        ctx.load_dialect(dialect)
    return Parser(ctx, text).parse_module()


@pytest.mark.parametrize("generic", [False, True])
def test_options_survive_a_tool_that_does_not_know_them(generic: bool):
    if (reason := mlir.available()) is not None:
        pytest.skip(reason)
    before = _parse_options(OPTIONS)
    text = mlir.reprint(print_module(before, generic=generic), "--allow-unregistered-dialect")
    after = _parse_options(text)
    found = [
        op.attributes["layout.options"]
        for m in (before, after)
        for op in m.walk()
        if "layout.options" in op.attributes
    ]
    assert len(found) == 2
    assert found[0] == found[1]


def test_formats_inside_other_attributes_are_spelled_out():
    text = print_module(_parse_options(OPTIONS))
    assert "cost = 4" in text
    assert "option<ins = [#layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>]" in text
    assert "tensor<1x8x5x4xf32, #nchw>" in text
    assert "#nChw8c" not in text  # nothing else uses it


def test_a_fingerprint_tells_programs_apart_by_one_bit():
    data = bytes(4 * 1000)
    one = holding(constant(f32, data))
    assert fingerprint(one) == fingerprint(holding(constant(f32, data)))
    others = [
        holding(constant(f32, data[:-1] + b"\x80")),
        holding(constant(i32, data)),
        holding(constant(f32, data[:-4])),
        holding(constant(f32, data), constant(f32, data)),
    ]
    assert len({fingerprint(one), *map(fingerprint, others)}) == 5
