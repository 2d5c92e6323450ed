"""Constants.

The literal holds the logical values in row-major order whatever the format of the result: it says *what* the
tensor is, the encoding says where the elements lie. A reorder of a constant is therefore a change of its type.

A literal that is one value everywhere may hold a single element. Networks in files fill their weights this way,
and 400 MB of zeros take four bytes until an op needs them all.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    TensorType,
    i1,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from layout_ir.dialects.layout import strip_type
from layout_ir.dialects.nn.nn_op import NNOp
from layout_ir.dialects.nn.tensor_types import ELEMENTS, Shape, Tensor, pad_value, tensor_type
from layout_ir.elements.packed_bits import unpacked_bits
from layout_ir.errors import LayoutError, shape_text

Literal = DenseIntOrFPElementsAttr[Any]


def element_size(element: Attribute) -> int:
    """Bytes of one element in a literal (an i1 takes one byte, 0 or 1)."""
    assert isinstance(element, AnyFloat | IntegerType)
    return element.compile_time_size


def literal(type: Tensor, data: bytes) -> Literal:
    """A literal of `type` (its encoding does not matter) from all elements, little endian, row-major, or from one.

    Raises LayoutError if the number of bytes is neither.
    """
    size, count = element_size(type.element_type), math.prod(type.get_shape())
    if len(data) == size and count == 0:
        data = b""
    if len(data) != size * count and len(data) != size:
        raise LayoutError(
            f"a literal of {len(data)} bytes does not fit {strip_type(type)}, "
            f"which has {count} elements of {size} bytes"
        )
    return DenseIntOrFPElementsAttr(cast(Any, strip_type(type)), BytesAttr(data))


@irdl_op_definition
class ConstantOp(NNOp):
    """A tensor known at compile time, whose pads hold what its type promises.

    `value` may also be a `dense_resource`, in place of values that were left out when the program was printed; then
    `literal` raises LayoutError.
    """

    name = "nn.constant"
    ALLOWED: ClassVar[tuple[str, ...]] = ELEMENTS

    value = prop_def(DenseIntOrFPElementsAttr | DenseResourceAttr)

    def __init__(self, value: Literal, result_type: Tensor):
        Operation.__init__(self, result_types=[result_type], properties={"value": value})

    @property
    def literal(self) -> Literal:
        """The values. Raises LayoutError if they were left out."""
        if isinstance(self.value, DenseResourceAttr):
            raise LayoutError(f"the values of this constant were left out when it was printed: {self.value}")
        return cast(Literal, self.value)

    def leave_out(self) -> None:
        """Forgets the values: as where they are left out when a program is printed, there is none from here on."""
        self.properties = {"value": DenseResourceAttr(StringAttr("left_out"), self._value_type)}

    def drop_all_references(self) -> None:
        """Is called where the op is erased: its values do not wait for the collector of garbage, as the op does."""
        super().drop_all_references()
        self.leave_out()

    @property
    def is_splat(self) -> bool:
        """Whether the literal holds one element for all. Cheap: False for a long literal of equal elements."""
        return len(self.literal.data.data) == element_size(self.infer_element())

    def infer(self) -> Shape:
        """The shape of the literal."""
        return self._value_type.get_shape()

    def infer_element(self) -> Attribute:
        """The element type of the literal."""
        return self._value_type.element_type

    @property
    def _value_type(self) -> Tensor:
        return cast(Tensor, self.value.get_type())

    def pad_result(self, pads: Sequence[float | None]) -> float | None:
        """The number that the type promises: the pads are written together with the constant."""
        return pad_value(tensor_type(self.result))

    def check(self) -> None:
        """Raises LayoutError where literal and result differ in shape or element type, or the encoding does not fit."""
        type = self.value.get_type()
        if not isinstance(type, TensorType) or not isinstance(cast(Tensor, type).encoding, NoneAttr):
            raise LayoutError(f"the literal needs a tensor type without encoding, not {type}")
        declared = tensor_type(self.result).element_type
        if declared != self.infer_element():
            raise LayoutError(
                f"element type mismatch between the literal and the result: {self.infer_element()} != {declared}"
            )
        if not isinstance(self.value, DenseResourceAttr):
            held, count = len(self.value), math.prod(self.infer())
            if held != count and (held != 1 or count == 0):
                raise LayoutError(
                    f"the literal holds {held} elements, but its shape {shape_text(self.infer())} has {count}"
                )
        self.check_elements()
        self.check_shapes()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        extra = parser.parse_optional_attr_dict()
        start = parser.pos
        if parser.parse_optional_keyword("dense") is None:
            value = parser.parse_attribute()
            if not isinstance(value, DenseResourceAttr) or not isinstance(value.get_type(), TensorType):
                parser.raise_error(f"{cls.name} holds dense<...>", start, parser.pos)
            type = cast(Tensor, value.get_type())
            op = cls.create(
                result_types=[type],
                properties={"value": DenseResourceAttr(value.resource_handle, strip_type(type))},
            )
        else:
            op = cls._parse_dense(parser)
        op.attributes |= extra
        return op

    @classmethod
    def _parse_dense(cls, parser: Parser) -> Self:
        # xDSL's own parser of dense would spell every element of a splat out.
        start = parser.pos
        with parser.in_angle_brackets():
            text = parser.parse_optional_str_literal()
            items, shape = _parse_elements(parser) if text is None else ([], [])
        end = parser.pos
        parser.parse_punctuation(":")
        at = parser.pos
        type = parser.parse_type()
        if not isinstance(type, TensorType):
            parser.raise_error(f"{cls.name} has a tensor type, not {type}", at, parser.pos)
        type = cast(Tensor, type)
        element = type.element_type
        if not isinstance(element, AnyFloat | IntegerType) or any(extent < 0 for extent in type.get_shape()):
            parser.raise_error(
                f"{cls.name} has a tensor of numbers and a static shape, not {type}", at, parser.pos
            )
        try:
            if text is not None:
                data = bytes.fromhex(text.removeprefix("0x"))
                if element == i1:
                    data = unpacked_bits(data, math.prod(type.get_shape()))
            else:
                if shape and tuple(shape) != type.get_shape():
                    raise LayoutError(
                        f"shape mismatch between the literal and its type: "
                        f"{shape_text(shape)} != {shape_text(type.get_shape())}"
                    )
                data = b"".join(_encode(item, type.element_type) for item in items)
            value = literal(type, data)
        except (ValueError, OverflowError, struct.error) as error:
            parser.raise_error(str(error), start, end)
        return cls.create(result_types=[type], properties={"value": value})

    def print(self, printer: Printer) -> None:
        # Other attributes stand in front, as in MLIR's own constants: a literal and its type are one thing.
        printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        # Under the type of the result, which is the literal's with an encoding: it is printed once.
        type = cast(Any, self.result.type)
        if isinstance(self.value, DenseResourceAttr):
            printer.print_attribute(DenseResourceAttr(self.value.resource_handle, type))
        else:
            printer.print_attribute(DenseIntOrFPElementsAttr(type, self.value.data))


Element = int | float | str
"""An element as it is written: a number, or the digits of a bit pattern."""


def _encode(element: Element, type: Attribute) -> bytes:
    size = element_size(type)
    if isinstance(type, AnyFloat):
        if isinstance(element, str):
            return int(element, 16).to_bytes(size, "little")
        return type.pack((float(element),))
    assert isinstance(type, IntegerType)
    if isinstance(element, str):
        element = int(element, 16)
    if element != int(element):
        raise LayoutError(f"{element} is no element of type {type}")
    if type == IntegerType(1):
        return b"\1" if element else b"\0"
    # Like MLIR, take 255 for an i8 too: it has the same bits as -1.
    low, high = type.value_range()
    if not low <= element < high:
        raise LayoutError(f"{element} is no element of type {type}: not in {low}..{high - 1}")
    return (int(element) % (1 << 8 * size)).to_bytes(size, "little")


def _parse_elements(parser: Parser) -> tuple[list[Element], list[int]]:
    """Nested lists of numbers, row-major, and their shape; no shape for a bare number; nothing before `>`."""
    items = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: _parse_elements(parser)
    )
    if items is None:
        start = parser.pos
        value = parser.parse_optional_number(allow_boolean=True)
        if value is None:
            return [], []
        # As in MLIR, a float in hexadecimal is its bit pattern.
        text = parser.lexer.input.content[start : start + 2]
        return [hex(int(value)) if text in ("0x", "0X") else value], []
    shapes = [shape for _, shape in items]
    if any(shape != shapes[0] for shape in shapes):
        parser.raise_error("the lists inside the literal differ in shape")
    return [value for values, _ in items for value in values], [len(items), *(shapes[0] if shapes else [])]
