"""Attributes that are one word: how linalg converts inputs, what `linalg.elementwise` applies, modes of tosa,
what `vector.print` ends with."""

from __future__ import annotations

from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class WordAttr(Data[str]):
    """A word in angle brackets. Not an enumeration: MLIR adds words, and a program may carry them through."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_identifier()

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class TypeFunctionAttr(WordAttr):
    """How an input is converted to the element type of the output: `cast_signed` or `cast_unsigned`."""

    name = "linalg.type_fn"

    @property
    def is_unsigned(self) -> bool:
        """Whether integers count as unsigned."""
        return self.data == "cast_unsigned"


@irdl_attr_definition
class ElementwiseKindAttr(WordAttr):
    """The scalar function of `linalg.elementwise`, such as `add`."""

    name = "linalg.elementwise_kind"


@irdl_attr_definition
class UnaryFunctionAttr(WordAttr):
    """The scalar function of one operand that some ops name, such as `exp`."""

    name = "linalg.unary_fn"


@irdl_attr_definition
class BinaryFunctionAttr(WordAttr):
    """The scalar function of two operands that some ops name, such as `add`."""

    name = "linalg.binary_fn"


@irdl_attr_definition
class ResizeModeAttr(WordAttr):
    """How `tosa.resize` interpolates: `NEAREST_NEIGHBOR` or `BILINEAR`."""

    name = "tosa.resize_mode"


@irdl_attr_definition
class BlockSizeAttr(WordAttr):
    """How many elements of a block-scaled tensor share a scale, such as `BLOCK_SIZE_32`."""

    name = "tosa.block_size"


@irdl_attr_definition
class PunctuationAttr(WordAttr):
    """What `vector.print` prints behind a value, such as `newline`."""

    name = "vector.punctuation"


LINALG_ATTRIBUTES: tuple[type[Attribute], ...] = (
    TypeFunctionAttr,
    ElementwiseKindAttr,
    UnaryFunctionAttr,
    BinaryFunctionAttr,
)
TOSA_ATTRIBUTES: tuple[type[Attribute], ...] = ResizeModeAttr, BlockSizeAttr
