"""The ops of the dialect `index`: arithmetic of `index` values, in words that say whether they are signed.

%q = index.ceildivs %a, %b
%p = index.cmp slt(%a, %b)
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.arith import CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import BoolAttr, IndexType, IndexTypeConstr, IntegerAttr, IntegerType, i1
from xdsl.ir import Data, Operation, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.operand_syntax import parse_index, print_values


@irdl_attr_definition
class ComparisonAttr(SpacedOpaqueSyntaxAttribute, Data[str]):
    """The relation of `index.cmp`, such as `slt`; as an attribute, `#index<cmp_predicate slt>`."""

    name = "index.cmp_predicate"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        start = parser.pos
        word = parser.parse_identifier()
        if word not in CMPI_COMPARISON_OPERATIONS:
            known = ", ".join(CMPI_COMPARISON_OPERATIONS)
            parser.raise_error(f"'{word}' is no predicate: {known} are", start, parser.pos)
        return word

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)


_BINARY = (
    *("add", "sub", "mul", "divs", "divu", "ceildivs", "ceildivu", "floordivs", "rems", "remu"),
    *("maxs", "maxu", "mins", "minu", "shl", "shrs", "shru", "and", "or", "xor"),
)


class BinaryOp(IRDLOperation):
    """A function of two indices."""

    lhs = operand_def(IndexType())
    rhs = operand_def(IndexType())
    result = result_def(IndexType())

    traits = traits_def(Pure())

    assembly_format = "$lhs `,` $rhs attr-dict"


def _binary(word: str) -> type[Operation]:
    content = {"name": f"index.{word}", "__doc__": f"`index.{word}`", "__module__": __name__}
    return irdl_op_definition(type(f"{word.capitalize()}Op", (BinaryOp,), content))


class _CastOp(IRDLOperation):
    """An index as an integer, or the other way round."""

    input = operand_def()
    output = result_def()

    traits = traits_def(Pure())

    assembly_format = "$input attr-dict `:` type($input) `to` type($output)"

    def verify_(self) -> None:
        types = self.input.type, self.output.type
        if not any(
            isinstance(one, IndexType) and isinstance(other, IntegerType)
            for one, other in (types, types[::-1])
        ):
            raise VerifyException(
                f"it converts between an index and an integer, not {types[0]} to {types[1]}"
            )


@irdl_op_definition
class CastSignedOp(_CastOp):
    """`index.casts`, which extends by the sign."""

    name = "index.casts"


@irdl_op_definition
class CastUnsignedOp(_CastOp):
    """`index.castu`, which extends by zeros."""

    name = "index.castu"


@irdl_op_definition
class CompareOp(IRDLOperation):
    """Whether two indices are in the relation that a word names."""

    name = "index.cmp"

    pred = prop_def(ComparisonAttr)
    lhs = operand_def(IndexType())
    rhs = operand_def(IndexType())
    result = result_def(i1)

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        predicate = ComparisonAttr(ComparisonAttr.parse_parameter(parser))
        with parser.in_parens():
            lhs = parse_index(parser)
            parser.parse_punctuation(",")
            rhs = parse_index(parser)
        return cls.create(
            operands=[lhs, rhs],
            result_types=[i1],
            properties={"pred": predicate},
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.pred.data}")
        print_values(printer, self.operands, "()")
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class SizeOfOp(IRDLOperation):
    """The width of an index in bits."""

    name = "index.sizeof"

    result = result_def(IndexType())

    traits = traits_def(Pure())

    assembly_format = "attr-dict"


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """An index that is known."""

    name = "index.constant"

    value = prop_def(IntegerAttr.constr(IndexTypeConstr))
    result = result_def(IndexType())

    traits = traits_def(Pure(), ConstantLike())

    assembly_format = "attr-dict $value"


@irdl_op_definition
class BoolConstantOp(IRDLOperation):
    """A truth value that is known."""

    name = "index.bool.constant"

    value = prop_def(BoolAttr)
    result = result_def(i1)

    traits = traits_def(Pure(), ConstantLike())

    assembly_format = "attr-dict $value"


INDEX_OPS: tuple[type[Operation], ...] = (
    *map(_binary, _BINARY),
    *(CastSignedOp, CastUnsignedOp, CompareOp, SizeOfOp, ConstantOp, BoolConstantOp),
)
