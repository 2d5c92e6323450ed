"""What the forms of elementwise ops of arith and math have in common: types of elements, flags, operands."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    TensorType,
    UnrankedTensorType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

NO_FLAGS = arith.FastMathFlagsAttr("none")

FLOATS: tuple[Any, ...] = AnyFloat.__args__  # pyright: ignore


def element_of(type: Attribute) -> Attribute:
    """The type of one element of a tensor or vector; of a scalar, its own."""
    return getattr(type, "element_type", type)


def bits_of(type: Attribute) -> Attribute:
    """The type of a comparison of elements of `type`: as many i1, in the same layout."""
    match type:
        case TensorType():
            return TensorType(i1, type.get_shape(), type.encoding)
        case UnrankedTensorType():
            return UnrankedTensorType(i1)
        case VectorType():
            return VectorType(i1, type.shape, type.scalable_dims)
        case _:
            return i1


def check_bits(of: Attribute, result: Attribute) -> None:
    """Raises VerifyException unless `result` is what comparing elements of `of` gives."""
    if result != bits_of(of):
        raise VerifyException(f"the result for {of} is {bits_of(of)}, not {result}")


def check_element(type: Attribute, *kinds: type[Attribute]) -> None:
    """Raises VerifyException unless the elements of `type` are of one of these kinds."""
    if not isinstance(element_of(type), kinds):
        raise VerifyException(f"elements of {type} are not those that the op takes")


def parse_operands(parser: Parser, count: int) -> list[UnresolvedOperand]:
    """So many operands with commas between them."""
    operands = [parser.parse_unresolved_operand()]
    while len(operands) < count:
        parser.parse_punctuation(",")
        operands.append(parser.parse_unresolved_operand())
    return operands


def parse_rest(parser: Parser) -> tuple[arith.FastMathFlagsAttr, dict[str, Attribute], Attribute]:
    """What stands behind the operands: flags, attributes and a type."""
    flags = NO_FLAGS
    if parser.parse_optional_keyword("fastmath") is not None:
        flags = arith.FastMathFlagsAttr(arith.FastMathFlagsAttr.parse_parameter(parser))
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    return flags, attributes, parser.parse_type()


def print_rest(printer: Printer, op: Operation, *types: Attribute) -> None:
    """Prints flags, attributes and types as they stand behind the operands."""
    flags = op.properties.get("fastmath", NO_FLAGS)
    if isinstance(flags, arith.FastMathFlagsAttr) and flags != NO_FLAGS:
        printer.print_string(" fastmath")
        flags.print_parameter(printer)
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_list(types, printer.print_attribute)
