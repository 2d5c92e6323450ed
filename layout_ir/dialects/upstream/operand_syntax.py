"""What custom forms have in common: operands whose type the text does not say, bindings, types of vectors, functions of
atomic updates and reductions, hints of prefetches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from xdsl.dialects.builtin import BoolAttr, IndexType, IntegerAttr, VectorType, i32, i64
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


def print_element(printer: Printer, buffer: SSAValue, indices: Iterable[SSAValue]) -> None:
    """Prints a buffer and indices: `%m[%i, %j]`."""
    printer.print_ssa_value(buffer)
    print_values(printer, indices, "[]")


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


def parse_variables(parser: Parser) -> list[Parser.Argument]:
    """`(%i, %j)`, the variables of a nest of loops."""
    names = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False)
    )
    return [name.resolve(IndexType()) for name in names]


ATOMIC_KINDS = (
    *("addf", "addi", "andi", "assign", "maximumf", "maxnumf", "maxs", "maxu", "minimumf", "minnumf"),
    *("mins", "minu", "mulf", "muli", "ori", "xori"),
)
"""The functions of `memref.atomic_rmw` and of reductions, each at the number that MLIR 22 has for it."""


def parse_atomic_kind(parser: Parser, parse_word: Callable[[], str]) -> IntegerAttr[Any]:
    """The number of the function whose name is the word at the parser's position."""
    start = parser.pos
    word = parse_word()
    if word not in ATOMIC_KINDS:
        parser.raise_error(f"'{word}' is none of {', '.join(ATOMIC_KINDS)}", start, parser.pos)
    return IntegerAttr(ATOMIC_KINDS.index(word), i64)


def parse_prefetch_hints(parser: Parser) -> dict[str, Attribute]:
    """`, read, locality<3>, data` as the properties of a prefetch."""
    parser.parse_punctuation(",")
    is_write = parser.expect(lambda: parser.parse_optional_keyword_in({"read", "write"}), "read or write")
    parser.parse_punctuation(",")
    parser.parse_keyword("locality")
    with parser.in_angle_brackets():
        locality = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_punctuation(",")
    is_data = parser.expect(lambda: parser.parse_optional_keyword_in({"data", "instr"}), "data or instr")
    return {
        "isWrite": BoolAttr.from_bool(is_write == "write"),
        "localityHint": IntegerAttr(locality, i32),
        "isDataCache": BoolAttr.from_bool(is_data == "data"),
    }


def print_prefetch_hints(printer: Printer, op: Any) -> None:
    """Prints what `parse_prefetch_hints` reads."""
    access = "write" if op.isWrite.value.data else "read"
    cache = "data" if op.isDataCache.value.data else "instr"
    printer.print_string(f", {access}, locality<{op.localityHint.value.data}>, {cache}")
