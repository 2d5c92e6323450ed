"""`LayoutDialectOp`, the base of all ops of the dialect: one tensor in, one out, their assembly and checks."""

from abc import abstractmethod
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import DenseArrayBase, NoneAttr, TensorType, i64
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.layout.types import (
    is_any,
    tensor_type,
    verify_encoding,
)
from layout_ir.errors import LayoutError, shape_text

Tensor = TensorType[Attribute]


class LayoutDialectOp(IRDLOperation):
    """An op with one tensor operand, one tensor result and no effects."""

    input = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    FIELDS: ClassVar[tuple[str, ...]] = ()
    """Names of the properties that are lists of integers, in the order of the assembly."""

    @property
    def source_type(self) -> Tensor:
        """The tensor type of the operand."""
        # `self.input` takes several times as long, and this is asked often.
        return tensor_type(self.operands[0].type)

    @property
    def result_type(self) -> Tensor:
        """The tensor type of the result."""
        return tensor_type(self.results[0].type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        properties: dict[str, Attribute] = {}
        for name in cls.FIELDS:
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            properties[name] = DenseArrayBase.from_list(i64, values)
        properties |= cls.parse_options(parser)
        extra = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source = parser.parse_type()
        parser.parse_punctuation("->")
        result = parser.parse_type()
        value = parser.resolve_operand(operand, source)
        return cls.create(operands=[value], result_types=[result], properties=properties, attributes=extra)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.input)
        for name in self.FIELDS:
            printer.print_string(f" {name} = [{', '.join(map(str, self.ints(name)))}]")
        self.print_options(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.input.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse_options(cls, parser: Parser) -> dict[str, Attribute]:
        """The properties that may be left out, behind those of `FIELDS`."""
        return {}

    def print_options(self, printer: Printer) -> None:
        """Prints what `parse_options` reads, a space in front of each."""

    def ints(self, name: str) -> tuple[int, ...]:
        """The integer list of property `name`."""
        return tuple(cast("DenseArrayBase[Attribute]", self.properties[name]).get_values())  # pyright: ignore

    def verify_(self) -> None:
        try:
            verify_encoding(self.source_type)
            verify_encoding(self.result_type)
            self.check()
        except LayoutError as error:
            raise VerifyException(str(error)) from error

    @abstractmethod
    def check(self) -> None:
        """Raises LayoutError, stating both sides, where operand and result do not fit."""

    def same_shape(self) -> None:
        """Raises LayoutError where the result has another logical shape than the operand."""
        ours, theirs = self.source_type.get_shape(), self.result_type.get_shape()
        if ours != theirs:
            raise LayoutError(
                f"{self.name} keeps the shape: operand has {shape_text(ours)}, result has {shape_text(theirs)}"
            )

    def same_element(self) -> None:
        """Raises LayoutError where the result has another element type than the operand."""
        ours, theirs = self.source_type.element_type, self.result_type.element_type
        if ours != theirs:
            raise LayoutError(f"{self.name} keeps the element type: operand has {ours}, result has {theirs}")

    @property
    def is_open(self) -> bool:
        """Whether the layout of one side is still to be chosen."""
        return is_any(self.source_type) or is_any(self.result_type)

    @property
    def is_dynamic(self) -> bool:
        """Whether an extent of either side is dynamic (`?`)."""
        return any(extent < 0 for type in (self.source_type, self.result_type) for extent in type.get_shape())

    @property
    def is_bare(self) -> bool:
        """Whether neither side has an encoding, as after `layout-strip`."""
        return isinstance(self.source_type.encoding, NoneAttr) and isinstance(
            self.result_type.encoding, NoneAttr
        )
