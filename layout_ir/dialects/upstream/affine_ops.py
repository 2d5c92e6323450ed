"""Ops of affine in forms that xDSL lacks, and those that it has not.

%r = affine.if #set(%i)[%n] -> f32 { ... } else { ... }
%m = affine.max affine_map<(d0)[s0] -> (d0, s0)>(%i)[%n]
%d:2 = affine.delinearize_index %i into (4, 8) : index, index
%l = affine.linearize_index disjoint [%d#0, %d#1] by (4, 8) : index
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import affine
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AffineSetAttr,
    DenseArrayBase,
    IndexType,
    UnitAttr,
    i64,
)
from xdsl.dialects.utils import (
    parse_dynamic_index_list_without_types,
    print_dynamic_index_list,
    verify_dynamic_index_list,
)
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.linalg_syntax import parse_results, print_results
from layout_ir.dialects.upstream.operand_syntax import (
    parse_index,
    parse_indices,
    parse_optional_indices,
    print_values,
)


class IfOp(affine.IfOp):
    """`affine.if`, with a custom form."""

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        condition = parser.parse_attribute()
        if not isinstance(condition, AffineSetAttr):
            parser.raise_error(f"the condition is an affine set, not {condition}", start, parser.pos)
        dims = parse_indices(parser, parser.Delimiter.PAREN)
        symbols = parse_optional_indices(parser, parser.Delimiter.SQUARE)
        if (len(dims), len(symbols)) != (condition.data.num_dims, condition.data.num_symbols):
            parser.raise_error(
                f"{len(dims)} dims and {len(symbols)} symbols for a set of {condition.data.num_dims} and "
                f"{condition.data.num_symbols}",
                start,
                parser.pos,
            )
        types = parse_results(parser)
        then = with_yield(parser.parse_region())
        other = Region()
        if parser.parse_optional_keyword("else") is not None:
            other = with_yield(parser.parse_region())
        return cls.create(
            operands=[*dims, *symbols],
            result_types=types,
            properties={"condition": condition},
            regions=[then, other],
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        condition = self.condition.data
        printer.print_string(" ")
        printer.print_attribute(self.condition)
        print_values(printer, self.args[: condition.num_dims], "()")
        if condition.num_symbols:
            print_values(printer, self.args[condition.num_dims :], "[]")
        print_results(printer, self.res.types)
        printer.print_string(" ")
        has_results = bool(self.res)
        printer.print_region(self.then_region, print_block_terminators=has_results)
        if self.else_region.blocks:
            printer.print_string(" else ")
            printer.print_region(self.else_region, print_block_terminators=has_results)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        super().verify_()
        condition = self.condition.data
        if len(self.args) != condition.num_dims + condition.num_symbols:
            raise VerifyException(
                f"{len(self.args)} operands for a set of {condition.num_dims} dims and "
                f"{condition.num_symbols} symbols"
            )
        if self.res and not self.else_region.blocks:
            raise VerifyException("an affine.if with results has an else")


def with_yield(region: Region) -> Region:
    """`region`, with the `affine.yield` that its text may leave out."""
    if region.first_block is None:
        region.add_block(Block())
    if not isinstance(region.block.last_op, affine.YieldOp):
        region.block.add_op(affine.YieldOp.get())
    return region


@irdl_op_definition
class MaxOp(IRDLOperation):
    """The greatest of the results of an affine map."""

    name = "affine.max"

    arguments = var_operand_def(IndexType())
    map = prop_def(AffineMapAttr)
    result = result_def(IndexType())

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        map = parser.parse_attribute()
        if not isinstance(map, AffineMapAttr):
            parser.raise_error(f"expected an affine map, not {map}", start, parser.pos)
        dims = parse_indices(parser, parser.Delimiter.PAREN)
        symbols = parse_optional_indices(parser, parser.Delimiter.SQUARE)
        return cls.create(
            operands=[*dims, *symbols],
            result_types=[IndexType()],
            properties={"map": map},
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        count = self.map.data.num_dims
        printer.print_string(" ")
        printer.print_attribute(self.map)
        print_values(printer, self.arguments[:count], "()")
        if self.map.data.num_symbols:
            print_values(printer, self.arguments[count:], "[]")
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        map = self.map.data
        if len(self.arguments) != map.num_dims + map.num_symbols:
            raise VerifyException(
                f"{len(self.arguments)} operands for a map of {map.num_dims} dims and {map.num_symbols} symbols"
            )


@irdl_op_definition
class DelinearizeIndexOp(IRDLOperation):
    """The digits of an index in a mixed radix, the most significant first."""

    name = "affine.delinearize_index"

    linear_index = operand_def(IndexType())
    dynamic_basis = var_operand_def(IndexType())
    static_basis = prop_def(DenseArrayBase.constr(i64))
    multi_index = var_result_def(IndexType())

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        index = parse_index(parser)
        parser.parse_keyword("into")
        dynamic, static = parse_dynamic_index_list_without_types(
            parser, DYNAMIC_INDEX, delimiter=parser.Delimiter.PAREN
        )
        attributes = parser.parse_optional_attr_dict()
        types: list[Attribute] = []
        if parser.parse_optional_punctuation(":") is not None:
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        return cls.create(
            operands=[index, *(parser.resolve_operand(each, IndexType()) for each in dynamic)],
            result_types=types,
            properties={"static_basis": DenseArrayBase.from_list(i64, static)},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.linear_index)
        printer.print_string(" into ")
        print_dynamic_index_list(
            printer,
            DYNAMIC_INDEX,
            self.dynamic_basis,
            self.static_basis.get_values(),
            delimiter=Parser.Delimiter.PAREN,
        )
        printer.print_op_attributes(self.attributes)
        if self.results:
            printer.print_string(" : ")
            printer.print_list(self.result_types, printer.print_attribute)

    def verify_(self) -> None:
        _verify_radices(self)


@irdl_op_definition
class LinearizeIndexOp(IRDLOperation):
    """The index whose digits in a mixed radix are given, the most significant first."""

    name = "affine.linearize_index"

    multi_index = var_operand_def(IndexType())
    dynamic_basis = var_operand_def(IndexType())
    static_basis = prop_def(DenseArrayBase.constr(i64))
    disjoint = opt_prop_def()
    """A unit attribute where no digit is negative or reaches its radix; `false` or nothing where that is unknown."""
    linear_index = result_def(IndexType())

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        is_disjoint = parser.parse_optional_keyword("disjoint") is not None
        digits = parse_indices(parser)
        parser.parse_keyword("by")
        dynamic, static = parse_dynamic_index_list_without_types(
            parser, DYNAMIC_INDEX, delimiter=parser.Delimiter.PAREN
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.build(
            operands=[digits, [parser.resolve_operand(each, IndexType()) for each in dynamic]],
            result_types=[parser.parse_type()],
            properties={
                "static_basis": DenseArrayBase.from_list(i64, static),
                "disjoint": UnitAttr() if is_disjoint else None,
            },
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" disjoint " if isinstance(self.disjoint, UnitAttr) else " ")
        print_values(printer, self.multi_index, "[]")
        printer.print_string(" by ")
        print_dynamic_index_list(
            printer,
            DYNAMIC_INDEX,
            self.dynamic_basis,
            self.static_basis.get_values(),
            delimiter=Parser.Delimiter.PAREN,
        )
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.linear_index.type)

    def verify_(self) -> None:
        _verify_radices(self)


def _verify_radices(op: DelinearizeIndexOp | LinearizeIndexOp) -> None:
    """Raises VerifyException unless there is a digit for each radix, and at most one in front of them."""
    verify_dynamic_index_list(op.static_basis.get_values(), op.dynamic_basis, DYNAMIC_INDEX)
    digits, radices = len(op.multi_index), len(op.static_basis)
    if digits not in (radices, radices + 1):
        raise VerifyException(f"{digits} digits for {radices} radices, of which the first may be left out")


AFFINE_OPS: tuple[type[Operation], ...] = (IfOp, MaxOp, DelinearizeIndexOp, LinearizeIndexOp)
