"""The custom form of ops that are functions, of func and of ml_program.

func.func private @f(i32 {llvm.noundef}) -> (f32 {llvm.noundef}) attributes {no_inline}

Of a declaration xDSL drops the attributes of arguments where it reads them, and those of results where it prints them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, StringAttr
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

_SHOWN = ("sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs")
"""Properties with a place of their own in the custom form; the others are printed behind `attributes`."""


def _parse_function(parser: Parser, op: type[IRDLOperation]) -> Any:
    """The function that stands behind the name of `op`, in a new op of that class."""
    properties: dict[str, Attribute] = {}
    visibility = parser.parse_optional_visibility_keyword()
    if visibility is not None:
        properties["sym_visibility"] = visibility
    properties["sym_name"] = parser.parse_symbol_name()
    named: list[Parser.Argument] = []

    def parse_argument() -> tuple[Attribute, dict[str, Attribute]]:
        argument = parser.parse_optional_argument()
        if argument is None:
            type = parser.parse_type()
        else:
            named.append(argument)
            type = argument.type
        attributes = parser.parse_optional_dictionary_attr_dict()
        location = parser.parse_optional_location()
        if argument is not None and location is not None:
            argument.location = location
        return type, attributes

    start = parser.pos
    inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_argument)
    if named and len(named) != len(inputs):
        parser.raise_error("either all arguments have names or none has", start, parser.pos)
    outputs: Sequence[tuple[Attribute, dict[str, Attribute]]] = ()
    if parser.parse_optional_punctuation("->") is not None:
        several = parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN,
            lambda: (parser.parse_type(), parser.parse_optional_dictionary_attr_dict()),
        )
        outputs = [(parser.parse_type(), {})] if several is None else several
    types = [[type for type, _ in values] for values in (inputs, outputs)]
    properties["function_type"] = FunctionType.from_lists(*types)
    for name, values in (("arg_attrs", inputs), ("res_attrs", outputs)):
        if any(attributes for _, attributes in values):
            properties[name] = ArrayAttr(DictionaryAttr(attributes) for _, attributes in values)
    given = parser.parse_optional_attr_dict_with_keyword(_SHOWN)
    attributes = dict(given.data) if given is not None else {}
    own = op.get_irdl_definition().properties
    properties |= {name: attributes.pop(name) for name in list(attributes) if name in own}
    region = parser.parse_optional_region(named or None)
    return op.create(properties=properties, attributes=attributes, regions=[region or Region()])


def _print_function(printer: Printer, op: Operation) -> None:
    """Prints what `_parse_function` reads."""
    properties = op.properties
    visibility = properties.get("sym_visibility")
    if visibility is not None:
        printer.print_string(f" {cast('StringAttr', visibility).data}")
    printer.print_string(" ")
    printer.print_symbol_name(cast("StringAttr", properties["sym_name"]).data)
    type = cast("FunctionType", properties["function_type"])
    body = op.regions[0]
    first = body.blocks.first

    def print_argument(place: int) -> None:
        if first is None:
            printer.print_attribute(type.inputs.data[place])
        else:
            printer.print_block_argument(first.args[place], print_type=False)
            printer.print_string(": ")
            printer.print_attribute(first.args[place].type)
        _print_attributes(printer, properties.get("arg_attrs"), place)
        if first is not None and printer.print_debuginfo:
            printer.print_string(" ")
            printer.print_attribute(first.args[place].location)

    def print_result(place: int) -> None:
        printer.print_attribute(type.outputs.data[place])
        _print_attributes(printer, properties.get("res_attrs"), place)

    with printer.in_parens():
        printer.print_list(range(len(type.inputs)), print_argument)
    if type.outputs.data:
        printer.print_string(" -> ")
        is_plain = len(type.outputs) == 1 and "res_attrs" not in properties
        is_plain = is_plain and not isinstance(type.outputs.data[0], FunctionType)
        printer.print_string("" if is_plain else "(")
        printer.print_list(range(len(type.outputs)), print_result)
        printer.print_string("" if is_plain else ")")
    rest = {name: value for name, value in properties.items() if name not in _SHOWN}
    printer.print_op_attributes({**rest, **op.attributes}, print_keyword=True)
    if first is not None:
        printer.print_string(" ")
        printer.print_region(body, print_entry_block_args=False, print_empty_block=False)


def _print_attributes(printer: Printer, of_all: Attribute | None, place: int) -> None:
    """Prints the attributes of an argument or result; nothing where it has none."""
    if of_all is None:
        return
    attributes = cast("ArrayAttr[DictionaryAttr]", of_all).data[place]
    if attributes.data:
        printer.print_op_attributes(dict(attributes.data))


def _check_function(op: Operation) -> None:
    """Raises VerifyException where the body of a function does not take its arguments, and where attributes are not
    those of all arguments or results."""
    type = cast("FunctionType", op.properties["function_type"])
    first = op.regions[0].blocks.first
    if first is not None and first.arg_types != type.inputs.data:
        raise VerifyException(
            f"the body takes {', '.join(map(str, first.arg_types)) or 'nothing'}, not as {type} says"
        )
    for name, types in (("arg_attrs", type.inputs), ("res_attrs", type.outputs)):
        given = cast("ArrayAttr[DictionaryAttr] | None", op.properties.get(name))
        if given is not None and len(given) != len(types):
            raise VerifyException(f"{len(given)} {name} for the {len(types)} of {type}")


class FunctionForm:
    """Form and verifier of an op that is a function, which has these properties and one region."""

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        """The function that stands behind the name of the op."""
        return _parse_function(parser, cast("type[IRDLOperation]", cls))

    def print(self, printer: Printer) -> None:
        """Prints what `parse` reads."""
        _print_function(printer, cast("Operation", self))

    def verify_(self) -> None:
        """Raises VerifyException where the body or the attributes of values are not those of the function's type."""
        _check_function(cast("Operation", self))
