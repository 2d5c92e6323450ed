"""Reads and writes of affine, whose subscripts are expressions of dims and of symbols.

%v = affine.load %m[%i + 1, symbol(%n) * 2] : memref<10x?xf32>
affine.vector_store %w, %m[%i, symbol(%n)] : memref<10x?xf32>, vector<4xf32>

xDSL reads no symbols, and prints the dim of the same number for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import affine
from xdsl.dialects.builtin import AffineMapAttr, IndexType, MemRefType, VectorType
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
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.parser.affine_parser import AffineParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


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


def check_operands(operands: Sequence[SSAValue], map: AffineMap) -> None:
    """Raises VerifyException where a map has not as many operands as it takes."""
    if len(operands) != map.num_dims + map.num_symbols:
        raise VerifyException(
            f"{len(operands)} operands for a map of {map.num_dims} dims and {map.num_symbols} symbols"
        )


def _parse_element(parser: Parser) -> tuple[UnresolvedOperand, AffineMapAttr, list[SSAValue]]:
    """`%m[...]`: a buffer, and the map and the operands of its subscripts."""
    buffer = parser.parse_unresolved_operand()
    subscripts = Subscripts(parser)
    expressions = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, subscripts.expression)
    return buffer, *subscripts.map_of(expressions)


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
        map, indices = self.map.data, self.indices
        printer.print_ssa_value(self.memref)
        printer.print_string("[")
        printer.print_list(map.results, lambda each: print_expression(printer, each, map, indices))
        printer.print_string("]")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)
        if isinstance(self, _OF_VECTORS):
            printer.print_string(", ")
            printer.print_attribute(value.type)

    def verify_(self) -> None:
        check_operands(self.indices, self.map.data)
        rank = cast("MemRefType[Any]", self.memref.type).get_num_dims()
        if len(self.map.data.results) != rank:
            raise VerifyException(f"{len(self.map.data.results)} subscripts for {self.memref.type}")


class LoadOp(_Access, affine.LoadOp):  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """`affine.load`."""


class StoreOp(_Access, affine.StoreOp):  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """`affine.store`."""


class VectorLoadOp(_Access, affine.VectorLoadOp):  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """`affine.vector_load`."""


class VectorStoreOp(_Access, affine.VectorStoreOp):  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """`affine.vector_store`."""


_STORES = affine.StoreOp, affine.VectorStoreOp
_OF_VECTORS = affine.VectorLoadOp, affine.VectorStoreOp

ACCESS_OPS: tuple[type[Operation], ...] = (LoadOp, StoreOp, VectorLoadOp, VectorStoreOp)
