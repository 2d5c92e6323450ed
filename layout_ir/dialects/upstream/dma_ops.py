"""Ops of memref for copies that run beside the program, whose operands the text tells apart by their types alone.

memref.dma_start %a[%i, %j], %b[%k], %count, %tag[%n] : memref<40x128xf32>, memref<1024xf32, 1>, memref<1xi32>
memref.dma_wait %tag[%n], %count : memref<1xi32>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def, var_operand_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.operand_syntax import parse_index, parse_indices, print_element


class _DmaOp(IRDLOperation):
    """What both ops have in common: buffers, each with its indices behind it, and numbers that are indices, too."""

    arguments = var_operand_def()

    traits = traits_def(MemoryWriteEffect(), MemoryReadEffect())

    def _buffer(self, at: int) -> tuple[SSAValue, Sequence[SSAValue], int]:
        """The buffer that is operand `at`, its indices, and the place behind them. Raises VerifyException."""
        values = self.arguments
        if at >= len(values) or not isinstance(type := values[at].type, MemRefType):
            raise VerifyException(f"operand {at} is no buffer")
        end = at + 1 + type.get_num_dims()
        indices = values[at + 1 : end]
        if end > len(values) or not all(isinstance(each.type, IndexType) for each in indices):
            raise VerifyException(f"operand {at}, {type}, has not one index for each dim behind it")
        return values[at], indices, end

    def _numbers(self, begin: int, end: int | None, counts: Sequence[int]) -> Sequence[SSAValue]:
        """The operands from `begin` to `end`, as many as one of `counts`. Raises VerifyException."""
        numbers = self.arguments[begin:end]
        if len(numbers) not in counts or not all(isinstance(each.type, IndexType) for each in numbers):
            wanted = " or ".join(map(str, counts))
            raise VerifyException(f"operands from {begin} on are not {wanted} that are of type index")
        return numbers


def _parse_element(parser: Parser) -> tuple[UnresolvedOperand, list[SSAValue]]:
    return parser.parse_unresolved_operand(), parse_indices(parser)


@irdl_op_definition
class DmaStartOp(_DmaOp):
    """Begins to copy elements of a buffer to another; a tag is to be waited for. With two more numbers, the stride
    between chunks and the elements of each."""

    name = "memref.dma_start"

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        elements = [_parse_element(parser)]
        parser.parse_punctuation(",")
        elements.append(_parse_element(parser))
        parser.parse_punctuation(",")
        count = parse_index(parser)
        parser.parse_punctuation(",")
        elements.append(_parse_element(parser))
        strides: list[SSAValue] = []
        while parser.parse_optional_punctuation(",") is not None:
            strides.append(parse_index(parser))
        attributes = parser.parse_optional_attr_dict()
        start = parser.pos
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        buffers = parser.resolve_operands([buffer for buffer, _ in elements], types, start)
        source, destination, tag = (
            (buffer, *indices) for buffer, (_, indices) in zip(buffers, elements, strict=True)
        )
        operands = [*source, *destination, count, *tag, *strides]
        return cls.create(operands=operands, attributes=attributes)

    def print(self, printer: Printer) -> None:
        (source, destination, tag), count, strides = self._parts()
        printer.print_string(" ")
        print_element(printer, *source)
        printer.print_string(", ")
        print_element(printer, *destination)
        printer.print_string(", ")
        printer.print_ssa_value(count)
        printer.print_string(", ")
        print_element(printer, *tag)
        for stride in strides:
            printer.print_string(", ")
            printer.print_ssa_value(stride)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list([each[0].type for each in (source, destination, tag)], printer.print_attribute)

    def verify_(self) -> None:
        self._parts()

    def _parts(self) -> tuple[list[tuple[SSAValue, Sequence[SSAValue]]], SSAValue, Sequence[SSAValue]]:
        """Source, destination and tag with their indices, the number of elements, and the strides, two or none.

        Raises VerifyException.
        """
        source, source_indices, at = self._buffer(0)
        destination, destination_indices, at = self._buffer(at)
        (count,) = self._numbers(at, at + 1, (1,))
        tag, tag_indices, at = self._buffer(at + 1)
        strides = self._numbers(at, None, (0, 2))
        elements = [(source, source_indices), (destination, destination_indices), (tag, tag_indices)]
        return elements, count, strides


@irdl_op_definition
class DmaWaitOp(_DmaOp):
    """Waits until as many elements are copied as a tag was begun with."""

    name = "memref.dma_wait"

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        tag, indices = _parse_element(parser)
        parser.parse_punctuation(",")
        count = parse_index(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        (buffer,) = parser.resolve_operands([tag], [parser.parse_type()], start)
        return cls.create(operands=[buffer, *indices, count], attributes=attributes)

    def print(self, printer: Printer) -> None:
        tag, indices, at = self._buffer(0)
        printer.print_string(" ")
        print_element(printer, tag, indices)
        printer.print_string(", ")
        printer.print_ssa_value(self.arguments[at])
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(tag.type)

    def verify_(self) -> None:
        _, _, at = self._buffer(0)
        self._numbers(at, None, (1,))


DMA_OPS: tuple[type[Operation], ...] = (DmaStartOp, DmaWaitOp)
