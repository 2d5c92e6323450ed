"""What custom forms have in common: operands whose type the text does not say, bindings, types of vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer


def parse_index(parser: Parser) -> SSAValue:
    """An operand that is an index."""
    return parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())


def parse_indices(parser: Parser, delimiter: Parser.Delimiter = Parser.Delimiter.SQUARE) -> list[SSAValue]:
    """Operands that are indices, by default in square brackets."""
    return parser.parse_comma_separated_list(delimiter, lambda: parse_index(parser))


def parse_optional_indices(parser: Parser, delimiter: Parser.Delimiter) -> list[SSAValue]:
    """Operands that are indices; none where the delimiter is missing."""
    return parser.parse_optional_comma_separated_list(delimiter, lambda: parse_index(parser)) or []


def print_values(printer: Printer, values: Iterable[SSAValue], delimiters: str = "") -> None:
    """Prints operands with commas, between the two `delimiters` where there are any."""
    printer.print_string(delimiters[:1])
    printer.print_list(values, printer.print_ssa_value)
    printer.print_string(delimiters[1:])


def parse_vector_type(parser: Parser) -> VectorType[Attribute]:
    """The type at the parser's position. Raises ParseError where it is no vector."""
    start = parser.pos
    type: Any = parser.parse_type()
    if not isinstance(type, VectorType):
        parser.raise_error(f"expected a vector, not {type}", start, parser.pos)
    return cast("VectorType[Attribute]", type)


def parse_binding(parser: Parser) -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
    """`%a = %x`, an argument of a region and the operand that it is bound to, both without types."""
    argument = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    return argument, parser.parse_unresolved_operand()


def print_binding(printer: Printer, argument: SSAValue, value: SSAValue) -> None:
    """Prints what `parse_binding` reads."""
    printer.print_ssa_value(argument)
    printer.print_string(" = ")
    printer.print_ssa_value(value)
