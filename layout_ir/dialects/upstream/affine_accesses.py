"""Reads and writes of affine, whose subscripts are expressions of dims and of symbols.

%v = affine.load %m[%i + 1, symbol(%n) * 2] : memref<10x?xf32>
affine.vector_store %w, %m[%i, symbol(%n)] : memref<10x?xf32>, vector<4xf32>
affine.prefetch %m[%i + 8, 0], read, locality<3>, data : memref<10x?xf32>

xDSL reads no symbols, and prints the dim of the same number for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import affine
from xdsl.dialects.builtin import AffineMapAttr, BoolAttr, IndexType, IntegerAttr, MemRefType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, var_operand_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.parser.affine_parser import AffineParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.operand_syntax import parse_prefetch_hints, print_prefetch_hints


class Subscripts(AffineParser):
    """Expressions of values: `%i` is a dim of their map, `symbol(%n)` a symbol."""

    def __init__(self, parser: Parser):
        super().__init__(parser._parser_state)
        self._parser = parser
        self._dims: dict[tuple[str, int], UnresolvedOperand] = {}
        self._symbols: dict[tuple[str, int], UnresolvedOperand] = {}

    def expression(self) -> AffineExpr:
        """The expression at the parser's position."""
        return self._parse_affine_expr(self._value)

    def _value(self) -> AffineExpr | None:
        operand = self._parser.parse_optional_unresolved_operand()
        if operand is not None:
            return AffineExpr.dimension(_place(operand, self._dims))
        if self._parser.parse_optional_keyword("symbol") is None:
            return None
        with self._parser.in_parens():
            operand = self._parser.parse_unresolved_operand()
        return AffineExpr.symbol(_place(operand, self._symbols))

    def map_of(self, expressions: Sequence[AffineExpr]) -> tuple[AffineMapAttr, list[SSAValue]]:
        """The map of these expressions, which were read before, and its operands: dims, then symbols."""
        map = AffineMap(len(self._dims), len(self._symbols), tuple(expressions))
        operands = (*self._dims.values(), *self._symbols.values())
        return AffineMapAttr(map), [self._parser.resolve_operand(each, IndexType()) for each in operands]


def _place(operand: UnresolvedOperand, known: dict[tuple[str, int], UnresolvedOperand]) -> int:
    """The place of an operand among those that are `known`, where it is put if it is not."""
    name = operand.operand_name, operand.index
    known.setdefault(name, operand)
    return list(known).index(name)


def print_expression(
    printer: Printer, expression: AffineExpr, map: AffineMap, operands: Sequence[SSAValue], binding: int = 0
) -> None:
    """Prints an expression of a map with its operands in place of dims and symbols, in parentheses where it binds its
    parts less than `binding`."""
    match expression:
        case AffineConstantExpr(value=value):
            printer.print_string(str(value))
        case AffineDimExpr(position=position):
            printer.print_ssa_value(operands[position])
        case AffineSymExpr(position=position):
            printer.print_string("symbol(")
            printer.print_ssa_value(operands[map.num_dims + position])
            printer.print_string(")")
        case AffineBinaryOpExpr(kind=kind, lhs=left, rhs=right):
            own = 1 if kind == AffineBinaryOpKind.Add else 2
            is_inside = own < binding
            printer.print_string("(" if is_inside else "")
            print_expression(printer, left, map, operands, own)
            printer.print_string(f" {kind.get_token()} ")
            # Sums may be read from either end, quotients may not.
            print_expression(printer, right, map, operands, own if own == 1 else own + 1)
            printer.print_string(")" if is_inside else "")
        case _:
            raise ValueError(f"{expression} is no affine expression")


def _check_subscripts(buffer: SSAValue, map: AffineMap, operands: Sequence[SSAValue]) -> None:
    """Raises VerifyException where the subscripts of an element are not those of its buffer or lack operands."""
    if len(operands) != map.num_dims + map.num_symbols:
        raise VerifyException(
            f"{len(operands)} operands for a map of {map.num_dims} dims and {map.num_symbols} symbols"
        )
    if len(map.results) != cast("MemRefType[Any]", buffer.type).get_num_dims():
        raise VerifyException(f"{len(map.results)} subscripts for {buffer.type}")


def _parse_element(parser: Parser) -> tuple[UnresolvedOperand, AffineMapAttr, list[SSAValue]]:
    """`%m[...]`: a buffer, and the map and the operands of its subscripts."""
    buffer = parser.parse_unresolved_operand()
    subscripts = Subscripts(parser)
    expressions = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, subscripts.expression)
    return buffer, *subscripts.map_of(expressions)


def _print_element(printer: Printer, buffer: SSAValue, map: AffineMap, operands: Sequence[SSAValue]) -> None:
    """Prints what `_parse_element` reads."""
    printer.print_ssa_value(buffer)
    printer.print_string("[")
    printer.print_list(map.results, lambda each: print_expression(printer, each, map, operands))
    printer.print_string("]")


def _parse_type(parser: Parser, kind: type[Attribute], noun: str) -> Any:
    start = parser.pos
    type = parser.parse_type()
    if not isinstance(type, kind):
        parser.raise_error(f"expected a {noun}, not {type}", start, parser.pos)
    return type


class _Access:
    """What the four ops have in common."""

    memref: SSAValue
    indices: Sequence[SSAValue]
    map: AffineMapAttr
    attributes: dict[str, Attribute]

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        op = cast("type[Operation]", cls)
        is_store, of_vector = issubclass(cls, _STORES), issubclass(cls, _OF_VECTORS)
        stored: list[UnresolvedOperand] = []
        if is_store:
            stored.append(parser.parse_unresolved_operand())
            parser.parse_punctuation(",")
        buffer, map, indices = _parse_element(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        buffer_type = _parse_type(parser, MemRefType, "buffer")
        type = buffer_type.element_type
        if of_vector:
            parser.parse_punctuation(",")
            type = _parse_type(parser, VectorType, "vector")
        return op.create(
            operands=[
                *(parser.resolve_operand(each, type) for each in stored),
                parser.resolve_operand(buffer, buffer_type),
                *indices,
            ],
            result_types=[] if is_store else [type],
            properties={"map": map},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        value = cast("SSAValue", getattr(self, "value" if isinstance(self, _STORES) else "result"))
        if isinstance(self, _STORES):
            printer.print_ssa_value(value)
            printer.print_string(", ")
        _print_element(printer, self.memref, self.map.data, self.indices)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)
        if isinstance(self, _OF_VECTORS):
            printer.print_string(", ")
            printer.print_attribute(value.type)

    def verify_(self) -> None:
        _check_subscripts(self.memref, self.map.data, self.indices)


class LoadOp(_Access, affine.LoadOp):  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """`affine.load`."""


class StoreOp(_Access, affine.StoreOp):  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """`affine.store`."""


class VectorLoadOp(_Access, affine.VectorLoadOp):  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """`affine.vector_load`."""


class VectorStoreOp(_Access, affine.VectorStoreOp):  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """`affine.vector_store`."""


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """A hint that an element will soon be read or written."""

    name = "affine.prefetch"

    memref = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    isWrite = prop_def(BoolAttr)
    localityHint = prop_def(IntegerAttr)
    isDataCache = prop_def(BoolAttr)

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        buffer, map, indices = _parse_element(parser)
        properties = {"map": map, **parse_prefetch_hints(parser)}
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operand = parser.resolve_operand(buffer, _parse_type(parser, MemRefType, "buffer"))
        return cls.create(operands=[operand, *indices], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_element(printer, self.memref, self.map.data, self.indices)
        print_prefetch_hints(printer, self)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)

    def verify_(self) -> None:
        _check_subscripts(self.memref, self.map.data, self.indices)


_STORES = affine.StoreOp, affine.VectorStoreOp
_OF_VECTORS = affine.VectorLoadOp, affine.VectorStoreOp

ACCESS_OPS: tuple[type[Operation], ...] = (LoadOp, StoreOp, VectorLoadOp, VectorStoreOp, PrefetchOp)
