"""Operands of custom forms whose type the text does not say: lists of indices, elements of buffers."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue
from xdsl.parser import Parser
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
