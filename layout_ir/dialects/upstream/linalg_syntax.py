"""The parts that the custom forms of linalg ops have in common: `ins(...) outs(...) -> types`, bodies in short.

linalg.matmul indexing_maps = [...] {attributes} ins(%a, %b : A, B) outs(%c : C) -> C
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer


@dataclass
class StructuredParts:
    """What stands behind the name of a structured op; `start` is where in the text."""

    attributes: dict[str, Attribute]
    inputs: list[SSAValue]
    outputs: list[SSAValue]
    results: list[Attribute]
    start: int


_NAMED = ("indexing_maps", "kind")
"""Attributes that are written outside of braces."""


def parse_structured_parts(parser: Parser) -> StructuredParts:
    """Attributes, `ins`, `outs` and result types; each may be missing."""
    start = parser.pos
    attributes = parse_attributes(parser)
    inputs = parse_group(parser, "ins")
    outputs = parse_group(parser, "outs")
    if parser.parse_optional_keyword("attrs") is not None:
        parser.parse_punctuation("=")
    attributes |= parser.parse_optional_attr_dict()
    return StructuredParts(attributes, inputs, outputs, parse_results(parser), start)


def parse_attributes(parser: Parser) -> dict[str, Attribute]:
    """Attributes in front of the operands: properties in `<{...}>`, a dictionary or the alias of one, or named ones."""
    found = dict(parser.parse_optional_properties_dict())
    while True:
        name = next((name for name in _NAMED if parser.parse_optional_keyword(name) is not None), None)
        if name is not None:
            parser.parse_punctuation("=")
            found[name] = parser.parse_attribute()
            continue
        start = parser.pos
        given = parser.parse_optional_attribute() if not found else None
        if given is not None and not isinstance(given, DictionaryAttr):
            parser.raise_error(f"expected a dictionary of attributes, not {given}", start, parser.pos)
        more = dict(given.data) if given is not None else parser.parse_optional_attr_dict()
        if not more:
            return found
        found |= more


def parse_group(parser: Parser, keyword: str) -> list[SSAValue]:
    """`keyword(%a, %b : A, B)`; nothing where the keyword is missing."""
    if parser.parse_optional_keyword(keyword) is None:
        return []
    with parser.in_parens():
        start = parser.pos
        values = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        if not values:
            return []
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    return list(parser.resolve_operands(values, types, start))


def parse_results(parser: Parser) -> list[Attribute]:
    """`-> type` or `-> (types)`; nothing where there is no arrow."""
    if parser.parse_optional_punctuation("->") is None:
        return []
    several = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return list(several) if several is not None else [parser.parse_type()]


def print_structured_parts(
    printer: Printer,
    inputs: Sequence[SSAValue],
    outputs: Sequence[SSAValue],
    results: Sequence[Attribute],
    attributes: Mapping[str, Attribute],
) -> None:
    """Prints what `parse_structured_parts` reads."""
    if attributes:
        printer.print_op_attributes(dict(attributes))
    print_group(printer, "ins", inputs)
    print_group(printer, "outs", outputs)
    print_results(printer, results)


def print_group(printer: Printer, keyword: str, values: Sequence[SSAValue]) -> None:
    """Prints ` keyword(%a, %b : A, B)`; nothing where there are no values."""
    if not values:
        return
    printer.print_string(f" {keyword}(")
    printer.print_list(values, printer.print_ssa_value)
    printer.print_string(" : ")
    printer.print_list([value.type for value in values], printer.print_attribute)
    printer.print_string(")")


def print_results(printer: Printer, results: Sequence[Attribute]) -> None:
    """Prints ` -> type` or ` -> (types)`; nothing where there are none."""
    if not results:
        return
    printer.print_string(" -> ")
    if len(results) == 1:
        printer.print_attribute(results[0])
    else:
        with printer.in_parens():
            printer.print_list(results, printer.print_attribute)
