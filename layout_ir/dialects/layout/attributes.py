"""Formats and layout options as attributes: parsing and printing; the algebra defines what they mean.

#layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>    a recipe
#layout.tag<nChw8c>                                             the same, by name (input only)
#layout.any                                                     to be chosen by layout selection
#layout.opaque<"winograd", 4096>                                bytes whose inside is no element map
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Attribute, Data, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from layout_ir.algebra.format import Format
from layout_ir.dialects.layout.quoted_attributes import quotable
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOption


def _parse_bracketed(parser: AttrParser, read: Callable[[str], Format]) -> Format:
    """The Format that `read` makes of the text between `<` and `>`; errors get their place in the file."""
    opening = parser.pos
    text = parser.lexer.input.content
    if text[opening : opening + 1] != "<":
        parser.raise_error("expected '<' before a format", opening, opening + 1)
    start = opening + 1
    end = text.find(">", start)
    if end < 0 or "\n\n" in text[start:end]:
        parser.raise_error("expected '>' behind a format", opening, opening + 1)
    body = text[start:end]
    offset = start + len(body) - len(body.lstrip())
    try:
        format = read(body.strip())
    except LayoutError as error:
        low, high = error.span or (0, max(len(body.strip()), 1))
        parser.raise_error(str(error), offset + low, offset + max(high, low + 1))
    # xDSL's lexer does not know the tokens of a format: it continues after the body.
    parser._resume_from(end)  # pyright: ignore[reportPrivateUsage]
    parser.parse_punctuation(">")
    return format


@quotable
@irdl_attr_definition
class FormatAttr(Data[Format]):
    """The layout of a tensor, as the encoding of its type."""

    name = "layout.format"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Format:
        return _parse_bracketed(parser, Format.parse)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@quotable
@irdl_attr_definition
class TagAttr(Data[Format]):
    """Sugar on input: `#layout.tag<nChw8c>` builds the FormatAttr that the tag names."""

    name = "layout.tag"

    def __new__(cls, data: Format) -> Any:
        return FormatAttr(data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Format:
        return _parse_bracketed(parser, Format.from_tag)

    def print_parameter(self, printer: Printer) -> None:
        raise AssertionError("a tag is never printed: it builds a FormatAttr")


@irdl_attr_definition
class AnyAttr(ParametrizedAttribute):
    """A layout that is still to be chosen."""

    name = "layout.any"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        if parser.parse_optional_punctuation("<") and not parser.parse_optional_punctuation(">"):
            parser.raise_error("#layout.any takes no parameters: the layout is still to be chosen")
        return ()


@irdl_attr_definition
class OpaqueAttr(Data[tuple[str, int]]):
    """A named arrangement of so many bytes (0: not known) that is no element map, such as Winograd weights."""

    name = "layout.opaque"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, int]:
        with parser.in_angle_brackets():
            kind = parser.parse_str_literal("the name of an opaque layout")
            size = 0
            if parser.parse_optional_punctuation(","):
                size = parser.parse_integer(allow_boolean=False, allow_negative=False)
                if parser.parse_optional_punctuation(":"):  # as other tools print a number
                    parser.parse_keyword("i64")
        return kind, size

    def print_parameter(self, printer: Printer) -> None:
        kind, size = self.data
        printer.print_string("<")
        printer.print_string_literal(kind)
        printer.print_string(f", {size}>" if size else ">")


@quotable
@irdl_attr_definition
class OptionAttr(Data[LayoutOption]):
    """One way to run an op: Formats of its tensor operands and results, and the cost.

    The pad policy of an operand's Format is what its pads must hold (undef: anything), that of a result's what they
    will hold. After the cost, `in_place = [0 -> 0]` makes operand 0 and result 0 one buffer, and `name = "blocked"`
    names the kernel, for `layout.chosen`.
    """

    name = "layout.option"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> LayoutOption:
        with parser.in_angle_brackets():
            ins = cls._formats(parser, "ins")
            parser.parse_punctuation(",")
            outs = cls._formats(parser, "outs")
            parser.parse_punctuation(",")
            parser.parse_keyword("cost")
            parser.parse_punctuation("=")
            start = parser.pos
            cost = parser.parse_integer(allow_boolean=False)
            if not 0 <= cost < 1 << 48:
                parser.raise_error(f"cost = {cost} is not in [0, 2^48)", start, parser.pos)
            pairs: list[tuple[int, int]] = []
            name = ""
            more = parser.parse_optional_punctuation(",")
            if more and parser.parse_optional_keyword("in_place") is not None:
                parser.parse_punctuation("=")
                pairs = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: cls._pair(parser))
                more = parser.parse_optional_punctuation(",")
            if more:
                if parser.parse_optional_keyword("name") is None:
                    parser.raise_error("expected in_place or name" if not pairs else "expected name")
                parser.parse_punctuation("=")
                start = parser.pos
                name = parser.parse_str_literal("the name of an option")
                if not name:
                    parser.raise_error("the name of an option is not empty", start, parser.pos)
        known = tuple(fmt for fmt in outs if fmt is not None)
        if len(known) != len(outs):
            parser.raise_error("outs of an option name a format each: '_' is for operands")
        return LayoutOption(ins, known, cost, tuple(pairs), name)

    @staticmethod
    def _pair(parser: AttrParser) -> tuple[int, int]:
        operand = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_punctuation("->")
        return operand, parser.parse_integer(allow_boolean=False, allow_negative=False)

    @staticmethod
    def _formats(parser: AttrParser, name: str) -> tuple[Format | None, ...]:
        def one() -> Format | None:
            if parser.parse_optional_keyword("_") is not None:
                return None
            start = parser.pos
            attribute = parser.parse_attribute()
            if not isinstance(attribute, FormatAttr):
                parser.raise_error(
                    f"{attribute} is no format: expected #layout.format, #layout.tag or _", start, parser.pos
                )
            return attribute.data

        parser.parse_keyword(name)
        parser.parse_punctuation("=")
        return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, one))

    def print_parameter(self, printer: Printer) -> None:
        option = self.data

        def show(fmt: Format | None) -> None:
            if fmt is None:
                printer.print_string("_")
            else:
                printer.print_attribute(FormatAttr(fmt))

        printer.print_string("<ins = [")
        printer.print_list(option.ins, show)
        printer.print_string("], outs = [")
        printer.print_list(option.outs, show)
        printer.print_string(f"], cost = {option.cost}")
        if option.in_place:
            pairs = ", ".join(f"{operand} -> {result}" for operand, result in option.in_place)
            printer.print_string(f", in_place = [{pairs}]")
        if option.name:
            printer.print_string(", name = ")
            printer.print_string_literal(option.name)
        printer.print_string(">")
